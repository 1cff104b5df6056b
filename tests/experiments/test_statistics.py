"""Intervals, paired tests and ranks, by hand and against SciPy."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, t, wilcoxon

from mtgcn.errors import InputError
from mtgcn.experiments import statistics
from mtgcn.experiments.store import read_units

STORED = Path(__file__).parents[2] / "docs" / "reproduction"
T1 = 12.706  # 97.5 % quantile of t with one degree of freedom


@pytest.mark.parametrize(
    ("sample", "mean", "std", "interval"),
    [
        ([0.7], 0.7, 0, (0.7, 0.7)),
        ([0.0, 1.0], 0.5, 0.5**0.5, (0.5 - T1 / 2, 0.5 + T1 / 2)),
        ([0.2, 0.4, 0.6], 0.4, 0.2, (0.4 - 4.3027 * 0.2 / 3**0.5, 0.4 + 4.3027 * 0.2 / 3**0.5)),
        ([0.1] * 7, 0.1, 0, (0.1, 0.1)),
    ],
)
def test_summarise_by_hand(sample, mean, std, interval):
    summary = statistics.summarise(sample)
    assert (summary.mean, summary.std) == pytest.approx((mean, std))
    assert summary.ci95 == pytest.approx(interval, abs=1e-3)
    assert summary.per_run == tuple(sample)
    assert statistics.summarise(sample) == summary
    assert statistics.summarise_share(sample).ci95 == tuple(np.clip(summary.ci95, 0, 1))


def test_bootstrap_t():
    skewed = np.array([0.7, 0.71, 0.72, 0.7, 0.71, 0.4])  # one split far worse than the others
    low, high = statistics.bootstrap_t_interval(skewed)
    assert skewed.mean() - low > 2 * (high - skewed.mean())
    assert statistics.bootstrap_t_interval(-skewed) == pytest.approx((-high, -low))
    assert statistics.bootstrap_t_interval(np.array([0.2, 0.4, 0.6])) == pytest.approx((0.4, 0.4))  # few runs
    assert statistics.bootstrap_t_interval(np.full(9, 0.3)) == pytest.approx((0.3, 0.3))


def coverage(samples, interval):
    """Share of the intervals that contain the true mean, 0."""
    return np.mean([low <= 0 <= high for low, high in map(interval, samples)])


def summary_interval(*sample):
    return statistics.summarise(*sample).ci95


def least_coverage(experiments):
    """94 % minus three standard errors. (Over 20 000 samples of 5 and of 10 stored runs the coverage is 94.5 and
    94.1 %, over 6000 of 30 runs 94.9.)"""
    return 0.94 - 3 * np.sqrt(0.94 * 0.06 / experiments)


def percentile_bootstrap(sample):
    drawn = np.random.default_rng(0).integers(len(sample), size=(500, len(sample)))
    return np.percentile(sample[drawn].mean(axis=1), [2.5, 97.5])


@pytest.fixture(scope="module")
def populations():
    """Accuracies of mt-gcn and mt-plus on 100 splits of every cell, centred; skewed, as accuracies are."""
    found = defaultdict(list)
    for rows in read_units(STORED / "final").values():
        found[rows[0].unit] += [row.accuracy for row in rows]
    accuracies = np.array(list(found.values()))
    assert accuracies.shape == (28, 100)
    return accuracies - accuracies.mean(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "experiments"), [(5, 800), (10, 800), (30, 300), (100, 200)])
def test_coverage(runs, experiments, populations, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    random = np.random.default_rng(runs)
    of_cells = random.integers(len(populations), size=experiments)
    samples = populations[of_cells[:, None], random.integers(100, size=(experiments, runs))]
    assert coverage(samples, summary_interval) >= least_coverage(experiments)
    if runs <= 10:  # the usual intervals are too narrow
        assert coverage(samples[:300], percentile_bootstrap) <= 0.9
        assert coverage(samples, lambda sample: statistics.grouped_interval(sample, np.arange(runs))) <= 0.935
    normal = random.normal(size=(300, runs))
    assert least_coverage(300) <= coverage(normal, summary_interval) <= 0.98  # nor is it merely wide


def grouped_sample(groups, runs, between, random):
    """Runs with mean 0, in groups of nearly equal size with standard deviations `between` and, within, 1."""
    group_of = np.arange(runs) % groups
    return random.normal(0, between, size=groups)[group_of] + random.normal(size=runs), group_of


@pytest.mark.slow
@pytest.mark.parametrize("between", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("runs", "groups"), [(5, 3), (10, 5), (30, 5), (100, 5)])
def test_coverage_with_groups(runs, groups, between, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    random = np.random.default_rng(4)
    samples = [grouped_sample(groups, runs, between, random) for _ in range(200)]
    assert coverage(samples, lambda sample: summary_interval(*sample)) >= least_coverage(200)
    if between == 2 and runs >= 30:  # taking all runs for independent is too narrow
        assert coverage(samples, lambda sample: summary_interval(sample[0])) <= 0.8


def test_grouped_interval_of_equal_groups():
    random = np.random.default_rng(5)
    sample, groups = grouped_sample(groups=4, runs=24, between=1, random=random)
    means = sample.reshape(6, 4).mean(axis=0)
    expected = t.interval(0.95, df=3, loc=means.mean(), scale=means.std(ddof=1) / 2)
    assert statistics.grouped_interval(sample, groups) == pytest.approx(expected)
    shuffled = random.permutation(24)
    assert statistics.grouped_interval(sample[shuffled], groups[shuffled] + 7) == pytest.approx(expected)


def test_grouped_interval_of_unequal_groups():
    # Mean 1; the errors of the groups are (0 - 1) 3 / 4 and (4 - 1) / 4, so the variance of the mean is 2 x 2 x 9 / 16.
    interval = statistics.grouped_interval(np.array([0.0, 0.0, 0.0, 4.0]), np.array([0, 0, 0, 1]))
    assert interval == pytest.approx((1 - T1 * 1.5, 1 + T1 * 1.5), abs=1e-3)


@pytest.mark.parametrize(
    ("sample", "groups"),
    [
        *(([0.3, 0.5, 0.9, 0.4], groups) for groups in (None, [0, 1, 2, 3], [5, 5, 5, 5])),
        ([0.0, 1.0, 0.0, 1.0], [0, 0, 1, 1]),  # equal group means: groups never narrow the interval
    ],
)
def test_groups_that_change_nothing(sample, groups):
    assert statistics.summarise(sample, groups) == statistics.summarise(sample)


def test_paired_difference_uses_groups_of_both():
    one, other = np.random.default_rng(7).normal(size=(2, 6))
    groupings = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    lows, highs = zip(*(statistics.paired_difference(one, other, groups).ci95 for groups in groupings), strict=True)
    difference = statistics.paired_difference(one, other, *groupings)
    assert difference.ci95 == (min(lows), max(highs))


def test_invalid_samples():
    with pytest.raises(InputError, match="3 runs cannot be paired with 2"):
        statistics.paired_difference([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="0 runs"):
        statistics.summarise([])


# Only rank 1 of 5 is negative: 2 of 32 patterns have a sum of negative ranks of at most 1, and 2 at the other end.
ONE_NEGATIVE = [-0.1, 0.2, 0.3, 0.4, 0.5]
NORMAL = [np.random.default_rng(size).normal(0.3, 1, size=size) for size in (5, 12, 30)]
TIED = np.random.default_rng(0).integers(-3, 6, size=30) / 1000


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        (ONE_NEGATIVE, 4 / 32),
        ([0.0, *ONE_NEGATIVE], 4 / 32),  # zeros are left out
        ([0.0, 0.0], 1),
        *((sample, wilcoxon(sample, method="exact").pvalue) for sample in NORMAL),
        (TIED, wilcoxon(TIED[TIED != 0]).pvalue),
    ],
)
def test_signed_rank(differences, p_value):
    assert statistics.signed_rank_p_value(differences) == pytest.approx(p_value)


def test_paired_tests_by_hand():
    better, equal, reference = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.25] * 6, [0.0, 0.1, 0.1, 0.1, 0.1, 0.1]
    differences = [statistics.paired_difference(*pair) for pair in ((better, reference), (equal, equal))]
    one, two = statistics.paired_tests(differences)
    assert one.difference.per_run == pytest.approx((0.1, 0.1, 0.2, 0.3, 0.4, 0.5))
    assert (one.p_value, one.p_corrected) == pytest.approx((2 / 2**6, 4 / 2**6))  # 2 of the patterns; two tests
    assert (two.p_value, two.p_corrected) == (1, 1)
    [alone] = statistics.paired_tests(differences[:1])
    assert (alone.is_significant, one.is_significant) == (True, False)


@pytest.mark.parametrize(("methods", "q"), [(3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_demsars_constants(methods, q):
    # Table 5a of Demšar (2006).
    assert statistics.critical_difference(methods, cells=14) == pytest.approx(
        q * np.sqrt(methods * (methods + 1) / 84), abs=1e-3
    )


def test_ranks_by_hand():
    accuracy = [[0.9, 0.5, 0.7], [0.8, 0.6, 0.6], [0.7, 0.5, 0.6], [0.6, 0.7, 0.5]]
    comparison = statistics.compare_ranks(np.array(accuracy), ["a", "b", "c"])
    # a: 1, 1, 1, 2; b: 3, 2.5, 3, 1; c: 2, 2.5, 2, 3.
    assert comparison.average_ranks == pytest.approx((1.25, 2.375, 2.375))
    assert comparison.friedman_p_value == pytest.approx(friedmanchisquare(*np.transpose(accuracy)).pvalue)
    assert comparison.critical_difference == pytest.approx(2.343 * np.sqrt(12 / 24), abs=1e-3)
    assert statistics.compare_ranks(np.full((3, 4), 0.5), list("abcd")).friedman_p_value == 1
    assert statistics.compare_ranks(np.tile([0.9, 0.8, 0.7], (40, 1)), list("abc")).friedman_p_value < 1e-10


def test_intervals_of_ranks_resample_blocks():
    # a is first in both cells of the first block, last in the only cell of the second.
    accuracy = np.array([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    assert statistics.compare_ranks(accuracy, list("abc")).intervals == {}
    assert statistics.compare_ranks(accuracy, list("abc"), ["x"] * 3).intervals == {}  # one block has no spread
    comparison = statistics.compare_ranks(accuracy, list("abc"), ["x", "x", "y"])
    assert comparison.intervals == {"a": (1, 3), "b": (2, 2), "c": (1, 3)}
    assert comparison.behind == {"a": (0, 0), "b": (-1, 1), "c": (-2, 2)}


def test_margin_over_best():
    samples = {"mine": [0.5, 0.6, 0.9], "best": [0.4, 0.6], "other": [0.1, 0.2, 0.3]}
    margin = statistics.margin_over_best(samples, "mine")
    assert (margin.opponent, margin.opponents) == ("best", 2)
    assert margin.difference.per_run == pytest.approx((0.1, 0))  # the third run has no counterpart
    groups = {"mine": (0, 0, 1), "best": (0, 1)}
    assert statistics.margin_over_best(samples, "mine", groups).difference == margin.difference
    assert statistics.margin_over_best(samples, "best").opponent == "mine"


@pytest.mark.parametrize(
    ("accuracy", "methods", "ranks", "groups"),
    [
        # The critical difference of six methods in 40 cells is 2.850 sqrt(42 / 240) = 1.19.
        ([[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]] * 40, "abcdef", (1, 2, 3, 4, 5, 6), ("ab", "bc", "cd", "de", "ef")),
        ([[0.9, 0.8, 0.1], [0.8, 0.9, 0.1]] * 20, "abc", (1.5, 1.5, 3), ("ab",)),
        ([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]], "cab", (1, 2.5, 2.5), ("cab",)),
    ],
)
def test_rank_groups(accuracy, methods, ranks, groups):
    comparison = statistics.compare_ranks(np.array(accuracy), sorted(methods))
    assert (comparison.methods, comparison.average_ranks) == (tuple(methods), ranks)
    assert comparison.groups == tuple(map(tuple, groups))


@pytest.mark.parametrize(("shape", "names"), [((1, 3), "abc"), ((4, 2), "ab"), ((4, 3), "ab")])
def test_ranks_need_cells_and_methods(shape, names):
    with pytest.raises(InputError, match="cannot be ranked; give at least 2 cells and 3 methods"):
        statistics.compare_ranks(np.zeros(shape), list(names))
