import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from mtgcn.linalg import logistic_regression
from mtgcn.linalg.logistic_regression import LinearClassifiers, labelled_rows, one_vs_rest, probabilities
from mtgcn.task import Nodes

CLASSES = 3


@pytest.fixture(params=[4, 60], ids=["fewer features than examples", "more features than examples"])
def features(request):
    return np.random.default_rng(0).normal(size=(30, request.param))


@pytest.fixture
def labels():
    return np.random.default_rng(1).permutation(np.arange(30) % CLASSES)


def two_runs(labels):
    return Nodes.of([np.arange(20), np.arange(12, 25)], labels)


def fitted(features, labelled, strength=2.0):
    return one_vs_rest(labelled_rows(features, labelled), labelled, CLASSES, strength)


def test_it_is_where_the_gradient_vanishes(features, labels):
    # w = C Σ (y - p) (x, 1): the condition for a minimum of a convex function.
    found = fitted(features, two_runs(labels))
    for run, nodes in enumerate((np.arange(20), np.arange(12, 25))):
        x = np.column_stack([features[nodes], np.ones(len(nodes))])
        coefficients = np.vstack([found.weights[run], found.constants[run]])
        belongs = labels[nodes][:, None] == np.arange(CLASSES)
        np.testing.assert_allclose(2.0 * x.T @ (belongs - expit(x @ coefficients)), coefficients, atol=1e-9)


def test_it_is_what_liblinear_finds(features, labels):
    found = fitted(features, two_runs(labels))
    liblinear = LogisticRegression(C=2.0, solver="liblinear", tol=1e-10, max_iter=10_000)
    expected = OneVsRestClassifier(liblinear).fit(features[:20], labels[:20]).predict_proba(features)
    np.testing.assert_allclose(probabilities(found.scores(features))[0], expected, atol=1e-6)


def test_steps_that_lead_too_far_are_halved(monkeypatch):
    # Features of very different sizes and a penalty of next to nothing: found by search among such draws.
    random = np.random.default_rng(2117)
    examples, inputs = int(random.integers(4, 40)), int(random.integers(1, 4))
    features = random.standard_cauchy(size=(examples, inputs))
    labels = (random.random(examples) < 0.2).astype(np.int64)
    labelled = Nodes.of([np.arange(examples)], labels)

    def slope():
        found = one_vs_rest(labelled_rows(features, labelled), labelled, 2, 1000.0)
        x = np.column_stack([features, np.ones(examples)])
        coefficients = np.vstack([found.weights[0], found.constants[0]])
        belongs = labels[:, None] == np.arange(2)
        return np.abs(1000.0 * x.T @ (belongs - expit(x @ coefficients)) - coefficients).max()

    assert slope() < 1e-6
    monkeypatch.setattr(logistic_regression, "MAX_HALVINGS", 0)
    with np.errstate(all="ignore"):
        assert not slope() < 1


def test_runs_do_not_depend_on_each_other(features, labels):
    together, alone = fitted(features, two_runs(labels)), fitted(features, two_runs(labels)[1:])
    # 20 places in either case, 7 of them nobody's in the second run.
    assert np.array_equal(together[1:].weights, alone.weights)
    without_nobody = fitted(features, Nodes.of([np.arange(12, 25)], labels))
    np.testing.assert_allclose(alone.weights, without_nobody.weights, atol=1e-12)


def test_sparse_and_dense_features_are_alike(features, labels):
    labelled = two_runs(labels)
    sparse = sp.csr_array(features)
    assert np.array_equal(labelled_rows(sparse, labelled), labelled_rows(features, labelled))
    np.testing.assert_allclose(fitted(features, labelled).scores(sparse), fitted(features, labelled).scores(features))


def test_a_class_without_labels_is_unlikely_and_no_labels_say_nothing(features):
    one_class = Nodes.of([np.array([0, 1])], np.zeros(30, dtype=np.int64))
    found = probabilities(fitted(np.zeros((30, 3)), one_class).scores(np.zeros((1, 3))))[0, 0]
    assert found[0] > 0.5 > found[1] == found[2]
    nobody = Nodes(one_class.index.fill_(-1), one_class.classes)
    np.testing.assert_allclose(probabilities(fitted(features, nobody).scores(features)), 1 / CLASSES)


def test_probabilities_survive_scores_far_below_zero():
    np.testing.assert_allclose(probabilities(np.array([-1e5, -1e5, -2e5])), [0.5, 0.5, 0])
    np.testing.assert_allclose(probabilities(np.array([np.log(3), 0.0])), [0.6, 0.4])  # 3/4 against 1/2


def test_scores_of_each_run():
    classifiers = LinearClassifiers(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    expected = [[[5.0, 11.0], [0.0, 1.0]], [[17.0, 23.0], [2.0, 3.0]]]
    assert np.array_equal(classifiers.scores(np.array([[5.0], [0.0]])), expected)


@pytest.mark.parametrize("width", [2, 6])  # fewer features than examples, and more
def test_features_of_any_size_have_a_solution(width):
    rows = np.random.default_rng(0).normal(size=(1, 4, width))
    rows[..., 1] *= 1e15
    labelled = Nodes(torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 0, 1]]))
    found = one_vs_rest(rows, labelled, 2, strength=1.0)
    scores = found.scores(rows[0])
    assert np.isfinite(scores).all()
    assert (scores[0].argmax(axis=1) == [0, 1, 0, 1]).mean() >= 0.5


def test_where_rounding_makes_a_system_singular_the_shortest_solution_is_taken():
    singular = np.array([[[1.0, 1.0], [1.0, 1.0]]])
    np.testing.assert_allclose(logistic_regression._solution(singular, np.array([[2.0, 2.0]])), [[1.0, 1.0]])
