import numpy as np
import pytest
import torch
from scipy.special import expit

from mtgcn.linalg import logistic_regression
from mtgcn.linalg.logistic_regression import LinearClassifiers, labelled_rows, one_vs_rest, probabilities
from mtgcn.task import Nodes

CLASSES = 3
TRAIN = np.arange(20), np.arange(12, 25)


@pytest.fixture(params=[4, 60], ids=["fewer features than examples", "more features than examples"])
def features(request):
    return np.random.default_rng(0).normal(size=(30, request.param))


@pytest.fixture
def labels():
    return np.random.default_rng(1).permutation(np.arange(30) % CLASSES)


def fitted(features, labelled, strength=2.0, classes=CLASSES):
    return one_vs_rest(labelled_rows(features, labelled), labelled, classes, strength)


def gradient(features, labels, found, run, strength):
    """C Σ (y - p) (x, 1) - w, which vanishes at the minimum."""
    x = np.column_stack([features, np.ones(len(features))])
    coefficients = np.vstack([found.weights[run], found.constants[run]])
    belongs = labels[:, None] == np.arange(coefficients.shape[1])
    return strength * x.T @ (belongs - expit(x @ coefficients)) - coefficients


def test_gradient_vanishes(features, labels):
    found = fitted(features, Nodes.of(TRAIN, labels))
    for run, nodes in enumerate(TRAIN):
        assert np.abs(gradient(features[nodes], labels[nodes], found, run, 2.0)).max() < 1e-9


def test_steps_that_overshoot_are_halved(monkeypatch):
    # Heavy-tailed features and hardly any penalty; the seed was found by search.
    random = np.random.default_rng(2117)
    examples, inputs = int(random.integers(4, 40)), int(random.integers(1, 4))
    features = random.standard_cauchy(size=(examples, inputs))
    labels = (random.random(examples) < 0.2).astype(np.int64)
    labelled = Nodes.of([np.arange(examples)], labels)

    def slope():
        found = fitted(features, labelled, 1000.0, classes=2)
        return np.abs(gradient(features, labels, found, 0, 1000.0)).max()

    assert slope() < 1e-6
    monkeypatch.setattr(logistic_regression, "MAX_HALVINGS", 0)
    with np.errstate(all="ignore"):
        assert not slope() < 1


def test_runs_are_independent_and_padding_is_ignored(features, labels):
    together, alone = fitted(features, Nodes.of(TRAIN, labels)), fitted(features, Nodes.of(TRAIN, labels)[1:])
    assert np.array_equal(together[1:].weights, alone.weights)
    np.testing.assert_allclose(alone.weights, fitted(features, Nodes.of(TRAIN[1:], labels)).weights, atol=1e-12)


def test_missing_classes_and_missing_labels(features):
    one_class = Nodes.of([np.array([0, 1])], np.zeros(30, dtype=np.int64))
    found = probabilities(fitted(np.zeros((30, 3)), one_class).scores(np.zeros((1, 3))))[0, 0]
    assert found[0] > 0.5 > found[1] == found[2]
    unlabelled = Nodes(one_class.index.fill_(-1), one_class.classes)
    np.testing.assert_allclose(probabilities(fitted(features, unlabelled).scores(features)), 1 / CLASSES)


def test_probabilities_do_not_underflow():
    np.testing.assert_allclose(probabilities(np.array([-1e5, -1e5, -2e5])), [0.5, 0.5, 0])
    np.testing.assert_allclose(probabilities(np.array([np.log(3), 0.0])), [0.6, 0.4])  # 3/4 against 1/2


def test_scores_by_hand():
    classifiers = LinearClassifiers(np.array([[[1.0, 2.0]], [[3.0, 4.0]]]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    expected = [[[5.0, 11.0], [0.0, 1.0]], [[17.0, 23.0], [2.0, 3.0]]]
    assert np.array_equal(classifiers.scores(np.array([[5.0], [0.0]])), expected)


@pytest.mark.parametrize("width", [2, 6])  # fewer features than examples, and more
def test_huge_features_have_a_solution(width):
    rows = np.random.default_rng(0).normal(size=(1, 4, width))
    rows[..., 1] *= 1e15
    labelled = Nodes(torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 0, 1]]))
    scores = one_vs_rest(rows, labelled, 2, strength=1.0).scores(rows[0])
    assert np.isfinite(scores).all()
    assert (scores[0].argmax(axis=1) == [0, 1, 0, 1]).mean() >= 0.5
