"""Predictions of the model of a project: per node, in summary, on the map, and as files to download."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mtgcn.estimator.graph_model import GIVEN, GraphModel
from mtgcn.estimator.inference import predict_fitted
from mtgcn.estimator.persistence import FILES
from mtgcn.labels import UNLABELED
from mtgcn.report.fit_page import histogram
from mtgcn.shapes import Bool, Float, Int
from mtgcn.storage.files import current_path, read_plain
from mtgcn.studio.fitting import feature_layout, fitted_model, model_layout
from mtgcn.studio.project import Project
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import uncertainty_of
from mtgcn.workflows.predict import predictions_of, predictions_table


@dataclass(frozen=True)
class NodePrediction:
    """The prediction of one node."""

    node: str
    predicted: str
    confidence: float  # probability of the predicted class
    probabilities: Mapping[str, float]  # by class
    peers: Mapping[str, str]  # class predicted by each peer; empty for methods without peers
    role: str  # in the fit: "labelled", "pseudo-label" or "unlabelled"
    pseudo_label_since: int | None  # epoch or round


@dataclass(frozen=True)
class Histogram:
    """Number of unlabelled nodes per interval of confidence."""

    counts: Sequence[int]
    edges: Sequence[float]  # one more than counts


@dataclass(frozen=True, eq=False)
class MapPoints:
    """Nodes in the plane; a sample of a very large graph."""

    nodes: Sequence[str]
    places: Float[np.ndarray, "shown 2"]  # from 0 to 1
    predicted: Int[np.ndarray, "shown"]  # index into `classes`; -1 without a model
    confidence: Float[np.ndarray, "shown"]  # 0 without a model
    classes: Sequence[str]


class ProjectPredictions:
    """Predictions of the fitted model, under the present names of the classes."""

    def __init__(self, project: Project, model: GraphModel) -> None:
        self.project, self.model = project, model

    @staticmethod
    def read(project: Project) -> ProjectPredictions | None:
        """Predictions of the model in the project; None without a model of its graph."""
        model = fitted_model(project)
        return None if model is None else ProjectPredictions(project, model)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """The present name of each class of the model; merged classes share one."""
        state = self.project.state
        return tuple(state.current_name(name) for name in self.model.graph_.class_names)

    @cached_property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        """Index into `class_names`."""
        return self.model.label_distributions_.argmax(axis=1)

    @cached_property
    def confidence(self) -> Float[np.ndarray, "nodes"]:
        return self.model.label_distributions_.max(axis=1)

    @cached_property
    def disagreement(self) -> Float[np.ndarray, "nodes"]:
        """Jensen-Shannon divergence of the peers, 0 to 1."""
        peers = self.model.peer_distributions_
        if peers is None:
            return np.zeros(self.model.graph_.num_nodes)
        average = self.model.label_distributions_
        divergence = uncertainty_of(average, peers, peer_weights(self.model)) - uncertainty_of(average, None)
        return np.clip(divergence, 0, 1)

    @cached_property
    def peers_agree(self) -> Bool[np.ndarray, "nodes"]:
        """Whether the peers with the largest weights predict the same class."""
        peers = self.model.peer_distributions_
        if peers is None:
            return np.ones(self.model.graph_.num_nodes, dtype=bool)
        return peers_agree(peers, peer_weights(self.model))

    @cached_property
    def peer_names(self) -> tuple[str, ...]:
        report, peers = self.model.peer_report_, self.model.peer_distributions_
        if report is not None:
            return report.names
        return () if peers is None else tuple(f"peer {number + 1}" for number in range(len(peers)))

    def of_node(self, node: str) -> NodePrediction:
        return self._of_index(self.project.node_index(node))

    def disputed(self, count: int = 50) -> list[NodePrediction]:
        """Nodes on which the peers disagree, the largest disagreement first."""
        nodes = np.flatnonzero(~self.peers_agree)
        nodes = nodes[np.argsort(-self.disagreement[nodes], kind="stable")]
        return [self._of_index(node) for node in nodes[:count].tolist()]

    def histogram(self) -> Histogram:
        """Confidence of the nodes that were unlabelled in the fit."""
        unlabelled = self.model.graph_.labels == UNLABELED
        counts, edges = histogram(self.confidence[unlabelled], len(self.class_names))
        return Histogram(counts.tolist(), edges.tolist())

    def predicted_counts(self) -> dict[str, int]:
        """Number of nodes per predicted class, of those that were unlabelled in the fit."""
        counts = dict.fromkeys(self.class_names, 0)
        for number in self.predicted[self.model.graph_.labels == UNLABELED].tolist():
            counts[self.class_names[number]] += 1
        return counts

    @property
    def expected_accuracy(self) -> Mapping[str, Any] | None:
        """accuracy, ci95, labels and folds; None if unknown, see `why_no_expected_accuracy`."""
        return self.model.training_.get("expected_accuracy")

    @property
    def why_no_expected_accuracy(self) -> str | None:
        return self.model.training_.get("why_no_expected_accuracy")

    @property
    def new_labels(self) -> int:
        """Number of labels given, changed or removed since the fit."""
        graph = self.model.graph_
        fitted = {str(graph.node_ids[node]): self.class_names[graph.labels[node]] for node in graph.known}
        return count_differences(fitted, self.project.labels())

    def predictions_csv(self) -> bytes:
        """The table of `mtgcn predict`."""
        return predictions_table(predictions_of(self.model, self.model.graph_.node_ids, predict_fitted(self.model)))

    def model_archive(self) -> bytes:
        """The model folder as a zip file, for `mtgcn predict`."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in FILES:
                path = current_path(self.project.model_folder, name)
                if path.exists():
                    archive.writestr(f"model/{name}", read_plain(path))
        return content.getvalue()

    def pseudo_label_since(self, index: int) -> int | None:
        """The epoch or round from which a node is a pseudo-label; None if it never is."""
        epoch = int(self.model.labeled_iter_[index])
        return epoch if epoch > GIVEN else None

    def _of_index(self, index: int) -> NodePrediction:
        probabilities: dict[str, float] = {}
        for name, share in zip(self.class_names, self.model.label_distributions_[index].tolist(), strict=True):
            probabilities[name] = probabilities.get(name, 0.0) + share
        peers = self.model.peer_distributions_
        peer_classes = [] if peers is None else peers[:, index].argmax(axis=1).tolist()
        since = self.pseudo_label_since(index)
        labelled = self.model.labeled_iter_[index] == GIVEN
        return NodePrediction(
            node=self.project.loaded.ids[index],
            predicted=self.class_names[self.predicted[index]],
            confidence=float(self.confidence[index]),
            probabilities=probabilities,
            peers=dict(zip(self.peer_names, (self.class_names[one] for one in peer_classes), strict=True)),
            role="labelled" if labelled else "unlabelled" if since is None else "pseudo-label",
            pseudo_label_since=since,
        )


def map_points(project: Project, predictions: ProjectPredictions | None) -> MapPoints:
    """Coordinates and predictions of the nodes on the map. The layout takes seconds if it is not stored."""
    if predictions is None:
        nodes, places = feature_layout(project.graph)
        model_classes: tuple[str, ...] = ()
    else:
        nodes, places = model_layout(project, predictions.model)
        model_classes = predictions.class_names
    classes = tuple(dict.fromkeys([*project.classes, *model_classes]))
    predicted, confidence = np.full(len(nodes), UNLABELED), np.zeros(len(nodes))
    if predictions is not None:
        predicted = np.array([classes.index(name) for name in model_classes])[predictions.predicted[nodes]]
        confidence = predictions.confidence[nodes]
    shown = [project.loaded.ids[node] for node in nodes.tolist()]
    return MapPoints(nodes=shown, places=places, predicted=predicted, confidence=confidence, classes=classes)


def count_differences(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """Number of nodes whose label is new, changed or removed.

    >>> count_differences({"a": "x", "b": "x"}, {"a": "y", "c": "x"})
    3
    """
    return sum(before.get(node) != now.get(node) for node in {*before, *now})
