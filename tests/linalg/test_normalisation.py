from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import normalisation

CPU = torch.device("cpu")


def test_normalized_adjacency_by_hand():
    # 0 - 1 with weight 3, a self-loop of weight 4 at 1, 1 - 2 with weight 1, and 3 alone.
    # The mean weight is 2. Row sums of A / 2 + I: 2.5, 1.5 + 2 + 0.5 + 1 = 5, 1.5 and 1.
    given = [[0, 3, 0, 0], [3, 4, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    graph = Graph(given)
    expected = [
        [1 / 2.5, 1.5 / np.sqrt(12.5), 0, 0],
        [1.5 / np.sqrt(12.5), 3 / 5, 0.5 / np.sqrt(7.5), 0],
        [0, 0.5 / np.sqrt(7.5), 1 / 1.5, 0],
        [0, 0, 0, 1],
    ]
    np.testing.assert_allclose(normalisation.normalized_adjacency(graph).toarray(), expected, rtol=1e-6)
    assert graph.adjacency.toarray().tolist() == given
    other = normalisation.normalized_adjacency(Graph([[0, 3], [3, 0]])).toarray()  # another graph, another result
    assert other.tolist() == [[0.5, 0.5], [0.5, 0.5]]


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
    scaled = normalisation.scaled_features(graph, scaling)
    np.testing.assert_allclose(scaled.toarray() if sparse else scaled, expected, rtol=1e-6)
    assert np.array_equal(graph.features.toarray() if sparse else graph.features, features)
    if not sparse:
        np.testing.assert_allclose(
            normalisation.scaled_on_device(normalisation.device_features(graph, CPU), scaling), expected, rtol=1e-6
        )


@pytest.mark.parametrize("nodes", [3, 150])  # all eigenvalues, or the largest by Lanczos
def test_scaled_laplacian_of_self_loops(nodes):
    loops = Graph(sp.eye_array(nodes, format="csr"))
    np.testing.assert_array_equal(normalisation.scaled_laplacian(loops).toarray(), -np.eye(nodes))  # 2 · 0 / λ - I


def test_scaled_laplacian_without_convergence_uses_the_bound(monkeypatch):
    def fail(*_, **__):
        raise normalisation.ArpackError(-1)

    monkeypatch.setattr(normalisation, "eigsh", fail)
    path = Graph(sp.csr_array(np.eye(150, k=1) + np.eye(150, k=-1)))
    expected = normalisation.normalized_laplacian(path).toarray() - np.eye(150)  # 2 L / 2 - I
    np.testing.assert_allclose(normalisation.scaled_laplacian(path).toarray(), expected, atol=1e-6)


# A device computes with tensors; here the device is the CPU.


@pytest.fixture(params=["no loops", "some loops", "all loops", "no edges"])
def graph(request, make_graph):
    graph = make_graph(weighted=True, unreached=True)
    loops = np.zeros(40) if request.param == "no loops" else np.linspace(0.5, 2, 40)
    if request.param == "some loops":
        loops[::3] = 0
    adjacency = graph.adjacency.toarray() + np.diag(loops)
    return replace(graph, adjacency=np.zeros((40, 40)) if request.param == "no edges" else adjacency)


def test_device_normalisation_matches(graph):
    given = normalisation.device_adjacency(graph, CPU)
    before = [array.clone() for array in given]
    row_starts, columns, values = normalisation.normalized(given)
    expected = normalisation.normalized_adjacency(graph)
    np.testing.assert_array_equal(row_starts, expected.indptr)
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_allclose(values, expected.data, rtol=3e-7)
    assert all(torch.equal(*pair) for pair in zip(given, before, strict=True))


@pytest.mark.parametrize("at_once", [1, 10, 10**6])
def test_neighbour_sums_match_dense(graph, monkeypatch, at_once):
    monkeypatch.setattr(normalisation, "ENTRIES_AT_ONCE", at_once)
    matrix = normalisation.without_self_loops(normalisation.device_adjacency(graph, CPU))
    dense = graph.adjacency.toarray().astype(np.float64)
    has_loops = dense.diagonal().any()
    np.fill_diagonal(dense, 0)
    values = np.random.default_rng(0).normal(size=(graph.num_nodes, 2))
    found = normalisation.neighbour_sums(matrix, torch.from_numpy(values), graph.adjacency.indptr)
    np.testing.assert_allclose(found, dense @ values, rtol=1e-12, atol=1e-12)
    assert (matrix is normalisation.device_adjacency(graph, CPU)) == (not has_loops)


def test_row_sums_start_at_the_first_row_and_wrap_around():
    starts = torch.tensor([5, 7, 7, 8], dtype=torch.int32)
    largest = 2**63 - 1
    assert normalisation.row_sums(torch.tensor([largest, 2, 3]), starts).tolist() == [-largest, 0, 3]
    assert normalisation.row_sums(torch.tensor([0.5, 2, 3], dtype=torch.float64), starts).tolist() == [2.5, 0, 3]


def test_a_graph_is_moved_once(make_graph):
    graph = make_graph(sparse=False)
    for move in (normalisation.device_adjacency, normalisation.device_features):
        assert move(graph, CPU) is move(graph.without_labels, CPU)


def numbers(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
@pytest.mark.parametrize("sparse", [True, False])
def test_resident_operators_match(make_graph, sparse, scaling):
    # Computed as on a device; here the device is the CPU.
    graph = make_graph(sparse=sparse, weighted=True, unreached=True)
    x, made, usual = (
        numbers(12, 2),
        normalisation.resident_operators(graph, scaling, CPU),
        normalisation.graph_operators(graph, scaling, CPU),
    )
    assert usual.resident is None
    torch.testing.assert_close(made.feature_operator()(x), usual.feature_operator()(x))
    along = numbers(40, 3)
    torch.testing.assert_close(made.adjacency(along), usual.adjacency(along))
    for one, other in zip(made.input_chain, usual.input_chain, strict=True):
        x, expected = one(x), other(x)
        torch.testing.assert_close(x, expected)
    dense = (features.toarray() if sparse else features for features in (made.features, usual.features))
    np.testing.assert_array_equal(*dense)
