"""How accurate a model will be, as far as the labels at hand can tell: each is predicted once without its own help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.uncertainty.binomial import wilson_interval
from mtgcn.uncertainty.held_out import fits_without, stratified_folds

if TYPE_CHECKING:
    import torch

    from mtgcn.graph import Graph
    from mtgcn.methods import Method

FOLDS = 5
LEAST_PER_CLASS = 5  # enough to learn a class from while some are held out
LEAST_LABELS = 20  # below, the interval is wider than what anybody guesses without measuring


@dataclass(frozen=True)
class ExpectedAccuracy:
    """The share of the given labels that were predicted rightly while held out."""

    accuracy: float
    ci95: tuple[float, float]
    labels: int
    folds: int


def why_not_measurable(graph: Graph, method: Method, folds: int = FOLDS) -> str | None:
    """Why the labels of this graph cannot tell how accurate the method will be; None if they can."""
    counts = graph.label_counts
    rarest = int(counts.argmin())
    if method.uses_validation:
        return "the method needs validation labels of its own"
    least = max(LEAST_LABELS, folds)
    if len(graph.known) < least:
        return f"{len(graph.known)} labels are too few to tell; {least} are needed"
    if counts[rarest] < LEAST_PER_CLASS:
        return (
            f"class {graph.class_names[rarest]!r} has {counts[rarest]} labels, too few to tell; "
            f"{LEAST_PER_CLASS} of each class are needed"
        )
    return None


def expected_accuracy(
    graph: Graph, method: Method, *, seed: int, device: torch.device | str = "cpu", folds: int = FOLDS
) -> ExpectedAccuracy:
    """Cross-validation over the given labels, all folds as runs of one stack.

    Each fold learns from fewer labels than the model that is kept, so this errs on the low side.
    """
    held_out = stratified_folds(graph, graph.known, folds, seed)
    probabilities = fits_without(graph, method, held_out, seed, device).probabilities
    predicted = np.concatenate([probabilities[run, nodes].argmax(axis=1) for run, nodes in enumerate(held_out)])
    right = int((predicted == graph.labels[np.concatenate(held_out)]).sum())
    return ExpectedAccuracy(right / len(predicted), wilson_interval(right, len(predicted)), len(predicted), folds)
