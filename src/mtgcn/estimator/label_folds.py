"""Cross-validation for semi-supervised data: only labelled rows are held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold

from mtgcn.errors import InputError
from mtgcn.estimator.inputs import classes_and_labels
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Int


class LabelFolds(BaseCrossValidator):  # type: ignore[misc]
    """Stratified folds of the labelled rows, for `cross_val_score` and searches.

    Unlabelled rows are in the training part of every fold and never scored. Labels may be None or NaN.

    Parameters
    ----------
    n_splits : int, default=5
    random_state : int or None, default=0

    Examples
    --------
    >>> y = ["a", None, "b", None, "a", "b"]
    >>> [(train.tolist(), held_out.tolist()) for train, held_out in LabelFolds(2).split(None, y)]
    [([0, 1, 3, 5], [2, 4]), ([1, 2, 3, 4], [0, 5])]
    """

    def __init__(self, n_splits: int = 5, *, random_state: int | None = 0) -> None:
        self.n_splits = n_splits
        self.random_state = random_state

    def split(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        groups: Any = None,
    ) -> Iterator[tuple[Int[np.ndarray, "train"], Int[np.ndarray, "held_out"]]]:
        """Yield the training and test rows of each fold."""
        classes, codes = classes_and_labels(y)
        labelled = np.flatnonzero(codes != UNLABELED)
        counts = np.bincount(codes[labelled], minlength=len(classes))
        if self.n_splits < 2 or not len(labelled) or counts.min() < self.n_splits:
            fewest = f"{counts.min()} of class {classes[counts.argmin()]}" if len(labelled) else "none at all"
            raise InputError(
                f"n_splits is {self.n_splits}, and the labels of the rarest class are {fewest}; give at least 2 folds "
                "and at most as many as that class has labels, or label more rows"
            )
        folds = StratifiedKFold(self.n_splits, shuffle=True, random_state=self.random_state)
        for _, held_out in folds.split(labelled, codes[labelled]):
            yield np.setdiff1d(np.arange(len(codes)), labelled[held_out]), labelled[held_out]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """The number of folds."""
        return self.n_splits
