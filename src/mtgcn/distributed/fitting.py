"""`fit` on shards: reading, training and writing. Every rank runs all of it.

RESULT/
  card.json              method, settings, classes, sizes, history, versions; checksum of the weights
  weights.safetensors    trained parameters, as in a model folder
  predictions-0.csv      predictions for the nodes of rank 0, with the columns of `mtgcn predict`
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.cli import options as cli
from mtgcn.distributed.communicator import Ranks
from mtgcn.distributed.shards import LocalGraph, Manifest, check_replaceable, read_local_graph, read_manifest
from mtgcn.environment import device_title, versions
from mtgcn.errors import InputError, reason, unknown_name
from mtgcn.estimator import persistence
from mtgcn.estimator.graph_model import DEFAULT_METHOD, GraphModel
from mtgcn.estimator.inference import normalised
from mtgcn.estimator.predictions import GIVEN, NOT_PSEUDO_LABELED, prediction_columns
from mtgcn.graph import Graph
from mtgcn.io.column_table import MISSING
from mtgcn.io.options import TableOptions, parsed_roles, readable_file
from mtgcn.io.read import read_labels
from mtgcn.io.roles import label_columns, open_table
from mtgcn.io.table import NodeIndex, codes_of, text_values
from mtgcn.labels import UNLABELED
from mtgcn.methods import Method, method_class, method_from_text
from mtgcn.methods.base import checked_prediction
from mtgcn.settings import parse_settings
from mtgcn.shapes import Int
from mtgcn.splits import check_seed
from mtgcn.storage.files import check_folder, parsed_json, read_plain, write_file
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import FirstEpochs, State, checkpointing
from mtgcn.workflows.predict import predictions_table

# Methods that run on shards, and the settings that are fixed there, since other values need the whole graph.
METHODS: dict[str, dict[str, Any]] = {
    "mt-plus": {},
    "mt-gcn": {"backbone": "gcn", "input_dropout": 0.0, "checkpoint": "last"},
}
CARD, WEIGHTS = "card.json", "weights.safetensors"
PREDICTIONS = "predictions-*.csv"
KIND = "mtgcn distributed result"


@dataclass(frozen=True)
class FitOptions(cli.OptionGroup):
    """The options of the command `fit`."""

    method: str = cli.option("Method to fit.", "mt-plus|mt-gcn", default=DEFAULT_METHOD)
    settings: list[str] | None = cli.SETTINGS
    seed: int = cli.SEED
    columns: list[str] | None = cli.COLUMNS
    unknown_nodes: str = cli.option("Labels of unknown ids: error or drop.", "error|drop", default="error")
    header: str | None = cli.HEADER
    checkpoint: Path | None = cli.option("Folder for checkpoints; all ranks must have access.", "DIR")
    every: int = cli.option("Epochs between checkpoints.", "N", default=50)
    resume: bool = cli.flag("Continue from the checkpoint, if there is one.", "--resume")
    model: Path | None = cli.option("Also write a model as mtgcn fit does; rank 0 then holds the whole graph.", "DIR")

    def label_options(self) -> TableOptions:
        """Options for reading the labels."""
        roles = parsed_roles(self.columns or ())
        return without_new_nodes(TableOptions(columns=roles, unknown_nodes=self.unknown_nodes, header=self.header))  # type: ignore[arg-type]


def without_new_nodes(options: TableOptions) -> TableOptions:
    """The same options, after checking `unknown_nodes`: no nodes can be added to shards."""
    if options.unknown_nodes not in ("error", "drop"):
        raise unknown_name("choice of --unknown-nodes", options.unknown_nodes, ("error", "drop"))
    return replace(options, may_add_nodes=False)


def fit_shards(shards: Path, labels_file: Path, out: Path, options: FitOptions, ranks: Ranks) -> dict[str, Any]:
    """Fit a method and write the results; returns the card. All ranks must call this."""
    manifest, method = ranks.together(lambda: _checked(shards, labels_file, out, options))
    graph = read_local_graph(manifest, ranks)
    labels, class_names = local_labels(labels_file, graph, options.label_options())
    known = labels != UNLABELED
    mine = list(zip(graph.numbers[known].tolist(), labels[known].tolist(), strict=True))
    pairs = sorted(pair for some in ranks.gather(mine) for pair in some)  # sorted in the order of the node table
    identity = {
        "method": {"name": options.method, "settings": asdict(method)},
        "seed": options.seed,
        "shards": manifest.sha256,
        "labels": hashlib.sha256(repr(pairs).encode()).hexdigest(),
    }
    checkpoints = None
    if options.checkpoint is not None:
        checkpoints = FolderCheckpoints(options.checkpoint, options.every, options.resume, identity, graph)
    started, before = perf_counter(), ranks.sent
    with checkpointing(checkpoints) if checkpoints else nullcontext():
        prediction = fit_on_ranks(method, graph.task(labels, class_names, options.seed), ranks)
    seconds = perf_counter() - started
    report, epochs = prediction.peer_report, prediction.pseudo_labelled_at
    assert epochs is not None
    assert prediction.peers is not None
    probabilities = normalised(prediction.probabilities[0])
    predictions = prediction_columns(
        np.array(graph.ids.to_pylist(), dtype=object),
        np.array(class_names),
        probabilities,
        np.where(known, GIVEN, np.where(epochs[0] > 0, epochs[0], NOT_PSEUDO_LABELED)),
        prediction.peers[0],
        None if report is None else report.weights[0],
    )
    counted = ranks.gather(np.bincount(probabilities.argmax(axis=1), minlength=len(class_names)))
    card: dict[str, Any] = {"kind": KIND, "format": 1, **identity, "name": manifest.name, "order": manifest.order}
    card |= {"nodes": manifest.num_nodes, "edges": manifest.num_edges, "features": manifest.num_features}
    card |= {"labelled": len(pairs), "seconds": seconds, "bytes_sent": sum(ranks.gather(ranks.sent - before))}
    card |= {"device": ranks.device.type, "versions": versions(), "classes": list(class_names), "ranks": ranks.count}
    card["predicted"] = dict(zip(class_names, np.sum(counted, axis=0).tolist(), strict=True))
    card["history"] = {name: _plain(values) for name, values in prediction.history.items()}
    if options.model is not None:
        _write_model(options.model, options, graph, prediction, labels, seconds)
    path = out / f"predictions-{ranks.rank}.csv"
    ranks.together(lambda: write_file(path, predictions_table(predictions)))
    return ranks.on_first(lambda: _write_shared(out, card, prediction))


def fit_on_ranks(method: Method, task: Task, ranks: Ranks) -> Prediction:
    """Call `method.fit` on the nodes of every rank; an error of one rank is raised on all."""
    prediction = method.fit(task)
    return ranks.together(lambda: checked_prediction(method, task, prediction))


def _checked(shards: Path, labels: Path, out: Path, options: FitOptions) -> tuple[Manifest, Method]:
    """Check all options; returns the manifest of the shards and the method."""
    if options.method not in METHODS:
        raise unknown_name("method on shards", options.method, METHODS)
    check_seed(options.seed)
    if options.every < 1:
        raise InputError(f"--every is {options.every}; give at least 1")
    if options.resume and options.checkpoint is None:
        raise InputError("--resume requires a checkpoint; add --checkpoint DIR")
    method = method_from_text(options.method, options.settings or ())
    for name, only in METHODS[options.method].items():
        if getattr(method, name) != only:
            raise InputError(f"{name}={getattr(method, name)!r} is not supported on shards; omit it")
    options.label_options()
    readable_file(labels)
    check_replaceable(out, "results", CARD, KIND, PREDICTIONS)
    if options.model is not None:
        persistence.check_destination(options.model)
    return read_manifest(shards), method


def local_labels(path: Path, graph: LocalGraph, table: TableOptions) -> tuple[Int[np.ndarray, "here"], tuple[str, ...]]:
    """The class of each of this rank's nodes (UNLABELED without a label), and the class names.

    Labels are few, so rank 0 reads them for all ranks. All ranks must call this."""
    ranks = graph.ranks
    listed = ranks.on_first(lambda: _listed_ids(path, table))
    places = codes_of(pc.index_in(text_values(listed).cast(pa.large_string()), value_set=graph.ids))
    known = np.any(ranks.gather(places != MISSING), axis=0)
    codes, class_names = ranks.on_first(lambda: read_labels(path, np.array(listed, dtype=str)[known], table))
    labels, places = np.full(len(graph.labels), UNLABELED), places[known]
    labels[places[places != MISSING]] = codes[places != MISSING]
    if not class_names:
        raise InputError(f"{path} labels no node; label some")
    if sum(ranks.gather(int(np.count_nonzero(labels != UNLABELED)))) == graph.num_nodes:
        raise InputError(f"{path}: all {graph.num_nodes} nodes are labelled; remove the labels of nodes to predict")
    return labels, class_names


def _listed_ids(path: Path, options: TableOptions) -> list[str]:
    """The distinct ids of a label table, possibly including its header, which is not the id of a node."""
    table = open_table(path, options)
    found: dict[str, None] = {}
    for batch in table.batches(label_columns(table, options)[:1]):
        found |= dict.fromkeys(map(str, batch.texts[0].values.to_pylist()))
    return list(found)


def _write_shared(folder: Path, card: dict[str, Any], prediction: Prediction) -> dict[str, Any]:
    """Write weights and card, and remove tables of an earlier job with more ranks; returns the card."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in (prediction.parameters or {}).items()})
    write_file(folder / WEIGHTS, content)
    card["files"] = {WEIGHTS: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}}
    write_file(folder / CARD, json.dumps(card, indent=1))
    for old in folder.glob(PREDICTIONS):
        number = old.stem.removeprefix("predictions-")
        if number.isdecimal() and int(number) >= card["ranks"]:
            os.remove(old)
    return card


