"""How the authors' released program draws and reads the labels. It serves `--protocol paper` and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mtgcn.graph import UNKNOWN, Graph
from mtgcn.splits import Split, per_class_counts

FIRST_CLASS = 0


def with_unknown_as_first_class(graph: Graph) -> Graph:
    """The graph with every node of unknown class taken for one of the first.

    That is a bug of theirs: Citeseer has 15 nodes whose label row is all zero, and the largest of equal numbers is
    the first. It is repeated here so that their test set is.
    """
    return replace(graph, labels=np.where(graph.labels == UNKNOWN, FIRST_CLASS, graph.labels))


def authors_splits(graph: Graph, labels_per_class: int | Sequence[int], runs: int, seed: int) -> tuple[Split, ...]:
    """Splits drawn by walking through the nodes in random order until every class has its labels.

    A node whose class already had enough when the walk came by is dropped; whatever the walk did not reach is test.
    """
    wanted = per_class_counts(graph, labels_per_class)
    return tuple(_walk(graph.labels, wanted, np.random.default_rng([seed, run])) for run in range(runs))


def _walk(labels: np.ndarray, wanted: np.ndarray, random: np.random.Generator) -> Split:
    order = random.permutation(len(labels))
    classes = labels[order]
    taken = np.concatenate([np.flatnonzero(classes == number)[:count] for number, count in enumerate(wanted)])
    nobody = np.empty(0, dtype=np.int64)
    return Split(train=order[np.sort(taken)], validation=nobody, test=order[taken.max() + 1 :])
