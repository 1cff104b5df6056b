"""`MutualTeachingClassifier`, all methods of mtgcn with scikit-learn's interface, and `LabelFolds` to validate it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import BaseCrossValidator, StratifiedKFold
from sklearn.utils import check_consistent_length

from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel, seed_of
from mtgcn.estimator.inference import (
    NodePredictions,
    graph_of_rows,
    predict_fitted,
    predict_graph,
    predict_joined,
    predict_rows,
)
from mtgcn.estimator.inputs import (
    MISSING,
    as_graph,
    check_learnable,
    check_sizes,
    classes_and_labels,
    fitted_table,
    has_node_ids,
    transformed_rows,
)
from mtgcn.graph import Graph
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Float, Int

SETTINGS_PREFIX = "settings__"


class MutualTeachingClassifier(ClassifierMixin, GraphModel, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classifier for the nodes of a graph or the rows of a table.

    `fit(X, y, graph)` takes all nodes, labelled and unlabelled. In `y`, -1 marks an unlabelled node (None, "" or NaN if
    the classes are names).

    Parameters
    ----------
    method : str, method object or None, default=None
        The method, by its name in `mtgcn.methods.METHODS` or as an object. None is "mt-plus", or "mt-gcn" if a
        `backbone` is given.
    backbone : str, torch.nn.Module or None, default=None
        The network of each peer, for methods with a setting `backbone`.
    neighbors : int, default=10
        Number of nearest neighbours that a row is linked to where no graph is given. New rows are attached in the same
        way.
    metric : str, default="euclidean"
        Metric of the nearest neighbours.
    mutual_neighbors : bool, default=False
        Whether two rows are linked only if each is among the nearest neighbours of the other.
    scale : bool, default=True
        Whether numeric columns are standardised. Counts, 0/1 columns and sparse matrices never are.
    settings : mapping or None, default=None
        Settings of the method, for instance ``{"per_class": 60}``. Searches set them one by one as
        ``settings__per_class``.
    class_prior : mapping of class to share, "labelled", "estimated" or None, default=None
        Class shares among all nodes, to which probabilities are corrected: known ones, those of the labels, or
        estimated from the predictions. None leaves probabilities as they are.
    device : str or torch.device, default="auto"
        "auto", "cpu" or "cuda".
    random_state : int, RandomState instance or None, default=None
        Determines all random numbers.
    verbose : bool, default=False
        Whether `fit` shows its progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted class labels.
    transduction_ : ndarray of shape (n_nodes,)
        Predicted class of each node of the fit.
    label_distributions_ : ndarray of shape (n_nodes, n_classes)
        Class probabilities of each node of the fit.
    peer_distributions_ : ndarray of shape (n_peers, n_nodes, n_classes) or None
        Class probabilities by peer; None for methods without peers.
    peer_report_ : PeerReport or None
        Weight, held-out accuracy and agreement of each peer; None for methods that do not report peer weights.
    expected_accuracy_ : ExpectedAccuracy or None
        Accuracy on unlabelled nodes with intervals, by the cross-validation of the method; None if it has none, or a
        column looks like a copy of the labels.
    labeled_iter_ : ndarray of shape (n_nodes,)
        0 for labelled nodes, the epoch in which a node first became a pseudo-label, or -1.
    n_iter_ : int
        Number of epochs; 0 for methods without epochs.
    history_ : dict of str to ndarray of shape (n_epochs, n_peers)
        Losses and other values recorded in training.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names of X, if it has any.
    graph_ : Graph
        The fitted graph, with the labels of `y`.
    seed_ : int
        The seed drawn from `random_state`.
    has_node_ids_ : bool
        Whether the graph has node ids; otherwise ids are positions.
    method_ : Method
        The method with all its settings.
    parameters_ : dict of str to ndarray, or None
        Trained parameters; None for methods without any.
    warnings_ : list of str
        Why predictions may be unreliable.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(n_class=3, return_X_y=True)
    >>> y = np.full(len(truth), -1)
    >>> y[:6] = truth[:6]  # six labelled images, 531 unlabelled ones
    >>> model = MutualTeachingClassifier("mt-gcn", settings={"warmup_epochs": 50, "teaching_epochs": 50}).fit(X, y)
    >>> bool(model.score(X, truth) > 0.9)
    True
    """

    def set_params(self, **parameters: Any) -> MutualTeachingClassifier:
        """Set parameters, and single settings of the method as `settings__NAME`."""
        single = {name.removeprefix(SETTINGS_PREFIX): name for name in parameters if name.startswith(SETTINGS_PREFIX)}
        rest = {name: value for name, value in parameters.items() if not name.startswith(SETTINGS_PREFIX)}
        if single:  # in a new mapping, since the old one may belong to the caller
            settings = dict(rest.get("settings", self.settings) or {})
            rest["settings"] = settings | {setting: parameters[name] for setting, name in single.items()}
        return super().set_params(**rest)

    def fit(self, X: Any, y: Any = None, graph: Any = None, *, target: str | None = None) -> MutualTeachingClassifier:  # noqa: N803
        """Fit the classifier to all nodes.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_nodes, n_features), or None
            Features. Data frames (of pandas, polars, pyarrow and others) may have columns of any type; their
            preprocessing is `graph_.preprocessing`. With None, the features of `graph` are used, or structural features
            computed from its edges.
        y : array-like of shape (n_nodes,)
            Class labels, -1 for unlabelled nodes.
        target : str
            Instead of `y`, the column of the data frame X that holds the classes, empty where they are unknown.
        graph : matrix, array, edge index, pairs, data frame, networkx graph, PyG data, Graph or None, default=None
            The edges: a square matrix of weights; two rows of node numbers; pairs of nodes, as an array of shape
            (n_edges, 2) or a list; a data frame with two columns of nodes and optionally one of weights, by the names
            source, target and weight or by position; or a graph object. Nodes of pairs, data frames and networkx are
            matched with the index of X or with row numbers. Whole numbers of shape (2, 2) are two rows of node numbers,
            or a matrix if there are two nodes. With None, rows are linked to their nearest neighbours.

        Returns
        -------
        self : MutualTeachingClassifier
        """
        if target is not None:
            if y is not None:
                raise InputError(f"y and target={target!r} both give the classes; give one of them")
            from mtgcn.io.frames import split_target

            X, y = split_target(X, target)  # noqa: N806
        if y is None:
            raise InputError("fit requires y to be passed, but the target y is None; give -1 for unknown classes")
        table, preprocessing = (None, None) if X is None else fitted_table(self, X)
        if preprocessing is not None:
            preprocessing = replace(preprocessing, label_column=target)
        classes, labels = classes_and_labels(y)
        check_learnable(classes, np.bincount(labels[labels != UNLABELED], minlength=len(classes)))
        if table is not None:
            check_consistent_length(table, labels)
        if graph is not None:
            given = as_graph(graph, None if table is None else table.shape[0], y if X is None else X)
            check_sizes(given, table, labels)
        elif table is not None:
            given = graph_of_rows(self, table)
        else:
            raise InputError("neither X nor a graph was given; give one of them, or both")
        names = given.feature_names if table is None else ()
        if preprocessing is not None and preprocessing.named:
            names = preprocessing.names
        fitted = Graph(
            adjacency=given.adjacency,
            features=given.features if table is None else table,
            labels=labels,
            node_ids=given.node_ids,
            class_names=tuple(map(str, classes)),
            name=given.name,
            feature_names=names,
            preprocessing=given.preprocessing if table is None else preprocessing,
            class_type=classes.dtype.str,
        )
        has_ids = has_node_ids(graph) or not np.array_equal(given.node_ids, np.arange(given.num_nodes))
        return self._fit(fitted, classes, seed_of(self.random_state), has_node_ids=has_ids)

    def predict(self, X: Any = None, graph: Any = None, *, edges: Any = None) -> np.ndarray:  # noqa: N803
        """The most probable class of each row; see `predict_proba` for the parameters."""
        probabilities = self.predict_proba(X, graph, edges=edges)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(
        self,
        X: Any = None,  # noqa: N803
        graph: Any = None,
        *,
        edges: Any = None,
    ) -> Float[np.ndarray, "rows classes"]:
        """Class probabilities of each row.

        - ``predict_proba()``: the nodes of the fit, `label_distributions_`.
        - ``predict_proba(X)``: rows of the fit, recognised by their features, keep their prediction. Other rows are
          attached to their nearest rows of the fit and predicted by the trained peers.
        - ``predict_proba(X, edges=edges)``: rows join the graph of the fit by these edges, pairs of ids, ids and
          weights, or a data frame of these. Ids of rows are the index of a data frame, otherwise the numbers after
          those of the fit.
        - ``predict_proba(X, graph)``: the trained peers predict the nodes of another graph. The graph of the fit, with
          its nodes in any order, keeps its predictions.

        Methods without parameters (`parameters_` is None) predict the nodes of the fit only.
        """
        return self._predictions(X, graph, edges).probabilities

    def peer_probabilities(self, X: Any = None, graph: Any = None) -> Float[np.ndarray, "peers rows classes"]:  # noqa: N803
        """Class probabilities by peer, for the same rows as `predict_proba`; one peer for methods without peers."""
        predictions = self._predictions(X, graph)
        return predictions.probabilities[None] if predictions.peers is None else predictions.peers

    def score(self, X: Any, y: Any, sample_weight: Any = None, graph: Any = None) -> float:  # noqa: N803
        """Accuracy on the labelled rows of X."""
        predictions = self._predictions(X, graph)
        predicted = self.classes_[predictions.probabilities.argmax(axis=1)]
        classes, codes = classes_and_labels(y)
        known = codes != UNLABELED
        if len(known) != len(predicted):
            raise InputError(f"{len(known)} labels for {len(predicted)} rows; give one per row")
        held_out = int((~known & (predictions.positions == MISSING)).sum())
        if graph is None and held_out:
            raise InputError(
                f"{held_out} of {len(known)} rows to score have no label and were not in the fit; cross-validate with "
                "cv=mtgcn.LabelFolds(), which keeps unlabelled rows in every fit, or score labelled rows alone"
            )
        if not known.any():
            raise InputError("no row has a known class, so there is nothing to score; give some labels")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(classes[codes[known]], predicted[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.scale  # missing numbers are imputed and marked
        return tags

    def _predictions(self, X: Any, graph: Any, edges: Any = None) -> NodePredictions:  # noqa: N803
        self._check_fitted()
        rows = None if X is None else transformed_rows(self, X)
        if edges is not None:
            if rows is None or graph is not None:
                raise InputError("edges join the rows of X to the graph of the fit; give X, and no graph")
            count = self.graph_.num_nodes
            ids = np.asarray(X.index) if hasattr(X, "iloc") else np.arange(count, count + rows.shape[0])
            return predict_joined(self, rows, ids, edges)
        if graph is None:
            return predict_fitted(self) if rows is None else predict_rows(self, rows)
        given = as_graph(graph, None if rows is None else rows.shape[0], X)
        check_sizes(given, rows)
        if rows is not None:
            given = replace(given, features=rows, feature_names=(), preprocessing=self.graph_.preprocessing)
        return predict_graph(self, given)


class LabelFolds(BaseCrossValidator):  # type: ignore[misc]
    """Stratified folds of the labelled rows, for `cross_val_score` and searches.

    Unlabelled rows are in the training part of every fold and never scored. Labels may be None or NaN.

    Parameters
    ----------
    n_splits : int, default=5
    random_state : int or None, default=0
    all_rows : bool, default=False
        Whether each unlabelled row is in one test part too, as `cross_val_predict` needs it.

    Examples
    --------
    >>> y = ["a", None, "b", None, "a", "b"]
    >>> [(train.tolist(), held_out.tolist()) for train, held_out in LabelFolds(2).split(None, y)]
    [([0, 1, 3, 5], [2, 4]), ([1, 2, 3, 4], [0, 5])]
    """

    def __init__(self, n_splits: int = 5, *, random_state: int | None = 0, all_rows: bool = False) -> None:
        self.n_splits = n_splits
        self.random_state = random_state
        self.all_rows = all_rows

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
        for fold, (_, held_out) in enumerate(folds.split(labelled, codes[labelled])):
            unlabelled = np.flatnonzero(codes == UNLABELED)[fold :: self.n_splits]
            test = np.union1d(labelled[held_out], unlabelled) if self.all_rows else labelled[held_out]
            yield np.setdiff1d(np.arange(len(codes)), labelled[held_out]), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: N803
        """The number of folds."""
        return self.n_splits
