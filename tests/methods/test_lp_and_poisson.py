"""lp and poisson: labels spread along edges, without features."""

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def fit(name, graph, train, **settings):
    return create(name, **settings).fit(observe(graph, [Split(train, [], [])], seed=0)).probabilities[0]


def path(*labels):
    return Graph(adjacency=np.eye(len(labels), k=1) + np.eye(len(labels), k=-1), labels=labels)


def from_edges(labels, *edges):
    adjacency = np.zeros((len(labels), len(labels)))
    for one, other in edges:
        adjacency[one, other] = adjacency[other, one] = 1
    return Graph(adjacency, labels=labels)


def laplacian(graph):
    """L = D - A with the weights divided by their mean."""
    weights = graph.adjacency.toarray().astype(np.float64)
    weights /= weights[weights > 0].mean()
    return np.diag(weights.sum(1)) - weights


@pytest.mark.parametrize("name", ["lp", "poisson"])
def test_labels_without_edges(name):
    graph = Graph(adjacency=np.zeros((3, 3)), labels=[0, 1, -1])
    np.testing.assert_allclose(fit(name, graph, [0, 1]), [[1, 0], [0, 1], [0.5, 0.5]])


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_lp_equals_the_dense_inverse(make_graph, alpha, weighted):
    graph = make_graph(nodes=60, weighted=weighted)
    splits = draw_splits(graph, [1, 4, 2], runs=3, seed=0)
    found = create("lp", alpha=alpha).fit(observe(graph, splits, seed=0)).probabilities
    absorption = np.linalg.inv(laplacian(graph) + alpha * np.eye(60))
    for run, split in enumerate(splits):
        nearest = split.train[absorption[:, split.train].argmax(1)]
        assert np.array_equal(found[run].argmax(1), graph.labels[nearest])
        assert np.array_equal(found[run, split.train].argmax(1), graph.labels[split.train])


def test_lp_probabilities_by_hand():
    # A path of three, labels at its ends: L + I has the inverse [[5, 2, 1], [2, 4, 2], [1, 2, 5]] / 8, and the mean
    # degree is 4/3, so at the first node the classes' logits are 4/3 · 5/8 and 4/3 · 1/8.
    found = fit("lp", path(0, -1, 1), [0, 2], alpha=1.0)
    odds = np.exp(4 / 3 * 4 / 8)
    np.testing.assert_allclose(found[0], [odds / (1 + odds), 1 / (1 + odds)], rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0, ::-1], rtol=1e-6)


def test_lp_gives_unreached_nodes_the_mean_probabilities():
    found = fit("lp", from_edges([0, -1, 1, -1, -1, -1, 1], (0, 1), (2, 3), (4, 5)), [0, 2, 6])
    np.testing.assert_array_equal(found[[0, 1]], [[1, 0]] * 2)  # no label of class 1 can be reached
    np.testing.assert_array_equal(found[[2, 3, 6]], [[0, 1]] * 3)
    np.testing.assert_allclose(found[[4, 5]], [[0.4, 0.6]] * 2, rtol=1e-6)  # two nodes of class 0, three of class 1


def test_memory_of_lp(two_runs, monkeypatch):
    assert create("lp").shared_bytes(two_runs) == 8 * 8 * 40 * 12
    monkeypatch.setattr("mtgcn.methods.lp.SOLVED_AT_ONCE", 100)
    assert create("lp").shared_bytes(two_runs) == 8 * 8 * 100


def poisson_solution(graph, train):
    """u by the pseudo-inverse of a connected graph."""
    labels = np.eye(graph.num_classes)[graph.labels[train]]
    source = np.zeros((graph.num_nodes, graph.num_classes))
    source[train] = labels - labels.mean(0)
    degrees = laplacian(graph).diagonal()
    solution = np.linalg.pinv(laplacian(graph)) @ source
    return solution - degrees @ solution / degrees.sum()


def softmax(scores):
    scores = np.exp(scores / np.abs(scores).mean())
    return scores / scores.sum(1, keepdims=True)


@pytest.mark.parametrize("factored", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_poisson_equals_the_pseudo_inverse(make_graph, monkeypatch, factored, weighted):
    monkeypatch.setattr("mtgcn.linalg.random_walks.FEW_ITERATIONS", -1 if factored else 10_000)
    graph = make_graph(nodes=60, weighted=weighted)
    splits = draw_splits(graph, [1, 4, 2], runs=3, seed=0)
    found = create("poisson").fit(observe(graph, splits, seed=0)).probabilities
    for run, split in enumerate(splits):
        np.testing.assert_allclose(found[run], softmax(poisson_solution(graph, split.train)), atol=1e-5)


def test_class_sizes_weigh_the_solution(make_graph):
    graph = make_graph(nodes=60)
    [split] = draw_splits(graph, [1, 4, 2], runs=1, seed=0)
    weights = np.array([0.5, 0.25, 0.25]) / (np.array([1, 4, 2]) / 7)
    found = fit("poisson", graph, split.train, class_sizes=(4, 2, 2))
    np.testing.assert_allclose(found, softmax(weights * poisson_solution(graph, split.train)), atol=1e-5)
    of_labels = fit("poisson", graph, split.train, class_sizes=(1, 4, 2))
    np.testing.assert_allclose(of_labels, fit("poisson", graph, split.train), atol=1e-6)


@pytest.mark.parametrize("sizes", [(1.0, 2.0), (1.0, 0.0, 2.0)])
def test_class_sizes_must_fit_the_classes(two_runs, sizes):
    with pytest.raises(InputError, match="give one positive number for each of the 3 classes"):
        create("poisson", class_sizes=sizes).fit(two_runs)


def test_components_are_problems_of_their_own():
    # A path of three with labels at its ends, a pair with one label, a pair and a node without.
    found = fit("poisson", from_edges([0, -1, 1, 1, -1, -1, -1, -1], (0, 1), (1, 2), (3, 4), (5, 6)), [0, 2, 3])
    np.testing.assert_array_equal(found[[3, 4]], [[0, 1]] * 2)  # the only class of the component
    assert found[0, 0] > found[0, 1]
    np.testing.assert_allclose(found[1], [0.5, 0.5])
    np.testing.assert_allclose(found[2], found[0, ::-1], rtol=1e-6)
    np.testing.assert_allclose(found[[5, 6, 7]], [found[:5].mean(0)] * 3, rtol=1e-6)
