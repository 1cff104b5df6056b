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


def check_magnitudes(graph: Graph) -> None:
    """Refuse edge weights and features that are too large to reckon with."""
    check_magnitude(graph.adjacency, "an edge weight")
    if graph.features is not None:
        check_magnitude(graph.features, "a feature")


def check_magnitude(matrix: Any, what: str) -> None:
    """Refuse numbers whose sums and products would no longer fit 32 bits."""
    values = matrix.data if sp.issparse(matrix) else matrix
    largest = max(values.max(initial=0), -values.min(initial=0))
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
