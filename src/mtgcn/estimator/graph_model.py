"""A method and the graph it is fitted to: what a model is and does. Commands make do with that, since importing
scikit-learn takes longer than many a fit; `classifier.py` adds its manners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mtgcn.environment import chosen_device
from mtgcn.estimator.answers import summing_to_one
from mtgcn.estimator.checks import check_every_class, check_magnitudes
from mtgcn.estimator.fitting import chosen_method, in_words_for, seed_of, shown_progress, task_of
from mtgcn.estimator.labelling import with_more_labels
from mtgcn.estimator.preparing import columns_in, prepared_graph
from mtgcn.graph import Graph
from mtgcn.methods import Method, fit_in_chunks
from mtgcn.shapes import Float, Int
from mtgcn.task import PeerReport, Prediction
from mtgcn.uncertainty.warnings import warn_of_fit

if TYPE_CHECKING:
    from mtgcn.uncertainty.suggestions import Suggestions

GIVEN, NEVER = 0, -1  # in `labeled_iter_`: a label of its own, and neither that nor ever a pseudo label


class GraphModel:
    """Learns the classes of the nodes of a `Graph`, and keeps what it found. Parameters and learned attributes are
    those of `MutualTeachingClassifier`, which says what they mean."""

    classes_: np.ndarray
    transduction_: np.ndarray
    label_distributions_: Float[np.ndarray, "nodes classes"]
    peer_distributions_: Float[np.ndarray, "peers nodes classes"] | None
    peer_report_: PeerReport | None
    labeled_iter_: Int[np.ndarray, "nodes"]
    n_iter_: int
    n_features_in_: int
    feature_names_in_: np.ndarray  # only where the features came with names
    history_: dict[str, Float[np.ndarray, "epochs peers"]]
    graph_: Graph
    seed_: int | None
    has_node_ids_: bool
    method_: Method
    parameters_: dict[str, np.ndarray] | None
    warnings_: list[str]  # only after a fit in this process
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

    def fit_graph(self, graph: Graph) -> Self:
        """Learn the classes of all nodes from the labels that the graph holds; its features may be None."""
        check_every_class(graph)
        return self._fit(graph, np.array(graph.class_names), True, seed_of(self.random_state))

    def take_over(self, graph: Graph, prediction: Prediction, seed: int) -> Self:
        """As if `fit_graph` had found this prediction of the graph's nodes, which was made elsewhere."""
        self._keep(graph, np.array(graph.class_names), chosen_method(self), prediction)
        self.has_node_ids_, self.seed_ = True, seed
        return self

    def label(self, labels: Mapping[Any, Any], *, new_classes: Sequence[Any] = ()) -> Self:
        """Learn anew with more labels, or with corrected ones: a class for each of some nodes, by their ids.

        What was learned without looking at labels, such as embeddings, is not learned again. A class that no label had
        before must be among `new_classes`, so that a slip of the pen does not become one.
        """
        self._check_fitted()
        graph, classes, _ = with_more_labels(self, labels, new_classes)
        return self.fit_again(graph, classes)

    def fit_again(self, graph: Graph, classes: np.ndarray) -> Self:
        """Learn anew from the graph of the fit with other labels; see `label`."""
        self._check_fitted()
        check_every_class(graph)
        if self.seed_ is None:  # so what was learned may belong to features that can no longer be made
            return self._fit(graph, classes, self.has_node_ids_, seed_of(self.random_state))
        return self._fit(graph, classes, self.has_node_ids_, self.seed_, self.parameters_)

    def suggest(self, n: int = 10) -> Suggestions:
        """Which nodes to label next, and why: the first is worth the most, and asking for more changes none of the
        first. A notebook shows them as a table."""
        self._check_fitted()
        from mtgcn.uncertainty.suggestions import suggest

        return suggest(self, n)

    def plot(self) -> Any:
        """A matplotlib figure: the map of the nodes, how sure the model is, of what, and how it learnt."""
        self._check_fitted()
        from mtgcn.report.fit_page import plot

        return plot(self)

    def report(self, path: str | Path, *, folds: int = 0) -> None:
        """Write the page about this fit: one HTML file that needs nothing but itself.

        How accurate the model will be is on it where the model comes from a folder that knows, or if `folds` is at
        least 2: then the method is fitted that often again, each time without a part of the labels.
        """
        self._check_fitted()
        from mtgcn.estimator.fit_background import fit_background
        from mtgcn.report.fit_page import fit_page
        from mtgcn.storage.files import check_file

        check_file(path)
        fit_page(self, path, fit_background(self, folds))

    def save(self, folder: str | Path) -> None:
        """Write the fitted model to a folder that holds nothing but numbers and a JSON card."""
        self._check_fitted()
        from mtgcn.estimator.model_folder import save_model

        save_model(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The model that `save` wrote."""
        from mtgcn.estimator.model_folder import load_as

        return load_as(cls, folder)

    def _check_fitted(self) -> None:
        """Refuse a model that has not learned anything yet."""
        if not hasattr(self, "graph_"):
            from sklearn.exceptions import NotFittedError  # which is what programs catch

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _fit(
        self,
        graph: Graph,
        classes: np.ndarray,
        named: bool,
        seed: int,
        learned: Mapping[str, np.ndarray] | None = None,
    ) -> Self:
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
        self.warnings_ = warn_of_fit(self)
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
