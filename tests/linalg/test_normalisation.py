import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg import normalisation
from mtgcn.linalg.normalisation import normalized_adjacency, scaled_features, scaled_laplacian


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
