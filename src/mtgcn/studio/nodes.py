"""The nodes of a project: attributes, labels, neighbours and predictions, the queue, and the tables to download."""

from __future__ import annotations

import base64
import io
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.inference import predict_fitted
from mtgcn.estimator.persistence import FILES
from mtgcn.estimator.predictions import predictions_of
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Bool, Float, Int
from mtgcn.storage.files import current_path, read_plain
from mtgcn.studio.project import LABELS, Project
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import FirstSuggestion, Suggestion, first_suggestions, suggest, uncertainty_of
from mtgcn.workflows.predict import predictions_table

MAX_ATTRIBUTES = 40
MAX_NEIGHBOURS = 24
MIN_TEXT_LENGTH = 80  # characters from which a value is shown as a text
MAX_COMPARED_COLUMNS = 6  # columns that are compared with those of the neighbours
DOUBTFUL_SHARE = 0.1  # share of doubtful rows of a table, which the queue asks about
CERTAINTIES = {"below 60 %": (0.0, 0.6), "60 to 90 %": (0.6, 0.9), "above 90 %": (0.9, 1.1)}
EXPORTS = ("predictions.csv", "model.zip", LABELS)
SKIPPED = "You skipped it, and no other node is left."


@dataclass(frozen=True)
class Cell:
    """A value of a node."""

    column: str
    value: str
    kind: str = ""  # "text", "link" or "picture"; the last two have an address as value


@dataclass(frozen=True)
class Node:
    """A node with its label and its prediction."""

    id: str
    label: str | None = None
    name: str = ""
    picture: str | None = None  # address of the picture
    cells: Sequence[Cell] = ()  # values in the node table
    # The other fields need a model.
    predicted: str | None = None
    confidence: float = 0.0  # probability of the predicted class
    probabilities: Mapping[str, float] = field(default_factory=dict)  # probabilities by class
    peers: Sequence[str] = ()  # class predicted by each peer, for methods with peers

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def class_name(self) -> str | None:
        """Label, else predicted class."""
        return self.label or self.predicted

    @property
    def class_text(self) -> str:
        if self.label is not None:
            return f"{self.label}, your label"
        return "no prediction yet" if self.predicted is None else f"{self.predicted}, {100 * self.confidence:.0f} %"


@dataclass(frozen=True)
class NodeView:
    """A node, its attributes and its neighbours."""

    node: Node
    attributes: Sequence[Cell] = ()  # values of columns, or the largest nonzero features
    attributes_left_out: int = 0
    neighbours: Sequence[Node] = ()  # sorted by edge weight, largest first
    neighbours_left_out: int = 0
    compared: Sequence[str] = ()  # columns with short values, to compare a node with its neighbours


@dataclass(frozen=True)
class Query:
    """Which nodes to list, and in which order."""

    text: str = ""  # words that must all occur in the columns
    class_name: str = ""  # label or else predicted class
    certainty: str = ""  # key of `CERTAINTIES`
    sort: str = ""  # column of `Nodes.rows`
    descending: bool = False


