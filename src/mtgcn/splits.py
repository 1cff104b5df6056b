"""`Split`: training, validation and test nodes of each run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.graph import UNLABELED, Graph
from mtgcn.memory import check_fits
from mtgcn.shapes import Int
from mtgcn.storage.files import parsed_json, read_plain

SPLIT_PARTS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """The nodes of one run, in three disjoint parts."""

    train: Int[np.ndarray, "labelled"]
    validation: Int[np.ndarray, "validation"]
    test: Int[np.ndarray, "test"]

    def __post_init__(self) -> None:
        for name in SPLIT_PARTS:
            nodes = np.array(getattr(self, name), dtype=np.int64)
            nodes.setflags(write=False)
            object.__setattr__(self, name, nodes)
        everything = np.concatenate([self.train, self.validation, self.test])
        values, counts = np.unique(everything, return_counts=True)
        if (counts > 1).any():
            raise InputError(f"node {values[counts > 1][0]} occurs twice in a split; list each node once")
        if not len(self.train):
            raise InputError("a split has no training node; give at least one")


MOST_RUNS = 10_000
LARGEST_SEED = 2**128
Counts = int | Sequence[int]  # one number for all classes, or one per class
DRAWS = 10_000  # most attempts of `draw_over_all` to draw every class


def draw_splits(
    graph: Graph, labels_per_class: Counts, runs: int, seed: int, validation: int = 0, validation_per_class: int = 0
) -> tuple[Split, ...]:
    """`runs` random splits with `labels_per_class` training nodes, validation nodes, and the rest as test nodes.

    Validation nodes are `validation_per_class` nodes of each class and `validation` nodes of any class. The training
    nodes of a run depend only on `seed` and the number of the run. Unlabelled nodes are in no part.
    """
    wanted = per_class_counts(graph, labels_per_class)
    members = [np.flatnonzero(graph.labels == number) for number in range(graph.num_classes)]

    def drawn(random: np.random.Generator) -> np.ndarray:
        return np.concatenate(
            [random.choice(nodes, count, replace=False) for nodes, count in zip(members, wanted, strict=True)]
        )

    return _drawn_splits(graph, drawn, int(wanted.sum()), runs, seed, validation, validation_per_class)


def draw_over_all(
    graph: Graph, labels_per_class: int, runs: int, seed: int, validation: int = 0, validation_per_class: int = 0
) -> tuple[Split, ...]:
    """`runs` random splits like those of `draw_splits`, without stratification.

    `labels_per_class` times the number of classes are drawn from all labelled nodes until every class occurs.
    """
    per_class_counts(graph, 1)  # every class needs a node
    labels = _at_least(labels_per_class, 1, "labels-per-class") * graph.num_classes

    def drawn(random: np.random.Generator) -> np.ndarray:
        for _ in range(DRAWS):
            train = random.choice(graph.known, labels, replace=False)
            if len(np.unique(graph.labels[train])) == graph.num_classes:
                return train
        sizes = np.bincount(graph.labels[graph.known])
        raise InputError(
            f"{labels} labels drawn over all nodes missed a class {DRAWS} times ({graph.class_names[sizes.argmin()]!r} "
            f"has {sizes.min()} of {len(graph.known)} nodes); raise labels-per-class from {labels_per_class}, or draw "
            "from each class"
        )

    return _drawn_splits(graph, drawn, labels, runs, seed, validation, validation_per_class)


def _drawn_splits(
    graph: Graph, drawn: Callable[..., np.ndarray], labels: int, runs: int, seed: int, validation: int, per_class: int
) -> tuple[Split, ...]:
    """Splits with `labels` training nodes, which `drawn(generator)` returns."""
    check_runs(runs, len(graph.known))
    held_out = _at_least(validation, 0, "validation")
    held_out += _at_least(per_class, 0, "validation-per-class") * graph.num_classes
    if labels + held_out >= len(graph.known):
        raise InputError(
            f"{labels} training and {held_out} validation nodes leave no test node among {len(graph.known)} "
            "labelled nodes; ask for fewer"
        )
    splits = []
    for run in range(runs):
        random = np.random.default_rng([check_seed(seed), run])
        train = drawn(random)
        others = random.permutation(np.setdiff1d(graph.known, train))
        classes = graph.labels[others]
        sizes = np.bincount(classes, minlength=graph.num_classes)
        if sizes.min() < per_class:
            raise InputError(
                f"validation-per-class {per_class} exceeds the {sizes.min()} nodes of class "
                f"{graph.class_names[sizes.argmin()]!r} that training leaves; lower it"
            )
        first = np.concatenate([np.flatnonzero(classes == number)[:per_class] for number in range(len(sizes))])
        of_each, others = others[first], np.delete(others, first)
        splits.append(Split(train, np.concatenate([of_each, others[:validation]]), np.sort(others[validation:])))
    return tuple(splits)


def per_class_counts(graph: Graph, labels_per_class: Counts) -> Int[np.ndarray, "classes"]:
    """The number of training nodes of each class, checked against the graph."""
    given = np.atleast_1d(np.asarray(labels_per_class))
    if given.size not in (1, graph.num_classes):
        raise InputError(
            f"labels-per-class lists {given.size} numbers for {graph.num_classes} classes; give one, or one per class"
        )
    wanted = np.broadcast_to(given, graph.num_classes)
    sizes = np.bincount(graph.labels[graph.known], minlength=graph.num_classes)
    for name, count, size in zip(graph.class_names, wanted, sizes, strict=True):
        _at_least(count, 1, "labels-per-class")
        if count > size:
            raise InputError(f"labels-per-class {count} exceeds the {size} nodes of class {name!r}; lower it")
    return wanted


def read_splits(path: Path, graph: Graph) -> tuple[Split, ...]:
    """Splits from a JSON file: `{"train": […], "validation": […], "test": […]}`, or a list of these, with node ids.

    Without `"test"`, all other labelled nodes are test nodes. Other keys, such as a misspelt `"val"`, are rejected.
    """
    try:
        content = parsed_json(read_plain(path))
    except OSError as error:
        raise InputError(f"cannot read split file {path}: {error.strerror}; check path and permissions") from error
    except ValueError as error:
        raise InputError(f"split file {path} is not JSON ({error}); write an object with a list 'train'") from error
    entries = content if isinstance(content, list) else [content]
    if not entries:
        raise InputError(f"split file {path} contains no split; write an object with a list 'train'")
    position = {str(name): number for number, name in enumerate(graph.node_ids)}

    def nodes(entry: dict[str, Any], part: str) -> np.ndarray:
        listed = entry.get(part, [])
        if not isinstance(listed, list):
            raise InputError(f"{part!r} of split file {path} is not a list; give a list of node ids")
        missing = [name for name in listed if str(name) not in position]
        if missing:
            raise InputError(f"{part!r} of split file {path} names node {shown(missing[0])}, which is not in the graph")
        found = np.array([position[str(name)] for name in listed], dtype=np.int64)
        unlabelled = found[graph.labels[found] == UNLABELED]
        if len(unlabelled):
            raise InputError(f"node {graph.node_ids[unlabelled[0]]!r} in {part!r} of {path} has no known class")
        return found

    splits = []
    for entry in entries:
        if not isinstance(entry, dict) or "train" not in entry:
            raise InputError(f"an entry of split file {path} has no list 'train'; give one")
        for part in entry:
            if part not in SPLIT_PARTS:
                raise unknown_name(f"part of split file {path}", part, SPLIT_PARTS)
        train, validation = nodes(entry, "train"), nodes(entry, "validation")
        others = np.setdiff1d(graph.known, np.concatenate([train, validation]))
        splits.append(Split(train, validation, nodes(entry, "test") if "test" in entry else others))
    return tuple(splits)


def check_runs(runs: int, test_nodes: int) -> None:
    """Reject too many runs, or more than fit into memory."""
    _at_least(runs, 1, "runs")
    if runs > MOST_RUNS:
        raise InputError(f"runs is {runs}; give at most {MOST_RUNS}")
    needed = runs * test_nodes * np.int64().nbytes
    check_fits(needed, f"runs is {runs}; to list the test nodes of each", "give fewer")


def check_seed(seed: int) -> int:
    """The seed, if it is within the range that rows and models store."""
    if _at_least(seed, 0, "seed") > LARGEST_SEED:
        raise InputError(f"seed is {str(seed)[:20]}…; give at most 2**128")
    return seed


def _at_least(number: int, least: int, what: str) -> int:
    if number < least:
        raise InputError(f"{what} is {number}; give at least {least}")
    return number
