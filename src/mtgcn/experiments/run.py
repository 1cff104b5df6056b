"""Run a cell: one method on all splits of a graph, timed and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from time import perf_counter

import torch

from mtgcn import environment
from mtgcn.experiments.rows import ResultRow
from mtgcn.experiments.scoring import Score, check_scorable, score
from mtgcn.experiments.split_choice import RANDOM, labels_per_class_of
from mtgcn.graph import Graph
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.splits import Split
from mtgcn.task import Prediction, Task, observe

Scorer = Callable[[Prediction, Graph, Sequence[Split]], list[Score]]


def run_cell(
    graph: Graph,
    splits: Sequence[Split],
    method: Method,
    *,
    name: str,
    seed: int,
    split_source: str = RANDOM,
    device: torch.device | str = "cpu",
    memory_budget: int | None = None,
    scorer: Scorer | None = None,
) -> list[ResultRow]:
    """One row per split. `name` is what people call the method; without a `scorer` it is scored by its answer.

    `split_source` is what `chosen_splits` was asked for. Only a method that chooses its epoch on validation nodes is
    shown their labels.
    """
    device = torch.device(device)
    for split in splits:
        check_scorable(split, graph)  # before the time is spent
    task = observe(graph, splits, seed, with_validation=method.uses_validation, device=device)
    prediction, seconds = _timed_fit(method, task, memory_budget)
    versions = environment.versions()
    scores = (scorer or score)(prediction, graph, splits)
    return [
        ResultRow(
            dataset=graph.name,
            labels_per_class=labels_per_class_of(split, graph, split_source),
            split=split_source,
            method=name,
            settings=asdict(method),
            run=run,
            seed=seed,
            accuracy=result.accuracy,
            macro_f1=result.macro_f1,
            calibration_error=result.calibration_error,
            seconds=seconds / len(splits),
            device=environment.device_title(device),
            threads=environment.threads(),
            versions=versions,
            group=None if prediction.groups is None else int(prediction.groups[run]),
        )
        for run, (split, result) in enumerate(zip(splits, scores, strict=True))
    ]


def _timed_fit(method: Method, task: Task, memory_budget: int | None) -> tuple[Prediction, float]:
    _finish_pending_work(task.device)
    started = perf_counter()
    prediction = fit_in_chunks(method, task, memory_budget)
    _finish_pending_work(task.device)
    return prediction, perf_counter() - started


def _finish_pending_work(device: torch.device) -> None:
    """A GPU computes on while Python goes on; a clock must wait for it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
