"""Calibration from held-out labels: temperature scaling, and prediction sets with guaranteed coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.shapes import Bool, Float, Int
from mtgcn.uncertainty.expected_accuracy import fits_without, stratified_folds
from mtgcn.uncertainty.peer_weights import FittedModel

MIN_PROBABILITY = 1e-7  # lower bound before taking logarithms
MAX_FOLDS = 10
MIN_LABELS_PER_CLASS = 5  # median over classes, from which on the held-out likelihood is used
PRIOR_LABELS = 20  # weight of the prior (temperature 1), in labels
MAX_TEMPERATURE = 10.0  # the minimum is its inverse


def temperature(model: FittedModel, *, seed: int = 0, device: torch.device | str = "cpu") -> float:
    """The temperature that calibrates the probabilities of a model; predicted classes do not change.

    Uses the given labels only: the method is fitted again without each fold of them, all fits in one stack. Apply it by
    `tempered(model.label_distributions_, temperature)`.
    """
    graph, held_out = model.graph_, folds(model.graph_, seed)
    fits = fits_without(graph, model.method_, held_out, seed, device).probabilities
    return temperature_from(model.label_distributions_, fits, held_out, graph.labels)


def tempered(
    probabilities: Float[np.ndarray, "*rest classes"], temperature: float
) -> Float[np.ndarray, "*rest classes"]:
    """Probabilities with their logarithms divided by a temperature: flatter above 1, sharper below.

    >>> tempered(np.array([0.8, 0.2]), 2).round(3)  # odds 2 to 1 instead of 4 to 1
    array([0.667, 0.333])
    """
    powers = np.maximum(probabilities, MIN_PROBABILITY) ** (1 / temperature)
    return powers / powers.sum(axis=-1, keepdims=True)


def folds(graph: Graph, seed: int = 0) -> list[Int[np.ndarray, "held_out"]]:
    """At most ten stratified folds of the given labels. The only label of a class is never held out."""
    spare = graph.known[graph.label_counts[graph.labels[graph.known]] > 1]
    if not len(spare):
        raise InputError("no class has a second label, so none can be held out; label a second node of a class")
    return stratified_folds(graph, spare, min(MAX_FOLDS, len(spare)), seed)


def temperature_from(
    probabilities: Float[np.ndarray, "nodes classes"],
    fits: Float[np.ndarray, "folds nodes classes"],
    held_out: Sequence[Int[np.ndarray, "some"]],
    labels: Int[np.ndarray, "nodes"],
) -> float:
    """The temperature for `probabilities`, from fits that each lack the labels of one fold.

    With enough labels it maximises the likelihood of the held-out labels (Guo et al., 2017), with a prior at 1. With
    few labels a held-out label is predicted badly because it is missing; the temperature then matches the mean
    confidence to that of the average of all fits, which is lower the more the fits differ.
    """
    nodes = np.concatenate(list(held_out))
    counts = np.bincount(labels[nodes])
    if np.median(counts[counts > 0]) < MIN_LABELS_PER_CLASS:
        rest = np.setdiff1d(np.arange(len(probabilities)), nodes)
        confidence = float(fits.mean(axis=0)[rest].max(axis=1).mean())
        return _minimum(
            lambda log: abs(float(tempered(probabilities[rest], math.exp(log)).max(axis=1).mean()) - confidence)
        )
    predicted = np.concatenate([fit[some] for fit, some in zip(fits, held_out, strict=True)])

    def loss(log_temperature: float) -> float:
        of_label = tempered(predicted, math.exp(log_temperature))[np.arange(len(nodes)), labels[nodes]]
        return float(PRIOR_LABELS * log_temperature**2 / 2 - np.log(of_label).sum())

    return _minimum(loss)


def _minimum(loss: Callable[[float], float]) -> float:
    """The temperature that minimises a loss of its logarithm."""
    from scipy.optimize import minimize_scalar  # slow to import, and a plain fit does not need it

    limit = math.log(MAX_TEMPERATURE)
    return math.exp(minimize_scalar(loss, bounds=(-limit, limit), method="bounded").x)


# ----------------------------------------------------------------------------------------------------- prediction sets


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """A set of classes for each node; a share `coverage` of the sets contains the true class.

    The guarantee holds for nodes exchangeable with the held-out labels. Labels selected for being easy give none.
    """

    contains: Bool[np.ndarray, "nodes classes"]
    coverage: float
    least_probability: float  # a set contains the classes of at least this probability
    held_out: Int[np.ndarray, "held_out"]  # labelled nodes used for calibration
    class_names: tuple[str, ...]

    def __getitem__(self, node: int) -> tuple[str, ...]:
        """The classes in the set of one node, by its index in the graph."""
        return tuple(self.class_names[number] for number in np.flatnonzero(self.contains[node]))

    @property
    def sizes(self) -> Int[np.ndarray, "nodes"]:
        return self.contains.sum(axis=1)


def prediction_sets(
    model: FittedModel, coverage: float = 0.9, *, seed: int = 0, device: torch.device | str = "cpu"
) -> PredictionSets:
    """Sets of classes by split conformal prediction (Vovk et al., 2005; on graphs, Huang et al., 2023).

    Half of the given labels, but at least as many as `coverage` needs, are held out, and the method is fitted with the
    others. One label of each class always stays. Each set contains the most probable class; the set of a labelled node
    is its label.
    """
    graph = model.graph_
    held_out = _calibration_nodes(graph, coverage, seed)
    probabilities = fits_without(graph, model.method_, [held_out], seed, device).probabilities[0]
    scores = 1 - probabilities
    threshold = conformal_threshold(scores[held_out, graph.labels[held_out]], coverage)
    contains = scores <= threshold
    contains[np.arange(graph.num_nodes), probabilities.argmax(axis=1)] = True
    contains[graph.known] = np.eye(graph.num_classes, dtype=bool)[graph.labels[graph.known]]
    return PredictionSets(contains, coverage, 1 - threshold, held_out, graph.class_names)


def conformal_threshold(scores: Float[np.ndarray, "held_out"], coverage: float) -> float:
    """The ⌈(n + 1) coverage⌉-th smallest of n scores, an upper bound of a new score with probability `coverage`.

    >>> conformal_threshold(np.arange(1, 20) / 20, coverage=0.9)  # the 18th of 19
    0.9
    """
    needed = _labels_needed(coverage)
    if len(scores) < needed:
        raise InputError(
            f"coverage {coverage:g} needs {needed} held-out labels and there are {len(scores)}; "
            "hold out more, or lower the coverage"
        )
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)  # 0.7 * 10 must not round up to 8
    return float(np.sort(scores)[rank - 1])


def _labels_needed(coverage: float) -> int:
    """The smallest n with ⌈(n + 1) coverage⌉ <= n."""
    if not 0 < coverage < 1:
        raise InputError(f"coverage is {coverage:g}; give a share between 0 and 1, for instance 0.9")
    return max(1, math.ceil(1 / (1 - coverage) - 1 - 1e-9))


def _calibration_nodes(graph: Graph, coverage: float, seed: int) -> Int[np.ndarray, "held_out"]:
    shuffled = np.random.default_rng(seed).permutation(graph.known)
    _, firsts = np.unique(graph.labels[shuffled], return_index=True)
    spare = np.delete(shuffled, firsts)
    needed = _labels_needed(coverage)
    if len(spare) < needed:
        reachable = len(spare) / (len(spare) + 1)
        remedy = f", or ask for at most {math.floor(100 * reachable) / 100:g}" if len(spare) else ""
        raise InputError(
            f"coverage {coverage:g} needs {needed} labels to hold out, and {len(spare)} of {len(graph.known)} can be "
            f"held out, since one of each class must stay; label {needed - len(spare)} more nodes{remedy}"
        )
    return np.sort(spare[: max(needed, min(len(spare), len(graph.known) // 2))])
