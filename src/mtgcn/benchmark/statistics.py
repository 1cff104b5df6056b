"""Means over runs, and how far to trust them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float

RESAMPLES = 10_000
BOOTSTRAP_SEED = 0  # fixed, so that equal samples always have equal intervals


@dataclass(frozen=True)
class SampleSummary:
    """A number measured once per run."""

    mean: float
    std: float  # of one run, with n - 1 in the denominator; 0 for a single run
    ci95: tuple[float, float]  # of the mean
    per_run: tuple[float, ...]


def summarise(per_run: Sequence[float]) -> SampleSummary:
    """Mean, spread and 95 % interval of a number measured once per run.

    >>> summarise([0.5, 0.7]).mean
    0.6
    """
    sample = np.asarray(per_run, dtype=np.float64)
    if not len(sample):
        raise InputError("a summary of 0 runs; give at least 1")
    return SampleSummary(
        mean=float(sample.mean()),
        std=float(sample.std(ddof=1)) if len(sample) > 1 else 0.0,
        ci95=bootstrap_interval(sample),
        per_run=tuple(map(float, sample)),
    )


def paired_difference(per_run: Sequence[float], reference: Sequence[float]) -> SampleSummary:
    """By how much the first exceeds the second, run by run.

    Both saw the same splits, so the luck of a split cancels and the interval is narrower than that of two
    independent samples.
    """
    if len(per_run) != len(reference):
        raise InputError(f"{len(per_run)} runs cannot be paired with {len(reference)}; run both on the same splits")
    return summarise(np.subtract(per_run, reference).tolist())


def bootstrap_interval(sample: Float[np.ndarray, "runs"]) -> tuple[float, float]:
    """The 95 % percentile-bootstrap interval of the mean; a single run is its own interval."""
    drawn = np.random.default_rng(BOOTSTRAP_SEED).integers(len(sample), size=(RESAMPLES, len(sample)))
    low, high = np.percentile(sample[drawn].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
