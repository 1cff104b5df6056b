"""scikit-learn's images of handwritten digits, linked to their nearest neighbours: a graph that needs no network."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from mtgcn.datasets.dataset import Dataset
from mtgcn.graph import Graph

NEIGHBOURS = 10
_DARKEST = 16  # pixels run from 0 to 16


def read() -> Dataset:
    """1797 images; an edge joins two when either is among the other's nearest."""
    from sklearn.datasets import load_digits

    from mtgcn.linalg.neighbours import neighbour_graph

    images = load_digits()
    pixels = images.data / _DARKEST
    graph = Graph(
        adjacency=neighbour_graph(pixels, NEIGHBOURS),
        features=pixels,
        labels=images.target,
        class_names=tuple(str(digit) for digit in images.target_names),
        name="digits",
    )
    return Dataset(graph, edges_listed=graph.num_edges, public_split=None)


def location() -> Path | None:
    """Where scikit-learn keeps the images, told without importing it; None where it is not installed."""
    package = importlib.util.find_spec("sklearn")
    return Path(package.origin).parent / "datasets" / "data" if package and package.origin else None
