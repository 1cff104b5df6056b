"""Expected accuracy from held-out labels, and the temperature under which the mean confidence equals it.

Of n held-out labels a share s is predicted correctly. The accuracy on unlabelled nodes has a beta distribution,

    accuracy ~ Beta(m p + v s, m (1 - p) + v (1 - s)),   v = n w / (1 + n / n_max)

    p, m    mean of the prior, and the number of labels that it counts as
    w       weight of a held-out label, below 1, since fits without a fold differ from the final fit and from each other
    n_max   limit of the precision: with many labels, these differences dominate

`benchmarks/calibration.py --fit` estimates the four constants by maximum likelihood on development data sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Bool, Float

MIN_PROBABILITY = 1e-7  # lower bound before taking logarithms
MAX_TEMPERATURE = 10.0  # largest temperature; its inverse is the smallest
BISECTIONS = 20  # bisection steps on the log temperature, precise to 1e-5


@dataclass(frozen=True)
class AccuracyPrior:
    """The prior distribution of accuracy, before any label is held out."""

    accuracy: float = 0.61  # p
    labels: float = 2.8  # m
    label_worth: float = 0.65  # w
    max_labels: float = 210.0  # n_max

    def distribution(self, share: Any, labels: Any) -> tuple[Any, Any]:
        """Parameters of the beta distribution, given the share of held-out labels predicted correctly and their number.

        >>> AccuracyPrior(0.6, 10, 0.5, math.inf).distribution(0.75, 40)
        (21.0, 9.0)
        """
        worth = labels * self.label_worth / (1 + labels / self.max_labels)
        return self.labels * self.accuracy + worth * share, self.labels * (1 - self.accuracy) + worth * (1 - share)


def matching_temperature(
    probabilities: Float[Tensor, "runs nodes classes"],
    confidence: Float[Tensor, "runs"],
    counted: Bool[Tensor, "runs nodes"],
    over_processes: Callable[[Tensor], Tensor] = lambda values: values,  # sums over processes
) -> Float[Tensor, "runs"]:
    """The temperature at which the mean probability of the predicted class over the counted nodes has a given value."""
    low = torch.full_like(confidence, -math.log(MAX_TEMPERATURE))
    high, total = -low, over_processes(counted.sum(1)).clamp(min=1)
    logits = probabilities.clamp(min=MIN_PROBABILITY).log()
    logits = logits - logits.amax(-1, keepdim=True)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        largest = 1 / (logits / middle.exp()[:, None, None]).exp().sum(-1)  # probability of the predicted class
        too_high = over_processes((largest * counted).sum(1, dtype=torch.float64)) / total > confidence
        low, high = torch.where(too_high, middle, low), torch.where(too_high, high, middle)
    return ((low + high) / 2).exp()


def tempered(
    probabilities: Float[np.ndarray, "*rest classes"],
    temperature: Any,  # one number, or one per run
) -> Float[np.ndarray, "*rest classes"]:
    """Probabilities with logarithms divided by a temperature: flatter above 1, sharper below.

    >>> tempered(np.array([0.8, 0.2]), 2).round(3)  # odds 2 to 1 instead of 4 to 1
    array([0.667, 0.333])
    """
    each = temperature if np.ndim(temperature) == 0 else np.asarray(temperature)[:, None, None]
    powers = np.maximum(probabilities, MIN_PROBABILITY) ** (1 / each)
    return powers / powers.sum(axis=-1, keepdims=True)


def temper_(probabilities: Float[Tensor, "runs nodes classes"], temperature: Float[Tensor, "runs"]) -> None:
    """`tempered`, in place."""
    probabilities.clamp_(min=MIN_PROBABILITY).pow_(1 / temperature[:, None, None])
    probabilities /= probabilities.sum(-1, keepdim=True)
