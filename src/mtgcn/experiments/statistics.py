"""Means over runs, how far to trust them, and whether one method beats another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtgcn.errors import InputError
from mtgcn.shapes import Float, Int

RESAMPLES = 10_000
FEWEST_TO_RESAMPLE = 5
ROUNDING = 1e-12  # a spread that is smaller than this part of the numbers is none
SIGNIFICANCE_LEVEL = 0.05  # p-values below it are taken for more than chance
BOOTSTRAP_SEED = 0  # fixed, so that equal samples always have equal intervals

Groups = Sequence[int] | None  # runs with the same number share random parts, such as an embedding; None: none do


@dataclass(frozen=True)
class SampleSummary:
    """A number measured once per run."""

    mean: float
    std: float  # of one run, with n - 1 in the denominator; 0 for a single run
    ci95: tuple[float, float]  # of the mean
    per_run: tuple[float, ...]


def summarise(per_run: Sequence[float], *groupings: Groups) -> SampleSummary:
    """Mean, standard deviation and 95 % interval of a number measured once per run.

    The interval holds Student's, which knows that the spread of few runs is itself uncertain, and the bootstrap-t,
    which knows that accuracies are skewed: some splits are far worse than most and none far better. Of 100 such samples
    of 10 runs it covers 94, either of the two alone 93 and a percentile bootstrap 88. With fewer than
    `FEWEST_TO_RESAMPLE` runs there is Student's alone, which is too sure of itself then (of 3 runs it covers 92).

    Where runs share random parts, each of the `groupings` says which of them do. They err alike, so that there is less
    to average than there seem to be runs: the interval then also holds `grouped_interval`, of each grouping.

    >>> summarise([0.5, 0.7]).mean
    0.6
    """
    sample = np.asarray(per_run, dtype=np.float64)
    if not len(sample):
        raise InputError("a summary of 0 runs; give at least 1")
    intervals = [student_interval(sample), bootstrap_t_interval(sample)]
    intervals += [grouped_interval(sample, np.asarray(groups)) for groups in groupings if _tells_of_others(groups)]
    lows, highs = zip(*intervals, strict=True)
    return SampleSummary(
        mean=float(sample.mean()),
        std=float(sample.std(ddof=1)) if len(sample) > 1 else 0.0,
        ci95=(min(lows), max(highs)),
        per_run=tuple(map(float, sample)),
    )


def summarise_share(per_run: Sequence[float], *groupings: Groups) -> SampleSummary:
    """The same of a share, whose interval ends at 0 and 1; an interval of few runs may pass them."""
    summary = summarise(per_run, *groupings)
    low, high = summary.ci95
    return replace(summary, ci95=(max(low, 0.0), min(high, 1.0)))


def paired_difference(per_run: Sequence[float], reference: Sequence[float], *groupings: Groups) -> SampleSummary:
    """By how much the first exceeds the second, run by run.

    Both saw the same splits, so the luck of a split cancels and the interval is narrower than that of two
    independent samples. `groupings` are those of both: what either of them shares among runs, their difference does.
    """
    if len(per_run) != len(reference):
        raise InputError(f"{len(per_run)} runs cannot be paired with {len(reference)}; run both on the same splits")
    return summarise(np.subtract(per_run, reference).tolist(), *groupings)


def student_interval(sample: Float[np.ndarray, "runs"]) -> tuple[float, float]:
    """The 95 % interval of the mean of independent runs: Student's t. A single run is its own interval.

    >>> low, high = student_interval(np.array([1.0, 3.0]))
    >>> round(low, 1), round(high, 1)  # 2 -+ 12.7 x 1
    (-10.7, 14.7)
    """
    return grouped_interval(sample, np.arange(len(sample)))


def bootstrap_t_interval(sample: Float[np.ndarray, "runs"]) -> tuple[float, float]:
    """The 95 % bootstrap-t interval of the mean (Efron, 1981): how far the means of resamples lie from the sample's, in
    standard errors of their own, is how far the sample's may lie from the truth.

    A resample in which one run was drawn every time has no standard error and is left out. Of few runs so many are like
    that, or nearly, that the interval would be without bound: then the mean itself is given.
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
    """The 95 % interval of the mean where runs of a group err alike: Student's t over the G groups.

    With group g's part of the mean's error e_g = sum of (x - mean) over its runs / runs, the variance of the mean is
    G / (G - 1) times the sum of e_g², and t has G - 1 degrees of freedom. For equally large groups that is the usual
    interval of G independent numbers, the group means. A bootstrap of groups, and of runs within them, is too narrow
    for as few groups as there are embeddings: it neither knows that the spread of 5 numbers is itself uncertain, nor is
    that mended by the factor G / (G - 1) (of 95 % it covers 88 with 5 groups and 75 with 3, where groups differ much).

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
        return float(mean), float(mean)  # of a single one nobody can say how another would have done
    standard_error = np.sqrt(count / (count - 1) * (errors**2).sum())
    margin = float(stdtrit(count - 1, 0.975) * standard_error)
    return float(mean) - margin, float(mean) + margin


def _tells_of_others(groups: Groups) -> bool:
    """Whether runs share something, and not all of them the same: of a single group nobody can say how another would
    have done, and groups of one run each are just runs."""
    return groups is not None and 1 < len(set(groups)) < len(groups)


@dataclass(frozen=True)
class PairedTest:
    """By how much one sample exceeds another on the same splits, and whether that may be chance."""

    difference: SampleSummary
    p_value: float  # of the Wilcoxon signed-rank test, two-sided
    p_corrected: float  # by Holm, for all the comparisons made together

    @property
    def is_significant(self) -> bool:
        """Whether it is more than chance, even among so many comparisons."""
        return self.p_corrected < SIGNIFICANCE_LEVEL


def paired_tests(
    samples: Sequence[Sequence[float]],
    references: Sequence[Sequence[float]],
    groupings: Sequence[Sequence[Groups]] | None = None,
) -> list[PairedTest]:
    """Each sample against its reference, with p-values corrected for there being so many of them.

    Where runs share random parts, as the `groupings` of each pair say, the intervals account for it and the p-values do
    not: Wilcoxon's test of 5 groups could never fall below 0.06. There the interval is the one to go by.
    """
    differences = [
        paired_difference(sample, reference, *some)
        for sample, reference, some in zip(samples, references, groupings or [()] * len(samples), strict=True)
    ]
    p_values = [signed_rank_p_value(difference.per_run) for difference in differences]
    return [PairedTest(*parts) for parts in zip(differences, p_values, holm_corrected(p_values), strict=True)]


def signed_rank_p_value(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test that paired differences lie symmetrically about zero.

    Differences of zero are left out, as Wilcoxon did; if nothing else is there, nothing speaks against chance. Up to
    50 differences the distribution is exact, as long as no two of them tie in size.

    >>> signed_rank_p_value([1, 2, 3, 4, 5, 6])  # all signs equal: 2 of the 2^6 equally likely patterns
    0.03125
    """
    from scipy.stats import wilcoxon

    nonzero = np.asarray(differences, dtype=np.float64)
    nonzero = nonzero[nonzero != 0]
    return float(wilcoxon(nonzero).pvalue) if len(nonzero) else 1.0


