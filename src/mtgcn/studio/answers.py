"""What a page shows of a project: predictions node by node, how sure they are, the map, and files to take away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mtgcn.shapes import Float, Int
from mtgcn.studio.project import Project

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier

Order = Literal["graph", "confidence", "disagreement"]


@dataclass(frozen=True)
class NodeAnswer:
    """What is known of one node."""

    node: str
    index: int
    predicted: str
    confidence: float  # the probability of that class
    probabilities: Mapping[str, float]  # by class
    peers: Mapping[str, str]  # what each peer predicts on its own, by its name
    disagreement: float  # of the peers, 0 to 1
    peers_agree: bool
    given: str | None  # the label of now
    role: str  # in the fit: "given", "pseudo-label" or "neither"
    taught_at: int | None  # the epoch in which it first served as pseudo label


@dataclass(frozen=True)
class AnswerPage:
    """Some rows of the table of all nodes."""

    rows: Sequence[NodeAnswer]
    total: int  # of the rows that match


@dataclass(frozen=True, eq=False)
class MapPoints:
    """All nodes in the plane, or of very many some."""

    nodes: Sequence[str]
    places: Float[np.ndarray, "shown 2"]  # x from 0 to 1, y from 0 to at most 1
    predicted: Int[np.ndarray, "shown"]  # places in `classes`; -1 where there is no model
    confidence: Float[np.ndarray, "shown"]  # 0 where there is no model
    given: Int[np.ndarray, "shown"]  # places in `classes`; -1 where no label is given now
    classes: Sequence[str]


@dataclass(frozen=True)
class Histogram:
    """How many nodes without a label lie between which confidences."""

    counts: Sequence[int]
    edges: Sequence[float]  # one more than counts


@dataclass(frozen=True)
class Neighbour:
    """A node around the one that is looked at."""

    node: str
    weight: float  # of the edge; 0 for the middle itself
    given: str | None
    predicted: str | None
    confidence: float | None
    taught_at: int | None  # the epoch in which it first served as pseudo label


@dataclass(frozen=True)
class Neighbourhood:
    """A node, those it is joined with, and the edges among them."""

    middle: Neighbour
    neighbours: Sequence[Neighbour]  # the largest weight first
    edges: Sequence[tuple[str, str, float]]  # among all of them
    left_out: int  # neighbours beyond the most that were asked for


@dataclass(frozen=True)
class Picture:
    """The features of a node as grey values, row after row, 0 to 1."""

    rows: int
    columns: int
    pixels: Sequence[float]


@dataclass(frozen=True)
class NodeDetails:
    """A node as a person knows it."""

    node: str
    attributes: Sequence[tuple[str, str]]  # name and value; of very many the first that are not 0
    attributes_left_out: int
    picture: Picture | None


class ProjectAnswers:
    """The model of the last teaching, and what it says."""

    def __init__(self, project: Project, model: MutualTeachingClassifier) -> None:
        self.project, self.model = project, model

    @staticmethod
    def read(project: Project) -> ProjectAnswers | None:
        """The answers of the model in the project; None where there is none, or one of another graph."""
        raise NotImplementedError

    def answer(self, node: str) -> NodeAnswer:
        raise NotImplementedError

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
        """Rows of nodes whose id or class holds `search`, of one predicted class, or of which peers disagree."""
        raise NotImplementedError

    def disputed(self, count: int = 50) -> list[NodeAnswer]:
        """The nodes of which the peers disagree most."""
        raise NotImplementedError

    def histogram(self) -> Histogram:
        raise NotImplementedError

    def predicted_counts(self) -> dict[str, int]:
        """By class, of the nodes without a label."""
        raise NotImplementedError

    @property
    def expected_accuracy(self) -> Mapping[str, Any] | None:
        """accuracy, ci95, labels and folds; None where it is not known, and `why_no_expected_accuracy` says why."""
        raise NotImplementedError

    @property
    def why_no_expected_accuracy(self) -> str | None:
        raise NotImplementedError

    def predictions_csv(self) -> bytes:
        """The table that `mtgcn predict` writes."""
        raise NotImplementedError

    def model_archive(self) -> bytes:
        """The model folder as a zip file; unpacked, `mtgcn predict` reads it."""
        raise NotImplementedError


def project_map(project: Project, answers: ProjectAnswers | None) -> MapPoints:
    """Places in the plane. With a model, nodes lie together of which the same is believed; takes seconds, the first
    time, so call it outside of the event loop."""
    raise NotImplementedError


def neighbourhood(project: Project, node: str, answers: ProjectAnswers | None, most: int = 24) -> Neighbourhood:
    raise NotImplementedError


def node_details(project: Project, node: str, most: int = 40) -> NodeDetails:
    raise NotImplementedError
