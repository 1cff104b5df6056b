"""Cora as two text files: `cora.content` (paper, words, class) and `cora.cites` (cited, citing).

They hold what Planetoid's files hold, papers in another order. `cora_order.txt` lists the paper at each of
Planetoid's positions, found by matching words, classes and edges, so that a result never depends on the source.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

import numpy as np
import scipy.sparse as sp

from mtgcn.datasets.dataset import Dataset, planetoid_split, undirected
from mtgcn.graph import Graph

FILENAMES = ("cora.content", "cora.cites")

CLASS_NAMES = (  # in the order of Planetoid's class numbers
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)

_PUBLIC_TRAIN, _PUBLIC_TEST = 140, 1000  # the nodes that open and that close Planetoid's order


def read(files: Mapping[str, bytes]) -> Dataset:
    """The dataset in Planetoid's node order."""
    position = {paper: node for node, paper in enumerate(planetoid_order())}
    nodes = len(position)

    labels = np.empty(nodes, dtype=np.int64)
    features: list[np.ndarray] = [np.empty(0)] * nodes
    for line in files["cora.content"].splitlines():
        paper, rest = line.split(b"\t", maxsplit=1)
        words, class_name = rest.rsplit(b"\t", maxsplit=1)
        node = position[paper.decode("ascii")]
        labels[node] = CLASS_NAMES.index(class_name.decode("ascii"))
        # One digit and one tab per word: every second byte is a digit.
        features[node] = np.frombuffer(words, dtype=np.uint8)[::2] == ord("1")

    papers = files["cora.cites"].decode("ascii").split()
    ends = np.array([position[paper] for paper in papers]).reshape(-1, 2)
    graph = Graph(
        adjacency=undirected(ends[:, 0], ends[:, 1], nodes),
        features=sp.csr_array(np.stack(features).astype(np.float32)),
        labels=labels,
        class_names=CLASS_NAMES,
        name="cora",
    )
    test = np.arange(nodes - _PUBLIC_TEST, nodes)
    return Dataset(graph, edges_listed=len(ends), public_split=planetoid_split(_PUBLIC_TRAIN, test))


def planetoid_order() -> list[str]:
    """The paper at each of Planetoid's positions."""
    return resources.files("mtgcn.datasets").joinpath("cora_order.txt").read_text(encoding="ascii").split()
