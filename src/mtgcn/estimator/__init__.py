"""The scikit-learn face: `MutualTeachingClassifier`, and models as folders."""

from mtgcn.estimator.classifier import MutualTeachingClassifier

__all__ = ["MutualTeachingClassifier"]
