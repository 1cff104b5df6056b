import numpy as np
import pytest
from scipy.stats import binom, binomtest

from mtgcn.uncertainty.binomial import probability_of_at_most, wilson_interval

TRIALS = (1, 2, 7, 60, 2708, 5_000_000)
SHARES = (0.0, 1e-6, 0.2, 0.25, 0.5, 0.875, 1 - 1e-6, 1.0)


def counts(trials: int) -> list[int]:
    return np.unique(np.linspace(0, trials, 25).astype(int)).tolist()


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("share", SHARES)
def test_few_successes_are_as_probable_as_scipy_says(trials, share):
    found = [probability_of_at_most(successes, trials, share) for successes in counts(trials)]
    assert found == pytest.approx(binom.cdf(counts(trials), trials, share), rel=0, abs=1e-12)


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_intervals_are_those_of_scipy(trials, confidence):
    for successes in counts(trials):
        expected = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
        assert wilson_interval(successes, trials, confidence) == pytest.approx(tuple(expected), rel=0, abs=1e-12)