def holm_corrected(p_values: Sequence[float]) -> list[float]:
    """p-values that may each be compared with 0.05 although there are several (Holm, 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below one before it.

    >>> holm_corrected([0.04, 0.01, 0.03])
    [0.06, 0.03, 0.06]
    """
    given = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(given, kind="stable")
    corrected = np.empty_like(given)
    factors = np.arange(len(given), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(given[order] * factors), 1)
    return [float(p_value) for p_value in corrected]


@dataclass(frozen=True)
class RankComparison:
    """How methods rank over all cells, as Demšar (2006) compares classifiers over datasets."""

    methods: tuple[str, ...]  # the best first
    average_ranks: tuple[float, ...]  # 1 is best; ties share the mean of their ranks
    friedman_p_value: float  # that all methods are equally good
    critical_difference: float  # ranks further apart than this differ, at 5 % (Nemenyi)
    groups: tuple[tuple[str, ...], ...]  # largest sets of methods that do not differ: the bars of the picture


def compare_ranks(accuracy: Float[np.ndarray, "cells methods"], methods: Sequence[str]) -> RankComparison:
    """Rank the methods within each cell and compare their average ranks."""
    from scipy.stats import friedmanchisquare, rankdata

    accuracy = np.asarray(accuracy, dtype=np.float64)
    cells, count = accuracy.shape
    if count != len(methods) or count < 3 or cells < 2:
        raise InputError(
            f"accuracies of shape {accuracy.shape} for {len(methods)} methods cannot be ranked; "
            "give at least 2 cells and 3 methods, each in every cell"
        )
    ranks = rankdata(-accuracy, axis=1).mean(axis=0)
    order = np.argsort(ranks, kind="stable")
    names, sorted_ranks = tuple(methods[place] for place in order), ranks[order]
    same = bool((accuracy == accuracy[:, :1]).all())  # where the test statistic is 0 / 0
    difference = critical_difference(count, cells)
    return RankComparison(
        methods=names,
        average_ranks=tuple(map(float, sorted_ranks)),
        friedman_p_value=1.0 if same else float(friedmanchisquare(*accuracy.T).pvalue),
        critical_difference=difference,
        groups=_groups_within(sorted_ranks, names, difference),
    )


def critical_difference(methods: int, cells: int, level: float = SIGNIFICANCE_LEVEL) -> float:
    """Nemenyi's: q sqrt(k (k + 1) / 6 N), q the studentized range of k methods divided by sqrt(2)."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - level, methods, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(methods * (methods + 1) / (6 * cells)))


def _groups_within(ranks: np.ndarray, names: tuple[str, ...], difference: float) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        end = int(np.searchsorted(ranks, rank + difference, side="right"))
        if end - first > 1 and (not groups or end > groups[-1][1]):  # not part of the group before it
            groups.append((first, end))
    return tuple(names[first:end] for first, end in groups)
