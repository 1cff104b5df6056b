"""Estimators: `GraphModel`, and `MutualTeachingClassifier` with scikit-learn's interface.

Nothing is imported here, since commands use `GraphModel` without scikit-learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier

__all__ = ["MutualTeachingClassifier"]


def __getattr__(name: str) -> Any:
    if name == "MutualTeachingClassifier":
        from mtgcn.estimator.classifier import MutualTeachingClassifier

        return MutualTeachingClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
