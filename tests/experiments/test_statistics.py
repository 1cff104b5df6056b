from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, t, wilcoxon

from mtgcn.errors import InputError
from mtgcn.experiments import statistics
from mtgcn.experiments.statistics import (
    bootstrap_t_interval,
    compare_ranks,
    critical_difference,
    grouped_interval,
    holm_corrected,
    paired_difference,
    paired_tests,
    signed_rank_p_value,
    student_interval,
    summarise,
    summarise_share,
)
from mtgcn.experiments.store import read_units

STORED = Path(__file__).parents[2] / "docs" / "reproduction"


def test_mean_and_spread_of_a_known_sample():
    summary = summarise([0.2, 0.4, 0.6])
    assert summary.mean == pytest.approx(0.4)
    assert summary.std == pytest.approx(0.2)  # sqrt((0.04 + 0 + 0.04) / (3 - 1))
    assert summary.per_run == (0.2, 0.4, 0.6)


def test_single_run():
    summary = summarise([0.7])
    assert (summary.mean, summary.std, summary.ci95) == (0.7, 0.0, (0.7, 0.7))


def test_interval_of_two_runs():
    # Half their distance is their standard error, and t of one degree of freedom at 97.5 % is 12.7.
    assert summarise([0.0, 1.0]).ci95 == pytest.approx((0.5 - 12.706 / 2, 0.5 + 12.706 / 2), abs=1e-3)


def test_equal_runs():
    assert summarise([0.1] * 7).ci95 == pytest.approx((0.1, 0.1), abs=1e-12)


def test_interval_of_many_runs_is_normal():
    sample = np.random.default_rng(1).normal(0.6, 0.1, size=400)
    low, high = summarise(sample).ci95
    standard_error = sample.std(ddof=1) / 20
    assert low == pytest.approx(sample.mean() - 1.96 * standard_error, abs=0.15 * standard_error)
    assert high == pytest.approx(sample.mean() + 1.96 * standard_error, abs=0.15 * standard_error)


def test_bootstrap_t_is_skewed():
    skewed = np.array([0.7, 0.71, 0.72, 0.7, 0.71, 0.4])  # one split far worse than the others
    low, high = bootstrap_t_interval(skewed)
    assert skewed.mean() - low > 2 * (high - skewed.mean())
    turned = bootstrap_t_interval(-skewed)
    assert turned == pytest.approx((-high, -low))


def test_interval_of_a_share_is_clipped():
    assert summarise_share([0.0, 1.0]).ci95 == (0.0, 1.0)
    assert summarise_share([0.5, 0.6, 0.7]) == summarise([0.5, 0.6, 0.7])


def test_bootstrap_t_of_few_or_equal_runs():
    assert bootstrap_t_interval(np.array([0.2, 0.4, 0.6])) == pytest.approx((0.4, 0.4))
    assert bootstrap_t_interval(np.full(9, 0.3)) == pytest.approx((0.3, 0.3))


def covered(samples, truth, interval):
    """How often an interval holds the true mean."""
    found = [interval(sample) for sample in samples]
    return np.mean([low <= truth <= high for low, high in found])


def promised(experiments):
    """The least share that is within three standard errors of 94 %. (Of 20 000 samples of 5 and of 10 stored runs the
    interval covers 94.5 and 94.1 %, of 6000 of 30 runs 94.9.)"""
    return 0.94 - 3 * np.sqrt(0.94 * 0.06 / experiments)


def percentile_bootstrap(sample):
    drawn = np.random.default_rng(0).integers(len(sample), size=(500, len(sample)))
    return np.percentile(sample[drawn].mean(axis=1), [2.5, 97.5])


@pytest.fixture(scope="module")
def stored_accuracies():
    """Of mt-gcn and mt-plus on 100 splits of every cell, skewed as accuracies are: taken for whole populations."""
    found = defaultdict(list)
    for rows in read_units(STORED / "final").values():
        found[rows[0].unit] += [row.accuracy for row in rows]
    assert len(found) == 28
    assert {len(one) for one in found.values()} == {100}
    return np.array(list(found.values()))


@pytest.mark.parametrize(("runs", "experiments"), [(5, 3000), (10, 3000), (30, 1500), (100, 1000)])
def test_coverage(runs, experiments, stored_accuracies, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 1000)
    random = np.random.default_rng(runs)
    populations = stored_accuracies - stored_accuracies.mean(axis=1, keepdims=True)
    of_cells = random.integers(len(populations), size=experiments)
    samples = populations[of_cells[:, None], random.integers(100, size=(experiments, runs))]
    assert covered(samples, 0, lambda sample: summarise(sample).ci95) >= promised(experiments)
    if runs <= 10:  # where those that are usual for such tables promise too much
        assert covered(samples[:1000], 0, percentile_bootstrap) <= 0.9
        assert covered(samples, 0, student_interval) <= 0.935
    bell = random.normal(size=(1000, runs))
    assert promised(1000) <= covered(bell, 0, lambda sample: summarise(sample).ci95) <= 0.98  # nor is it merely wide


