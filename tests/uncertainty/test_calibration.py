"""Temperatures known beforehand."""

import numpy as np
import pytest
from scipy.optimize import brentq

from fitted_models import Model, drawn_probabilities, with_labels
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.uncertainty.calibration import folds, temperature, temperature_from, tempered


class TestTemperature:
    def test_one_changes_nothing_and_no_temperature_changes_the_prediction(self):
        probabilities = np.random.default_rng(0).dirichlet(np.ones(4), 50)
        np.testing.assert_allclose(tempered(probabilities, 1), probabilities, atol=1e-6)
        for heat in (0.1, 0.5, 3, 10):
            assert (tempered(probabilities, heat).argmax(1) == probabilities.argmax(1)).all()
            np.testing.assert_allclose(tempered(probabilities, heat).sum(1), 1)

    def test_certainty_stays_finite(self):
        assert np.isfinite(tempered(np.array([[1.0, 0.0]]), 0.1)).all()

    @pytest.mark.parametrize("sharpness", [0.5, 1, 2])
    def test_many_held_out_labels_find_the_temperature_that_undoes_it(self, sharpness):
        _, sharpened, labels = drawn_probabilities(4000, 4, seed=1, sharpness=sharpness)
        held_out = np.array_split(np.arange(4000), 5)
        found = temperature_from(sharpened, np.stack([sharpened] * 5), held_out, labels)
        assert found == pytest.approx(sharpness, rel=0.08)

    @pytest.mark.parametrize(("labels", "right"), [(20, 10), (20, 20), (80, 40), (400, 300)])
    def test_that_it_is_one_is_held_against_the_labels_with_the_weight_of_twenty(self, labels, right):
        # Every label is told with the same probability, so that log τ = u is where its prior, 20 u² / 2, and the
        # likelihood of `right` labels among all of them balance: 20 u = z/τ (wrong q - right (1 - q)).
        sure = 0.9
        odds = np.log(sure / (1 - sure))

        def imbalance(u):
            z = odds / np.exp(u)
            q = 1 / (1 + np.exp(-z))
            return 20 * u - z * ((labels - right) * q - right * (1 - q))

        told = np.tile([sure, 1 - sure], (labels, 1))
        told[::2] = told[::2, ::-1]
        classes = told.argmax(1)
        classes[right:] = 1 - classes[right:]
        found = temperature_from(told, told[None], [np.arange(labels)], classes)
        assert found == pytest.approx(np.exp(brentq(imbalance, -2, 2)), rel=1e-4)

    def test_only_the_fit_that_lacked_a_label_is_asked_about_it(self):
        _, sharpened, labels = drawn_probabilities(4000, 4, seed=2, sharpness=2)
        held_out = np.array_split(np.arange(4000), 4)
        fits = np.stack([sharpened] * 4)
        for fit, nodes in zip(fits, held_out, strict=True):
            others = np.setdiff1d(np.arange(4000), nodes)
            fit[others] = np.eye(4)[(labels[others] + 1) % 4]  # all wrong, but never asked
        assert temperature_from(sharpened, fits, held_out, labels) == pytest.approx(2, rel=0.08)

    def test_few_labels_take_the_confidence_of_the_average_fit(self):
        random = np.random.default_rng(3)
        fits = random.dirichlet(np.full(3, 0.3), (6, 200))
        probabilities = fits[0]
        heat = temperature_from(probabilities, fits, [np.array([number]) for number in range(6)], np.arange(200) % 3)
        rest = np.arange(6, 200)
        expected = fits.mean(0)[rest].max(1).mean()
        assert heat > 1  # an average is less sure than its parts
        assert tempered(probabilities, heat)[rest].max(1).mean() == pytest.approx(expected, abs=1e-3)

    def test_fits_that_agree_leave_it_at_one(self):
        probabilities = np.random.default_rng(4).dirichlet(np.ones(3), 100)
        fits = np.stack([probabilities] * 4)
        assert temperature_from(
            probabilities, fits, [np.array([n]) for n in range(4)], np.arange(100) % 3
        ) == pytest.approx(1, abs=1e-2)

    def test_folds_hold_every_label_out_once_but_the_only_one_of_a_class(self, make_graph):
        graph = with_labels(make_graph(), [0, 3, 6, 9, 1, 4, 2])  # four, two and one
        held_out = np.concatenate(folds(graph))
        assert sorted(held_out) == [0, 1, 3, 4, 6, 9]
        many = make_graph(nodes=90)
        assert len(folds(many)) == 10
        for fold in folds(many):
            assert np.bincount(many.labels[fold]).tolist() == [3, 3, 3]

    def test_without_a_second_label_there_is_nothing_to_hold_out(self, make_graph):
        with pytest.raises(InputError, match=r"no class has a second label.*label a second node"):
            folds(with_labels(make_graph(), [0, 1, 2]))

    def test_a_real_fit_has_one(self, make_graph):
        graph = with_labels(make_graph(), range(12))
        method = create("mt-gcn", warmup_epochs=20, teaching_epochs=20)
        probabilities = np.full((graph.num_nodes, 3), 1 / 3)
        probabilities[:, 0] += 0.1
        heat = temperature(Model(graph, method, probabilities / probabilities.sum(1, keepdims=True)))
        assert 0.1 <= heat <= 10
