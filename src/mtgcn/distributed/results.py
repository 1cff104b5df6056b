"""What a fit on shards leaves: one table of predictions for each rank, the weights, and a card that tells of both.

RESULT/
  card.json              method, settings, classes, sizes, losses, versions; sums of the weights
  weights.safetensors    the parameters, the same that a model folder has
  predictions-0.csv      the nodes of rank 0, with the columns of `mtgcn predict`
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GIVEN, NOT_PSEUDO_LABELED
from mtgcn.estimator.inference import normalised
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Int
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file
from mtgcn.workflows.predict import Predictions, write_predictions

CARD, WEIGHTS = "card.json", "weights.safetensors"
KIND = "mtgcn distributed result"
LARGEST_CARD = 1 << 30


def check_destination(folder: Path) -> None:
    """Refuse a place where results could not be written, or where something else stands: before time is spent."""
    check_folder(folder, holds="the results")
    if folder.is_dir() and any(folder.iterdir()) and not _is_result(folder):
        raise InputError(f"{folder} holds files and no results; give another folder, nothing was touched")


def _is_result(folder: Path) -> bool:
    try:
        card = parsed_json(read_plain(folder / CARD, LARGEST_CARD))
    except (OSError, ValueError):
        # Where a job was stopped while it wrote, there are predictions and no card yet.
        return all(path.name.startswith("predictions-") for path in folder.iterdir())
    return isinstance(card, dict) and card.get("kind") == KIND


def local_predictions(
    local: LocalGraph, answer: LocalAnswer, labels: Int[np.ndarray, "here"], class_names: tuple[str, ...]
) -> Predictions:
    """What is said of this rank's nodes, and what part each of them had."""
    taught = answer.pseudo_labelled_at
    votes = answer.peer_report
    return Predictions(
        ids=np.array(local.ids.to_pylist(), dtype=object),
        class_names=class_names,
        probabilities=normalised(answer.probabilities),
        peers=answer.peers,
        labeled_iter=np.where(labels != UNLABELED, GIVEN, np.where(taught > 0, taught, NOT_PSEUDO_LABELED)),
        weights=None if votes is None else votes.weights[0],
    )


def write_result(
    folder: Path, local: LocalGraph, answer: LocalAnswer, predictions: Predictions, told: Mapping[str, Any]
) -> dict[str, Any]:
    """Write everything, the card last; all ranks come here. Returns the card."""
    ranks = local.ranks
    path = folder / f"predictions-{ranks.rank}.csv"
    ranks.together(lambda: write_predictions(path, predictions))
    card = {
        "kind": KIND,
        "format": 1,
        **told,
        "classes": list(predictions.class_names),
        "ranks": ranks.count,
        "history": {name: _plain(values) for name, values in answer.history.items()},
    }
    return ranks.from_first(ranks.together(lambda: _write_shared(folder, card, answer) if ranks.rank == 0 else None))


def _write_shared(folder: Path, card: dict[str, Any], answer: LocalAnswer) -> dict[str, Any]:
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in answer.parameters.items()})
    write_file(folder / WEIGHTS, content)
    card["files"] = {WEIGHTS: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    write_file(folder / CARD, json.dumps(card, indent=1))
    for old in folder.glob("predictions-*.csv"):  # of ranks that an earlier job had and this one has not
        number = old.stem.removeprefix("predictions-")
        if number.isdecimal() and int(number) >= card["ranks"]:
            os.remove(old)
    return card


def _plain(values: np.ndarray) -> list[Any]:
    """By epoch, then peer, of the one run; nothing where there was no value."""
    return [[None if np.isnan(number) else float(number) for number in epoch[0]] for epoch in values]
