"""How far to trust a fit, and what to label next."""

from mtgcn.trust.calibration import temperature, tempered
from mtgcn.trust.conformal import PredictionSets, prediction_sets
from mtgcn.trust.warnings import FitWarning, label_warnings, model_warnings

__all__ = [
    "FitWarning",
    "PredictionSets",
    "label_warnings",
    "model_warnings",
    "prediction_sets",
    "temperature",
    "tempered",
]