def experiments_with_groups(count, groups, runs, between, random):
    """Runs about a true mean of 0, in groups that differ by `between` and within which runs differ by 1; as evenly
    large groups as there can be."""
    of_runs = np.arange(runs) % groups
    for _ in range(count):
        yield random.normal(0, between, size=groups)[of_runs] + random.normal(size=runs), of_runs


@pytest.mark.parametrize("between", [0.0, 0.5, 2.0])
@pytest.mark.parametrize(("runs", "groups"), [(5, 3), (10, 5), (30, 5), (100, 5)])
def test_coverage_with_groups(runs, groups, between, monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 500)
    made = list(experiments_with_groups(500, groups, runs, between, np.random.default_rng(4)))
    held = [summarise(sample, of_runs).ci95 for sample, of_runs in made]
    assert np.mean([low <= 0 <= high for low, high in held]) >= promised(len(made))
    if between == 2 and runs >= 30:  # where taking all runs for independent promises too much
        assert covered([sample for sample, _ in made], 0, lambda sample: summarise(sample).ci95) <= 0.8


def test_grouped_interval_of_equal_groups():
    sample, groups = next(experiments_with_groups(1, groups=4, runs=24, between=1, random=np.random.default_rng(5)))
    means = sample.reshape(6, 4).mean(axis=0)
    expected = t.interval(0.95, df=3, loc=means.mean(), scale=means.std(ddof=1) / 2)
    assert grouped_interval(sample, groups) == pytest.approx(expected)
    shuffled = np.random.default_rng(6).permutation(24)
    assert grouped_interval(sample[shuffled], groups[shuffled] + 7) == pytest.approx(expected)


def test_grouped_interval_of_unequal_groups():
    # Mean 1; the errors of the groups are (0 - 1) 3 / 4 and (4 - 1) / 4, so the variance of the mean is 2 x 2 x 9 / 16.
    low, high = grouped_interval(np.array([0.0, 0.0, 0.0, 4.0]), np.array([0, 0, 0, 1]))
    assert (low, high) == pytest.approx((1 - t.ppf(0.975, 1) * 1.5, 1 + t.ppf(0.975, 1) * 1.5))


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 3], [5, 5, 5, 5]])
def test_trivial_groups_change_nothing(groups):
    sample = [0.3, 0.5, 0.9, 0.4]
    assert summarise(sample, groups) == summarise(sample)


def test_groups_never_narrow_the_interval():
    sample = [0.0, 1.0, 0.0, 1.0]  # whose groups have equal means, as happens by luck
    assert summarise(sample, [0, 0, 1, 1]).ci95 == summarise(sample).ci95


def test_paired_difference_uses_groups_of_both():
    one, other = np.random.default_rng(7).normal(size=(2, 6))
    mine, theirs = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    each = [paired_difference(one, other, groups).ci95 for groups in (mine, theirs)]
    low, high = paired_difference(one, other, mine, theirs).ci95
    assert (low, high) == (min(low for low, _ in each), max(high for _, high in each))
    [test] = paired_tests([one], [other], [(mine, theirs)])
    assert test.difference.ci95 == (low, high)
    assert test.p_value == signed_rank_p_value(one - other)  # which does not know of groups


def test_equal_samples_have_equal_intervals():
    sample = [0.3, 0.5, 0.9, 0.4]
    assert summarise(sample) == summarise(sample)


def test_pairing_cancels_common_variation():
    split_effect = np.random.default_rng(3).normal(0.6, 0.2, size=30)
    difference = paired_difference(split_effect + 0.01, split_effect)
    assert difference.mean == pytest.approx(0.01)
    assert difference.ci95 == pytest.approx((0.01, 0.01))


def test_pairing_needs_equal_lengths():
    with pytest.raises(InputError, match="3 runs cannot be paired with 2"):
        paired_difference([1, 2, 3], [1, 2])


def test_summarise_needs_runs():
    with pytest.raises(InputError, match="0 runs"):
        summarise([])


@pytest.mark.parametrize("size", [5, 12, 30])
def test_signed_rank_is_exact(size):
    differences = np.random.default_rng(size).normal(0.3, 1, size=size)
    assert signed_rank_p_value(differences) == pytest.approx(wilcoxon(differences, method="exact").pvalue)


