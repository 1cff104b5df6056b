"""What a model says of the nodes of a project, and files to take away."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtgcn.errors import InputError, shown
from mtgcn.estimator.graph_model import GIVEN
from mtgcn.estimator.inference import predict_fitted
from mtgcn.estimator.persistence import FILES
from mtgcn.graph import UNKNOWN
from mtgcn.report.fit_view import histogram
from mtgcn.shapes import Bool, Float, Int
from mtgcn.storage.files import read_plain
from mtgcn.storage.folders import current_path
from mtgcn.studio.details import NodeDetails as NodeDetails
from mtgcn.studio.details import Picture as Picture
from mtgcn.studio.details import node_details as node_details
from mtgcn.studio.lesson import model_of
from mtgcn.studio.map import MapPoints as MapPoints
from mtgcn.studio.map import project_map as project_map
from mtgcn.studio.neighbourhood import Neighbour as Neighbour
from mtgcn.studio.neighbourhood import Neighbourhood as Neighbourhood
from mtgcn.studio.neighbourhood import neighbourhood as neighbourhood
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import uncertainty_of
from mtgcn.workflows.predict import predictions_of, predictions_table

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.studio.project import Project

Order = Literal["graph", "confidence", "disagreement"]


@dataclass(frozen=True)
class NodeAnswer:
    """What is known of one node."""

    node: str
    index: int
    predicted: str
    confidence: float  # the probability of that class
    probabilities: Mapping[str, float]  # by class
    peers: Mapping[str, str]  # what each peer predicts on its own, by its name; empty for methods without peers
    disagreement: float  # of the peers, 0 to 1
    peers_agree: bool
    given: str | None  # the label of now
    role: str  # in the fit: "given", "pseudo-label" or "neither"
    taught_at: int | None  # the epoch, or round, from which on it served as pseudo label


@dataclass(frozen=True)
class AnswerPage:
    """Some rows of the table of all nodes."""

    rows: Sequence[NodeAnswer]
    total: int  # of the rows that match


@dataclass(frozen=True)
class Histogram:
    """How many nodes without a label lie between which confidences."""

    counts: Sequence[int]
    edges: Sequence[float]  # one more than counts


class ProjectAnswers:
    """The model of the last teaching, and what it says. Classes that were renamed since have their new names here."""

    def __init__(self, project: Project, model: GraphModel) -> None:
        self.project, self.model = project, model

    @staticmethod
    def read(project: Project) -> ProjectAnswers | None:
        """The answers of the model in the project; None where there is none, or one of another graph."""
        model = model_of(project)
        return None if model is None else ProjectAnswers(project, model)

    @cached_property
    def class_names(self) -> tuple[str, ...]:
        """Of the model's classes, as they are called now; two that were merged since have the same."""
        state = self.project.state
        return tuple(state.name_now(name) for name in self.model.graph_.class_names)

    @cached_property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        """Places in `class_names`."""
        return self.model.label_distributions_.argmax(axis=1)

    @cached_property
    def confidence(self) -> Float[np.ndarray, "nodes"]:
        return self.model.label_distributions_.max(axis=1)

    @cached_property
    def disagreement(self) -> Float[np.ndarray, "nodes"]:
        """How far the peers are apart (Jensen-Shannon): 0 of one mind, 1 as far as can be."""
        peers = self.model.peer_distributions_
        if peers is None:
            return np.zeros(self.model.graph_.num_nodes)
        together = self.model.label_distributions_
        apart = uncertainty_of(together, peers, peer_weights(self.model)) - uncertainty_of(together, None)
        return np.clip(apart, 0, 1)

    @cached_property
    def peers_agree(self) -> Bool[np.ndarray, "nodes"]:
        """Whether the peers that hold most of the vote predict the same class."""
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

    def answer(self, node: str) -> NodeAnswer:
        """All that is known of a node."""
        place = self.project.loaded.place.get(node)
        if place is None:
            raise InputError(f"no node is called {shown(node)}; choose one of the graph {self.project.source.title}")
        return self._answer(place, self.project.labels())

    def table(
        self,
        start: int = 0,
        count: int = 100,
        *,
        order: Order = "graph",
        descending: bool = False,
        search: str = "",
        predicted: str | None = None,
        disputed: bool = False,
    ) -> AnswerPage:
        """Rows of nodes whose id holds `search`, of one predicted class, or of which peers disagree."""
        chosen = np.ones(self.model.graph_.num_nodes, dtype=bool)
        ids = self.project.loaded.ids
        if search:
            wanted = search.casefold()
            chosen &= np.fromiter((wanted in node.casefold() for node in ids), dtype=bool, count=len(ids))
        if predicted is not None:
            of_class = [number for number, name in enumerate(self.class_names) if name == predicted]
            chosen &= np.isin(self.predicted, of_class)
        if disputed:
            chosen &= ~self.peers_agree
        nodes = np.flatnonzero(chosen)
        keys = {"graph": nodes, "confidence": self.confidence[nodes], "disagreement": self.disagreement[nodes]}[order]
        nodes = nodes[np.argsort(-keys if descending else keys, kind="stable")]
        labels = self.project.labels()
        return AnswerPage([self._answer(node, labels) for node in nodes[start : start + count].tolist()], len(nodes))

    def disputed(self, count: int = 50) -> list[NodeAnswer]:
        """The nodes of which the peers disagree, those where they are farthest apart first."""
        return list(self.table(count=count, order="disagreement", descending=True, disputed=True).rows)

    def histogram(self) -> Histogram:
        """Of the nodes that had no label in the fit."""
        free = self.model.graph_.labels == UNKNOWN
        counts, edges = histogram(self.confidence[free], len(self.class_names))
        return Histogram(counts.tolist(), edges.tolist())

    def predicted_counts(self) -> dict[str, int]:
        """By class, of the nodes that had no label in the fit."""
        counts = dict.fromkeys(self.class_names, 0)
        for number in self.predicted[self.model.graph_.labels == UNKNOWN].tolist():
            counts[self.class_names[number]] += 1
        return counts

    @property
    def expected_accuracy(self) -> Mapping[str, Any] | None:
        """accuracy, ci95, labels and folds; None where it is not known, and `why_no_expected_accuracy` says why."""
        return self.model.training_.get("expected_accuracy")

    @property
    def why_no_expected_accuracy(self) -> str | None:
        return self.model.training_.get("why_no_expected_accuracy")

    @property
    def labels_since(self) -> int:
        """How many labels were given, changed or taken back since the fit."""
        graph = self.model.graph_
        then = {str(graph.node_ids[node]): self.class_names[graph.labels[node]] for node in graph.known}
        now = self.project.labels()
        return sum(then.get(node) != now.get(node) for node in {*then, *now})

    def predictions_csv(self) -> bytes:
        """The table that `mtgcn predict` writes."""
        return predictions_table(predictions_of(self.model, self.model.graph_.node_ids, predict_fitted(self.model)))

    def model_archive(self) -> bytes:
        """The model folder as a zip file; unpacked, `mtgcn predict` reads it."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in FILES:
                path = current_path(self.project.model_folder, name)
                if path.exists():
                    archive.writestr(f"model/{name}", read_plain(path))
        return content.getvalue()

    def taught_at(self, place: int) -> int | None:
        """The epoch, or round, from which on a node served as pseudo label; None where it never did."""
        epoch = int(self.model.labeled_iter_[place])
        return epoch if epoch > GIVEN else None

    def _answer(self, place: int, labels: Mapping[str, str]) -> NodeAnswer:
        node = self.project.loaded.ids[place]
        probabilities: dict[str, float] = {}
        for name, share in zip(self.class_names, self.model.label_distributions_[place].tolist(), strict=True):
            probabilities[name] = probabilities.get(name, 0.0) + share
        peers = self.model.peer_distributions_
        votes = [] if peers is None else peers[:, place].argmax(axis=1).tolist()
        taught_at = self.taught_at(place)
        was_given = self.model.labeled_iter_[place] == GIVEN
        return NodeAnswer(
            node=node,
            index=place,
            predicted=self.class_names[self.predicted[place]],
            confidence=float(self.confidence[place]),
            probabilities=probabilities,
            peers=dict(zip(self.peer_names, (self.class_names[vote] for vote in votes), strict=True)),
            disagreement=float(self.disagreement[place]),
            peers_agree=bool(self.peers_agree[place]),
            given=labels.get(node),
            role="given" if was_given else "neither" if taught_at is None else "pseudo-label",
            taught_at=taught_at,
        )
