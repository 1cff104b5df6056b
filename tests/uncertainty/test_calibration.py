import numpy as np
import pytest
from scipy.optimize import brentq

from fitted_models import Model, drawn_probabilities, with_labels
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.uncertainty.calibration import folds, temperature, temperature_from, tempered


def test_tempered_keeps_the_prediction():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    np.testing.assert_allclose(tempered(probabilities, 1), probabilities, atol=1e-6)
    for value in (0.1, 0.5, 3, 10):
        assert (tempered(probabilities, value).argmax(1) == probabilities.argmax(1)).all()
        np.testing.assert_allclose(tempered(probabilities, value).sum(1), 1)
    assert np.isfinite(tempered(np.array([[1.0, 0.0]]), 0.1)).all()


@pytest.mark.parametrize("sharpness", [0.5, 1, 2])
def test_many_labels_recover_the_temperature(sharpness):
    _, sharpened, labels = drawn_probabilities(4000, 4, seed=1, sharpness=sharpness)
    held_out = np.array_split(np.arange(4000), 5)
    found = temperature_from(sharpened, np.stack([sharpened] * 5), held_out, labels)
    assert found == pytest.approx(sharpness, rel=0.08)


@pytest.mark.parametrize(("labels", "right"), [(20, 10), (20, 20), (80, 40), (400, 300)])
def test_prior_weighs_twenty_labels(labels, right):
    # Every label is predicted with the same probability, so log τ = u is where the gradients of the prior,
    # 20 u² / 2, and of the likelihood of `right` correct labels balance: 20 u = z/τ (wrong q - right (1 - q)).
    sure = 0.9
    odds = np.log(sure / (1 - sure))

    def imbalance(u):
        z = odds / np.exp(u)
        q = 1 / (1 + np.exp(-z))
        return 20 * u - z * ((labels - right) * q - right * (1 - q))

    predicted = np.tile([sure, 1 - sure], (labels, 1))
    predicted[::2] = predicted[::2, ::-1]
    classes = predicted.argmax(1)
    classes[right:] = 1 - classes[right:]
    found = temperature_from(predicted, predicted[None], [np.arange(labels)], classes)
    assert found == pytest.approx(np.exp(brentq(imbalance, -2, 2)), rel=1e-4)


def test_a_label_is_scored_by_the_fit_without_it():
    _, sharpened, labels = drawn_probabilities(4000, 4, seed=2, sharpness=2)
    held_out = np.array_split(np.arange(4000), 4)
    fits = np.stack([sharpened] * 4)
    for fit, nodes in zip(fits, held_out, strict=True):
        others = np.setdiff1d(np.arange(4000), nodes)
        fit[others] = np.eye(4)[(labels[others] + 1) % 4]  # all wrong, but not scored
    assert temperature_from(sharpened, fits, held_out, labels) == pytest.approx(2, rel=0.08)


def test_few_labels_match_the_confidence_of_the_mean():
    fits = np.random.default_rng(3).dirichlet(np.full(3, 0.3), (6, 200))
    held_out, labels, rest = [np.array([number]) for number in range(6)], np.arange(200) % 3, np.arange(6, 200)
    value = temperature_from(fits[0], fits, held_out, labels)
    assert value > 1
    expected = fits.mean(0)[rest].max(1).mean()
    assert tempered(fits[0], value)[rest].max(1).mean() == pytest.approx(expected, abs=1e-3)
    equal = np.stack([fits[0]] * 6)
    assert temperature_from(fits[0], equal, held_out, labels) == pytest.approx(1, abs=1e-2)


def test_folds_keep_the_only_label_of_a_class(make_graph):
    graph = with_labels(make_graph(), [0, 3, 6, 9, 1, 4, 2])  # four, two and one
    assert sorted(np.concatenate(folds(graph))) == [0, 1, 3, 4, 6, 9]
    many = make_graph(nodes=90)
    assert [np.bincount(many.labels[fold]).tolist() for fold in folds(many)] == [[3, 3, 3]] * 10
    with pytest.raises(InputError, match=r"no class has a second label.*label a second node"):
        folds(with_labels(make_graph(), [0, 1, 2]))


def test_temperature_of_a_fit(make_graph):
    method = create("mt-gcn", warmup_epochs=20, teaching_epochs=20)
    value = temperature(Model(with_labels(make_graph(), range(12)), method, np.tile([0.4, 0.3, 0.3], (40, 1))))
    assert 0.1 <= value <= 10
