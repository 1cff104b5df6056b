"""When to stop labelling: what more labels would bring, from the accuracy on held-out labels with fewer labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mtgcn.shapes import Float, Int

MORE_LABELS = 10
ENOUGH_BELOW = 0.01  # gain in accuracy
FEW_DIVISOR = 4  # the learning curve uses all labels outside of a fold, and a quarter of all
NORMAL_95 = 1.96


@dataclass(frozen=True)
class ExpectedGain:
    """The gain in accuracy that more labels are expected to bring, with a 95 % confidence interval."""

    labels: int  # more labels
    gain: float
    ci95: tuple[float, float]
    enough: bool  # whether the gain is under a point

    def __str__(self) -> str:
        low, high = (f"{100 * end:.1f}" for end in self.ci95)
        points = f"{self.labels} more labels would bring {100 * self.gain:.1f} points (95 % interval {low} to {high})"
        return f"{points}{': more labels would hardly help' if self.enough else ''}"


def expected_gain(
    gained: Float[np.ndarray, "held_out"], sizes: tuple[float, float], labels: int, more: int = MORE_LABELS
) -> ExpectedGain | None:
    """Extrapolate the learning curve accuracy(n) = a - b / √n through two accuracies on held-out labels.

    `gained` is 1 for held-out labels that a fit to many labels predicts and a fit to few does not, -1 for the opposite,
    and `sizes` are the numbers of many and few. Two labels are added, of which one is gained, so that few held-out
    labels never seem to be certain. None where the sizes are equal.

    >>> gained = np.array([1.0] * 9 + [0.0] * 89)  # then 10 points
    >>> expected_gain(gained, (100, 25), labels=100, more=300)  # halves 1 / √n, as from 25 to 100
    ExpectedGain(labels=300, gain=0.05, ci95=(0.0206, 0.0794), enough=False)
    """
    if sizes[0] == sizes[1]:
        return None
    gained = np.append(gained, [1, 0])
    step = (labels**-0.5 - (labels + more) ** -0.5) / (sizes[1] ** -0.5 - sizes[0] ** -0.5)
    gain, half = step * gained.mean(), NORMAL_95 * step * gained.std() / math.sqrt(len(gained))
    gain, low, high = (round(max(0.0, float(end)), 6) for end in (gain, gain - half, gain + half))
    return ExpectedGain(more, gain, (low, high), gain < ENOUGH_BELOW)


def some_labels(
    nodes: Int[np.ndarray, "labelled"], classes: Int[np.ndarray, "labelled"], seed: int
) -> list[Int[np.ndarray, "few"]]:
    """Two random quarters of the labelled nodes of each class, at least one node each; disjoint if there are two.

    >>> [few.tolist() for few in some_labels(np.arange(6), np.array([0, 0, 0, 0, 0, 1]), seed=0)]
    [[1, 3, 5], [2, 5]]
    """
    order = np.random.default_rng(seed).permutation(len(nodes))
    order = order[np.argsort(classes[order], kind="stable")]
    first = np.searchsorted(classes[order], classes[order])
    rank, count = np.arange(len(order)) - first, np.bincount(classes)[classes[order]]
    return [np.sort(nodes[order[rank % FEW_DIVISOR == np.minimum(part, count - 1)]]) for part in range(2)]
