"""What a device makes of a graph; here the device is the processor."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import device_graph
from mtgcn.linalg.device_graph import (
    adjacency_there,
    features_there,
    neighbour_sums,
    normalized,
    row_sums,
    scaled_there,
    without_self_loops,
)
from mtgcn.linalg.normalisation import normalized_adjacency, scaled_rows

CPU = torch.device("cpu")


def some_graph(make_graph, loops, **kind):
    graph = make_graph(weighted=True, unreached=True, **kind)
    own = np.zeros(graph.num_nodes) if loops == "none" else np.linspace(0.5, 2, graph.num_nodes)
    if loops == "some":
        own[::3] = 0
    return replace(graph, adjacency=graph.adjacency.toarray() + np.diag(own))


@pytest.mark.parametrize("loops", ["none", "some", "all"])
def test_the_normalised_adjacency_is_the_processors(make_graph, loops):
    graph = some_graph(make_graph, loops)
    given = adjacency_there(graph, CPU)
    before = [array.clone() for array in given]
    row_starts, columns, values = normalized(given)
    expected = normalized_adjacency(graph)
    np.testing.assert_array_equal(row_starts, expected.indptr)
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_allclose(values, expected.data, rtol=3e-7)
    assert all(torch.equal(*pair) for pair in zip(given, before, strict=True))


def test_of_nodes_without_any_edge_the_normalised_adjacency_is_one():
    alone = Graph(np.zeros((3, 3)))
    assert [array.tolist() for array in normalized(adjacency_there(alone, CPU))] == [[0, 1, 2, 3], [0, 1, 2], [1] * 3]


@pytest.mark.parametrize("loops", ["none", "some", "all"])
@pytest.mark.parametrize("at_once", [1, 10, 10**6])
def test_sums_over_neighbours_are_products_with_the_adjacency(make_graph, monkeypatch, loops, at_once):
    monkeypatch.setattr(device_graph, "ENTRIES_AT_ONCE", at_once)
    graph = some_graph(make_graph, loops)
    matrix = without_self_loops(adjacency_there(graph, CPU))
    dense = graph.adjacency.toarray()
    np.fill_diagonal(dense, 0)
    values = np.random.default_rng(0).normal(size=(graph.num_nodes, 2))
    found = neighbour_sums(matrix, torch.from_numpy(values), graph.adjacency.indptr)
    np.testing.assert_allclose(found, dense.astype(np.float64) @ values, rtol=1e-12, atol=1e-12)
    assert (matrix is adjacency_there(graph, CPU)) == (loops == "none")  # nothing is copied for nothing


def test_sums_of_rows_begin_with_the_first_row_given_and_wrap_around():
    starts = torch.tensor([5, 7, 7, 8], dtype=torch.int32)
    largest = 2**63 - 1
    assert row_sums(torch.tensor([largest, 2, 3]), starts).tolist() == [-largest, 0, 3]
    assert row_sums(torch.tensor([0.5, 2, 3], dtype=torch.float64), starts).tolist() == [2.5, 0, 3]


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
def test_features_are_scaled_as_the_processor_does(make_graph, scaling):
    graph = make_graph(sparse=False, unreached=True)
    found = scaled_there(features_there(graph, CPU), scaling)
    np.testing.assert_allclose(found, scaled_rows(graph.features, scaling), rtol=1e-6)


def test_a_graph_is_moved_once(make_graph):
    graph = make_graph(sparse=False)
    for move in (adjacency_there, features_there):
        assert move(graph, CPU) is move(graph.without_labels, CPU)
