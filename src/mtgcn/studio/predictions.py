"""Predictions of the model of a project: per node, in summary, and as files to download."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mtgcn.estimator.graph_model import GIVEN, GraphModel
from mtgcn.estimator.inference import predict_fitted
from mtgcn.estimator.persistence import FILES
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Bool, Float, Int
from mtgcn.storage.files import current_path, read_plain
from mtgcn.studio.fitting import fitted_model
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
    labelled: bool  # in the fit
    pseudo_label_since: int | None  # epoch or round; None if it never was a pseudo-label


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
        return tuple(map(self.project.state.current_name, self.model.graph_.class_names))

    @cached_property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        """Index into `class_names`."""
        return self.model.label_distributions_.argmax(axis=1)

    @cached_property
    def confidence(self) -> Float[np.ndarray, "nodes"]:
        return self.model.label_distributions_.max(axis=1)

    @cached_property
    def unlabelled(self) -> Bool[np.ndarray, "nodes"]:
        """Nodes without a label in the fit."""
        return self.model.graph_.labels == UNLABELED

    def disputed(self, count: int = 50) -> list[NodePrediction]:
        """Nodes for which the peers with the largest weights predict different classes, the largest Jensen-Shannon
        divergence of the peers first."""
        peers, average = self.model.peer_distributions_, self.model.label_distributions_
        if peers is None:
            return []
        weights = peer_weights(self.model)
        nodes = np.flatnonzero(~peers_agree(peers, weights))
        divergence = uncertainty_of(average, peers, weights) - uncertainty_of(average, None)
        nodes = nodes[np.argsort(-np.clip(divergence[nodes], 0, 1), kind="stable")]
        return [self.of_node(self.project.loaded.ids[node]) for node in nodes[:count].tolist()]

    def predicted_counts(self) -> dict[str, int]:
        """Number of nodes per predicted class, of those that were unlabelled in the fit."""
        counts = dict.fromkeys(self.class_names, 0)
        for number in self.predicted[self.unlabelled].tolist():
            counts[self.class_names[number]] += 1
        return counts

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

    def of_node(self, node: str) -> NodePrediction:
        index, model, names = self.project.node_index(node), self.model, self.class_names
        probabilities: dict[str, float] = {}
        for name, share in zip(names, model.label_distributions_[index].tolist(), strict=True):
            probabilities[name] = probabilities.get(name, 0.0) + share
        by_peer = [] if model.peer_distributions_ is None else model.peer_distributions_[:, index].argmax(axis=1)
        report = model.peer_report_
        peers = [f"peer {number + 1}" for number in range(len(by_peer))] if report is None else report.names
        since = int(model.labeled_iter_[index])
        return NodePrediction(
            node=node,
            predicted=names[self.predicted[index]],
            confidence=float(self.confidence[index]),
            probabilities=probabilities,
            peers=dict(zip(peers, (names[one] for one in by_peer), strict=True)),
            labelled=since == GIVEN,
            pseudo_label_since=since if since > GIVEN else None,
        )


def count_differences(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """Number of nodes whose label is new, changed or removed.

    >>> count_differences({"a": "x", "b": "x"}, {"a": "y", "c": "x"})
    3
    """
    return sum(before.get(node) != now.get(node) for node in {*before, *now})
