"""`fit` on shards: read, share, train, write. Every rank runs this from beginning to end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.labels import shared_labels
from mtgcn.distributed.local_graph import LocalGraph, read_local_graph
from mtgcn.distributed.local_task import LocalTask, local_task
from mtgcn.distributed.mt_gcn import fit_mt_gcn
from mtgcn.distributed.mt_plus import fit_mt_plus
from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.results import check_destination, local_predictions, write_result
from mtgcn.distributed.shards import Manifest, read_manifest
from mtgcn.distributed.whole_model import Told, write_model
from mtgcn.environment import versions
from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator import persistence
from mtgcn.io.options import TableOptions, readable_file
from mtgcn.labels import UNLABELED
from mtgcn.methods import method_class, method_from_text
from mtgcn.settings import parse_settings
from mtgcn.splits import check_seed

Fit = Callable[[Any, LocalGraph, LocalTask, Checkpoints | None], LocalAnswer]
METHODS: dict[str, Fit] = {"mt-plus": fit_mt_plus, "mt-gcn": fit_mt_gcn}
DEFAULT_METHOD = "mt-plus"


@dataclass(frozen=True)
class FitOptions:
    """What was typed."""

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
    choices: TableOptions = field(default_factory=TableOptions)  # of the label table


def fit_shards(options: FitOptions, ranks: Ranks) -> dict[str, Any]:
    """Fit, and write what was found; gives back the card. All ranks call this."""
    manifest, method = ranks.together(lambda: _checked(options))
    graph = read_local_graph(manifest, ranks)
    labels, class_names = shared_labels(options.labels, graph, options.choices)
    task = local_task(graph, labels, len(class_names), options.seed)
    told = {
        "method": {"name": options.method, "settings": asdict(method)},
        "seed": options.seed,
        "shards": manifest.sum,
        "labels": _sum_of_labels(ranks, graph, labels),
    }
    checkpoints = None
    if options.checkpoint is not None:
        checkpoints = Checkpoints(options.checkpoint, options.every, options.resume, told, graph)
    started, before = perf_counter(), ranks.sent
    answer = METHODS[options.method](method, graph, task, checkpoints)
    seconds = perf_counter() - started
    predictions = local_predictions(graph, answer, labels, class_names)
    counted = ranks.everyones(list(predictions.count_by_class().values()))
    card = {
        **told,
        **{key: manifest.card[key] for key in ("name", "nodes", "edges", "features", "order")},
        "labelled": task.num_labels,
        "predicted": dict(zip(class_names, np.sum(counted, axis=0).tolist(), strict=True)),
        "seconds": seconds,
        "bytes_sent": sum(ranks.everyones(ranks.sent - before)),
        "device": ranks.device.type,
        "versions": versions(),
    }
    if options.model is not None:
        typed = parse_settings(method_class(options.method), options.settings)
        told_by_card = Told(options.method, typed, options.seed, seconds)
        write_model(options.model, graph, answer, labels, class_names, told_by_card)
    return write_result(options.out, graph, answer, predictions, card)


def _checked(options: FitOptions) -> tuple[Manifest, Any]:
    """The shards and the method, once all that was typed is known to make sense."""
    if options.method not in METHODS:
        raise unknown_name("method on shards", options.method, METHODS)
    check_seed(options.seed)
    if options.every < 1:
        raise InputError(f"--every is {options.every}; give at least 1")
    if options.resume and options.checkpoint is None:
        raise InputError("--resume goes on from a checkpoint and none is named; add --checkpoint DIR")
    method = method_from_text(options.method, options.settings)
    readable_file(options.labels)
    check_destination(options.out)
    if options.model is not None:
        persistence.check_destination(options.model)
    return read_manifest(options.shards), method


def _sum_of_labels(ranks: Ranks, graph: LocalGraph, labels: np.ndarray) -> str:
    """Of the labels that there are, in the order of the node table."""
    known = labels != UNLABELED
    mine = zip(graph.numbers.cpu().numpy()[known].tolist(), labels[known].tolist(), strict=True)
    pairs = sorted(pair for some in ranks.everyones(list(mine)) for pair in some)
    return hashlib.sha256(repr(pairs).encode()).hexdigest()
