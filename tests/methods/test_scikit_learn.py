"""scikit-learn's classifiers as methods: the same predictions, classes without labels, and rows without neighbours."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


@pytest.fixture(scope="module")
def graph(make_graph):
    return make_graph(nodes=60, features=5, easy=True)


def dense(graph):
    return graph.features.toarray().astype(np.float64)


def test_logistic_regression(graph):
    [split] = draw_splits(graph, 4, 1, seed=0)
    found = create("sklearn-logistic", C=0.5).fit(observe(graph, [split], seed=0)).probabilities[0]
    rows = dense(graph)
    expected = LogisticRegression(C=0.5, max_iter=2000).fit(rows[split.train], graph.labels[split.train])
    np.testing.assert_allclose(found, expected.predict_proba(rows), atol=1e-4)


@pytest.mark.parametrize("kernel_rows", [60, 59])
def test_label_spreading(graph, kernel_rows):
    """With the kernel, and beyond `kernel_rows` with neighbours, scikit-learn's own."""
    [split] = draw_splits(graph, 4, 1, seed=0)
    method = create("label-spreading", gamma=0.3, kernel_rows=kernel_rows, n_neighbors=8)
    found = method.fit(observe(graph, [split], seed=0)).probabilities[0]
    labels = np.full(60, -1)
    labels[split.train] = graph.labels[split.train]
    own = {"kernel": "rbf"} if kernel_rows == 60 else {"kernel": "knn", "n_neighbors": 8}
    expected = LabelSpreading(**own, gamma=0.3, max_iter=100).fit(dense(graph), labels).label_distributions_
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("name", ["random-forest", "gradient-boosting", "label-spreading", "sklearn-logistic-self"])
def test_class_without_label(graph, name):
    train = np.flatnonzero(graph.labels != 1)[:12]
    probabilities = create(name).fit(observe(graph, [Split(train, [], [])], seed=0)).probabilities[0]
    assert not probabilities[:, 1].any()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)


def test_unreached_rows_get_equal_probabilities():
    features = np.array([[0.0], [1.0], [2.0], [1e6]], dtype=np.float32)
    graph = Graph(np.zeros((4, 4)), features, labels=[0, 1, 1, 0])
    task = observe(graph, [Split([0, 2], [], [1, 3])], seed=0)
    assert create("label-spreading").fit(task).probabilities[0, 3].tolist() == [0.5, 0.5]
