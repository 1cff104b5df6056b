"""Classifiers of scikit-learn on the features, without edges: the usual choice for tables.

    P = f(X)  with the classifier f fitted to the rows of the labelled nodes: X_L, y_L,

or, if it is semi-supervised, to all rows X. The features X of a table are its preprocessed columns. Rows are sorted by
key before the fit, so that the node order does not matter. Everything runs on the CPU. `Estimator` wraps any other
classifier.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Annotated, Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mtgcn.graph import UNLABELED
from mtgcn.linalg.node_keys import node_keys
from mtgcn.linalg.normalisation import check_features
from mtgcn.methods.base import Method
from mtgcn.settings import Gt, Lt, PositiveFloat, PositiveInt
from mtgcn.shapes import Float
from mtgcn.task import MISSING, Prediction, Task


@dataclass(frozen=True, kw_only=True)
class ScikitLearn(Method):
    """Base class of the methods of this file."""

    arena_groups: ClassVar[tuple[str, ...]] = ("tables",)
    sklearn_class: ClassVar[str]  # scikit-learn class; settings have the names of its parameters
    shows_warnings: ClassVar[bool] = False  # about iterations, and about rows that no label reaches
    max_dense_values: ClassVar[float] = math.inf  # sparse features with more values stay sparse

    def classifier(self, rows: Any, seed: int) -> Any:
        """The unfitted classifier f."""
        module, name = self.sklearn_class.rsplit(".", 1)
        return getattr(import_module(f"sklearn.{module}"), name)(**asdict(self), random_state=seed)

    def probabilities(self, fitted: Any, rows: Any) -> Float[np.ndarray, "nodes classes"]:
        """Probabilities P of the classes with labels."""
        return np.asarray(fitted.predict_proba(rows))

    def fit(self, task: Task) -> Prediction:
        order = np.argsort(node_keys(task.graph).numpy())
        place = np.argsort(order)
        rows: Any = check_features(task.graph)[order].astype(np.float64)
        if sp.issparse(rows) and math.prod(rows.shape) <= self.max_dense_values:
            rows = rows.toarray()
        index, classes = task.labelled.index.cpu().numpy(), task.labelled.classes.cpu().numpy()
        found = np.zeros((task.runs, task.num_nodes, task.num_classes), dtype=np.float32)
        for run, seed in enumerate(task.seeds):
            present = index[run] != MISSING
            labels = np.full(task.num_nodes, UNLABELED)
            labels[place[index[run, present]]] = classes[run, present]
            classifier = self.classifier(rows, seed % 2**32)
            is_semi_supervised = type(classifier).__module__.startswith("sklearn.semi_supervised")
            some = np.arange(task.num_nodes) if is_semi_supervised else np.flatnonzero(labels != UNLABELED)
            with warnings.catch_warnings():
                if not self.shows_warnings:
                    warnings.simplefilter("ignore")
                fitted = classifier.fit(rows[some], labels[some])
            found[run][:, fitted.classes_] = self.probabilities(fitted, rows)[place]
        return Prediction(found)

    def shared_bytes(self, task: Task) -> int:
        values = min(task.num_nodes * task.graph.num_features, self.max_dense_values)
        return int(8 * 3 * (values + task.num_nodes * task.num_classes))


@dataclass(frozen=True, kw_only=True)
class Estimator(ScikitLearn):
    """A classifier of scikit-learn, or one like it. Those of `sklearn.semi_supervised` see the unlabelled rows too."""

    estimator: Any
    shows_warnings: ClassVar[bool] = True
    max_dense_values: ClassVar[float] = 2**27

    def classifier(self, rows: Any, seed: int) -> Any:
        from sklearn.base import clone

        model = clone(self.estimator)
        settings = model.get_params().items()
        unset = [name for name, value in settings if name.endswith("random_state") and value is None]
        return model.set_params(**dict.fromkeys(unset, seed))

    def probabilities(self, fitted: Any, rows: Any) -> Float[np.ndarray, "nodes classes"]:
        if hasattr(fitted, "predict_proba"):
            return super().probabilities(fitted, rows)
        return np.asarray(fitted.predict(rows)[:, None] == fitted.classes_, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class RandomForest(ScikitLearn):
    """The random forest (Breiman, 2001): the mean of trees on bootstrap samples, f = (1 / T) Σ_t tree_t."""

    sklearn_class: ClassVar[str] = "ensemble.RandomForestClassifier"
    n_estimators: PositiveInt = 100  # T: number of trees


@dataclass(frozen=True, kw_only=True)
class GradientBoosting(ScikitLearn):
    """Gradient boosting of trees over histograms (Friedman, 2001; Ke et al., 2017): f = softmax(η Σ_t tree_t)."""

    sklearn_class: ClassVar[str] = "ensemble.HistGradientBoostingClassifier"
    max_iter: PositiveInt = 100  # trees per class
    learning_rate: PositiveFloat = 0.1  # η: the weight of a tree
    min_samples_leaf: PositiveInt = 1  # scikit-learn's default of 20 learns nothing from few labels


@dataclass(frozen=True, kw_only=True)
class LabelSpreading(ScikitLearn):
    """Label spreading (Zhou et al., 2004): F = α S F + (1 - α) Y, S the normalised kernel exp(-γ |x_i - x_j|²).

    Rows that no label reaches get equal probabilities."""

    gamma: PositiveFloat | None = None  # γ of the kernel; none: 1 / columns
    alpha: Annotated[float, Gt(0), Lt(1)] = 0.2  # α: how much a label may change
    max_iter: PositiveInt = 100  # most iterations
    kernel_rows: PositiveInt = 5000  # larger tables use nearest neighbours instead of the kernel, which is rows x rows
    n_neighbors: PositiveInt = 30  # neighbours of each row, itself included

    def classifier(self, rows: Any, seed: int) -> Any:
        from sklearn.semi_supervised import LabelSpreading as Spreading

        kernel = "rbf" if len(rows) <= self.kernel_rows else "knn"
        gamma = 1 / rows.shape[1] if self.gamma is None else self.gamma
        neighbours = min(self.n_neighbors, len(rows))
        return Spreading(kernel, gamma=gamma, n_neighbors=neighbours, alpha=self.alpha, max_iter=self.max_iter)

    def probabilities(self, fitted: Any, rows: Any) -> Float[np.ndarray, "nodes classes"]:
        known = fitted.label_distributions_
        return np.where(known.sum(axis=1, keepdims=True) > 0, known, 1 / known.shape[1])

    def shared_bytes(self, task: Task) -> int:
        kernel = task.num_nodes if task.num_nodes <= self.kernel_rows else self.n_neighbors
        return super().shared_bytes(task) + 8 * 4 * task.num_nodes * kernel


@dataclass(frozen=True, kw_only=True)
class SklearnLogistic(ScikitLearn):
    """scikit-learn's logistic regression: f = softmax(x W + b), with a fixed ridge penalty |W|² / 2C."""

    sklearn_class: ClassVar[str] = "linear_model.LogisticRegression"
    C: PositiveFloat = 1.0  # inverse penalty
    max_iter: PositiveInt = 2000  # most iterations


@dataclass(frozen=True, kw_only=True)
class SelfTrainedSklearnLogistic(SklearnLogistic):
    """`sklearn-logistic`, self-trained (Yarowsky, 1995): rows with max f ≥ θ join the labelled ones, round by round."""

    threshold: Annotated[float, Gt(0), Lt(1)] = 0.75  # θ: probability from which a row counts as labelled

    def classifier(self, rows: Any, seed: int) -> Any:
        from sklearn.semi_supervised import SelfTrainingClassifier

        base = SklearnLogistic(C=self.C, max_iter=self.max_iter)
        return SelfTrainingClassifier(base.classifier(rows, seed), threshold=self.threshold)
