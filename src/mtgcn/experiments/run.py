"""Runs one method on all splits of a graph: chooses the splits, fits, scores, and returns one row per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

from mtgcn import datasets, environment
from mtgcn.errors import InputError
from mtgcn.experiments.protocol import OVER_ALL, PUBLIC, RANDOM, VALIDATION_NODES
from mtgcn.experiments.scoring import Score, check_scorable, score
from mtgcn.experiments.store import ResultRow
from mtgcn.graph import Graph
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.splits import Split, check_runs, check_seed, draw_over_all, draw_splits, per_class_counts, read_splits
from mtgcn.task import Prediction, observe

DEFAULT_RUNS = 30  # as in the paper

Scorer = Callable[[Prediction, Graph, Sequence[Split]], list[Score]]
FittingProgress = Callable[[str], AbstractContextManager[object]]  # entered around a fit, with its title


def silent_fitting(_title: str) -> AbstractContextManager[None]:
    return nullcontext()


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
    scorer: Scorer = score,
) -> list[ResultRow]:
    """Fit `method`, called `name` in the rows, on `splits`, which `chosen_splits` drew from `split_source`.

    Only a method with `uses_validation` sees the labels of the validation nodes.
    """
    device = torch.device(device)
    for split in splits:
        check_scorable(split, graph)  # before the fit
    task = observe(graph, splits, seed, with_validation=method.uses_validation, device=device)
    _synchronize(device)
    started = perf_counter()
    prediction = fit_in_chunks(method, task, memory_budget)
    _synchronize(device)
    seconds = perf_counter() - started
    versions = environment.versions()
    return [
        ResultRow(
            dataset=graph.name,
            labels_per_class=labels_per_class_of(split, graph, split_source),
            split=split_source,
            method=name,
            settings=asdict(method),
            run=run,
            seed=seed,
            **vars(result),
            seconds=seconds / len(splits),
            device=environment.device_title(device),
            threads=environment.threads(),
            versions=versions,
            group=None if prediction.groups is None else int(prediction.groups[run]),
        )
        for run, (split, result) in enumerate(zip(splits, scorer(prediction, graph, splits), strict=True))
    ]


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def chosen_splits(
    source: str,
    graph: Graph,
    *,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    with_validation: bool = False,
) -> tuple[Split, ...]:
    """One split per run. `source` is "random", "over-all", "public" or the path of a split file.

    A single fixed split is repeated: its runs differ by seed.
    """
    check_runs(DEFAULT_RUNS if runs is None else runs, len(graph.known))
    check_seed(seed)
    if source in (RANDOM, OVER_ALL):
        if labels_per_class is None:
            raise InputError(f"{source} splits need to know how many labels to draw; add --labels-per-class, say 2")
        validation = VALIDATION_NODES if with_validation else 0
        if source == RANDOM:
            return draw_splits(graph, labels_per_class, runs or DEFAULT_RUNS, seed, validation)
        if not isinstance(labels_per_class, int):
            raise InputError(f"labels-per-class lists {len(labels_per_class)} numbers; {source} splits take one")
        return draw_over_all(graph, labels_per_class, runs or DEFAULT_RUNS, seed, validation)
    if source == PUBLIC:
        fixed: tuple[Split, ...] = (datasets.public_split(graph.name),)
    elif Path(source).exists():
        fixed = read_splits(Path(source), graph)
    else:
        raise InputError(
            f"split {source!r} is neither {RANDOM!r}, {OVER_ALL!r}, {PUBLIC!r} nor a file here; give one of these"
        )
    if labels_per_class is not None:
        wanted = tuple(map(int, per_class_counts(graph, labels_per_class)))
        for split in fixed:
            if _label_counts(split, graph) != wanted:
                raise InputError(
                    f"labels-per-class asks for {labels_per_class} but split {source!r} gives "
                    f"{labels_per_class_of(split, graph)}; leave --labels-per-class out"
                )
    if len(fixed) == 1:
        return fixed * (runs or DEFAULT_RUNS)
    if runs not in (None, len(fixed)):
        raise InputError(f"runs is {runs} but {source} holds {len(fixed)} splits; leave --runs out")
    return fixed


def labels_per_class_of(split: Split, graph: Graph, source: str = RANDOM) -> int | tuple[int, ...]:
    """Training labels per class: one number if all classes have as many, or the mean if drawn over all classes."""
    if source == OVER_ALL:
        return len(split.train) // graph.num_classes
    counts = _label_counts(split, graph)
    return counts[0] if len(set(counts)) == 1 else counts


def _label_counts(split: Split, graph: Graph) -> tuple[int, ...]:
    return tuple(map(int, np.bincount(graph.labels[split.train], minlength=graph.num_classes)))
