"""Uncertainty of a fit: calibration, prediction sets, expected accuracy, warnings, and which nodes to label next."""

from mtgcn.training.calibration import tempered
from mtgcn.uncertainty.held_out import PredictionSets, prediction_sets, temperature
from mtgcn.uncertainty.warnings import FitWarning, label_warnings, model_warnings

__all__ = [
    "FitWarning",
    "PredictionSets",
    "label_warnings",
    "model_warnings",
    "prediction_sets",
    "temperature",
    "tempered",
]
