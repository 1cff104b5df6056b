"""Predictions of a fitted model: for nodes of the fit, for new nodes that join its graph, and for other graphs.

Nodes of the fit, recognised by id or by their features, keep the prediction of the fit. All others are predicted by the
trained peers.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, note, reason, shown
from mtgcn.estimator.class_prior import corrected
from mtgcn.estimator.inputs import (
    MISSING,
    Table,
    check_magnitude,
    check_magnitudes,
    check_width,
    listed_edges,
    num_columns,
    positions_of_ids,
    transformed_graph,
)
from mtgcn.graph import Graph, merged_adjacency
from mtgcn.graph_cache import cached_per_graph
from mtgcn.io.column_table import table_of_array
from mtgcn.linalg.neighbours import neighbour_graph, neighbour_search
from mtgcn.memory import is_out_of_memory
from mtgcn.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

# Values that a method computed from the graph of a model, and the parameters to which they belong.
_states: WeakKeyDictionary[GraphModel, tuple[Any, dict[str, Any]]] = WeakKeyDictionary()
SPARE = 4  # candidates per neighbour that the scorer compares in double precision
FAR = 3  # features further outside the training range, in units of its width, give a note


@dataclass(frozen=True, eq=False)
class NodePredictions:
    """Predictions for some nodes, and their positions in the graph of the fit."""

    probabilities: Float[np.ndarray, "nodes classes"]
    peers: Float[np.ndarray, "peers nodes classes"] | None  # None for methods without peers
    positions: Int[np.ndarray, "nodes"]  # positions in the fit; MISSING for other nodes


def predict_fitted(model: GraphModel) -> NodePredictions:
    """Predict all nodes of the fit, in their order."""
    return _predictions_at(model, np.arange(model.graph_.num_nodes), None)


def predict_rows(model: GraphModel, rows: Table) -> NodePredictions:
    """Predict preprocessed rows without ids. Rows equal to a row of the fit are that node; the others are attached."""
    return _predictions_at(model, positions_of_rows(model.graph_, rows), rows)


def predict_nodes(model: GraphModel, nodes: Graph) -> NodePredictions:
    """Predict nodes without edges. Known ids are nodes of the fit, whatever their features; the others are attached.
    Without ids, in the fit or here, nodes are recognised by their features."""
    nodes = transformed_graph(model, nodes)
    if model.has_node_ids_ and not nodes.numbered:
        return _predictions_at(model, positions_of_ids(model.graph_.node_ids, nodes.node_ids), nodes.features)
    check_width(nodes.num_features, model.graph_)
    return predict_rows(model, nodes.features)


def predict_new_nodes(model: GraphModel, nodes: Graph, to_known: sp.csr_array) -> NodePredictions:
    """Predict nodes that join the graph of the fit, with edges to its nodes (`to_known`, new x known) and to each
    other. Predictions for the nodes of the fit do not change."""
    nodes = transformed_graph(model, nodes)
    check_width(nodes.num_features, model.graph_)
    return _new_predictions(model, _apply_to_new(model, nodes.features, to_known, nodes.adjacency))


def predict_joined(model: GraphModel, rows: Table, ids: np.ndarray, edges: Any) -> NodePredictions:
    """Predict preprocessed rows that join the graph of the fit by edges between ids of these rows or of its nodes."""
    known, (ends, weights) = model.graph_, listed_edges(edges)
    if (positions_of_ids(known.node_ids, ids) != MISSING).any():
        raise InputError("some ids of X are nodes of the fit; give new ids as the index of a data frame")
    places = joint_positions(known, ids, ends.ravel()).reshape(-1, 2)
    if (unknown := ends[places == MISSING]).size:
        raise InputError(f"{len(unknown)} ends of edges are neither in X nor in the fit, such as {shown(unknown[0])}")
    return _new_predictions(model, _apply_to_new(model, rows, *new_edges(known, len(ids), places.T, weights)))


def joint_positions(known: Graph, new_ids: np.ndarray, ids: np.ndarray) -> Int[np.ndarray, "ids"]:
    """The position of each id among the nodes of the fit followed by new ones; `MISSING` for unknown ids."""
    new = positions_of_ids(new_ids, ids)
    return np.where(new == MISSING, positions_of_ids(known.node_ids, ids), known.num_nodes + new)


def new_edges(
    known: Graph, new: int, ends: Int[np.ndarray, "2 edges"], weights: np.ndarray | None, where: str = ""
) -> tuple[sp.csr_array, sp.csr_array]:
    """The edges of new nodes to the nodes of the fit, `[new, known]`, and among each other, from `joint_positions`;
    without weights they have the mean weight of the fit. Edges between two nodes of the fit are dropped with a note."""
    count, size = known.num_nodes, known.num_nodes + new
    weights = np.full(ends.shape[1], mean_weight(known)) if weights is None else weights
    joins = np.asarray((ends >= count).any(axis=0))
    if not joins.all():
        dropped = f"{np.count_nonzero(~joins)} of {len(joins)} edges connect two nodes of the model and are dropped"
        note(f"{where}{dropped}; fit again to use them")
    sources, targets = ends[:, joins]
    adjacency, *_ = merged_adjacency(sources, targets, weights[joins], size)
    rows = adjacency[count:]
    return sp.csr_array(rows[:, :count]), sp.csr_array(rows[:, count:])


def predict_graph(model: GraphModel, graph: Graph) -> NodePredictions:
    """Predict the nodes of another graph. The graph of the fit, with its nodes in any order, keeps its predictions."""
    graph, fitted = transformed_graph(model, graph), model.graph_
    if graph.num_nodes == fitted.num_nodes and graph.adjacency.nnz == fitted.adjacency.nnz:
        positions = positions_of_ids(fitted.node_ids, graph.node_ids)
        if graph.features is None or fitted.features is None:
            is_same = graph.features is fitted.features
        else:
            is_same = same_table(fitted.features[positions], graph.features)
        is_same = is_same and (positions != MISSING).all()
        if is_same and not (fitted.adjacency[positions][:, positions] != graph.adjacency).nnz:
            return _predictions_at(model, positions, None)
    return _new_predictions(model, _apply(model, graph))


def normalised(probabilities: np.ndarray) -> Float[np.ndarray, "nodes classes"]:
    """Probabilities in double precision, scaled to sum to one."""
    probabilities = probabilities.astype(np.float64)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def _predictions_at(model: GraphModel, positions: Int[np.ndarray, "nodes"], rows: Any) -> NodePredictions:
    """Predictions at these positions of the fit; where a position is missing, the features in `rows` are used."""
    probabilities = model.label_distributions_[positions]
    peers = None if model.peer_distributions_ is None else model.peer_distributions_[:, positions]
    new = np.flatnonzero(positions == MISSING)
    if len(new):
        check_width(0 if rows is None else rows.shape[1], model.graph_)
        check_magnitude(rows[new], "a feature")
        found = _new_predictions(model, _apply_to_new(model, rows[new], _edges_to_nearest(model, rows[new])))
        probabilities[new] = found.probabilities
        if peers is not None:
            peers[:, new] = found.peers
    return NodePredictions(probabilities, peers, positions)


def _note_far_outside(fitted: Graph, rows: Table) -> None:
    """Note new rows with values outside the training range by `FAR` times its width. Sparse tables, and text, whose
    rows have a fixed length, are not checked."""
    if sp.issparse(rows):
        return
    low, high = _feature_range(fitted)
    names, columns = fitted.feature_names, () if fitted.preprocessing is None else fitted.preprocessing.columns
    if not names and fitted.preprocessing is not None:
        names = fitted.preprocessing.names
    texts = [name for column in columns if column.kind == "text" for name in column.outputs]
    bounded = np.isin(names, texts) if texts else False
    width = np.where((high > low) & ~np.asarray(bounded), FAR * (high - low), np.inf)
    outside = (rows < low - width) | (rows > high + width)
    if outside.any():
        column = int(outside.any(axis=0).argmax())
        named = shown(names[column]) if names else f"feature {column + 1}"
        note(
            f"{int(outside.any(axis=1).sum())} of {len(rows)} new rows have values far outside the range of the fit, "
            f"for instance of {named}; their predictions are unreliable"
        )


@cached_per_graph
def _feature_range(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    return graph.features.min(axis=0), graph.features.max(axis=0)  # type: ignore[union-attr]


def _new_predictions(model: GraphModel, peers: Float[np.ndarray, "peers nodes classes"]) -> NodePredictions:
    """Predictions for nodes outside the fit, from those of the peers."""
    plain = normalised(model.method_.combined(peers[None], model.parameters_)[0])
    own = None if model.peer_distributions_ is None else peers
    return NodePredictions(corrected(plain, model.class_factors_), own, np.full(peers.shape[1], MISSING))


def _apply(model: GraphModel, graph: Graph) -> Float[np.ndarray, "peers nodes classes"]:
    check_width(graph.num_features, model.graph_)
    check_magnitudes(graph)
    graph = replace(graph.without_labels, class_names=model.graph_.class_names)
    return _checked_peers(model, model.method_.apply, graph, chosen_device(model.device))


def _checked_peers(
    model: GraphModel, apply: Callable[..., np.ndarray], *arguments: Any
) -> Float[np.ndarray, "peers nodes classes"]:
    try:
        peers: np.ndarray = apply(model.parameters_ or {}, *arguments)[0]
    except (KeyError, ValueError, IndexError, RuntimeError, TypeError) as error:
        if isinstance(error, InputError) or not model.training_ or is_out_of_memory(error):
            raise
        raise InputError(
            f"the weights of this model do not fit its method ({reason(error)}); its folder is damaged, fit it again"
        ) from error
    if not np.isfinite(peers).all():
        raise InputError(
            "the predictions for these nodes are not finite (NaN); look for huge numbers among their features and "
            "edge weights, or fit the model again"
        )
    return peers


# ---------------------------------------------------------------------------------------------------- attaching nodes


def graph_of_rows(model: GraphModel, table: Table) -> Graph:
    """The nearest-neighbour graph of these rows."""
    neighbors = _attached_neighbours(model, table.shape[0] - 1)
    return Graph(adjacency=neighbour_graph(table, neighbors, model.metric, mutual=model.mutual_neighbors))


def _edges_to_nearest(model: GraphModel, rows: Table) -> sp.csr_array:
    """Edges of mean weight from new rows to their nearest nodes of the fit, new x known."""
    graph = model.graph_
    neighbours = _search(graph, _attached_neighbours(model, graph.num_nodes), model.metric)(
        _as_sparse_as(graph.features, rows)
    )
    weights = np.full(neighbours.size, mean_weight(graph), dtype=np.float32)
    starts = np.arange(len(neighbours) + 1) * neighbours.shape[1]
    return sp.csr_array((weights, neighbours.reshape(-1), starts), (len(neighbours), graph.num_nodes))


@cached_per_graph
def _search(graph: Graph, neighbors: int, metric: str) -> Callable[[Table], np.ndarray]:
    return neighbour_search(graph.features, neighbors, metric)


def _apply_to_new(
    model: GraphModel, rows: Table, to_known: sp.csr_array, among_new: sp.csr_array | None = None
) -> Float[np.ndarray, "peers new classes"]:
    """Predictions of the peers for new nodes, from their features and their edges to the fit and to each other."""
    graph = model.graph_
    rows = _as_sparse_as(graph.features, rows)
    _note_far_outside(graph, rows)
    check_magnitude(to_known, "an edge weight")
    new = Graph(sp.csr_array((rows.shape[0],) * 2, dtype=np.float32) if among_new is None else among_new, rows)
    check_magnitudes(new)
    return _peers_of_new(model, new, to_known, chosen_device(model.device))


def _peers_of_new(
    model: GraphModel, new: Graph, to_known: sp.csr_array, device: torch.device
) -> Float[np.ndarray, "peers new classes"]:
    known = model.graph_.without_labels
    return _checked_peers(model, model.method_.apply_to_new, known, new, to_known, device, state_of(model))


def state_of(model: GraphModel) -> dict[str, Any]:
    """Cached values for the fitted parameters of a model."""
    if model not in _states or _states[model][0] is not model.parameters_:
        _states[model] = model.parameters_, {}
    return _states[model][1]


@cached_per_graph
def mean_weight(graph: Graph) -> float:
    """The mean edge weight; 1 without edges."""
    return float(graph.adjacency.data.mean()) if graph.adjacency.nnz else 1.0


def _attached_neighbours(model: GraphModel, limit: int) -> int:
    if not isinstance(model.neighbors, int | np.integer) or model.neighbors < 1:
        raise InputError(f"neighbors is {model.neighbors!r}; give a whole number, at least 1")
    return min(int(model.neighbors), limit)


def _as_sparse_as(table: Table, rows: Table) -> Table:
    """Sparse rows for a sparse table, dense rows for a dense one."""
    if sp.issparse(table):
        return sp.csr_array(rows)
    return rows.toarray() if sp.issparse(rows) else rows


# -------------------------------------------------------------------------------------------------- recognising nodes


def positions_of_rows(graph: Graph, rows: Table) -> Int[np.ndarray, "rows"]:
    """The position of each row among the features of a graph, `MISSING` if it is absent.

    The n-th of equal rows is matched to the n-th equal row of the graph, cyclically, so that every row of the graph
    finds its own position.

    >>> graph = Graph(np.zeros((3, 3)), [[1, 2], [3, 4], [1, 2]])
    >>> positions_of_rows(graph, np.array([[1, 2], [4, 3], [1, 2], [3, 4], [1, 2]], dtype=np.float32))
    array([ 0, -1,  2,  1,  0])
    """
    table: Table = graph.features
    if same_table(table, rows):  # the common case, without sorting
        return np.arange(graph.num_nodes)
    places = _places_by_hash(graph)
    rows, found = _as_sparse_as(table, rows), np.zeros(rows.shape[0], dtype=np.int64)
    before: Counter[int] = Counter()  # equal rows
    for row, value in enumerate(_hashes(rows)):
        equal = places.get(value, [0])
        found[row] = equal[before[value] % len(equal)]
        before[value] += 1
    return np.where(rows_equal(table[found], rows), found, MISSING)


@cached_per_graph
def _places_by_hash(graph: Graph) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for place, value in enumerate(_hashes(graph.features)):
        places.setdefault(value, []).append(place)
    return places


def same_table(one: Table, other: Table) -> bool:
    """Whether two tables are equal."""
    return one.shape == other.shape and bool(rows_equal(one, other).all())


def rows_equal(one: Table, other: Table) -> Bool[np.ndarray, "rows"]:
    """Whether the rows of two tables are equal, row by row."""
    if sp.issparse(one) or sp.issparse(other):
        differing = sp.csr_array(sp.csr_array(one) != sp.csr_array(other))
        return np.diff(differing.indptr) == 0
    return (one == other).all(axis=1)


def _hashes(table: Table) -> Iterator[int]:
    """A hash of each row."""
    if not sp.issparse(table):
        return (hash((row + np.float32(0)).tobytes()) for row in table)  # -0 is 0
    table = table.copy()
    table.sum_duplicates()
    table.eliminate_zeros()
    columns, starts = table.indices.astype(np.int64), table.indptr.tolist()
    rows = (slice(start, end) for start, end in pairwise(starts))
    return (hash((columns[row].tobytes(), table.data[row].tobytes())) for row in rows)


# --------------------------------------------------------------------------------------------------- single new nodes


class Scorer:
    """Class probabilities of a new node, as `predict_proba` gives them; every row counts as new.

    `scorer(features)` attaches the node to its nearest nodes of the fit, `scorer(features, edges)` joins it by edges: a
    list of ids, or of pairs of an id and a weight. `features` is a row of numbers, or a mapping from columns to values.
    The order of the probabilities is `classes_`. Calls from several threads are safe.
    """

    def __init__(self, model: GraphModel) -> None:
        graph, features = model.graph_, model.graph_.features
        if model.parameters_ is None:
            raise InputError(
                f"{type(model.method_).__name__} has no trained parameters for new nodes; fit with mt-plus"
            )
        check_width(graph.num_features, graph)
        assert features is not None, "checked above"
        self.model, self.classes_ = model, model.classes_
        self._device, self._weight, self._columns = chosen_device(model.device), mean_weight(graph), num_columns(graph)
        self._places = {str(node): place for place, node in enumerate(graph.node_ids.tolist())}
        self._nearest = _nearest(features, _attached_neighbours(model, graph.num_nodes), model.metric)
        self._probabilities(features[:1], np.zeros(1, np.int64), np.full(1, self._weight))  # warm-up, fills the caches

    def __call__(self, features: Any, edges: Sequence[Any] | None = None) -> Float[np.ndarray, "classes"]:
        row = self._row(features)
        if edges is None:
            places = self._nearest(row)
            return self._probabilities(row, places, np.full(len(places), self._weight))
        pairs = [edge if isinstance(edge, list | tuple) else (edge, self._weight) for edge in edges]
        if unknown := [pair[0] for pair in pairs if len(pair) != 2 or str(pair[0]) not in self._places]:
            raise InputError(f"no node {shown(unknown[0])} in the model; edges are ids, or pairs of an id and a weight")
        by_place: dict[int, float] = {}
        for node, weight in pairs:  # repeated edges have their largest weight, as in the fit
            place = self._places[str(node)]
            by_place[place] = max(by_place.get(place, -np.inf), float(weight))
        weights = np.array(list(by_place.values()))
        if not (np.isfinite(weights) & (weights > 0)).all():
            raise InputError("an edge weight is not positive; give finite numbers above 0")
        check_magnitude(weights, "an edge weight")
        return self._probabilities(row, np.array(list(by_place), dtype=np.int64), weights)

    def _row(self, features: Any) -> Table:
        """The preprocessed features, as a table of one row."""
        preprocessing = self.model.graph_.preprocessing
        if isinstance(features, Mapping):
            if preprocessing is None or not preprocessing.named:
                raise InputError(f"the features of this model have no names; give a list of {self._columns} numbers")
            import pyarrow as pa

            from mtgcn.io.frames import table_of_frame

            row = preprocessing.matrix(table_of_frame(pa.table({str(key): [cell] for key, cell in features.items()})))
        else:
            try:
                row = sp.csr_array(features) if sp.issparse(features) else np.array(features, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError("features are neither numbers nor a mapping from columns to values") from None
            if row.size != self._columns and row.shape != (1, self._columns):
                raise InputError(f"{row.size} features, but the fit has {self._columns}; give the same ones")
            row = row.reshape(1, -1)
            _check_finite(row, allow_nan=preprocessing is not None)
            if preprocessing is not None:
                row = preprocessing.matrix(table_of_array(row, [column.name for column in preprocessing.columns]))
        row = row.astype(np.float32)
        _check_finite(row)
        check_magnitude(row, "a feature")
        return _as_sparse_as(self.model.graph_.features, row)

    def _probabilities(
        self, row: Table, places: Int[np.ndarray, "edges"], weights: Float[np.ndarray, "edges"]
    ) -> Float[np.ndarray, "classes"]:
        shape = 1, self.model.graph_.num_nodes
        to_known = sp.csr_array((weights.astype(np.float32), places, [0, len(places)]), shape)
        new = Graph(sp.csr_array((1, 1), dtype=np.float32), row)
        return _new_predictions(self.model, _peers_of_new(self.model, new, to_known, self._device)).probabilities[0]


def _check_finite(row: Table, *, allow_nan: bool = False) -> None:
    values = row.data if sp.issparse(row) else row
    if np.isinf(values).any() or (np.isnan(values).any() and not allow_nan):
        raise InputError("a feature is NaN or infinite; give finite numbers")


def _nearest(table: Table, count: int, metric: str) -> Callable[[Table], Int[np.ndarray, "count"]]:
    """The positions of the nearest rows: candidates by one product in 32 bits, compared exactly."""
    rows = table.shape[0]
    candidates = min(rows, SPARE * count)
    squares = np.asarray((table * table).sum(axis=1), dtype=np.float32).reshape(-1)
    if metric not in ("euclidean", "cosine") or (metric == "cosine" and not squares.all()):
        search, lock = neighbour_search(table, count, metric), threading.Lock()

        def searched(row: Table) -> Int[np.ndarray, "count"]:
            with lock:  # the search limits the threads of the whole process
                places: np.ndarray = search(row)[0]
            return places

        return searched
    lengths = np.sqrt(squares, dtype=np.float64)
    mean = np.zeros((1, table.shape[1]), np.float32) if sp.issparse(table) else table.mean(axis=0, keepdims=True)
    centred = squares if sp.issparse(table) else ((table - mean) ** 2).sum(axis=1)

    def times(vector: Float[np.ndarray, "features"]) -> Float[np.ndarray, "rows"]:
        """Multiply in the calling thread, since on a busy machine the threads of BLAS wait for each other."""
        product: np.ndarray = table @ vector if sp.issparse(table) else np.einsum("ij,j->i", table, vector)
        return product

    def found(row: Table) -> Int[np.ndarray, "count"]:
        dense = (row.toarray() if sp.issparse(row) else row)[0]
        near = np.arange(rows)
        if candidates < rows:
            # |x - q|² up to a constant; without the mean, rounding errors are smaller.
            product = times(dense if metric == "cosine" else dense - mean[0])
            distance = -product / lengths if metric == "cosine" else centred - 2 * product
            near = np.sort(np.argpartition(distance, candidates)[:candidates])
        some = (table[near].toarray() if sp.issparse(table) else table[near]).astype(np.float64)
        exact = ((some - dense) ** 2).sum(axis=1) if metric == "euclidean" else -(some @ dense) / lengths[near]
        return near[np.argsort(exact, kind="stable")[:count]]

    return found
