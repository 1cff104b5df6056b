import numpy as np
import pytest
import torch

from mtgcn.training.calibration import AccuracyPrior, matching_temperature, temper_, tempered


def test_distribution():
    prior = AccuracyPrior(accuracy=0.5, labels=4, label_worth=0.5, max_labels=100)
    assert prior.distribution(0.3, 0) == (2, 2)
    assert prior.distribution(0.8, 100) == pytest.approx((2 + 25 * 0.8, 2 + 25 * 0.2))  # 100 · 0.5 / (1 + 100 / 100)
    right, wrong = prior.distribution(0.8, 1e9)
    assert right + wrong == pytest.approx(4 + 50)  # many labels count as label_worth · max_labels


def test_matching_temperature():
    # Two classes with odds x have odds x^(1/T). The confidences are 0.9 and 0.5; the last node does not count.
    probabilities = torch.tensor([[[0.9, 0.1], [0.5, 0.5], [0.01, 0.99]]], dtype=torch.float64)
    counted = torch.tensor([[True, True, False]])
    for temperature in (0.5, 1.0, 2.0):
        odds = 9 ** (1 / temperature)
        mean = torch.tensor([(odds / (1 + odds) + 0.5) / 2], dtype=torch.float64)
        assert matching_temperature(probabilities, mean, counted).item() == pytest.approx(temperature, rel=1e-4)
    for unreachable, bound in ((0.2, 10), (1.0, 0.1)):
        found = matching_temperature(probabilities, torch.tensor([unreachable]).double(), counted)
        assert found.item() == pytest.approx(bound, rel=1e-3)


def test_tempered_keeps_the_prediction():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(4), (2, 50))
    for values in ([1.0, 1.0], [0.1, 3.0], [0.5, 10.0]):
        found = tempered(probabilities, np.array(values))
        assert (found.argmax(-1) == probabilities.argmax(-1)).all()
        np.testing.assert_allclose(found.sum(-1), 1)
        np.testing.assert_allclose(found[1], tempered(probabilities[1], values[1]))
        in_place = torch.from_numpy(probabilities.copy())
        temper_(in_place, torch.tensor(values))
        np.testing.assert_allclose(in_place, found)
    np.testing.assert_allclose(tempered(probabilities, 1), probabilities, atol=1e-6)
    assert np.isfinite(tempered(np.array([[1.0, 0.0]]), 0.1)).all()
