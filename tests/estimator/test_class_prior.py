"""Class shares to which probabilities are corrected."""

import numpy as np
import pytest

from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.class_prior import corrected, parsed_prior, prior_factors

NAMES, COUNTS = ("a", "b"), np.array([5, 5])


def drawn(share, nodes=20_000):
    """Calibrated probabilities of a classifier for even classes, and classes of which `share` are b."""
    random = np.random.default_rng(0)
    truth = (random.random(nodes) < share).astype(int)
    logit = 2 * (2 * truth - 1) + 2 * random.standard_normal(nodes)  # log of the ratio of two normal densities
    positive = 1 / (1 + np.exp(-logit))
    return np.column_stack([1 - positive, positive]), truth


def test_given_shares_are_met():
    probabilities, _ = drawn(0.5)
    factors = prior_factors({"a": 0.9, "b": 0.1}, probabilities, NAMES, COUNTS)
    assert corrected(probabilities, factors).mean(axis=0) == pytest.approx([0.9, 0.1], abs=1e-4)
    labelled = prior_factors("labelled", probabilities, NAMES, np.array([3, 1]))
    assert corrected(probabilities, labelled).mean(axis=0) == pytest.approx([0.75, 0.25], abs=1e-4)
    assert prior_factors(None, probabilities, NAMES, COUNTS) is None


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_shares_are_estimated(share):
    probabilities, truth = drawn(share)
    found = corrected(probabilities, prior_factors("estimated", probabilities, NAMES, COUNTS))
    assert found[:, 1].mean() == pytest.approx(truth.mean(), abs=0.02)
    assert (found.argmax(1) == truth).mean() >= (probabilities.argmax(1) == truth).mean()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({"a": 1.0}, "'b' is missing; give a share of each of a, b"),
        ({"a": 0.5, "b": 0.3, "c": 0.2}, "'c' is not a class"),
        ({"a": 0.5, "b": 0.3}, r"shares \[0.5, 0.3\] sum to 0.8; give shares above 0"),
        ({"a": 1.0, "b": 0.0}, "give shares above 0"),
        ({"a": "half", "b": "half"}, "give shares such as a=0.2,b=0.8"),
        ("uniform", "class prior 'uniform'; give shares such as a=0.2,b=0.8, 'labelled' or 'estimated'"),
    ],
)
def test_invalid_priors(prior, message):
    with pytest.raises(InputError, match=message):
        prior_factors(prior, np.full((4, 2), 0.5), NAMES, COUNTS)


def test_parsed_prior():
    assert parsed_prior("x=y=0.5,b=0.5") == {"x=y": 0.5, "b": 0.5}
    assert parsed_prior("estimated") == "estimated"
    with pytest.raises(InputError, match="class prior 'a:1'; give shares"):
        parsed_prior("a:1")


def test_classifier_keeps_its_prior(tmp_path):
    random = np.random.default_rng(0)
    table = random.standard_normal((60, 3)) + np.repeat([[0.0], [1.0]], 30, axis=0)
    y = np.full(60, -1)
    y[[0, 1, 2, 30, 31, 32]] = [0, 0, 0, 1, 1, 1]
    plain = MutualTeachingClassifier("logistic", random_state=0).fit(table, y)
    model = MutualTeachingClassifier("logistic", class_prior={0: 0.7, 1: 0.3}, random_state=0).fit(table, y)
    assert model.label_distributions_.mean(axis=0) == pytest.approx([0.7, 0.3], abs=1e-4)
    new = random.standard_normal((5, 3)) + 0.5
    expected = corrected(plain.predict_proba(new), model.class_factors_)
    assert model.predict_proba(new) == pytest.approx(expected)
    model.save(tmp_path / "model")
    assert MutualTeachingClassifier.load(tmp_path / "model").predict_proba(new) == pytest.approx(expected)
    assert model.scorer()(new[0]) == pytest.approx(expected[0], abs=1e-6)
