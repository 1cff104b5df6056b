"""How often something happens in so many trials: the numbers of `scipy.stats`, whose import takes half a second."""

from __future__ import annotations

import math

from scipy.special import betaincc, ndtri


def probability_of_at_most(successes: int, trials: int, share: float) -> float:
    """How probable so few successes are where each trial succeeds with this probability: P(X <= successes) of a
    binomial X, by the incomplete beta function.

    >>> probability_of_at_most(1, 2, 0.5)
    0.75
    """
    return 1.0 if successes >= trials else float(betaincc(successes + 1, trials - successes, share))


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Where the probability of success lies (Wilson, 1927), which also holds near 0 and 1."""
    z = float(ndtri((1 + confidence) / 2))
    centre = successes + z**2 / 2
    half = z * math.sqrt(successes * (trials - successes) / trials + z**2 / 4)
    low, high = ((end / (trials + z**2)) for end in (centre - half, centre + half))
    return (low if successes else 0.0), (high if successes < trials else 1.0)
