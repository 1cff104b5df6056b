"""A node to label: its attributes or picture, its neighbourhood, and the queue of nodes to label next."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from mtgcn.estimator.graph_model import GraphModel
from mtgcn.io.column_table import MISSING
from mtgcn.io.columns import open_table, title_of
from mtgcn.io.table import Coded
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.studio.project import Project
from mtgcn.studio.source import LoadedGraph, table_options
from mtgcn.uncertainty.suggestions import first_suggestions, suggest

MAX_COLUMNS = 100  # of a table shown as text; for wider tables features are shown
MAX_VALUE_LENGTH = 300
SKIPPED = "You skipped it, and no other node is left."


# Attributes


@dataclass(frozen=True)
class NodeDetails:
    """A node as it appears in the person's data."""

    attributes: Sequence[tuple[str, str]] = ()  # name and value; of features the largest, without zeros
    left_out: int = 0  # attributes beyond the limit
    picture: str | None = None  # data URL, where features are pixels


@dataclass(frozen=True, eq=False)
class _TextTable:
    """A node table as text. Row i is node i of the graph."""

    names: Sequence[str]
    batches: Sequence[Sequence[Coded]]  # per batch, by column
    first_rows: Sequence[int]  # per batch

    def row(self, row: int) -> list[tuple[str, str]]:
        batch = int(np.searchsorted(self.first_rows, row, side="right")) - 1
        within = row - self.first_rows[batch]
        values = []
        for name, cells in zip(self.names, self.batches[batch], strict=True):
            if within >= len(cells.codes):
                return []  # a node that occurs in the edges only
            value = "" if cells.codes[within] == MISSING else cells.text(within)
            values.append((name, value if len(value) <= MAX_VALUE_LENGTH else value[: MAX_VALUE_LENGTH - 1] + "…"))
        return values


_tables: WeakKeyDictionary[LoadedGraph, _TextTable] = WeakKeyDictionary()


def node_details(project: Project, node: str, most: int = 40) -> NodeDetails:
    """Up to `most` attributes of a node, or its picture."""
    index, loaded = project.node_index(node), project.loaded
    picture = node_picture(project, node)
    if picture is not None:
        return NodeDetails(picture=picture)
    table = _text_table(project, loaded)
    attributes = _largest_features(loaded, index) if table is None else table.row(index)
    return NodeDetails(attributes[:most], max(0, len(attributes) - most))


def node_picture(project: Project, node: str) -> str | None:
    """The picture of a node as a data URL; None where features are no pixels."""
    shape = project.source.picture_shape
    if shape is None:
        return None
    return picture_url(_features(project.loaded, project.node_index(node)).reshape(shape))


def picture_url(levels: np.ndarray) -> str:
    """A grey PNG with one pixel per value: 0 is white, 1 is black."""
    grey = (255 * (1 - np.clip(np.nan_to_num(levels.astype(np.float64)), 0, 1))).round().astype(np.uint8)
    rows, columns = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)  # 8 bits, grey
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunks).decode()


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _text_table(project: Project, loaded: LoadedGraph) -> _TextTable | None:
    """The node table as text, cached; None without one, or if it is too wide."""
    if loaded in _tables:
        return _tables[loaded]
    if "nodes" not in project.source.files:  # a dataset, a graph file or a model
        return None
    files = table_options(project.source, project.files, project.state.load)
    assert files.nodes is not None, "just checked"
    table = open_table(files.nodes, files)
    if len(table.columns) > MAX_COLUMNS:
        return None
    columns = list(range(len(table.columns)))
    batches, first_rows, row = [], [], 0
    for batch in table.batches(columns, []):
        batches.append(batch.texts)
        first_rows.append(row)
        row += len(batch)
    _tables[loaded] = _TextTable([title_of(table, column) for column in columns], batches, first_rows)
    return _tables[loaded]


def _largest_features(loaded: LoadedGraph, index: int) -> list[tuple[str, str]]:
    values, names = _features(loaded, index), loaded.graph.feature_names
    nonzero = np.flatnonzero(values)
    order = nonzero[np.argsort(-np.abs(values[nonzero]), kind="stable")].tolist()
    return [(names[one] if names else f"feature {one + 1}", f"{values[one]:.6g}") for one in order]


