import numpy as np
import pytest

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def absorption(graph, alpha):
    weights = graph.adjacency.toarray().astype(np.float64)
    weights /= weights[weights > 0].mean()
    return np.linalg.inv(np.diag(weights.sum(1)) - weights + alpha * np.eye(len(weights)))


def path(*labels):
    return Graph(adjacency=np.eye(len(labels), k=1) + np.eye(len(labels), k=-1), labels=labels)


@pytest.mark.parametrize("alpha", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("weighted", [True, False])
def test_equals_the_dense_inverse(make_graph, alpha, weighted):
    graph = make_graph(nodes=60, weighted=weighted)
    splits = draw_splits(graph, [1, 4, 2], runs=3, seed=0)
    found = create("lp", alpha=alpha).fit(observe(graph, splits, seed=0)).probabilities
    for run, split in enumerate(splits):
        nearest = split.train[absorption(graph, alpha)[:, split.train].argmax(1)]
        assert np.array_equal(found[run].argmax(1), graph.labels[nearest])
        assert np.array_equal(found[run, split.train].argmax(1), graph.labels[split.train])


def test_probabilities_by_hand():
    # A path of three, labels at its ends: L + I has the inverse [[5, 2, 1], [2, 4, 2], [1, 2, 5]] / 8, and the mean
    # degree is 4/3, so at the first node the classes' logits are 4/3 · 5/8 and 4/3 · 1/8.
    graph = path(0, -1, 1)
    found = create("lp", alpha=1.0).fit(observe(graph, [Split([0, 2], [], [])], seed=0)).probabilities[0]
    odds = np.exp(4 / 3 * 4 / 8)
    np.testing.assert_allclose(found[0], [odds / (1 + odds), 1 / (1 + odds)], rtol=1e-6)
    np.testing.assert_allclose(found[1], [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0, ::-1], rtol=1e-6)


def test_single_labels_count_and_not_their_number():
    # Node 3 is next to a label of class 1 and two and three steps from two of class 0.
    graph = path(0, 0, -1, -1, 1)
    task = observe(graph, [Split([0, 1, 4], [], [])], seed=0)
    assert create("lp").fit(task).probabilities[0, 3].argmax() == 1


def test_unreached_nodes_get_mean_probabilities():
    edges = np.zeros((7, 7))
    for one, other in ((0, 1), (2, 3), (4, 5)):
        edges[one, other] = edges[other, one] = 1
    graph = Graph(adjacency=edges, labels=[0, -1, 1, -1, -1, -1, 1])
    found = create("lp").fit(observe(graph, [Split([0, 2, 6], [], [])], seed=0)).probabilities[0]
    np.testing.assert_array_equal(found[[0, 1]], [[1, 0]] * 2)  # no label of class 1 can be reached
    np.testing.assert_array_equal(found[[2, 3, 6]], [[0, 1]] * 3)
    np.testing.assert_allclose(found[[4, 5]], [[0.4, 0.6]] * 2, rtol=1e-6)  # two nodes of class 0, three of class 1


def test_a_graph_without_edges_is_answered():
    graph = Graph(adjacency=np.zeros((3, 3)), labels=[0, 1, -1])
    found = create("lp").fit(observe(graph, [Split([0, 1], [], [])], seed=0)).probabilities[0]
    np.testing.assert_allclose(found, [[1, 0], [0, 1], [0.5, 0.5]])
