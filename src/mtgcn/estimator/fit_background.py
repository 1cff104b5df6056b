"""What a model knows of its own fit beside its answers: how accurate it will be, and what reading the files did."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mtgcn.environment import chosen_device
from mtgcn.report.fit_page import Background
from mtgcn.report.progress import fitting_progress
from mtgcn.uncertainty.expected_accuracy import check_folds, expected_accuracy, why_not_measurable

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

HOW_TO_MEASURE = "not measured; model.report(path, folds=5) does, by fitting five times more"


def fit_background(model: GraphModel, folds: int = 0) -> Background:
    """As the folder tells that the model comes from; measured anew with `folds` parts of the labels, unless 0."""
    check_folds(folds)
    kept = Background.from_training(model.training_)
    if folds == 0:
        told = kept.expected_accuracy or kept.why_no_expected_accuracy
        return kept if told else replace(kept, why_no_expected_accuracy=HOW_TO_MEASURE)
    why_not = why_not_measurable(model.graph_, model.method_, folds)
    if why_not:
        return replace(kept, expected_accuracy=None, why_no_expected_accuracy=why_not)
    with fitting_progress("measuring accuracy on held-out labels"):
        expected = expected_accuracy(
            model.graph_, model.method_, seed=model.seed_ or 0, device=chosen_device(model.device), folds=folds
        )
    return replace(kept, expected_accuracy=expected, why_no_expected_accuracy=None)
