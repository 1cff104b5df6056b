import numpy as np
import pytest

from mtgcn.benchmark.statistics import paired_difference, summarise
from mtgcn.errors import InputError


def test_mean_and_spread_of_a_known_sample():
    summary = summarise([0.2, 0.4, 0.6])
    assert summary.mean == pytest.approx(0.4)
    assert summary.std == pytest.approx(0.2)  # sqrt((0.04 + 0 + 0.04) / (3 - 1))
    assert summary.per_run == (0.2, 0.4, 0.6)


def test_a_single_run_has_no_spread():
    summary = summarise([0.7])
    assert (summary.mean, summary.std, summary.ci95) == (0.7, 0.0, (0.7, 0.7))


def test_interval_of_two_runs_is_their_range():
    # Of the four equally likely resamples one is (0, 0) and one is (1, 1): each tail holds 25 % > 2.5 %.
    assert summarise([0.0, 1.0]).ci95 == (0.0, 1.0)


def test_interval_approaches_the_normal_one():
    sample = np.random.default_rng(1).normal(0.6, 0.1, size=400)
    low, high = summarise(sample).ci95
    standard_error = sample.std(ddof=1) / 20
    assert low == pytest.approx(sample.mean() - 1.96 * standard_error, abs=0.1 * standard_error)
    assert high == pytest.approx(sample.mean() + 1.96 * standard_error, abs=0.1 * standard_error)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(2)
    intervals = [summarise(random.uniform(size=30)).ci95 for _ in range(200)]
    covered = np.mean([low <= 0.5 <= high for low, high in intervals])
    assert 0.88 <= covered <= 0.99


def test_equal_samples_have_equal_intervals():
    sample = [0.3, 0.5, 0.9, 0.4]
    assert summarise(sample) == summarise(sample)


def test_pairing_removes_what_both_share():
    luck_of_the_split = np.random.default_rng(3).normal(0.6, 0.2, size=30)
    difference = paired_difference(luck_of_the_split + 0.01, luck_of_the_split)
    assert difference.mean == pytest.approx(0.01)
    assert difference.ci95 == pytest.approx((0.01, 0.01))


def test_samples_of_different_length_cannot_be_paired():
    with pytest.raises(InputError, match="3 runs cannot be paired with 2"):
        paired_difference([1, 2, 3], [1, 2])


def test_nothing_cannot_be_summarised():
    with pytest.raises(InputError, match="0 runs"):
        summarise([])
