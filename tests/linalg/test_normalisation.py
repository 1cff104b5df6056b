from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg import normalisation
from mtgcn.linalg.normalisation import (
    device_adjacency,
    device_features,
    neighbour_sums,
    normalized,
    normalized_adjacency,
    row_sums,
    scaled_features,
    scaled_laplacian,
    scaled_on_device,
    scaled_rows,
    without_self_loops,
)


def test_normalized_adjacency_of_four_nodes_by_hand():
    # 0 - 1 with weight 3, 1 linked to itself with weight 4, 1 - 2 with weight 1, and 3 alone.
    # Row sums of A + I: 4, 3 + 4 + 1 + 1 = 9, 2 and 1.
    graph = Graph([[0, 3, 0, 0], [3, 4, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    expected = [
        [1 / 4, 3 / 6, 0, 0],
        [3 / 6, 5 / 9, 1 / (3 * np.sqrt(2)), 0],
        [0, 1 / (3 * np.sqrt(2)), 1 / 2, 0],
        [0, 0, 0, 1],
    ]
    np.testing.assert_allclose(normalized_adjacency(graph).toarray(), expected, rtol=1e-6)


def test_normalizing_leaves_the_graph_as_it_was():
    graph = Graph([[0, 3], [3, 0]])
    normalized_adjacency(graph)
    assert graph.adjacency.toarray().tolist() == [[0, 3], [3, 0]]


def test_graphs_that_differ_are_not_confused():
    for weight in (1.0, 3.0, 8.0):
        matrix = normalized_adjacency(Graph([[0, weight], [weight, 0]])).toarray()
        np.testing.assert_allclose(matrix, np.array([[1, weight], [weight, 1]]) / (1 + weight), rtol=1e-6)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ("sum", [[3 / 7, 4 / 7], [0, 0], [0, 1]]),
        ("length", [[3 / 5, 4 / 5], [0, 0], [0, 1]]),
        ("none", [[3, 4], [0, 0], [0, 2]]),
    ],
)
def test_feature_scaling_by_hand(sparse, scaling, expected):
    features = np.array([[3, 4], [0, 0], [0, 2]], dtype=float)
    graph = Graph(np.zeros((3, 3)), features=sp.csr_array(features) if sparse else features)
    scaled = scaled_features(graph, scaling)
    np.testing.assert_allclose(scaled.toarray() if sparse else scaled, expected, rtol=1e-6)
    assert np.array_equal(graph.features.toarray() if sparse else graph.features, features)


def test_a_graph_without_features_has_none_to_scale():
    with pytest.raises(InputError, match="needs node features"):
        scaled_features(Graph([[0, 1], [1, 0]]), "sum")


@pytest.mark.parametrize("nodes", [3, 150])  # all eigenvalues at once, and the largest by Lanczos
def test_the_laplacian_of_self_loops_alone_is_scaled_as_well(nodes):
    loops = Graph(sp.eye_array(nodes, format="csr"))
    np.testing.assert_array_equal(scaled_laplacian(loops).toarray(), -np.eye(nodes))  # 2 · 0 / λ - I


def test_where_the_largest_eigenvalue_is_not_found_its_bound_scales(monkeypatch):
    def never(*_, **__):
        raise normalisation.ArpackError(-1)

    monkeypatch.setattr(normalisation, "eigsh", never)
    ring = Graph(sp.csr_array(np.eye(150, k=1) + np.eye(150, k=-1)))
    expected = normalisation.normalized_laplacian(ring).toarray() - np.eye(150)  # 2 L / 2 - I
    np.testing.assert_allclose(scaled_laplacian(ring).toarray(), expected, atol=1e-6)


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
    given = device_adjacency(graph, CPU)
    before = [array.clone() for array in given]
    row_starts, columns, values = normalized(given)
    expected = normalized_adjacency(graph)
    np.testing.assert_array_equal(row_starts, expected.indptr)
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_allclose(values, expected.data, rtol=3e-7)
    assert all(torch.equal(*pair) for pair in zip(given, before, strict=True))


def test_of_nodes_without_any_edge_the_normalised_adjacency_is_one():
    alone = Graph(np.zeros((3, 3)))
    assert [array.tolist() for array in normalized(device_adjacency(alone, CPU))] == [[0, 1, 2, 3], [0, 1, 2], [1] * 3]


@pytest.mark.parametrize("loops", ["none", "some", "all"])
@pytest.mark.parametrize("at_once", [1, 10, 10**6])
def test_sums_over_neighbours_are_products_with_the_adjacency(make_graph, monkeypatch, loops, at_once):
    monkeypatch.setattr(normalisation, "ENTRIES_AT_ONCE", at_once)
    graph = some_graph(make_graph, loops)
    matrix = without_self_loops(device_adjacency(graph, CPU))
    dense = graph.adjacency.toarray()
    np.fill_diagonal(dense, 0)
    values = np.random.default_rng(0).normal(size=(graph.num_nodes, 2))
    found = neighbour_sums(matrix, torch.from_numpy(values), graph.adjacency.indptr)
    np.testing.assert_allclose(found, dense.astype(np.float64) @ values, rtol=1e-12, atol=1e-12)
    assert (matrix is device_adjacency(graph, CPU)) == (loops == "none")  # nothing is copied for nothing


def test_sums_of_rows_begin_with_the_first_row_given_and_wrap_around():
    starts = torch.tensor([5, 7, 7, 8], dtype=torch.int32)
    largest = 2**63 - 1
    assert row_sums(torch.tensor([largest, 2, 3]), starts).tolist() == [-largest, 0, 3]
    assert row_sums(torch.tensor([0.5, 2, 3], dtype=torch.float64), starts).tolist() == [2.5, 0, 3]


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
def test_features_are_scaled_as_the_processor_does(make_graph, scaling):
    graph = make_graph(sparse=False, unreached=True)
    found = scaled_on_device(device_features(graph, CPU), scaling)
    np.testing.assert_allclose(found, scaled_rows(graph.features, scaling), rtol=1e-6)


def test_a_graph_is_moved_once(make_graph):
    graph = make_graph(sparse=False)
    for move in (device_adjacency, device_features):
        assert move(graph, CPU) is move(graph.without_labels, CPU)