def test_signed_rank_by_hand():
    # Ranks 1 to 5 with only rank 1 negative: of 32 patterns, those with a sum of negative ranks of 0 or 1 are
    # 2, and as many at the other end.
    assert signed_rank_p_value([-0.1, 0.2, 0.3, 0.4, 0.5]) == pytest.approx(4 / 32)


def test_signed_rank_ignores_zeros():
    assert signed_rank_p_value([0.0, 0.0]) == 1
    assert signed_rank_p_value([0.0, -0.1, 0.2, 0.3, 0.4, 0.5]) == signed_rank_p_value([-0.1, 0.2, 0.3, 0.4, 0.5])


def test_signed_rank_with_ties():
    differences = np.random.default_rng(0).integers(-3, 6, size=30) / 1000
    nonzero = differences[differences != 0]
    assert signed_rank_p_value(differences) == pytest.approx(wilcoxon(nonzero).pvalue)


def test_holm_by_hand():
    # Sorted: 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, and none below the one before it.
    assert holm_corrected([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm_corrected([0.6, 0.9]) == [1, 1]
    assert holm_corrected([]) == []


def test_paired_tests_by_hand():
    one, two = paired_tests([[0.2, 0.4, 0.7], [0.5, 0.5, 0.5]], [[0.1, 0.2, 0.3], [0.5, 0.5, 0.5]])
    assert one.difference.per_run == pytest.approx((0.1, 0.2, 0.4))
    assert (one.p_value, one.p_corrected) == pytest.approx((0.25, 0.5))  # 2 of 8 patterns; two comparisons
    assert (two.p_value, two.p_corrected) == (1, 1)


def test_significance_is_corrected():
    better, reference = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [0.0] * 6  # p is 2 of the 2^6 patterns: 0.031
    [alone] = paired_tests([better], [reference])
    assert alone.is_significant is True
    assert [test.is_significant for test in paired_tests([better] * 2, [reference] * 2)] == [False, False]


@pytest.mark.parametrize(("methods", "q"), [(3, 2.343), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_demsars_constants(methods, q):
    # Table 5a of Demšar (2006).
    assert critical_difference(methods, cells=14) == pytest.approx(q * np.sqrt(methods * (methods + 1) / 84), abs=1e-3)


def test_ranks_by_hand():
    accuracy = [[0.9, 0.5, 0.7], [0.8, 0.6, 0.6], [0.7, 0.5, 0.6], [0.6, 0.7, 0.5]]
    comparison = compare_ranks(np.array(accuracy), ["a", "b", "c"])
    # a: 1, 1, 1, 2; b: 3, 2.5, 3, 1; c: 2, 2.5, 2, 3.
    assert comparison.methods == ("a", "b", "c")
    assert comparison.average_ranks == pytest.approx((1.25, 2.375, 2.375))
    assert comparison.friedman_p_value == pytest.approx(friedmanchisquare(*np.transpose(accuracy)).pvalue)
    assert comparison.critical_difference == pytest.approx(2.343 * np.sqrt(12 / 24), abs=1e-3)
    assert comparison.groups == (("a", "b", "c"),)


def test_rank_groups():
    # 40 cells with always the same order: ranks 1 to 6, and a critical difference of 2.850 sqrt(42 / 240) = 1.19.
    accuracy = np.tile([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], (40, 1))
    comparison = compare_ranks(accuracy, list("abcdef"))
    assert comparison.groups == (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"))
    assert comparison.friedman_p_value < 1e-10


def test_rank_groups_leave_out_a_distinct_method():
    # a and b win by turns and c always comes last: ranks 1.5, 1.5 and 3, a critical difference of 0.52.
    comparison = compare_ranks(np.tile([[0.9, 0.8, 0.1], [0.8, 0.9, 0.1]], (20, 1)), list("abc"))
    assert comparison.average_ranks == (1.5, 1.5, 3)
    assert comparison.groups == (("a", "b"),)


def test_ranks_of_equal_methods():
    assert compare_ranks(np.full((3, 4), 0.5), list("abcd")).friedman_p_value == 1


@pytest.mark.parametrize(("shape", "names"), [((1, 3), "abc"), ((4, 2), "ab"), ((4, 3), "ab")])
def test_ranks_need_cells_and_methods(shape, names):
    with pytest.raises(InputError, match="cannot be ranked; give at least 2 cells and 3 methods"):
        compare_ranks(np.zeros(shape), list(names))


def test_ranks_of_three_methods_in_two_cells():
    comparison = compare_ranks(np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]]), list("abc"))
    assert comparison.methods == ("c", "a", "b")
    assert comparison.average_ranks == (1, 2.5, 2.5)
