"""`fit` on shards: read, train, write. Every rank runs this from beginning to end."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from mtgcn.distributed.checkpoints import FolderCheckpoints
from mtgcn.distributed.communicator import Ranks
from mtgcn.distributed.local_graph import LocalGraph, read_local_graph
from mtgcn.distributed.node_table import LargeIndex
from mtgcn.distributed.results import ModelOptions, check_destination, local_predictions, write_model, write_result
from mtgcn.distributed.shards import Manifest, read_manifest
from mtgcn.environment import versions
from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator import persistence
from mtgcn.io.column_table import MISSING
from mtgcn.io.columns import label_columns, open_table
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.io.read import read_labels
from mtgcn.labels import UNLABELED
from mtgcn.methods import Method, method_class, method_from_text
from mtgcn.methods.base import checked_prediction
from mtgcn.settings import parse_settings
from mtgcn.shapes import Int
from mtgcn.splits import check_seed
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import checkpointing
from mtgcn.training.progress import watching_divergence

# The methods that run on ranks, with the settings that need the whole graph and their only possible value.
METHODS: dict[str, dict[str, Any]] = {
    "mt-plus": {},
    "mt-gcn": {"backbone": "gcn", "input_dropout": 0.0, "checkpoint": "last"},
}
DEFAULT_METHOD = "mt-plus"


@dataclass(frozen=True)
class FitOptions:
    """The options of the command."""

    shards: Path
    labels: Path
    out: Path
    method: str = DEFAULT_METHOD
    settings: Sequence[str] = ()
    seed: int = 0
    checkpoint: Path | None = None
    every: int = 50
    resume: bool = False
    model: Path | None = None  # a folder for a model as `mtgcn fit` writes it
    table: TableOptions = field(default_factory=TableOptions)  # of the labels


def fit_shards(options: FitOptions, ranks: Ranks) -> dict[str, Any]:
    """Fit and write the results; returns the card. All ranks call this."""
    manifest, method = ranks.together(lambda: _checked(options))
    graph = read_local_graph(manifest, ranks)
    labels, class_names = local_labels(options.labels, graph, options.table)
    identity = {
        "method": {"name": options.method, "settings": asdict(method)},
        "seed": options.seed,
        "shards": manifest.sha256,
        "labels": _sum_of_labels(graph, labels),
    }
    checkpoints = None
    if options.checkpoint is not None:
        checkpoints = FolderCheckpoints(options.checkpoint, options.every, options.resume, identity, graph)
    started, before = perf_counter(), ranks.sent
    with checkpointing(checkpoints) if checkpoints else nullcontext():
        prediction = fit_on_ranks(method, graph.task(labels, class_names, options.seed), ranks)
    seconds = perf_counter() - started
    predictions = local_predictions(graph, prediction, labels)
    counted = ranks.gather(list(predictions.count_by_class().values()))
    card = {
        **identity,
        "name": manifest.name,
        "nodes": manifest.num_nodes,
        "edges": manifest.num_edges,
        "features": manifest.num_features,
        "order": manifest.order,
        "labelled": sum(ranks.gather(int(np.count_nonzero(labels != UNLABELED)))),
        "predicted": dict(zip(class_names, np.sum(counted, axis=0).tolist(), strict=True)),
        "seconds": seconds,
        "bytes_sent": sum(ranks.gather(ranks.sent - before)),
        "device": ranks.device.type,
        "versions": versions(),
    }
    if options.model is not None:
        given = parse_settings(method_class(options.method), options.settings)
        write_model(
            options.model, graph, prediction, labels, ModelOptions(options.method, given, options.seed, seconds)
        )
    return write_result(options.out, graph, prediction, predictions, card)


def fit_on_ranks(method: Method, task: Task, ranks: Ranks) -> Prediction:
    """`method.fit` on the nodes of every rank; an error of one rank is raised on all."""
    with watching_divergence() as diverged:
        prediction = method.fit(task)
    return ranks.together(lambda: checked_prediction(method, task, prediction, diverged))


def _checked(options: FitOptions) -> tuple[Manifest, Method]:
    """The shards and the method, after a check of all options."""
    if options.method not in METHODS:
        raise unknown_name("method on shards", options.method, METHODS)
    check_seed(options.seed)
    if options.every < 1:
        raise InputError(f"--every is {options.every}; give at least 1")
    if options.resume and options.checkpoint is None:
        raise InputError("--resume continues from a checkpoint and none is named; add --checkpoint DIR")
    method = method_from_text(options.method, options.settings)
    for name, only in METHODS[options.method].items():
        if getattr(method, name) != only:
            raise InputError(f"{name} is {getattr(method, name)!r}; on shards it can only be {only!r}, leave it out")
    readable_file(options.labels)
    check_destination(options.out)
    if options.model is not None:
        persistence.check_destination(options.model)
    return read_manifest(options.shards), method


def local_labels(
    path: Path, graph: LocalGraph, options: TableOptions
) -> tuple[Int[np.ndarray, "here"], tuple[str, ...]]:
    """The class of each of this rank's nodes, UNLABELED where none is given, and the names of the classes.

    Labels are few, so rank 0 reads them for all. All ranks call this."""
    ranks = graph.ranks
    index = ranks.together(lambda: LargeIndex(graph.ids, str(graph.manifest.folder)))
    listed = ranks.from_first(ranks.together(lambda: _listed_ids(path, options) if ranks.rank == 0 else None))
    mine = index.places(pa.array(listed, pa.string()))
    known = np.any(ranks.gather(mine != MISSING), axis=0)
    known_ids = np.array([name for name, is_known in zip(listed, known, strict=True) if is_known], dtype=str)
    read = ranks.together(lambda: read_labels(path, known_ids, options) if ranks.rank == 0 else None)
    codes, class_names = ranks.from_first(read)
    labels = np.full(len(graph.labels), UNLABELED)
    places = mine[known]
    labels[places[places != MISSING]] = codes[places != MISSING]
    if not class_names:
        raise InputError(f"{path}: no node is labelled; label some")
    if sum(ranks.gather(int(np.count_nonzero(labels != UNLABELED)))) == graph.num_nodes:
        raise InputError(f"{path}: all {graph.num_nodes} nodes are labelled, so there is nothing to predict")
    return labels, class_names


def _listed_ids(path: Path, options: TableOptions) -> list[str]:
    """The distinct ids of a label table; perhaps with its header, which is the id of no node."""
    table = open_table(path, options)
    found: dict[str, None] = {}
    for batch in table.batches(label_columns(table, options)[:1], []):
        found |= dict.fromkeys(map(str, batch.texts[0].values.to_pylist()))
    return list(found)


def _sum_of_labels(graph: LocalGraph, labels: Int[np.ndarray, "here"]) -> str:
    """A checksum of all labels in the order of the node table."""
    known = labels != UNLABELED
    mine = list(zip(graph.numbers[known].tolist(), labels[known].tolist(), strict=True))
    pairs = sorted(pair for some in graph.ranks.gather(mine) for pair in some)
    return hashlib.sha256(repr(pairs).encode()).hexdigest()
