"""Probabilities that mean more nearly what they say: temperatures from held-out labels. See docs/trust.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.fitted_model import FittedModel
from mtgcn.uncertainty.held_out import fits_without, stratified_folds

SMALLEST_PROBABILITY = 1e-7  # below it, the logarithm says more about rounding than about the node

# Temperature.
MOST_FOLDS = 10
ENOUGH_PER_CLASS = 5  # labels of the middle class, from which on held-out labels tell more than they mislead
PRIOR_LABELS = 20  # what is thought of a temperature beforehand weighs as much as so many labels
HOTTEST = 10.0  # and 1 / HOTTEST is the coldest


# -------------------------------------------------------------------------------------------------------- temperature


def temperature(model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu") -> float:
    """What to divide the logarithms of the model's probabilities by, so that they mean more nearly what they say.

    Needs no labels but the given ones: the method is fitted again, all fits in one stack, each time without a few of
    them. `tempered(model.label_distributions_, temperature)` are the probabilities then. The classes predicted stay.
    """
    graph, held_out = model.graph_, folds(model.graph_, seed)
    fits = fits_without(graph, model.method_, held_out, seed, device).probabilities
    return temperature_from(model.label_distributions_, fits, held_out, graph.labels)


def tempered(
    probabilities: Float[np.ndarray, "*rest classes"], temperature: float
) -> Float[np.ndarray, "*rest classes"]:
    """Probabilities less sure of themselves (temperature above 1) or surer (below); the order of classes stays.

    >>> tempered(np.array([0.8, 0.2]), 2).round(3)  # 2 to 1 instead of 4 to 1
    array([0.667, 0.333])
    """
    powers = np.maximum(probabilities, SMALLEST_PROBABILITY) ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def folds(graph: Graph, seed: int = 0) -> list[Int[np.ndarray, "held_out"]]:
    """Stratified folds of the given labels, at most ten. The only label of a class is in none."""
    spare = graph.known[graph.label_counts[graph.labels[graph.known]] > 1]
    if not len(spare):
        raise InputError(
            "no class has a second label, so that none can be held out to measure by; label a second node of a class"
        )
    return stratified_folds(graph, spare, min(MOST_FOLDS, len(spare)), seed)


def temperature_from(
    probabilities: Float[np.ndarray, "nodes classes"],
    fits: Float[np.ndarray, "folds nodes classes"],
    held_out: Sequence[Int[np.ndarray, "some"]],
    labels: Int[np.ndarray, "nodes"],
) -> float:
    """The temperature for `probabilities`, from fits that each lacked the labels of one fold.

    With few labels those of a fold are told badly for the very reason that they were missing. What can be trusted then
    is how much the fits differ: their average is less sure than each of them, and its mean confidence is taken for the
    true one. With enough labels it is the temperature under which the held-out labels are most likely (Guo et al.,
    2017), held back towards 1 while there are not many.
    """
    nodes = np.concatenate(list(held_out))
    counts = np.bincount(labels[nodes])
    if np.median(counts[counts > 0]) < ENOUGH_PER_CLASS:
        rest = np.setdiff1d(np.arange(len(probabilities)), nodes)
        return _temperature_of_confidence(probabilities[rest], float(fits.mean(axis=0)[rest].max(axis=1).mean()))
    told = np.concatenate([fit[some] for fit, some in zip(fits, held_out, strict=True)])

    def badness(log_temperature: float) -> float:
        right = tempered(told, math.exp(log_temperature))[np.arange(len(nodes)), labels[nodes]]
        return float(PRIOR_LABELS * log_temperature**2 / 2 - np.log(right).sum())

    return _best_temperature(badness)


def _temperature_of_confidence(probabilities: Float[np.ndarray, "nodes classes"], confidence: float) -> float:
    """The temperature that gives probabilities this mean confidence, or comes as near as one may."""

    def miss(log_temperature: float) -> float:
        return abs(float(tempered(probabilities, math.exp(log_temperature)).max(axis=1).mean()) - confidence)

    return _best_temperature(miss)


def _best_temperature(badness: Callable[[float], float]) -> float:
    """The temperature of least badness, which is told by its logarithm."""
    from scipy.optimize import minimize_scalar  # imported here, since a plain fit asks for no temperature

    limit = math.log(HOTTEST)
    return math.exp(minimize_scalar(badness, bounds=(-limit, limit), method="bounded").x)
