"""New nodes in the graph of a fit, by edges of their own or to the nodes that are most like them; and edges between
rows that are alike, where a fit has no graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.linalg.neighbours import nearest, neighbour_graph

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel

Table = Any  # sp.csr_array | np.ndarray of 32-bit floats; scipy's arrays are untyped


def graph_of_rows(model: GraphModel, table: Table) -> Graph:
    """A graph of these rows, each joined with its nearest."""
    return Graph(
        adjacency=neighbour_graph(
            table, _neighbors(model, most=table.shape[0] - 1), model.metric, mutual=model.mutual_neighbors
        )
    )


def with_new_rows(model: GraphModel, rows: Table) -> Graph:
    """The graph of the fit and, after its nodes, these rows: each joined with the nodes that are most like it, by
    edges of the usual weight."""
    graph, table, count = model.graph_, model.graph_.features, rows.shape[0]
    assert table is not None, "rows are refused where the fit had no features"
    rows = _in_form_of(table, rows)
    edges = nearest(table, rows, _neighbors(model, most=graph.num_nodes), model.metric)
    starts = np.arange(count + 1) * edges.shape[1]
    joining = sp.csr_array(
        (np.full(edges.size, usual_weight(graph), dtype=np.float32), edges.reshape(-1), starts),
        (count, graph.num_nodes),
    )
    return extended(graph, rows, joining)


def extended(graph: Graph, rows: Table, to_known: sp.csr_array, among_new: sp.csr_array | None = None) -> Graph:
    """The graph of a fit and, after its nodes, new ones with these features, their edges to its nodes (new x known) and
    between each other."""
    table = graph.features
    assert table is not None, "new nodes are refused where the fit had no features"
    rows = _in_form_of(table, rows)
    return replace(
        graph,
        adjacency=sp.block_array([[graph.adjacency, to_known.T], [to_known, among_new]], format="csr"),
        features=sp.vstack([table, rows], format="csr") if sp.issparse(table) else np.concatenate([table, rows]),
        labels=np.full(graph.num_nodes + rows.shape[0], UNKNOWN),
        node_ids=np.arange(graph.num_nodes + rows.shape[0]),
    )


def usual_weight(graph: Graph) -> float:
    """What an edge of this graph weighs on average."""
    return float(graph.adjacency.data.mean()) if graph.adjacency.nnz else 1.0


def _neighbors(model: GraphModel, most: int) -> int:
    if not isinstance(model.neighbors, int | np.integer) or model.neighbors < 1:
        raise InputError(f"neighbors is {model.neighbors!r}; give a whole number, at least 1")
    return min(int(model.neighbors), most)


def _in_form_of(table: Table, rows: Table) -> Table:
    """Sparse rows where the table is sparse, dense ones where it is dense."""
    if sp.issparse(table):
        return sp.csr_array(rows)
    return sp.csr_array(rows).toarray() if sp.issparse(rows) else rows
