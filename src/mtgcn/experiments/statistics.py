"""Means over runs with confidence intervals, paired tests, ranks over many cells, and margins over the best rival."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mtgcn.errors import InputError
from mtgcn.shapes import Float, Int

RESAMPLES = 10_000
FEWEST_TO_RESAMPLE = 5
ROUNDING = 1e-12  # relative spread below which a sample is constant
SIGNIFICANCE_LEVEL = 0.05
BOOTSTRAP_SEED = 0  # equal samples have equal intervals

Groups = Sequence[int] | None  # runs with the same number share random parts, such as embeddings; None: no groups


@dataclass(frozen=True)
class SampleSummary:
    """A number measured once per run."""

    mean: float
    std: float  # standard deviation of one run, with n - 1 in the denominator; 0 for a single run
    ci95: tuple[float, float]  # 95 % interval of the mean
    per_run: tuple[float, ...]


def summarise(per_run: Sequence[float], *groupings: Groups) -> SampleSummary:
    """Mean, standard deviation and 95 % interval of a number measured once per run.

    The interval is the union of Student's t interval, which accounts for the uncertain spread of few runs, and the
    bootstrap-t interval, which accounts for skewed accuracies. For such samples of 10 runs its coverage is 94 %,
    compared with 93 % for either interval alone and 88 % for a percentile bootstrap. With fewer runs than
    `FEWEST_TO_RESAMPLE` it is Student's interval alone (coverage 92 % with 3 runs).

    Runs that share random parts have correlated errors; the interval then includes each `grouped_interval`.

    >>> summarise([0.5, 0.7]).mean
    0.6
    """
    sample = np.asarray(per_run, dtype=np.float64)
    if not len(sample):
        raise InputError("0 runs cannot be summarised; give at least 1")
    intervals = [grouped_interval(sample, np.arange(len(sample))), bootstrap_t_interval(sample)]
    informative = [groups for groups in groupings if groups is not None and 1 < len(set(groups)) < len(groups)]
    intervals += [grouped_interval(sample, np.asarray(groups)) for groups in informative]
    lows, highs = zip(*intervals, strict=True)
    return SampleSummary(
        mean=float(sample.mean()),
        std=float(sample.std(ddof=1)) if len(sample) > 1 else 0.0,
        ci95=(min(lows), max(highs)),
        per_run=tuple(map(float, sample)),
    )


def summarise_share(per_run: Sequence[float], *groupings: Groups) -> SampleSummary:
    """Like `summarise`, with the interval clipped to 0 and 1."""
    summary = summarise(per_run, *groupings)
    return replace(summary, ci95=(max(summary.ci95[0], 0.0), min(summary.ci95[1], 1.0)))


def paired_difference(per_run: Sequence[float], reference: Sequence[float], *groupings: Groups) -> SampleSummary:
    """Summary of the differences run by run, where both samples use the same splits.

    `groupings` are those of both samples.
    """
    if len(per_run) != len(reference):
        raise InputError(f"{len(per_run)} runs cannot be paired with {len(reference)}; run both on the same splits")
    return summarise(np.subtract(per_run, reference).tolist(), *groupings)


def bootstrap_t_interval(sample: Float[np.ndarray, "runs"]) -> tuple[float, float]:
    """The 95 % bootstrap-t interval of the mean (Efron, 1981).

    Resamples with a single distinct value have no standard error and are left out. With few runs most resamples are of
    this kind and the interval would be unbounded; the mean is returned instead.
    """
    runs, mean = len(sample), float(sample.mean())
    if runs < FEWEST_TO_RESAMPLE:
        return mean, mean
    error = float(sample.std(ddof=1)) / math.sqrt(runs)
    resamples = sample[np.random.default_rng(BOOTSTRAP_SEED).integers(runs, size=(RESAMPLES, runs))]
    errors = resamples.std(axis=1, ddof=1) / math.sqrt(runs)
    spread = errors > ROUNDING * np.abs(sample).max()
    if not spread.any():
        return mean, mean
    distances = (resamples.mean(axis=1)[spread] - mean) / errors[spread]
    low, high = np.percentile(distances, [2.5, 97.5])
    return mean - error * float(high), mean - error * float(low)


def grouped_interval(sample: Float[np.ndarray, "runs"], groups: Int[np.ndarray, "runs"]) -> tuple[float, float]:
    """The 95 % interval of the mean for correlated errors within groups of runs: Student's t over the G groups.

    With group g's part of the mean's error e_g = sum of (x - mean) over its runs / runs, the variance of the mean is
    G / (G - 1) times the sum of e_g², and t has G - 1 degrees of freedom. For equally large groups this is the interval
    of the G group means. A bootstrap of groups is too narrow for few groups: its coverage is 88 % with 5 groups and
    75 % with 3 if groups differ much.

    >>> low, high = grouped_interval(np.array([0.0, 2.0, 2.0, 4.0]), np.array([0, 0, 1, 1]))  # group means 1 and 3
    >>> round(low, 1), round(high, 1)  # 2 -+ 12.7 x 1
    (-10.7, 14.7)
    """
    from scipy.special import stdtrit

    _, group_of = np.unique(groups, return_inverse=True)
    mean = sample.mean()
    errors = np.bincount(group_of, weights=sample - mean) / len(sample)
    count = len(errors)
    if count == 1:
        return float(mean), float(mean)  # the spread of a single group is unknown
    standard_error = np.sqrt(count / (count - 1) * (errors**2).sum())
    margin = float(stdtrit(count - 1, 0.975) * standard_error)
    return float(mean) - margin, float(mean) + margin


@dataclass(frozen=True)
class PairedTest:
    """Difference of two samples on the same splits, with its p-value."""

    difference: SampleSummary
    p_value: float  # p-value of the two-sided Wilcoxon signed-rank test
    p_corrected: float  # p-value after Holm correction for all tests

    @property
    def is_significant(self) -> bool:
        return self.p_corrected < SIGNIFICANCE_LEVEL


def paired_tests(differences: Sequence[SampleSummary]) -> list[PairedTest]:
    """Tests of paired differences, with p-values corrected for the number of tests.

    p-values do not account for groups of runs, since Wilcoxon's test with 5 groups cannot fall below 0.06; use the
    interval in that case.
    """
    p_values = [signed_rank_p_value(difference.per_run) for difference in differences]
    return [PairedTest(*parts) for parts in zip(differences, p_values, holm_corrected(p_values), strict=True)]


def signed_rank_p_value(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test that paired differences lie symmetrically about zero.

    Zero differences are left out, as in Wilcoxon's paper; without any others the p-value is 1. The distribution is
    exact up to 50 differences without ties.

    >>> signed_rank_p_value([1, 2, 3, 4, 5, 6])  # all signs equal: 2 of the 2^6 equally likely patterns
    0.03125
    """
    from scipy.stats import wilcoxon

    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    return float(wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def holm_corrected(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for multiple tests (Holm, 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on, and the results are made monotone.

    >>> holm_corrected([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    >>> holm_corrected([0.6, 0.9]), holm_corrected([])
    ([1.0, 1.0], [])
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    corrected = np.empty_like(given)
    factors = np.arange(len(given), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(given[order] * factors), 1)
    return [float(p_value) for p_value in corrected]


@dataclass(frozen=True)
class RankComparison:
    """Average ranks of methods over cells, as Demšar (2006) compares classifiers over datasets."""

    methods: tuple[str, ...]  # sorted, best first
    average_ranks: tuple[float, ...]  # 1 is best; ties share the mean of their ranks
    friedman_p_value: float  # null hypothesis: all methods are equally good
    critical_difference: float  # smallest significant difference of ranks at the 5 % level (Nemenyi)
    groups: tuple[tuple[str, ...], ...]  # maximal sets of methods that do not differ
    cells: int
    # 95 % intervals from resampled blocks, by method: of the rank, and of its difference from the rank of the best.
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    behind: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def compare_ranks(
    accuracy: Float[np.ndarray, "cells methods"], methods: Sequence[str], blocks: Sequence[str] = ()
) -> RankComparison:
    """Rank the methods within each cell and compare their average ranks.

    Cells of one block, such as a graph, are not independent. With the block of every cell, and two blocks or more,
    intervals are computed from resamples of whole blocks.
    """
    from scipy.stats import friedmanchisquare, rankdata

    accuracy = np.asarray(accuracy, dtype=np.float64)
    cells, count = accuracy.shape
    if count != len(methods) or count < 3 or cells < 2:
        raise InputError(
            f"accuracies of shape {accuracy.shape} for {len(methods)} methods cannot be ranked; "
            "give at least 2 cells and 3 methods, each in every cell"
        )
    in_cells = rankdata(-accuracy, axis=1)
    ranks = in_cells.mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    names, sorted_ranks = tuple(methods[index] for index in order), ranks[order]
    same = bool((accuracy == accuracy[:, :1]).all())  # the test statistic would be 0 / 0
    difference = critical_difference(count, cells)
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(sorted_ranks):
        end = int(np.searchsorted(sorted_ranks, rank + difference, side="right"))
        if end - first > 1 and (not groups or end > groups[-1][1]):  # not part of the previous group
            groups.append((first, end))
    intervals: list[dict[str, tuple[float, float]]] = [{}, {}]
    if len(set(blocks)) > 1:
        found, block_of = np.unique(blocks, return_inverse=True)
        sums = np.stack([in_cells[block_of == block].sum(axis=0) for block in range(len(found))])[:, order]
        drawn = np.random.default_rng(BOOTSTRAP_SEED).integers(len(found), size=(RESAMPLES, len(found)))
        means = sums[drawn].sum(axis=1) / np.bincount(block_of)[drawn].sum(axis=1, keepdims=True)
        for ends, values in zip(intervals, (means, means - means[:, :1]), strict=True):
            low, high = np.percentile(values, [2.5, 97.5], axis=0).tolist()
            ends.update(zip(names, zip(low, high, strict=True), strict=True))
    return RankComparison(
        methods=names,
        average_ranks=tuple(map(float, sorted_ranks)),
        friedman_p_value=1.0 if same else float(friedmanchisquare(*accuracy.T).pvalue),
        critical_difference=difference,
        groups=tuple(names[first:end] for first, end in groups),
        cells=cells,
        intervals=intervals[0],
        behind=intervals[1],
    )


@dataclass(frozen=True)
class Margin:
    """A method against the best of all others on the same splits."""

    opponent: str  # the other method with the highest mean, known only afterwards
    opponents: int  # number of other methods
    difference: SampleSummary  # difference from the opponent, paired by split


def margin_over_best(
    samples: Mapping[str, Sequence[float]], reference: str, groups: Mapping[str, Groups] | None = None
) -> Margin:
    """The margin of the reference over the best other method, over the runs that both have.

    >>> margin_over_best({"a": [0.5, 0.7], "b": [0.4, 0.5], "c": [0.1, 0.2]}, "a").opponent
    'b'
    """
    others = [title for title in samples if title != reference]
    best = max(others, key=lambda title: float(np.mean(samples[title])))
    runs = min(len(samples[title]) for title in (reference, best))
    shared = [(groups or {}).get(title) for title in (reference, best)]
    difference = paired_difference(
        samples[reference][:runs], samples[best][:runs], *(one and one[:runs] for one in shared)
    )
    return Margin(best, len(others), difference)


def critical_difference(methods: int, cells: int, level: float = SIGNIFICANCE_LEVEL) -> float:
    """Nemenyi's: q sqrt(k (k + 1) / 6 N), q the studentized range of k methods divided by sqrt(2)."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * cells)))