def _plain(values: np.ndarray) -> list[Any]:
    """The values of the single run by epoch and peer, with None for missing values."""
    return [[None if np.isnan(number) else float(number) for number in epoch[0]] for epoch in values]


def _write_model(
    folder: Path,
    options: FitOptions,
    graph: LocalGraph,
    found: Prediction,
    labels: Int[np.ndarray, "here"],
    seconds: float,
) -> None:
    """Write a model as `mtgcn fit` does. All ranks must call this; rank 0 then holds the whole graph."""
    ranks = graph.ranks
    tables = {"labels": labels, "probabilities": found.probabilities, "peers": found.peers}
    tables["pseudo_labelled_at"] = found.pseudo_labelled_at
    gathered = ranks.gather(tables)

    def write() -> None:
        whole = read_local_graph(graph.manifest, Ranks())
        order = np.argsort(whole.numbers)

        def joined(name: str, axis: int) -> Any:
            return np.concatenate([part[name] for part in gathered], axis).take(order, axis)

        ids = NodeIndex.of(np.array(whole.ids.to_pylist(), dtype=str)[order]).ids()
        features: Any = whole.features
        fitted = graph.manifest.preprocessor
        about = graph.class_names, whole.name, fitted.names, fitted
        labelled = Graph(whole.adjacency[order][:, order], features[order], joined("labels", 0), ids, *about)
        given = parse_settings(method_class(options.method), options.settings or ())
        model = GraphModel(options.method, settings=given or None, random_state=options.seed)
        joined_prediction = replace(
            found,
            probabilities=joined("probabilities", 1),
            peers=joined("peers", 2),
            pseudo_labelled_at=joined("pseudo_labelled_at", 1),
        )
        model.take_over(labelled, joined_prediction, options.seed)
        training = {"seconds": seconds, "device": device_title(ranks.device), "notes": []}
        persistence.save_model(model, folder, training=training)

    ranks.on_first(write)


