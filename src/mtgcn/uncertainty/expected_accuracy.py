"""Cross-validated accuracy of a method on the given labels, and fits with held-out labels in general."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import betaincc, ndtri

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.shapes import Int
from mtgcn.splits import Split
from mtgcn.task import Prediction, observe

FOLDS = 5
MIN_LABELS_PER_CLASS = 5  # to learn a class while some labels are held out
MIN_LABELS = 20  # below, the confidence interval is too wide to be useful


@dataclass(frozen=True)
class ExpectedAccuracy:
    """Accuracy on held-out labels, with a 95 % confidence interval."""

    accuracy: float
    ci95: tuple[float, float]
    labels: int
    folds: int


def check_folds(folds: int) -> None:
    """Raise if labels cannot be divided into this number of folds."""
    if folds < 0 or folds == 1:
        raise InputError(f"folds is {folds}; give at least 2, or 0 not to measure accuracy")


def why_not_measurable(graph: Graph, method: Method, folds: int = FOLDS) -> str | None:
    """Why accuracy cannot be estimated from the labels of this graph; None if it can."""
    counts = graph.label_counts
    rarest = int(counts.argmin())
    if method.uses_validation:
        return "the method needs validation labels of its own"
    needed = max(MIN_LABELS, folds)
    if len(graph.known) < needed:
        return f"{len(graph.known)} labels are too few to tell; {needed} are needed"
    if counts[rarest] < MIN_LABELS_PER_CLASS:
        return (
            f"class {graph.class_names[rarest]!r} has {counts[rarest]} labels, too few to tell; "
            f"{MIN_LABELS_PER_CLASS} of each class are needed"
        )
    return None


def expected_accuracy(
    graph: Graph, method: Method, *, seed: int, device: torch.device | str = "cpu", folds: int = FOLDS
) -> ExpectedAccuracy:
    """Cross-validation over the given labels, all folds in one stack.

    Each fold learns from fewer labels than the final model, so the estimate is pessimistic.
    """
    held_out = stratified_folds(graph, graph.known, folds, seed)
    probabilities = fits_without(graph, method, held_out, seed, device).probabilities
    predicted = np.concatenate([probabilities[run, nodes].argmax(axis=1) for run, nodes in enumerate(held_out)])
    correct = int((predicted == graph.labels[np.concatenate(held_out)]).sum())
    return ExpectedAccuracy(correct / len(predicted), wilson_interval(correct, len(predicted)), len(predicted), folds)


def stratified_folds(
    graph: Graph, nodes: Int[np.ndarray, "labelled"], folds: int, seed: int
) -> list[Int[np.ndarray, "held_out"]]:
    """Labelled nodes in stratified folds."""
    shuffled = np.random.default_rng(seed).permutation(nodes)
    by_class = shuffled[np.argsort(graph.labels[shuffled], kind="stable")]
    return [np.sort(by_class[fold::folds]) for fold in range(folds)]


def fits_without(
    graph: Graph, method: Method, held_out: Sequence[np.ndarray], seed: int, device: torch.device | str
) -> Prediction:
    """Fit the method once without each of these sets of labels; all fits are runs of one stack."""
    if method.uses_validation:
        raise InputError(
            f"{type(method).__name__} needs validation labels, and none are set aside here; use another method"
        )
    seen = with_structural_features(graph, seed) if method.uses_features and graph.features is None else graph
    splits = [Split(np.setdiff1d(graph.known, nodes), nodes[:0], nodes) for nodes in held_out]
    task = observe(seen, splits, seed, device=device)
    # One seed for all runs, so that whatever does not depend on labels is computed once.
    return fit_in_chunks(method, replace(task, seeds=task.seeds[:1] * len(splits)))


# `scipy.stats` has both functions below, and takes half a second to import.


def binomial_cdf(successes: int, trials: int, probability: float) -> float:
    """P(X <= successes) of a binomial X, by the incomplete beta function.

    >>> binomial_cdf(1, 2, 0.5)
    0.75
    """
    return 1.0 if successes >= trials else float(betaincc(successes + 1, trials - successes, probability))


def wilson_interval(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Confidence interval of a proportion (Wilson, 1927), valid also near 0 and 1."""
    z = float(ndtri((1 + confidence) / 2))
    centre = successes + z**2 / 2
    half = z * math.sqrt(successes * (trials - successes) / trials + z**2 / 4)
    low, high = ((end / (trials + z**2)) for end in (centre - half, centre + half))
    return (low if successes else 0.0), (high if successes < trials else 1.0)
