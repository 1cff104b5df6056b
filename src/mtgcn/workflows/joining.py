"""New nodes in tables of their own, and the edges by which they join a graph that a model knows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, note
from mtgcn.estimator.attaching import usual_weight
from mtgcn.estimator.row_lookup import NOWHERE, place_of_ids
from mtgcn.graph import Graph
from mtgcn.graph_sources import check_edges, merge_edges
from mtgcn.io.options import TableOptions
from mtgcn.shapes import Int
from mtgcn.workflows.inputs import EDGE_ROLES, read_edges, read_like

MOST_NAMED = 3


@dataclass(frozen=True, eq=False)
class NewNodes:
    """Nodes that a model does not know."""

    nodes: Graph  # with their features and the edges between each other
    to_known: sp.csr_array  # new x known: the weights of edges to nodes of the model


def read_new_nodes(files: TableOptions, known: Graph) -> NewNodes:
    """The nodes of `files.nodes`, which must all be new, and the edges of `files.edges` to them."""
    assert files.edges is not None
    if files.nodes is None:
        raise InputError(
            f"{files.edges} alone does not tell the features of new nodes; give them with --nodes, or add --new-graph "
            "to read the edges as a graph of their own"
        )
    node_columns = {role: column for role, column in files.columns.items() if role not in EDGE_ROLES}
    nodes = read_like(replace(files, edges=None, columns=node_columns), known)
    _check_new(nodes, known, str(files.nodes))
    adjacency = _adjacency(files, nodes, known)
    to_known = sp.csr_array(adjacency[known.num_nodes :, : known.num_nodes])
    among_new = sp.csr_array(adjacency[known.num_nodes :, known.num_nodes :])
    if not to_known.nnz:
        note("no edge leads to a node that the model knows; if this is a graph of its own, say so with --new-graph")
    alone = int((np.diff(to_known.indptr) + np.diff(among_new.indptr) == 0).sum())
    if alone:
        note(f"{alone} of {nodes.num_nodes} new nodes have no edge and are told by their features alone")
    return NewNodes(replace(nodes, adjacency=among_new), to_known)


def _check_new(nodes: Graph, known: Graph, path: str) -> None:
    place = place_of_ids(known.node_ids, nodes.node_ids)
    there = nodes.node_ids[place != NOWHERE]
    if len(there):
        raise InputError(
            f"{path}: the model already has {len(there)} of these {nodes.num_nodes} nodes, for instance "
            f"{_named(there)}; give new nodes alone, whose edges may lead to those, or add --new-graph to read both "
            "files as a graph of their own"
        )


def _adjacency(files: TableOptions, nodes: Graph, known: Graph) -> sp.csr_array:
    """All edges that have a new node, between the nodes of the model and, after them, the new ones."""
    assert files.edges is not None
    listed = read_edges(files)
    check_edges(listed, str(files.edges))
    place = _places(listed.node_ids, nodes, known, files)
    sources, targets = place[listed.sources], place[listed.targets]
    named = (sources != NOWHERE) & (targets != NOWHERE)
    if not named.all():
        note(f"{files.edges}: {int((~named).sum())} edges name nodes that are neither new nor known, and are left out")
    joins = named & ((sources >= known.num_nodes) | (targets >= known.num_nodes))
    settled = int((named & ~joins).sum())
    if settled:
        note(
            f"{files.edges}: {settled} of {len(joins)} edges join two nodes that the model knows, and are left out; "
            "fit again to count them in"
        )
    weights: Any = listed.weights
    if weights is None and (weight := usual_weight(known)) != 1:
        note(f"{files.edges} has no weights; every new edge weighs {weight:.3g}, as those of the model do on average")
        weights = np.full(len(joins), weight)
    size = known.num_nodes + nodes.num_nodes
    merged = merge_edges(sources[joins], targets[joins], None if weights is None else weights[joins], size)
    return merged.adjacency(size)


def _places(ids: np.ndarray, nodes: Graph, known: Graph, files: TableOptions) -> Int[np.ndarray, "ids"]:
    """Where each id stands among the nodes of the model and, after them, the new ones; NOWHERE for ids of nobody."""
    new, old = place_of_ids(nodes.node_ids, ids), place_of_ids(known.node_ids, ids)
    unknown = ids[(new == NOWHERE) & (old == NOWHERE)]
    if len(unknown) and files.unknown_nodes != "drop":
        raise InputError(
            f"{files.edges}: {len(unknown)} ids are neither in {files.nodes} nor in the model, for instance "
            f"{_named(unknown)}; add these nodes to {files.nodes}, or drop their edges by --unknown-nodes drop"
        )
    return np.where(new == NOWHERE, old, known.num_nodes + new)


def _named(ids: np.ndarray) -> str:
    return ", ".join(repr(name) for name in ids[:MOST_NAMED].tolist())
