"""Models: `GraphModel`, its scikit-learn face `MutualTeachingClassifier`, the one road to an answer, models as folders.

Nothing is imported here: commands need models without scikit-learn.
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
