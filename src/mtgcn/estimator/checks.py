"""What the estimator refuses, whatever the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph

LARGEST_NUMBER = 1e15


def check_classes(classes: np.ndarray) -> None:
    """Refuse labels of fewer than two classes."""
    if len(classes) == 0:
        raise InputError("no node is labelled; label at least one of each of 2 classes")
    if len(classes) == 1:
        raise InputError(f"labels of one class only, {classes[0]}, and 2 are the least; label nodes of another class")


def check_every_class(graph: Graph) -> None:
    """Refuse a graph with a class that no label is of."""
    counts = graph.label_counts
    check_classes(np.array(graph.class_names)[counts > 0])
    if counts.min() == 0:
        raise InputError(
            f"class {graph.class_names[counts.argmin()]!r} has no labelled node; label one, or leave the class out"
        )


def check_sizes(graph: Graph, table: Any, labels: np.ndarray | None = None) -> None:
    """Refuse a graph of as many nodes as neither X has rows nor y has labels."""
    for what, count in (
        ("X has {} rows", graph.num_nodes if table is None else table.shape[0]),
        ("y has {} labels", graph.num_nodes if labels is None else len(labels)),
    ):
        if count != graph.num_nodes:
            raise InputError(
                f"the graph has {graph.num_nodes} nodes and {what.format(count)}; give one for each node, in the same "
                "order"
            )


def check_magnitudes(graph: Graph) -> None:
    """Refuse edge weights and features that are too large to reckon with."""
    check_magnitude(graph.adjacency, "an edge weight")
    if graph.features is not None:
        check_magnitude(graph.features, "a feature")


def check_magnitude(matrix: Any, what: str) -> None:
    """Refuse numbers whose sums and products would no longer fit 32 bits."""
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest > LARGEST_NUMBER:
        raise InputError(f"{what} of size {largest:g}, the limit is {LARGEST_NUMBER:g}; scale all of them down")


def check_width(features: int, trained: Graph) -> None:
    """Refuse nodes with other features than the peers were trained on, and any where these were made from edges."""
    if trained.features is None:
        raise InputError(
            "this model was fitted without features, so its numbers mean nothing on another graph; "
            "fit on the graph that holds the new nodes"
        )
    if features != trained.num_features:
        raise InputError(
            f"{features} features for each node of the graph and {trained.num_features} in training; give the same ones"
        )