class Nodes:
    """The nodes of a project, with predictions under the current class names if there is a model."""

    def __init__(
        self, project: Project, model: GraphModel | None = None, version: object = None, *, quick: bool = False
    ) -> None:
        self.project, self.model, self.version = project, model, version
        self.quick = quick  # whether the model is a first answer until there is a better one
        self.loaded, state = project.loaded, project.state
        self.load, self.renamed = state.load, state.renamed
        # Current names; merged classes share one.
        self.class_names = () if model is None else tuple(map(state.current_name, model.graph_.class_names))

    @property
    def fitted(self) -> GraphModel:
        if self.model is None or self.quick:
            raise InputError("There is no model yet; label nodes of two classes, then fit.")
        return self.model

    @cached_property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        """Predicted classes as indices into `class_names`."""
        assert self.model is not None
        return self.model.label_distributions_.argmax(axis=1)

    @cached_property
    def confidence(self) -> Float[np.ndarray, "nodes"]:
        assert self.model is not None
        return self.model.label_distributions_.max(axis=1)

    @cached_property
    def unlabelled(self) -> Bool[np.ndarray, "nodes"]:
        """Nodes without a label in the fit."""
        assert self.model is not None
        return self.model.graph_.labels == UNLABELED

    # Single nodes

    def node(self, name: str) -> Node:
        return self._node(self.project.node_index(name), self.project.labels())

    def _node(self, index: int, labels: Mapping[str, str]) -> Node:
        model, names, loaded, cells = self.model, self.class_names, self.loaded, self._cells(index)
        picture = next((cell.value for cell in cells if cell.kind == "picture"), None)
        if loaded.picture_shape is not None:
            picture = picture_url(self._features(index).reshape(loaded.picture_shape))
        name = "" if loaded.graph.node_names is None else loaded.graph.node_names[index]
        about = Node(loaded.ids[index], labels.get(loaded.ids[index]), name, picture, cells)
        if model is None:
            return about
        probabilities: dict[str, float] = {}
        for name, share in zip(names, model.label_distributions_[index].tolist(), strict=True):
            probabilities[name] = probabilities.get(name, 0.0) + share
        peers = [] if model.peer_distributions_ is None else model.peer_distributions_[:, index].argmax(axis=1)
        return replace(
            about,
            predicted=names[self.predicted[index]],
            confidence=float(self.confidence[index]),
            probabilities=probabilities,
            peers=[names[one] for one in peers],
        )

    def _cells(self, index: int) -> list[Cell]:
        """The row of the node table without empty values, id and name."""
        graph, found = self.loaded.graph, []
        for number, (column, value) in enumerate(graph.node_cells(index).items()):
            if not value or column in self._titles:
                continue
            kind = "text" if len(value) >= MIN_TEXT_LENGTH or "\n" in value else ""
            if (picture := self.loaded.picture(column, value)) is not None:
                kind, address = "picture", f"/picture/{self.load}/{index}/{number}"
                value = picture if isinstance(picture, str) else address
            elif re.fullmatch(r"https?://\S+", value, re.IGNORECASE):
                kind = "link"
            found.append(Cell(column, value, kind))
        return found

    @cached_property
    def _titles(self) -> Collection[str | None]:
        """The columns of id and name."""
        fit = self.loaded.graph.preprocessing
        return () if fit is None else (fit.id_column, fit.name_column)

    def view(self, name: str) -> NodeView:
        """A node with up to `MAX_ATTRIBUTES` attributes, and the neighbours with the heaviest edges."""
        index, labels, adjacency = self.project.node_index(name), self.project.labels(), self.loaded.graph.adjacency
        row = slice(adjacency.indptr[index], adjacency.indptr[index + 1])
        others, weights = adjacency.indices[row], adjacency.data[row]
        weights, others = weights[others != index], others[others != index]
        nearest = others[np.argsort(-weights, kind="stable")[:MAX_NEIGHBOURS]]
        node = self._node(index, labels)
        attributes = node.cells if self.loaded.graph.cells is not None else self._largest_features(index)
        return NodeView(
            node,
            attributes[:MAX_ATTRIBUTES],
            max(0, len(attributes) - MAX_ATTRIBUTES),
            [self._node(other, labels) for other in nearest.tolist()],
            len(others) - len(nearest),
            [cell.column for cell in node.cells if not cell.kind][:MAX_COMPARED_COLUMNS],
        )

    def _largest_features(self, index: int) -> list[Cell]:
        if self.loaded.picture_shape is not None:
            return []
        values, names = self._features(index), self.loaded.graph.feature_names
        order = np.argsort(-np.abs(values), kind="stable")[: np.count_nonzero(values)].tolist()
        return [Cell(names[one] if names else f"feature {one + 1}", f"{values[one]:.6g}") for one in order]

    def _features(self, index: int) -> np.ndarray:
        features = self.loaded.graph.features
        if features is None:
            return np.zeros(0)
        return features[index] if isinstance(features, np.ndarray) else features[[index]].toarray()[0]

    # Search

    @cached_property
    def columns(self) -> list[str]:
        """The columns of the node table, without id and name."""
        cells = self.loaded.graph.cells
        return [] if cells is None else [name for name in cells.column_names if name not in self._titles]

    @cached_property
    def _texts(self) -> list[str]:
        """All columns of each node, in lower case."""
        graph = self.loaded.graph
        columns = [self.loaded.ids, *([] if graph.cells is None else (one.to_pylist() for one in graph.cells.columns))]
        return ["\n".join(value or "" for value in row).lower() for row in zip(*columns, strict=True)]

    def find(self, query: Query, among: Collection[str] | None = None) -> Int[np.ndarray, "found"]:
        """The nodes of a query in its order. `among` restricts it to some nodes, whose order is kept without a sort."""
        ids, index, labels = self.loaded.ids, self.loaded.index, self.project.labels()
        mine = np.array([labels.get(node, "") for node in ids], dtype=object)
        classes, confidence = mine, np.zeros(len(ids))
        if self.model is not None:
            predicted = np.array(self.class_names, dtype=object)[self.predicted]
            classes, confidence = np.where(mine != "", mine, predicted), self.confidence
        kept = np.ones(len(ids), dtype=bool)
        if words := query.text.lower().split():
            kept &= [all(word in text for word in words) for text in self._texts]
        if query.class_name:
            kept &= classes == query.class_name
        if query.certainty in CERTAINTIES:
            low, high = CERTAINTIES[query.certainty]
            kept &= (confidence >= low) & (confidence < high) & (mine == "")
        places = range(len(ids)) if among is None else [index[node] for node in among if node in index]
        found = np.array(places, dtype=np.int64)
        found = found[kept[found]]
        if query.sort:
            known = {"class": classes, "certainty": confidence, "mine": mine}
            keys = known[query.sort] if query.sort in known else self._sort_keys(query.sort)
            found = found[np.argsort(keys[found], kind="stable")]
        return found[::-1] if query.descending else found

    def _sort_keys(self, column: str) -> np.ndarray:
        """Sort keys of ids, titles or a column of the node table: numeric if all are numbers, empty values last."""
        graph = self.loaded.graph
        texts: Sequence[str] = self.loaded.ids
        if column == "title":
            texts = graph.node_names or texts
        elif column != "id":
            texts = [value or "" for value in graph.cells[column.removeprefix("own ")].to_pylist()]
        try:
            return np.array([float(text) if text else np.inf for text in texts])
        except ValueError:
            return np.array([text.lower() for text in texts], dtype=object)

    def rows(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The nodes at these positions as rows of a table; columns of the node table come last."""
        labels, found = self.project.labels(), []
        for place in places:
            node = self._node(place, labels)
            sure = None if node.predicted is None or node.label else round(node.confidence, 4)
            row: dict[str, Any] = {"id": node.id, "title": node.title, "picture": node.picture}
            row |= {"class": node.class_name or "", "certainty": sure, "mine": node.label or ""}
            cells = self.loaded.graph.node_cells(place)
            found.append(row | {f"own {name}": cells.get(name, "") for name in self.columns})
        return found

    @cached_property
    def doubted(self) -> dict[str, str]:
        """Doubtful labels with reasons, most doubtful first."""
        state = self.project.state
        return {
            self.loaded.ids[one.index]: one.reason
            for one in self.fitted.doubtful_labels(None)
            if state.current_name(one.predicted) != state.current_name(one.label)
        }

    def changes(self, before: Nodes) -> list[str]:
        """Unlabelled nodes whose predicted class differs between two models."""
        names, earlier = (np.array(nodes.class_names, dtype=object)[nodes.predicted] for nodes in (self, before))
        changed = np.flatnonzero((names != earlier) & self.unlabelled).tolist()
        return [self.loaded.ids[node] for node in changed]

    def practice(self) -> tuple[int, int, float | None]:
        """For a dataset: number of labels, of correct labels, and accuracy on the other nodes if there is a model."""
        truth, labels = self.loaded.truth, self.project.labels()
        correct = sum(truth[self.loaded.index[node]] == name for node, name in labels.items())
        if self.model is None:
            return len(labels), correct, None
        others = [place for place, node in enumerate(self.loaded.ids) if node not in labels and truth[place]]
        names = np.array(self.class_names, dtype=object)[self.predicted[others]]
        return len(labels), correct, float(np.mean(names == np.array(truth, dtype=object)[others]))

    # All nodes

    def queue(self, count: int) -> dict[str, str]:
        """The `count` most useful nodes to label, best first, each with the reason; skipped nodes come last.

        With a model these are its suggestions, given the current labels. Without one they are typical, well-connected
        nodes that are spread over the graph.
        """
        ids, index, skipped = self.loaded.ids, self.loaded.index, self.project.skipped
        labelled = np.array(sorted(index[node] for node in self.project.labels()), dtype=np.int64)
        free = np.ones(len(ids), dtype=bool)
        free[labelled] = False
        free[[index[node] for node in skipped]] = False
        wanted = min(count, int(free.sum()))
        suggestions: Sequence[Suggestion | FirstSuggestion] = ()
        if wanted and self.model is not None and not self.quick:
            if self.loaded.files is not None and not self.loaded.files.edges:  # for a table, ask about doubtful rows
                places = np.flatnonzero(free)
                share = max(wanted, int(DOUBTFUL_SHARE * len(places)))
                free[places[np.argsort(self.confidence[places], kind="stable")[share:]]] = False
            suggestions = suggest(self.model, wanted, labelled=labelled, free=free)
        elif wanted:
            # Skipped nodes count as labelled here, since similar nodes are not easier to label.
            suggestions = first_suggestions(self.loaded.graph, np.flatnonzero(~free), free, wanted)
        queue = {ids[one.index]: one.reason for one in suggestions}
        return queue | dict.fromkeys(skipped[: count - wanted], SKIPPED)

    def disputed(self, count: int) -> list[Node]:
        """Nodes for which the peers with the largest weights predict different classes, sorted by decreasing
        Jensen-Shannon divergence of the peers."""
        peers, average = self.fitted.peer_distributions_, self.fitted.label_distributions_
        if peers is None:
            return []
        weights = peer_weights(self.fitted)
        nodes = np.flatnonzero(~peers_agree(peers, weights))
        divergence = uncertainty_of(average, peers, weights) - uncertainty_of(average, None)
        nodes = nodes[np.argsort(-np.clip(divergence[nodes], 0, 1), kind="stable")]
        labels = self.project.labels()
        return [self._node(node, labels) for node in nodes[:count].tolist()]

    def predicted_counts(self) -> dict[str, int]:
        """Number of nodes per predicted class, among the nodes that were unlabelled in the fit."""
        counts = Counter(self.class_names[number] for number in self.predicted[self.unlabelled].tolist())
        return {name: counts[name] for name in self.class_names}

    @cached_property
    def fitted_labels(self) -> dict[str, str]:
        """The labels that the model was fitted to; empty without a model."""
        if self.model is None or self.quick:
            return {}
        labels = self.model.graph_.labels
        return {self.loaded.ids[node]: self.class_names[labels[node]] for node in self.model.graph_.known}

    def export(self, name: str, *, excel: bool = False) -> bytes:
        """A file to download: the labels, the table of `mtgcn predict --keep-columns all`, or the model folder as a zip
        file."""
        if name not in EXPORTS:
            raise unknown_name("download", name, EXPORTS)
        if name == LABELS:
            return self.project.read(LABELS) or b""
        model, content = self.fitted, io.BytesIO()
        if name == "predictions.csv":
            columns = predictions_of(model, predict_fitted(model), model.graph_, "all")
            return predictions_table(columns, excel_safe=excel, bom=excel)
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in FILES:
                path = current_path(self.project.model_folder, part)
                if path.exists():
                    archive.writestr(f"model/{part}", read_plain(path))
        return content.getvalue()


def picture_url(levels: np.ndarray) -> str:
    """A grey PNG with one pixel per value as a data URL: 0 is white, 1 is black."""
    grey = (255 * (1 - np.clip(np.nan_to_num(levels.astype(np.float64)), 0, 1))).round().astype(np.uint8)
    png = io.BytesIO()
    Image.fromarray(grey).save(png, "png")
    return "data:image/png;base64," + base64.b64encode(png.getvalue()).decode()
