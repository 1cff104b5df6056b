"""A node to label: its attributes or picture, its neighbourhood, and the queue of nodes to label next."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.estimator.graph_model import GraphModel
from mtgcn.io.column_table import MISSING
from mtgcn.io.columns import open_table, title_of
from mtgcn.studio.predictions import NodePrediction, ProjectPredictions
from mtgcn.studio.project import Project
from mtgcn.studio.storage import LoadedGraph
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


def node_details(project: Project, node: str, most: int = 40) -> NodeDetails:
    """Up to `most` attributes of a node, or its picture."""
    index, loaded = project.node_index(node), project.loaded
    picture = node_picture(loaded, index)
    if picture is not None:
        return NodeDetails(picture=picture)
    table = _text_table(loaded)
    if table is not None:  # a node may occur in the edges only
        cells = [(name, column[index].as_py() or "") for name, column in table.items() if index < len(column)]
        attributes = [(name, text[:MAX_VALUE_LENGTH] + "…" * (len(text) > MAX_VALUE_LENGTH)) for name, text in cells]
    else:  # the largest features
        values, names = _features(loaded, index), loaded.graph.feature_names
        order = np.argsort(-np.abs(values), kind="stable")[: np.count_nonzero(values)].tolist()
        attributes = [(names[one] if names else f"feature {one + 1}", f"{values[one]:.6g}") for one in order]
    return NodeDetails(attributes[:most], max(0, len(attributes) - most))


def node_picture(loaded: LoadedGraph, index: int) -> str | None:
    """The picture of a node as a data URL; None where features are no pixels."""
    return None if loaded.picture_shape is None else picture_url(_features(loaded, index).reshape(loaded.picture_shape))


def picture_url(levels: np.ndarray) -> str:
    """A grey PNG with one pixel per value: 0 is white, 1 is black."""
    grey = (255 * (1 - np.clip(np.nan_to_num(levels.astype(np.float64)), 0, 1))).round().astype(np.uint8)
    rows, columns = grey.shape
    lines = b"".join(b"\0" + line.tobytes() for line in grey)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)  # 8 bits, grey
    png = b"\x89PNG\r\n\x1a\n"
    for kind, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        png += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    return "data:image/png;base64," + base64.b64encode(png).decode()


@lru_cache(maxsize=1)
def _text_table(loaded: LoadedGraph) -> dict[str, pa.ChunkedArray] | None:
    """The columns of the node table as text, by title; None without one, or if it is too wide. Row i is node i."""
    if loaded.files is None or loaded.files.nodes is None:
        return None
    table = open_table(loaded.files.nodes, loaded.files)
    if len(table.columns) > MAX_COLUMNS:
        return None
    kind = pa.dictionary(pa.int64(), pa.string())
    chunks: list[list[pa.Array]] = [[] for _ in table.columns]
    for batch in table.batches(list(range(len(chunks))), []):
        for column, cells in zip(chunks, batch.texts, strict=True):
            codes = pa.array(cells.codes, pa.int64(), mask=cells.codes == MISSING)
            column.append(pa.DictionaryArray.from_arrays(codes, cells.values.cast(pa.string())))
    return {title_of(table, number): pa.chunked_array(column, kind) for number, column in enumerate(chunks)}


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
    prediction: NodePrediction | None  # None without a model

    @property
    def class_name(self) -> str | None:
        """Label, else predicted class."""
        return self.label or (None if self.prediction is None else self.prediction.predicted)

    @property
    def pseudo_label_since(self) -> int | None:
        """Epoch or round from which the unlabelled node is a pseudo-label."""
        return None if self.label is not None or self.prediction is None else self.prediction.pseudo_label_since


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
        return Neighbour(name, weight, labels.get(name), None if predictions is None else predictions.of_node(name))

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
    reason: str
    predicted: str | None = None  # None without a model


def next_nodes(project: Project, model: GraphModel | None = None, count: int = 10) -> list[QueueItem]:
    """The `count` most useful nodes to label, best first; skipped nodes come last.

    With a model they are its suggestions, given the present labels. Without one they are typical, well-connected nodes
    spread over the graph.
    """
    loaded, skipped = project.loaded, project.skipped
    labelled = np.array(sorted(loaded.index[node] for node in project.labels()), dtype=np.int64)
    free = np.ones(len(loaded.ids), dtype=bool)
    free[labelled] = False
    free[[loaded.index[node] for node in skipped]] = False
    wanted, items = min(count, int(free.sum())), []
    if wanted and model is not None:
        for one in suggest(model, wanted, labelled=labelled, free=free):
            predicted = project.state.current_name(one.predicted)
            items.append(QueueItem(loaded.ids[one.index], one.reason, predicted))
    elif wanted:
        # Skipped nodes count as labelled here: a node like one that was skipped is no easier to label.
        first = first_suggestions(loaded.graph, np.flatnonzero(~free), free, wanted)
        items = [QueueItem(loaded.ids[one.index], one.reason) for one in first]
    return (items + [QueueItem(node, SKIPPED) for node in skipped])[:count]
