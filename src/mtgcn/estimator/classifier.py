"""`MutualTeachingClassifier`: every method of mtgcn with scikit-learn's manners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.estimator.answers import Answers, of_fit, of_graph, of_rows, summing_to_one
from mtgcn.estimator.attaching import graph_of_rows
from mtgcn.estimator.checks import check_classes, check_every_class, check_magnitudes, check_sizes
from mtgcn.estimator.fitting import chosen_method, in_words_for, seed_of, shown_progress, task_of
from mtgcn.estimator.inputs import as_graph, classes_and_labels, has_node_ids
from mtgcn.estimator.labelling import with_more_labels
from mtgcn.estimator.preparing import columns_in, prepared_graph, prepared_table, rows_for
from mtgcn.estimator.single_settings import with_settings_gathered
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.shapes import Float, Int
from mtgcn.task import PeerReport, Prediction
from mtgcn.trust.warnings import model_warnings, warn_of_fit

if TYPE_CHECKING:
    from mtgcn.trust.suggestions import Suggestions

GIVEN, NEVER = 0, -1  # in `labeled_iter_`: a label of its own, and neither that nor ever a pseudo label


class MutualTeachingClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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

    classes_: np.ndarray
    transduction_: np.ndarray
    label_distributions_: Float[np.ndarray, "nodes classes"]
    peer_distributions_: Float[np.ndarray, "peers nodes classes"] | None
    peer_report_: PeerReport | None
    labeled_iter_: Int[np.ndarray, "nodes"]
    n_iter_: int
    n_features_in_: int
    history_: dict[str, Float[np.ndarray, "epochs peers"]]
    graph_: Graph
    seed_: int | None
    has_node_ids_: bool
    method_: Method
    parameters_: dict[str, np.ndarray] | None
    training_: dict[str, Any]  # what the folder a model comes from tells of its training; empty after a fit

    def __init__(
        self,
        method: Any = None,
        *,
        backbone: Any = None,
        neighbors: int = 10,
        metric: str = "euclidean",
        mutual_neighbors: bool = False,
        scale: bool = True,
        settings: Mapping[str, Any] | None = None,
        device: Any = "auto",
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.backbone = backbone
        self.neighbors = neighbors
        self.metric = metric
        self.mutual_neighbors = mutual_neighbors
        self.scale = scale
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def set_params(self, **parameters: Any) -> MutualTeachingClassifier:
        """Parameters by name, and settings of the method one by one, as `settings__NAME`."""
        return super().set_params(**with_settings_gathered(parameters, self.settings))

    def fit(self, X: Any, y: Any, graph: Any = None) -> MutualTeachingClassifier:  # noqa: N803
        """Learn the classes of all rows of X from the few that y tells.

        X is an array or a matrix of numbers, or a data frame (pandas, polars) whose columns may be of any kind: how
        they were made numbers is in `graph_.preparation`, and new rows are treated alike.

        `graph` joins the rows: a scipy matrix or square array of weights, node numbers in two rows (an edge index,
        numpy or torch), a networkx graph (its nodes in their order), PyG data, or a `Graph`. Without one, rows are
        linked to their nearest neighbours. With one, X may be None: features are then what the graph itself brings,
        or made from its edges (see `mtgcn.structure`).
        """
        if y is None:
            raise InputError("fit requires y to be passed, but the target y is None; give -1 for unknown classes")
        table, preparation = (None, None) if X is None else prepared_table(self, X)
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
            preparation=given.preparation if table is None else preparation,
        )
        return self._fit(fitted, classes, has_node_ids(graph), seed_of(self.random_state))

    def fit_graph(self, graph: Graph) -> MutualTeachingClassifier:
        """Learn the classes of all nodes from the labels that the graph holds; its features may be None."""
        check_every_class(graph)
        return self._fit(graph, np.array(graph.class_names), True, seed_of(self.random_state))

    def take_over(self, graph: Graph, prediction: Prediction, seed: int) -> MutualTeachingClassifier:
        """As if `fit_graph` had found this prediction of the graph's nodes, which was made elsewhere."""
        self._keep(graph, np.array(graph.class_names), chosen_method(self), prediction)
        self.has_node_ids_, self.seed_ = True, seed
        return self

    def label(self, labels: Mapping[Any, Any], *, new_classes: Sequence[Any] = ()) -> MutualTeachingClassifier:
        """Learn anew with more labels, or with corrected ones: a class for each of some nodes, by their ids.

        What was learned without looking at labels, such as embeddings, is not learned again. A class that no label had
        before must be among `new_classes`, so that a slip of the pen does not become one.
        """
        check_is_fitted(self)
        graph, classes, _ = with_more_labels(self, labels, new_classes)
        return self.fit_again(graph, classes)

    def fit_again(self, graph: Graph, classes: np.ndarray) -> MutualTeachingClassifier:
        """Learn anew from the graph of the fit with other labels; see `label`."""
        check_is_fitted(self)
        check_every_class(graph)
        if self.seed_ is None:  # so what was learned may belong to features that can no longer be made
            return self._fit(graph, classes, self.has_node_ids_, seed_of(self.random_state))
        return self._fit(graph, classes, self.has_node_ids_, self.seed_, self.parameters_)

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

    def suggest(self, n: int = 10) -> Suggestions:
        """Which nodes to label next, and why: the first is worth the most, and asking for more changes none of the
        first. A notebook shows them as a table."""
        check_is_fitted(self)
        from mtgcn.trust.suggestions import suggest

        return suggest(self, n)

    def plot(self) -> Any:
        """A matplotlib figure: the map of the nodes, how sure the model is, of what, and how it learnt."""
        check_is_fitted(self)
        from mtgcn.report.fit_figure import plot

        return plot(self)

    def report(self, path: str | Path, *, folds: int = 0) -> None:
        """Write the page about this fit: one HTML file that needs nothing but itself.

        How accurate the model will be is on it where the model comes from a folder that knows, or if `folds` is at
        least 2: then the method is fitted that often again, each time without a part of the labels.
        """
        check_is_fitted(self)
        from mtgcn.estimator.fit_background import fit_background
        from mtgcn.report.fit_page import fit_page
        from mtgcn.storage.destinations import check_file

        check_file(path)
        fit_page(self, path, fit_background(self, folds))

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder that holds nothing but numbers and a JSON card."""
        check_is_fitted(self)
        from mtgcn.estimator.model_folder import save_model

        save_model(self, folder)

    @staticmethod
    def load(folder: str | Path) -> MutualTeachingClassifier:
        """The model that `save` wrote."""
        from mtgcn.estimator.model_folder import load_model

        return load_model(folder)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.scale  # a missing number is filled in and marked
        return tags

    def _answers(self, X: Any, graph: Any) -> Answers:  # noqa: N803
        check_is_fitted(self)
        rows = None if X is None else rows_for(self, X)
        if graph is None:
            return of_fit(self) if rows is None else of_rows(self, rows)
        given = as_graph(graph, None if rows is None else rows.shape[0])
        check_sizes(given, rows)
        if rows is not None:
            given = replace(given, features=rows, feature_names=(), preparation=self.graph_.preparation)
        return of_graph(self, given)

    def _fit(
        self,
        graph: Graph,
        classes: np.ndarray,
        named: bool,
        seed: int,
        learned: Mapping[str, np.ndarray] | None = None,
    ) -> MutualTeachingClassifier:
        """Fit all nodes. `learned` are the parameters of an earlier fit on the same graph, with other labels."""
        check_magnitudes(graph)
        graph = prepared_graph(graph, scale=self.scale)
        method = chosen_method(self)
        with shown_progress(method) if self.verbose else nullcontext():
            task = task_of(graph, method, seed, chosen_device(self.device))
            if learned is not None:
                method.remember(learned, task)
            self._keep(graph, classes, method, fit_in_chunks(method, task))
        self.has_node_ids_, self.seed_ = named, seed
        for text in model_warnings(self):
            warn_of_fit(text)
        return self

    def _keep(self, graph: Graph, classes: np.ndarray, method: Method, prediction: Prediction) -> None:
        """The one run of the prediction, as learned attributes."""
        self.graph_, self.classes_, self.method_ = graph, classes, method
        self.n_features_in_ = columns_in(graph)
        self.label_distributions_ = summing_to_one(prediction.probabilities[0])
        self.transduction_ = classes[self.label_distributions_.argmax(axis=1)]
        self.peer_distributions_ = None if prediction.peers is None else prediction.peers[0]
        self.peer_report_ = in_words_for(graph, prediction.peer_report)
        self.history_ = {name: values[:, 0] for name, values in prediction.history.items()}
        self.n_iter_ = max(map(len, self.history_.values()), default=0)
        self.labeled_iter_ = np.full(graph.num_nodes, NEVER)
        if prediction.pseudo_labelled_at is not None:
            taught = prediction.pseudo_labelled_at[0] > 0
            self.labeled_iter_[taught] = prediction.pseudo_labelled_at[0][taught]
        self.labeled_iter_[graph.known] = GIVEN
        self.parameters_ = None if prediction.parameters is None else dict(prediction.parameters)
        self.training_ = {}
