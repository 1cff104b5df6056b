"""Statistics of datasets."""

import numpy as np
import pytest

from mtgcn.datasets.dataset import repeated_nodes
from mtgcn.graph import Graph


def joined(edges, labels):
    adjacency = np.zeros((len(labels), len(labels)))
    for one, other in edges:
        adjacency[one, other] = adjacency[other, one] = 1
    return Graph(adjacency, features=np.eye(len(labels)), labels=labels)  # features do not matter


def spokes(*labels):
    """Nodes 2, 3, … have the neighbours 0 and 1."""
    return joined([(hub, node) for hub in (0, 1) for node in range(2, len(labels) + 2)], [2, 3, *labels])


@pytest.mark.parametrize(
    ("graph", "repeated"),
    [
        (spokes(0, 0, 0), 2),
        (spokes(0, 0, 1, 1, 1), 3),
        (spokes(0, 1), 0),
        (spokes(-1, -1, 0), 0),  # unlabelled nodes do not count
        (joined([(0, 1), (0, 2), (0, 3)], [1, 0, 0, 0, 0, 0]), 0),  # nor do leaves and isolated nodes
        (joined([(0, 2), (1, 2), (0, 3), (1, 3), (3, 3)], [1, 2, 0, 0]), 1),  # self-loops do not matter
    ],
)
def test_repeated_nodes(graph, repeated):
    assert repeated_nodes(graph) == repeated
