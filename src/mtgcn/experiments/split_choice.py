"""Which splits a cell runs on: random ones, of each class or over all, the public one, or those of a person's file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.splits import Split, check_runs, check_seed, draw_over_all, draw_splits, per_class_counts, read_splits

RANDOM, PUBLIC = "random", "public"
OVER_ALL = "over-all"  # labels drawn over all nodes: classes as unequal as they are
DEFAULT_RUNS = 30  # as in the paper
VALIDATION_NODES = 500  # what GCN+V chooses its epoch on, as in the paper


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

    A single fixed split is repeated, since runs on it still differ by seed.
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
    fixed = (datasets.public_split(graph.name),) if source == PUBLIC else _from_file(source, graph)
    if labels_per_class is not None:
        _check_label_counts(fixed, graph, labels_per_class, source)
    if len(fixed) == 1:
        return fixed * (runs or DEFAULT_RUNS)
    if runs not in (None, len(fixed)):
        raise InputError(f"runs is {runs} but {source} holds {len(fixed)} splits; leave --runs out")
    return fixed


def labels_title(labels_per_class: int, source: str = RANDOM) -> str:
    """In words, how many labels a run of a cell is given, and how they were drawn.

    >>> labels_title(1), labels_title(5, OVER_ALL)
    ('1 label per class', '5 labels per class on average, drawn over all nodes')
    """
    labels = f"{labels_per_class} label{'s' if labels_per_class > 1 else ''} per class"
    if source == OVER_ALL:
        return f"{labels} on average, drawn over all nodes"
    return f"{labels}, public split" if source == PUBLIC else labels


def labels_per_class_of(split: Split, graph: Graph, source: str = RANDOM) -> int | tuple[int, ...]:
    """How many labels of each class a split gives: one number where all classes have as many, and the mean where
    labels were drawn over all classes."""
    if source == OVER_ALL:
        return len(split.train) // graph.num_classes
    counts = _label_counts(split, graph)
    return counts[0] if len(set(counts)) == 1 else counts


def _from_file(source: str, graph: Graph) -> tuple[Split, ...]:
    path = Path(source)
    if not path.exists():
        raise InputError(
            f"split {source!r} is neither {RANDOM!r}, {OVER_ALL!r}, {PUBLIC!r} nor a file here; give one of these"
        )
    return read_splits(path, graph)


def _check_label_counts(
    splits: Sequence[Split], graph: Graph, labels_per_class: int | Sequence[int], source: str
) -> None:
    wanted = per_class_counts(graph, labels_per_class)
    for split in splits:
        if _label_counts(split, graph) != tuple(map(int, wanted)):
            raise InputError(
                f"labels-per-class asks for {labels_per_class} but split {source!r} gives "
                f"{labels_per_class_of(split, graph)}; leave --labels-per-class out"
            )


def _label_counts(split: Split, graph: Graph) -> tuple[int, ...]:
    return tuple(map(int, np.bincount(graph.labels[split.train], minlength=graph.num_classes)))
