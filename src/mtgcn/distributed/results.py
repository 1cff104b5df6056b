"""The results of a fit on shards: one table of predictions for each rank, the weights, and a card; or a model.

RESULT/
  card.json              method, settings, classes, sizes, history, versions; checksum of the weights
  weights.safetensors    the parameters, as in a model folder
  predictions-0.csv      the nodes of rank 0, with the columns of `mtgcn predict`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.shards import Manifest, read_part
from mtgcn.environment import device_title
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GIVEN, NOT_PSEUDO_LABELED, GraphModel
from mtgcn.estimator.inference import normalised
from mtgcn.estimator.persistence import save_model
from mtgcn.graph import Graph
from mtgcn.io.ids import NodeIndex
from mtgcn.io.table import Coded
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Int
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file
from mtgcn.task import Prediction
from mtgcn.workflows.predict import Predictions, write_predictions

CARD, WEIGHTS = "card.json", "weights.safetensors"
KIND = "mtgcn distributed result"
MAX_CARD_BYTES = 1 << 30


def check_destination(folder: Path) -> None:
    """Raise if results cannot be written to the folder, or if it holds something else."""
    check_folder(folder, holds="the results")
    if folder.is_dir() and any(folder.iterdir()) and not _is_result(folder):
        raise InputError(f"{folder} holds files and no results; give another folder, nothing was touched")


def _is_result(folder: Path) -> bool:
    try:
        card = parsed_json(read_plain(folder / CARD, MAX_CARD_BYTES))
    except (OSError, ValueError):
        # A job that was stopped while it wrote leaves predictions without a card.
        return all(path.name.startswith("predictions-") for path in folder.iterdir())
    return isinstance(card, dict) and card.get("kind") == KIND


def local_predictions(graph: LocalGraph, prediction: Prediction, labels: Int[np.ndarray, "here"]) -> Predictions:
    """The predictions of this rank's nodes."""
    epochs, report = prediction.pseudo_labelled_at, prediction.peer_report
    assert epochs is not None
    assert prediction.peers is not None
    pseudo_labelled = np.where(epochs[0] > 0, epochs[0], NOT_PSEUDO_LABELED)
    return Predictions(
        ids=np.array(graph.ids.to_pylist(), dtype=object),
        class_names=graph.class_names,
        probabilities=normalised(prediction.probabilities[0]),
        peers=prediction.peers[0],
        labeled_iter=np.where(labels != UNLABELED, GIVEN, pseudo_labelled),
        weights=None if report is None else report.weights[0],
    )


def write_result(
    folder: Path, graph: LocalGraph, prediction: Prediction, predictions: Predictions, fit: Mapping[str, Any]
) -> dict[str, Any]:
    """Write all files, the card last; returns the card. All ranks call this."""
    ranks = graph.ranks
    path = folder / f"predictions-{ranks.rank}.csv"
    ranks.together(lambda: write_predictions(path, predictions))
    card = {
        "kind": KIND,
        "format": 1,
        **fit,
        "classes": list(predictions.class_names),
        "ranks": ranks.count,
        "history": {name: _plain(values) for name, values in prediction.history.items()},
    }
    return ranks.from_first(
        ranks.together(lambda: _write_shared(folder, card, prediction) if ranks.rank == 0 else None)
    )


def _write_shared(folder: Path, card: dict[str, Any], prediction: Prediction) -> dict[str, Any]:
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in (prediction.parameters or {}).items()})
    write_file(folder / WEIGHTS, content)
    card["files"] = {WEIGHTS: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    write_file(folder / CARD, json.dumps(card, indent=1))
    for old in folder.glob("predictions-*.csv"):  # of an earlier job with more ranks
        number = old.stem.removeprefix("predictions-")
        if number.isdecimal() and int(number) >= card["ranks"]:
            os.remove(old)
    return card


def _plain(values: np.ndarray) -> list[Any]:
    """Values of the single run by epoch and peer; None where there is none."""
    return [[None if np.isnan(number) else float(number) for number in epoch[0]] for epoch in values]


# ------------------------------------------------------------------------------------------- a model of the whole graph


@dataclass(frozen=True)
class ModelOptions:
    """What the card of a model contains of its fit."""

    method: str
    settings: Mapping[str, Any]  # those that differ from the defaults
    seed: int
    seconds: float


def write_model(
    folder: Path, graph: LocalGraph, prediction: Prediction, labels: Int[np.ndarray, "here"], options: ModelOptions
) -> None:
    """Write a model as `mtgcn fit` does. All ranks call this; rank 0 then holds the whole graph."""
    ranks = graph.ranks
    arrays = ("probabilities", "peers", "pseudo_labelled_at")
    gathered = ranks.gather((graph.numbers, labels, [getattr(prediction, name) for name in arrays]))

    def write() -> None:
        numbers, known, parts = zip(*gathered, strict=True)
        order = np.argsort(np.concatenate(numbers))
        axes = (1, 2, 1)  # of the nodes
        joined: dict[str, Any] = {
            name: np.concatenate(some, axis).take(order, axis)
            for name, some, axis in zip(arrays, zip(*parts, strict=True), axes, strict=True)
        }
        whole = replace(prediction, **joined)
        model = GraphModel(options.method, settings=dict(options.settings) or None, random_state=options.seed)
        labelled = whole_graph(graph.manifest, np.concatenate(known)[order], graph.class_names)
        model.take_over(labelled, whole, options.seed)
        training = {"seconds": options.seconds, "device": device_title(ranks.device), "notes": []}
        save_model(model, folder, training=training)

    ranks.together(lambda: write() if ranks.rank == 0 else None)


def whole_graph(manifest: Manifest, labels: Int[np.ndarray, "nodes"], class_names: tuple[str, ...]) -> Graph:
    """The graph of all shards with these labels, nodes in the order of their table."""
    parts = [read_part(manifest, part) for part in range(len(manifest.parts))]
    order = np.argsort(np.concatenate([part.numbers for part in parts]))
    ids = pa.concat_arrays([part.ids for part in parts]).cast(pa.string()).take(pa.array(order))
    index = NodeIndex()
    index.add(Coded(np.arange(len(ids)), ids))
    tables: list[Any] = [part.features for part in parts]
    features = sp.csr_array(sp.vstack(tables)) if manifest.sparse else np.concatenate(tables)
    adjacency = sp.csr_array(sp.vstack([part.adjacency for part in parts]))[order][:, order]
    preprocessing = manifest.preprocessor
    return Graph(
        adjacency,
        features[order],
        labels,
        index.ids(),
        class_names,
        manifest.name,
        preprocessing.names,
        preprocessing,
    )
