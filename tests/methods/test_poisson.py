import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def path(*labels):
    return Graph(adjacency=np.eye(len(labels), k=1) + np.eye(len(labels), k=-1), labels=labels)


def fit(graph, train, **settings):
    return create("poisson", **settings).fit(observe(graph, [Split(train, [], [])], seed=0)).probabilities[0]


def dense_solution(graph, train):
    """u by the pseudo-inverse of a connected graph."""
    weights = graph.adjacency.toarray().astype(np.float64)
    weights /= weights[weights > 0].mean()
    weights -= np.diag(weights.diagonal())
    degrees = weights.sum(1)
    labels = np.eye(graph.num_classes)[graph.labels[train]]
    source = np.zeros((len(weights), graph.num_classes))
    source[train] = labels - labels.mean(0)
    solution = np.linalg.pinv(np.diag(degrees) - weights) @ source
    return solution - degrees @ solution / degrees.sum()


def softmax(scores):
    scores = np.exp(scores / np.abs(scores).mean())
    return scores / scores.sum(1, keepdims=True)


def test_by_hand():
    # A path of three, labels at its ends: u = (1/2, 0, -1/2) for the first class, with mean absolute value 1/3.
    odds = np.exp(3)
    expected = [[odds / (1 + odds), 1 / (1 + odds)], [0.5, 0.5], [1 / (1 + odds), odds / (1 + odds)]]
    np.testing.assert_allclose(fit(path(0, -1, 1), [0, 2]), expected, rtol=1e-6)


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_equals_the_pseudo_inverse(make_graph, monkeypatch, factored, weighted):
    monkeypatch.setattr("mtgcn.linalg.random_walks.FEW_ITERATIONS", -1 if factored else 10_000)
    graph = make_graph(nodes=60, weighted=weighted)
    splits = draw_splits(graph, [1, 4, 2], runs=3, seed=0)
    found = create("poisson").fit(observe(graph, splits, seed=0)).probabilities
    for run, split in enumerate(splits):
        np.testing.assert_allclose(found[run], softmax(dense_solution(graph, split.train)), atol=1e-5)


def test_class_sizes_weigh_the_solution(make_graph):
    graph = make_graph(nodes=60)
    [split] = draw_splits(graph, [1, 4, 2], runs=1, seed=0)
    weights = np.array([0.5, 0.25, 0.25]) / (np.array([1, 4, 2]) / 7)
    found = fit(graph, split.train, class_sizes=(4, 2, 2))
    np.testing.assert_allclose(found, softmax(weights * dense_solution(graph, split.train)), atol=1e-5)
    of_labels = fit(graph, split.train, class_sizes=(1, 4, 2))
    np.testing.assert_allclose(of_labels, fit(graph, split.train), atol=1e-6)


@pytest.mark.parametrize("sizes", [(1.0, 2.0), (1.0, 0.0, 2.0)])
def test_class_sizes_must_fit_the_classes(make_graph, sizes):
    graph = make_graph(nodes=60)
    [split] = draw_splits(graph, 1, runs=1, seed=0)
    with pytest.raises(InputError, match="give one positive number for each of the 3 classes"):
        fit(graph, split.train, class_sizes=sizes)


def test_components_are_problems_of_their_own():
    # A path of three with labels at its ends, a pair with one label, a pair and a node without.
    edges = np.zeros((8, 8))
    for one, other in ((0, 1), (1, 2), (3, 4), (5, 6)):
        edges[one, other] = edges[other, one] = 1
    graph = Graph(adjacency=edges, labels=[0, -1, 1, 1, -1, -1, -1, -1])
    found = fit(graph, [0, 2, 3])
    np.testing.assert_array_equal(found[[3, 4]], [[0, 1]] * 2)  # the only class of the component
    odds = found[0, 0] / found[0, 1]
    assert odds > 1
    np.testing.assert_allclose(found[1], [0.5, 0.5])
    np.testing.assert_allclose(found[2], found[0, ::-1], rtol=1e-6)
    np.testing.assert_allclose(found[[5, 6, 7]], [found[:5].mean(0)] * 3, rtol=1e-6)


def test_labels_without_edges():
    graph = Graph(adjacency=np.zeros((3, 3)), labels=[0, 1, -1])
    np.testing.assert_allclose(fit(graph, [0, 1]), [[1, 0], [0, 1], [0.5, 0.5]])
