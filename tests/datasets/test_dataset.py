"""Statistics of datasets."""

import numpy as np

from mtgcn.datasets.dataset import repeated_nodes
from mtgcn.graph import Graph


def joined(nodes: int, *edges: tuple[int, int], labels: list[int]) -> Graph:
    adjacency = np.zeros((nodes, nodes))
    for one, other in edges:
        adjacency[one, other] = adjacency[other, one] = 1
    return Graph(adjacency, labels=labels)


def spokes(*labels: int) -> Graph:
    """Nodes 2, 3, … all have the neighbours 0 and 1, which are of classes of their own."""
    nodes = len(labels) + 2
    edges = [(hub, node) for hub in (0, 1) for node in range(2, nodes)]
    return joined(nodes, *edges, labels=[2, 3, *labels])


def test_nodes_with_the_neighbours_and_class_of_an_earlier_one() -> None:
    assert spokes(0, 0, 0).num_nodes == 5
    assert repeated_nodes(spokes(0, 0, 0)) == 2
    assert repeated_nodes(spokes(0, 0, 1, 1, 1)) == 3
    assert repeated_nodes(spokes(0, 1)) == 0


def test_nodes_of_unknown_class_do_not_count() -> None:
    assert repeated_nodes(spokes(-1, -1, 0)) == 0


def test_leaves_of_one_hub_and_nodes_without_neighbours_do_not_count() -> None:
    assert repeated_nodes(joined(6, (0, 1), (0, 2), (0, 3), labels=[1, 0, 0, 0, 0, 0])) == 0


def test_self_loops_do_not_matter() -> None:
    graph = joined(4, (0, 2), (1, 2), (0, 3), (1, 3), (3, 3), labels=[1, 2, 0, 0])
    assert repeated_nodes(graph) == 1


def test_features_do_not_matter() -> None:
    graph = spokes(0, 0, 0)
    assert repeated_nodes(Graph(graph.adjacency, features=np.eye(5), labels=graph.labels)) == 2