def _features(loaded: LoadedGraph, index: int) -> np.ndarray:
    features = loaded.graph.features
    if features is None:
        return np.zeros(0)
    if isinstance(features, np.ndarray):
        return features[index]
    return np.asarray(features[[index]].toarray())[0]


# Neighbourhood


@dataclass(frozen=True)
class Neighbour:
    """A node of a neighbourhood."""

    node: str
    weight: float  # of the edge to the centre; 0 for the centre
    label: str | None
    predicted: str | None = None  # None without a model
    confidence: float | None = None
    pseudo_label_since: int | None = None  # epoch or round


@dataclass(frozen=True)
class Neighbourhood:
    """A node, its neighbours and the edges among them."""

    centre: Neighbour
    neighbours: Sequence[Neighbour]  # the largest weight first
    edges: Sequence[tuple[str, str, float]]  # each once
    left_out: int  # neighbours beyond the limit


def neighbourhood(project: Project, node: str, predictions: ProjectPredictions | None, most: int = 24) -> Neighbourhood:
    """The `most` neighbours of a node with the heaviest edges."""
    centre, loaded, labels = project.node_index(node), project.loaded, project.labels()
    adjacency = loaded.graph.adjacency
    row = slice(adjacency.indptr[centre], adjacency.indptr[centre + 1])
    others, weights = adjacency.indices[row], adjacency.data[row]
    weights, others = weights[others != centre], others[others != centre]
    order = np.argsort(-weights, kind="stable")[:most]
    nearest = others[order]

    def neighbour(index: int, weight: float) -> Neighbour:
        name = loaded.ids[index]
        if predictions is None:
            return Neighbour(name, weight, labels.get(name))
        return Neighbour(
            node=name,
            weight=weight,
            label=labels.get(name),
            predicted=predictions.class_names[predictions.predicted[index]],
            confidence=float(predictions.confidence[index]),
            pseudo_label_since=predictions.pseudo_label_since(index),
        )

    inside = np.concatenate([[centre], nearest]).astype(np.int64)
    among = sp.triu(adjacency[inside][:, inside], 1).tocoo()
    edges = zip(inside[among.row].tolist(), inside[among.col].tolist(), among.data.tolist(), strict=True)
    return Neighbourhood(
        centre=neighbour(centre, 0.0),
        neighbours=[
            neighbour(int(index), float(weight)) for index, weight in zip(nearest, weights[order], strict=True)
        ],
        edges=[(loaded.ids[first], loaded.ids[second], weight) for first, second, weight in edges],
        left_out=len(others) - len(nearest),
    )


# Queue


@dataclass(frozen=True)
class QueueItem:
    """A node to label next."""

    node: str
    index: int
    reason: str
    predicted: str | None = None  # None without a model
    score: float = 0.0  # larger is more useful


def next_nodes(project: Project, model: GraphModel | None = None, count: int = 10) -> list[QueueItem]:
    """The `count` most useful nodes to label, best first; skipped nodes come last.

    With a model they are its suggestions, given the present labels. Without one they are typical, well-connected nodes
    spread over the graph.
    """
    loaded, labels, skipped = project.loaded, project.labels(), project.skipped
    labelled = np.array(sorted(loaded.index[node] for node in labels), dtype=np.int64)
    free = np.ones(len(loaded.ids), dtype=bool)
    free[labelled] = False
    free[[loaded.index[node] for node in skipped]] = False
    wanted = min(count, int(free.sum()))
    items: list[QueueItem] = []
    if wanted and model is not None:
        current_name = project.state.current_name
        items = [
            QueueItem(loaded.ids[one.index], one.index, one.reason, current_name(one.predicted), one.score)
            for one in suggest(model, wanted, labelled=labelled, free=free)
        ]
    elif wanted:
        # Skipped nodes count as labelled here: a node like one that was skipped is no easier to label.
        covered = np.flatnonzero(~free)
        items = [
            QueueItem(loaded.ids[one.index], one.index, one.reason, score=one.score)
            for one in first_suggestions(project.graph, covered, free, wanted)
        ]
    return (items + [QueueItem(node, loaded.index[node], SKIPPED) for node in skipped])[:count]
