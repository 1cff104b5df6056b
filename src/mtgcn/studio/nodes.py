"""The nodes of a project: attributes, labels, neighbours and predictions, the queue, and the tables to download."""

from __future__ import annotations

import base64
import io
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.graph_model import GIVEN, GraphModel
from mtgcn.estimator.inference import predict_fitted
from mtgcn.estimator.persistence import FILES
from mtgcn.io.column_table import MISSING
from mtgcn.io.columns import open_table, title_of
from mtgcn.labels import UNLABELED
from mtgcn.shapes import Bool, Float, Int
from mtgcn.storage.files import current_path, read_plain
from mtgcn.studio.project import LABELS, Project
from mtgcn.studio.source import LoadedGraph
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.uncertainty.suggestions import FirstSuggestion, Suggestion, first_suggestions, suggest, uncertainty_of
from mtgcn.workflows.predict import predictions_of, predictions_table

MAX_ATTRIBUTES = 40
MAX_NEIGHBOURS = 24
MAX_COLUMNS = 100  # of a table shown as text; for wider tables features are shown
MAX_VALUE_LENGTH = 300
EXPORTS = {"Predictions": "predictions.csv", "Model": "model.zip", "Labels": LABELS}
SKIPPED = "You skipped it, and no other node is left."


@dataclass(frozen=True)
class Node:
    """A node with its label and its prediction."""

    id: str
    label: str | None = None
    picture: str | None = None  # data URL, where features are pixels
    # The rest needs a model.
    predicted: str | None = None
    confidence: float = 0.0  # probability of the predicted class
    probabilities: Mapping[str, float] = field(default_factory=dict)  # by class
    peers: Mapping[str, str] = field(default_factory=dict)  # class predicted by each peer, for methods with peers
    fitted: bool = False  # whether it was labelled in the fit
    pseudo_label_since: int | None = None  # epoch or round; None if it has a label or never was a pseudo-label

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
    """A node, its attributes and its neighbourhood."""

    node: Node
    attributes: Sequence[tuple[str, str]] = ()  # name and value; of features the largest, without zeros
    attributes_left_out: int = 0
    neighbours: Sequence[Node] = ()  # the largest edge weight first
    neighbours_left_out: int = 0
    edges: Sequence[tuple[str, str]] = ()  # among the node and its neighbours, each once