CHECKPOINT = "checkpoint.npz"
FIT, FIRST_EPOCHS = "fit", "first epochs"  # entries of a checkpoint in addition to the state


@dataclass(frozen=True, eq=False)
class FolderCheckpoints:
    """Saves a checkpoint every `every` epochs, and loads the last one to `resume`. All ranks must call both methods.

    A checkpoint is one file, written by rank 0 to a folder that all ranks can access. Node values are in the order of
    the node table, so that a job with any number of ranks can continue.
    """

    folder: Path
    every: int
    resume: bool
    fit: Mapping[str, Any]  # identity of the fit: method, settings, seed, checksums of shards and labels
    graph: LocalGraph

    def save(self, state: State, first_epochs: FirstEpochs | None) -> None:
        gathered = self.graph.ranks.gather((self.graph.numbers, first_epochs))

        def write() -> None:
            entries = {**state, FIT: np.array(json.dumps(self.fit))}
            if first_epochs is not None:
                numbers, parts = (np.concatenate(some, axis=-1) for some in zip(*gathered, strict=True))
                entries[FIRST_EPOCHS] = parts[:, np.argsort(numbers)]
            content = io.BytesIO()
            np.savez(content, allow_pickle=False, **entries)
            write_file(self.folder / CHECKPOINT, content.getvalue())

        self.graph.ranks.on_first(write)

    def load(self) -> tuple[State, FirstEpochs | None] | None:
        ranks = self.graph.ranks
        ranks.together(lambda: check_folder(self.folder, holds="checkpoints"))
        state = ranks.together(self._read) if self.resume else None
        if self.resume and ranks.rank == 0:
            place = f"starting with epoch 1, as {self.folder} has no checkpoint"
            if state is not None:
                place = f"resuming after epoch {state['epoch'].item()}, from {self.folder}"
            cli.remark(place)
        if state is None:
            return None
        first_epochs = state.pop(FIRST_EPOCHS, None)
        return state, None if first_epochs is None else first_epochs[:, self.graph.numbers]

    def _read(self) -> dict[str, np.ndarray] | None:
        path = self.folder / CHECKPOINT
        try:
            with np.load(io.BytesIO(read_plain(path)), allow_pickle=False) as entries:
                state = dict(entries)
            fit = parsed_json(str(state.pop(FIT)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is damaged ({reason(error)}); start again without --resume") from error
        for key, value in json.loads(json.dumps(self.fit)).items():
            if fit.get(key) != value:
                raise InputError(
                    f"{path} was written with a different {key}; use the same {key}, or start without --resume"
                )
        return state
