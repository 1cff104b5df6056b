"""`MutualTeachingClassifier`: every method of mtgcn with scikit-learn's manners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length

from mtgcn.errors import InputError
from mtgcn.estimator.answers import Answers, of_fit, of_graph, of_rows
from mtgcn.estimator.attaching import graph_of_rows
from mtgcn.estimator.checks import check_classes, check_sizes
from mtgcn.estimator.fitting import seed_of
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.inputs import as_graph, classes_and_labels, has_node_ids
from mtgcn.estimator.preparing import prepared_table, rows_for
from mtgcn.estimator.single_settings import with_settings_gathered
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.shapes import Float


class MutualTeachingClassifier(ClassifierMixin, GraphModel, BaseEstimator):  # type: ignore[misc]
    """Classify the nodes of a graph, or the rows of a table, from a handful of labels.

    `fit(X, y, graph)` takes all nodes at once, those to be classified too: `y` is -1 where the class is unknown (for
    names: None, "" or NaN). What it found out about them is in `transduction_` and `label_distributions_`.

    Parameters
    ----------
    method : a name (`mtgcn.methods.METHODS`), a method object, or None
        How to classify. None is "mt-plus", or "mt-gcn" where a backbone is given.
    backbone : a name, a torch.nn.Module, or None
        The network of each peer, for methods that let it be chosen; None is the method's own.
    neighbors, metric, mutual_neighbors
        How rows are linked where no graph is given: each to so many nearest ones by this metric; if mutual, only where
        both are among the other's nearest. New rows are attached in the same way.
    scale : bool
        Whether numbers are standardised: all columns but counts, words (or pixels) and 0/1, and no sparse matrix.
        (A setting `feature_scaling` of the method, which divides rows, comes after.)
    settings : a mapping, or None
        Settings of the method by name, for instance {"per_class": 60}.
        In a search they are reached one by one, as `settings__per_class`.
    device : "auto", "cpu", "cuda" or a torch.device
    random_state : int, RandomState or None
        Decides everything that is random.
    verbose : whether `fit` shows on standard error how far it is

    Attributes
    ----------
    classes_ : the classes, in order
    transduction_ : [nodes] the class found for every node, also for those whose label was given
    label_distributions_ : [nodes, classes] how probable each class is
    peer_distributions_ : [peers, nodes, classes] the same for each peer on its own; None where the method has no peers
    peer_report_ : the `PeerReport` of the one run, what each peer contributed; None where votes have no weights
    labeled_iter_ : [nodes] 0 where the label was given; else the epoch in which the node first served as a pseudo
        label, -1 if it never did
    n_iter_ : epochs trained, 0 for methods without epochs
    history_ : name -> [epochs, peers], the losses and what else the method tells of its training
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn
    graph_ : the `Graph` that was fitted, with the labels as given
    seed_ : the number that decided everything random; None in a model of an older version that was given none
    has_node_ids_ : whether its nodes have ids of their own; else their ids say where they stand
    method_ : the method with all its settings
    parameters_ : name -> array, what was trained; None for methods without parameters

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(n_class=3, return_X_y=True)
    >>> y = np.full(len(truth), -1)
    >>> y[:6] = truth[:6]  # six images are labelled, the other 531 are not
    >>> model = MutualTeachingClassifier("mt-gcn", settings={"warmup_epochs": 50, "teaching_epochs": 50}).fit(X, y)
    >>> bool(model.score(X, truth) > 0.9)
    True
    """

    def set_params(self, **parameters: Any) -> MutualTeachingClassifier:
        """Parameters by name, and settings of the method one by one, as `settings__NAME`."""
        return super().set_params(**with_settings_gathered(parameters, self.settings))

    def fit(self, X: Any, y: Any, graph: Any = None) -> MutualTeachingClassifier:  # noqa: N803
        """Learn the classes of all rows of X from the few that y tells.

        X is an array or a matrix of numbers, or a data frame (pandas, polars) whose columns may be of any kind: how
        they were made numbers is in `graph_.preprocessing`, and new rows are treated alike.

        `graph` joins the rows: a scipy matrix or square array of weights, node numbers in two rows (an edge index,
        numpy or torch), a networkx graph (its nodes in their order), PyG data, or a `Graph`. Without one, rows are
        linked to their nearest neighbours. With one, X may be None: features are then what the graph itself brings,
        or made from its edges (see `mtgcn.linalg.structural_features`).
        """
        if y is None:
            raise InputError("fit requires y to be passed, but the target y is None; give -1 for unknown classes")
        table, preprocessing = (None, None) if X is None else prepared_table(self, X)
        classes, labels = classes_and_labels(y)
        check_classes(classes)
        if table is not None:
            check_consistent_length(table, labels)
        if graph is not None:
            given = as_graph(graph, None if table is None else table.shape[0])
            check_sizes(given, table, labels)
        elif table is not None:
            given = graph_of_rows(self, table)
        else:
            raise InputError("neither X nor a graph was given; give one of them, or both")
        fitted = Graph(
            adjacency=given.adjacency,
            features=given.features if table is None else table,
            labels=labels,
            node_ids=given.node_ids,
            class_names=tuple(map(str, classes)),
            name=given.name,
            preprocessing=given.preprocessing if table is None else preprocessing,
        )
        return self._fit(fitted, classes, has_node_ids(graph), seed_of(self.random_state))

    def predict(self, X: Any = None, graph: Any = None) -> np.ndarray:  # noqa: N803
        """The most probable class of each row; which rows are meant, `predict_proba` tells."""
        probabilities = self.predict_proba(X, graph)
        return self.classes_[probabilities.argmax(axis=1)]

    def predict_proba(self, X: Any = None, graph: Any = None) -> Float[np.ndarray, "rows classes"]:  # noqa: N803
        """How probable each class is, for each row.

        - `predict_proba()`: what was found for the nodes of `fit`, `label_distributions_`.
        - `predict_proba(X)`: rows that were there in `fit` get the same answer. Rows carry no ids, so they are known by
          their features; of equal rows the first is taken to be the first of `fit`, the second the second, and so on.
        - `predict_proba(X_new)`: rows that were not there are attached to their nearest rows of the training data, and
          the trained peers applied to the graph that makes. It is one graph for all new rows, so how one is judged
          depends, a little, on the others.
        - `predict_proba(X_new, graph)`: the trained peers applied to that graph, whose nodes are the rows of X_new.
          Training nodes that should take part must be among them. Where it is the very graph of `fit`, the same ids
          with the same features and edges in any order, it gets the answers of `fit`.

        Methods without parameters (`parameters_` is None) have found out about the nodes of `fit` and no others.
        """
        return self._answers(X, graph).probabilities

    def peer_probabilities(self, X: Any = None, graph: Any = None) -> Float[np.ndarray, "peers rows classes"]:  # noqa: N803
        """What each peer on its own says of the same rows as `predict_proba`; a method without peers is one."""
        answers = self._answers(X, graph)
        return answers.probabilities[None] if answers.peers is None else answers.peers

    def score(self, X: Any, y: Any, sample_weight: Any = None, graph: Any = None) -> float:  # noqa: N803
        """Accuracy on those rows of X whose class y tells."""
        predicted = self.predict(X, graph)
        classes, codes = classes_and_labels(y)
        known = codes != UNKNOWN
        if len(known) != len(predicted):
            raise InputError(f"{len(known)} labels for {len(predicted)} rows; give one per row")
        if not known.any():
            raise InputError("no row has a known class, so there is nothing to score; give some labels")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(classes[codes[known]], predicted[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.scale  # a missing number is filled in and marked
        return tags

    def _answers(self, X: Any, graph: Any) -> Answers:  # noqa: N803
        self._check_fitted()
        rows = None if X is None else rows_for(self, X)
        if graph is None:
            return of_fit(self) if rows is None else of_rows(self, rows)
        given = as_graph(graph, None if rows is None else rows.shape[0])
        check_sizes(given, rows)
        if rows is not None:
            given = replace(given, features=rows, feature_names=(), preprocessing=self.graph_.preprocessing)
        return of_graph(self, given)
