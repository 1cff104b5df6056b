import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.structural_features import MAX_WALK, OF_COMPONENTS, structural_features


def random_graph(nodes, edges, seed=0, isolated=0):
    ends = np.random.default_rng(seed).integers(0, nodes - isolated, (2, edges))
    matrix = sp.coo_array((np.ones(edges), tuple(ends)), shape=(nodes, nodes)).tocsr()
    return Graph(adjacency=matrix.maximum(matrix.T))


def test_features_are_eigenvectors_of_the_average_walk():
    graph = random_graph(60, 400)
    spread = normalized_adjacency(graph).toarray().astype(np.float64)
    average = np.mean([np.linalg.matrix_power(spread, steps) for steps in range(1, MAX_WALK + 1)], axis=0)
    eigenvalues, eigenvectors = np.linalg.eigh(average)
    order = np.argsort(-np.abs(eigenvalues))[1:6]  # the first is constant up to degree
    found = structural_features(graph, dimensions=OF_COMPONENTS + 44)[:, :5]
    for column, number in zip(found.T, order, strict=True):
        expected = eigenvectors[:, number] * eigenvalues[number]
        np.testing.assert_allclose(column * np.sign(column @ expected), expected, atol=2e-3)


def test_constant_vector_is_projected_out():
    adjacency = np.zeros((12, 12))
    adjacency[0, 1:] = adjacency[1, 2] = 1
    adjacency[3, 4] = 5
    graph = Graph(adjacency + adjacency.T)
    shared = np.sqrt(graph.adjacency.sum(axis=1) / graph.adjacency.data.mean() + 1)
    assert np.abs(shared @ structural_features(graph)[:, :-OF_COMPONENTS]).max() < 1e-6


def test_small_components_do_not_hide_a_large_one():
    # Two halves with few edges between them, beside 200 pairs: the first feature separates the halves.
    random = np.random.default_rng(0)
    half = np.repeat([0, 1], 50)
    inside = np.triu(random.random((100, 100)) < np.where(half[:, None] == half, 0.2, 0.005), 1)
    pairs = np.kron(np.eye(200), [[0, 1], [1, 0]])
    graph = Graph(adjacency=sp.block_diag([inside + inside.T, pairs]))
    features = structural_features(graph, dimensions=OF_COMPONENTS + 8)
    leading = features[:100, 0]
    assert abs(np.corrcoef(leading > np.median(leading), half)[0, 1]) > 0.95


def test_components_have_distinct_codes():
    graph = Graph(adjacency=np.kron(np.eye(20), [[0, 1], [1, 0]]))
    features = structural_features(graph)
    lengths = np.linalg.norm(features, axis=1)
    alike = features @ features.T / np.outer(lengths, lengths)
    np.testing.assert_allclose(alike[::2, 1::2].diagonal(), 1, atol=1e-3)
    assert (alike[::2, ::2] - np.eye(20)).max() < 0.95


def test_features_depend_on_the_seed():
    graph = random_graph(50, 100)
    np.testing.assert_array_equal(structural_features(graph, seed=1), structural_features(graph, seed=1))
    assert not np.array_equal(structural_features(graph, seed=1), structural_features(graph, seed=2))


@pytest.mark.parametrize(
    "graph",
    [
        Graph(adjacency=np.array([[0, 1], [1, 0]])),
        Graph(adjacency=np.ones((3, 3))),
        random_graph(30, 20, isolated=10),
        Graph(adjacency=1e12 * np.array([[0, 1, 0], [1, 0, 1e-24], [0, 1e-24, 0]])),
    ],
    ids=["one edge", "complete", "isolated nodes", "weights far apart"],
)
def test_features_are_finite_and_not_zero(graph):
    features = structural_features(graph)
    assert features.shape[0] == graph.num_nodes
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert (np.abs(features).sum(axis=1) > 0).all()


def test_features_are_order_invariant(make_graph):
    graph = make_graph(nodes=60)
    order = np.random.default_rng(0).permutation(60)
    features = structural_features(Graph(graph.adjacency))
    shuffled = structural_features(Graph(graph.adjacency[order][:, order]))
    np.testing.assert_allclose(shuffled @ shuffled.T, (features @ features.T)[np.ix_(order, order)], atol=1e-5)


def test_graph_without_edges_is_refused():
    with pytest.raises(InputError, match="neither features nor edges between its nodes; give features or edges"):
        structural_features(Graph(adjacency=np.eye(3)))
