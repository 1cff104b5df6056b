"""Low-latency predictions for single new nodes; everything that does not depend on the node is computed once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, shown
from mtgcn.estimator.inference import (
    as_sparse_as,
    attached_neighbours,
    checked_peers,
    mean_weight,
    new_predictions,
    state_of,
)
from mtgcn.estimator.inputs import Table, check_magnitude, check_width, num_columns
from mtgcn.graph import Graph
from mtgcn.io.column_table import table_of_array
from mtgcn.linalg.neighbours import neighbour_search
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

SPARE = 4  # candidates per neighbour that are compared in double precision


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
        self._graph, self._device, self._state = graph.without_labels, chosen_device(model.device), state_of(model)
        self._weight, self._columns = mean_weight(graph), num_columns(graph)
        self._places = {str(node): place for place, node in enumerate(graph.node_ids.tolist())}
        self._nearest = _nearest(features, attached_neighbours(model, graph.num_nodes), model.metric)
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
        preprocessing = self._graph.preprocessing
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
        return as_sparse_as(self._graph.features, row)

    def _probabilities(
        self, row: Table, places: Int[np.ndarray, "edges"], weights: Float[np.ndarray, "edges"]
    ) -> Float[np.ndarray, "classes"]:
        model, nodes = self.model, self._graph.num_nodes
        to_known = sp.csr_array((weights.astype(np.float32), places, [0, len(places)]), (1, nodes))
        new = Graph(sp.csr_array((1, 1), dtype=np.float32), row)
        arguments = model.parameters_ or {}, self._graph, new, to_known, self._device, self._state
        peers = checked_peers(model, lambda: model.method_.apply_to_new(*arguments))
        return new_predictions(model, peers).probabilities[0]


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