class Nodes:
    """The nodes of a project, with predictions under the present names of the classes if there is a model."""

    def __init__(self, project: Project, model: GraphModel | None = None, version: object = None) -> None:
        self.project, self.model, self.version = project, model, version
        self.loaded, state = project.loaded, project.state
        self.load, self.renamed = state.load, state.renamed
        # Present names; merged classes share one.
        self.class_names = () if model is None else tuple(map(state.current_name, model.graph_.class_names))

    @property
    def fitted(self) -> GraphModel:
        if self.model is None:
            raise InputError("There is no model yet; label nodes of two classes and teach.")
        return self.model

    @cached_property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        """Index into `class_names`."""
        return self.fitted.label_distributions_.argmax(axis=1)

    @cached_property
    def confidence(self) -> Float[np.ndarray, "nodes"]:
        return self.fitted.label_distributions_.max(axis=1)

    @cached_property
    def unlabelled(self) -> Bool[np.ndarray, "nodes"]:
        """Nodes without a label in the fit."""
        return self.fitted.graph_.labels == UNLABELED

    # Some nodes

    def listed(self, names: Iterable[str]) -> list[Node]:
        labels = self.project.labels()
        return [self._node(self.project.node_index(name), labels) for name in names]

    def _node(self, index: int, labels: Mapping[str, str]) -> Node:
        model, names, loaded = self.model, self.class_names, self.loaded
        shape = loaded.picture_shape
        picture = None if shape is None else picture_url(_features(loaded, index).reshape(shape))
        node, label = loaded.ids[index], labels.get(loaded.ids[index])
        if model is None:
            return Node(node, label, picture)
        probabilities: dict[str, float] = {}
        for name, share in zip(names, model.label_distributions_[index].tolist(), strict=True):
            probabilities[name] = probabilities.get(name, 0.0) + share
        by_peer = [] if model.peer_distributions_ is None else model.peer_distributions_[:, index].argmax(axis=1)
        report = model.peer_report_
        peers = [f"peer {number + 1}" for number in range(len(by_peer))] if report is None else report.names
        since = int(model.labeled_iter_[index])
        return Node(
            node,
            label,
            picture,
            predicted=names[self.predicted[index]],
            confidence=float(self.confidence[index]),
            probabilities=probabilities,
            peers=dict(zip(peers, (names[one] for one in by_peer), strict=True)),
            fitted=since == GIVEN,
            pseudo_label_since=since if since > GIVEN and label is None else None,
        )

    def view(self, name: str) -> NodeView:
        """A node with up to `MAX_ATTRIBUTES` attributes, and the neighbours with the heaviest edges."""
        index, labels, adjacency = self.project.node_index(name), self.project.labels(), self.loaded.graph.adjacency
        row = slice(adjacency.indptr[index], adjacency.indptr[index + 1])
        others, weights = adjacency.indices[row], adjacency.data[row]
        weights, others = weights[others != index], others[others != index]
        nearest = others[np.argsort(-weights, kind="stable")[:MAX_NEIGHBOURS]]
        inside = np.concatenate([[index], nearest]).astype(np.int64)
        among = sp.triu(adjacency[inside][:, inside], 1).tocoo()
        ends = (inside[place].tolist() for place in (among.row, among.col))
        ids, attributes = self.loaded.ids, self._attributes(index)
        return NodeView(
            self._node(index, labels),
            attributes[:MAX_ATTRIBUTES],
            max(0, len(attributes) - MAX_ATTRIBUTES),
            [self._node(other, labels) for other in nearest.tolist()],
            len(others) - len(nearest),
            [(ids[first], ids[second]) for first, second in zip(*ends, strict=True)],
        )

    def _attributes(self, index: int) -> list[tuple[str, str]]:
        if self.loaded.picture_shape is not None:
            return []
        table = _text_table(self.loaded)
        if table is not None:  # a node may occur in the edges only
            cells = [(name, column[index].as_py() or "") for name, column in table.items() if index < len(column)]
            return [(name, text[:MAX_VALUE_LENGTH] + "…" * (len(text) > MAX_VALUE_LENGTH)) for name, text in cells]
        values, names = _features(self.loaded, index), self.loaded.graph.feature_names
        order = np.argsort(-np.abs(values), kind="stable")[: np.count_nonzero(values)].tolist()
        return [(names[one] if names else f"feature {one + 1}", f"{values[one]:.6g}") for one in order]

    # All nodes

    def queue(self, count: int) -> dict[str, str]:
        """The `count` most useful nodes to label, best first, each with the reason; skipped nodes come last.

        With a model they are its suggestions, given the present labels. Without one they are typical, well-connected
        nodes spread over the graph.
        """
        ids, index, skipped = self.loaded.ids, self.loaded.index, self.project.skipped
        labelled = np.array(sorted(index[node] for node in self.project.labels()), dtype=np.int64)
        free = np.ones(len(ids), dtype=bool)
        free[labelled] = False
        free[[index[node] for node in skipped]] = False
        wanted = min(count, int(free.sum()))
        suggestions: Sequence[Suggestion | FirstSuggestion] = ()
        if wanted and self.model is not None:
            suggestions = suggest(self.model, wanted, labelled=labelled, free=free)
        elif wanted:
            # Skipped nodes count as labelled here: a node like one that was skipped is no easier to label.
            suggestions = first_suggestions(self.loaded.graph, np.flatnonzero(~free), free, wanted)
        queue = {ids[one.index]: one.reason for one in suggestions}
        return queue | dict.fromkeys(skipped[: count - wanted], SKIPPED)

    def disputed(self, count: int) -> list[Node]:
        """Nodes for which the peers with the largest weights predict different classes, the largest Jensen-Shannon
        divergence of the peers first."""
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
        """Number of nodes per predicted class, of those that were unlabelled in the fit."""
        counts = Counter(self.class_names[number] for number in self.predicted[self.unlabelled].tolist())
        return {name: counts[name] for name in self.class_names}

    @cached_property
    def fitted_labels(self) -> dict[str, str]:
        """The labels that the model was fitted on; empty without a model."""
        if self.model is None:
            return {}
        labels = self.model.graph_.labels
        return {self.loaded.ids[node]: self.class_names[labels[node]] for node in self.model.graph_.known}

    def export(self, name: str) -> bytes:
        """A file to download: the labels, the table of `mtgcn predict`, or the model folder as a zip file."""
        if name not in EXPORTS.values():
            raise unknown_name("download", name, EXPORTS.values())
        if name == LABELS:
            return self.project.read(LABELS) or b""
        model, content = self.fitted, io.BytesIO()
        if name == "predictions.csv":
            return predictions_table(predictions_of(model, model.graph_.node_ids, predict_fitted(model)))
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for part in FILES:
                path = current_path(self.project.model_folder, part)
                if path.exists():
                    archive.writestr(f"model/{part}", read_plain(path))
        return content.getvalue()


def picture_url(levels: np.ndarray) -> str:
    """A grey PNG with one pixel per value as a data URL: 0 is white, 1 is black."""
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
