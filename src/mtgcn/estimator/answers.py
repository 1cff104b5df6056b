"""The one road to an answer: of a node of the fit what the fit found, of any other what the trained peers say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, reason
from mtgcn.estimator.attaching import extended, with_new_rows
from mtgcn.estimator.checks import check_magnitude, check_magnitudes, check_width
from mtgcn.estimator.preparing import graph_for
from mtgcn.estimator.row_lookup import NOWHERE, place_of_ids, place_of_rows, same_table
from mtgcn.memory import is_out_of_memory
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel
    from mtgcn.graph import Graph


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says of some nodes, and which of them are nodes of its fit."""

    probabilities: Float[np.ndarray, "nodes classes"]
    peers: Float[np.ndarray, "peers nodes classes"] | None  # None where the method has none
    place: Int[np.ndarray, "nodes"]  # in the graph of the fit; NOWHERE of other nodes


def of_fit(model: GraphModel) -> Answers:
    """All nodes of the fit, in their order."""
    return _at(model, np.arange(model.graph_.num_nodes), None)


def of_rows(model: GraphModel, rows: Any) -> Answers:
    """Rows without ids, prepared as those of the fit (`preparing.rows_for`): those equal to a node of the fit are
    taken to be it, the others are attached."""
    return _at(model, place_of_rows(model.graph_.features, rows), rows)


def of_nodes(model: GraphModel, nodes: Graph) -> Answers:
    """Nodes without edges: those whose id the model knows are its own, whatever their features say now; the others
    are attached. Where the model's nodes never had ids, rows are known by their features."""
    nodes = graph_for(model, nodes)
    if model.has_node_ids_:
        return _at(model, place_of_ids(model.graph_.node_ids, nodes.node_ids), nodes.features)
    check_width(nodes.num_features, model.graph_)
    return of_rows(model, nodes.features)


def of_new_nodes(model: GraphModel, nodes: Graph, to_known: sp.csr_array) -> Answers:
    """Nodes that join the graph of the fit: told by their features, by their edges to its nodes (`to_known`, new x
    known) and by those between each other, which `nodes` has. What the model says of its own nodes does not change."""
    nodes = graph_for(model, nodes)
    check_width(nodes.num_features, model.graph_)
    grown = extended(model.graph_, nodes.features, to_known, nodes.adjacency)
    peers = _applied(model, grown)[:, model.graph_.num_nodes :]
    return Answers(
        _combined(model, peers),
        None if model.peer_distributions_ is None else peers,
        np.full(nodes.num_nodes, NOWHERE),
    )


def share_of_absent_peers(model: GraphModel) -> float:
    """How much of the vote is held by peers that know nodes by their place in the graph of the fit, and therefore have
    no say about any other node."""
    if model.peer_report_ is None:
        return 0.0
    absent = np.isin(model.peer_report_.names, model.method_.peers_of_their_graph)
    return float(model.peer_report_.weights[0, absent].sum())


def of_graph(model: GraphModel, graph: Graph) -> Answers:
    """The nodes of the fit where this is its graph, its nodes in any order; else the peers look at it as it is."""
    graph = graph_for(model, graph)
    place = _place_in_same_graph(model.graph_, graph)
    if place is not None:
        return _at(model, place, None)
    peers = _applied(model, graph)
    return Answers(
        _combined(model, peers),
        None if model.peer_distributions_ is None else peers,
        np.full(graph.num_nodes, NOWHERE),
    )


def together(first: Answers, second: Answers) -> Answers:
    """The nodes of both, one after the other."""
    peers = None
    if first.peers is not None and second.peers is not None:
        peers = np.concatenate([first.peers, second.peers], axis=1)
    return Answers(
        np.concatenate([first.probabilities, second.probabilities]),
        peers,
        np.concatenate([first.place, second.place]),
    )


def summing_to_one(probabilities: np.ndarray) -> Float[np.ndarray, "nodes classes"]:
    """In doubles, whose sums are one to their last digits."""
    probabilities = probabilities.astype(np.float64)
    return probabilities / probabilities.sum(axis=1, keepdims=True)


def _at(model: GraphModel, place: Int[np.ndarray, "nodes"], rows: Any) -> Answers:
    """The nodes at these places of the fit; of those that are `NOWHERE`, the features are in `rows`."""
    probabilities = model.label_distributions_[place]
    peers = None if model.peer_distributions_ is None else model.peer_distributions_[:, place]
    new = np.flatnonzero(place == NOWHERE)
    if len(new):
        found = _attached(model, None if rows is None else rows[new])
        probabilities[new] = _combined(model, found)
        if peers is not None:
            peers[:, new] = found
    return Answers(probabilities, peers, place)


def _attached(model: GraphModel, rows: Any) -> Float[np.ndarray, "peers rows classes"]:
    """What the peers say of new rows, each joined with the nodes of the fit that are most like it."""
    check_width(0 if rows is None else rows.shape[1], model.graph_)
    check_magnitude(rows, "a feature")
    return _applied(model, with_new_rows(model, rows))[:, model.graph_.num_nodes :]


def _applied(model: GraphModel, graph: Graph) -> Float[np.ndarray, "peers nodes classes"]:
    check_width(graph.num_features, model.graph_)
    check_magnitudes(graph)
    graph = replace(graph.without_labels, class_names=model.graph_.class_names)
    try:
        peers = model.method_.apply(model.parameters_ or {}, graph, chosen_device(model.device))[0]
    except (KeyError, ValueError, IndexError, RuntimeError, TypeError) as error:
        if isinstance(error, InputError) or not model.training_ or is_out_of_memory(error):
            raise
        raise InputError(
            f"the weights of this model do not fit its method ({reason(error)}); its folder is damaged, fit it again"
        ) from error
    if not np.isfinite(peers).all():
        raise InputError(
            "what the model says of these nodes is not finite (NaN); look for huge numbers among their features and "
            "edge weights, or fit the model again"
        )
    return peers


def _combined(model: GraphModel, peers: Float[np.ndarray, "peers nodes classes"]) -> Float[np.ndarray, "nodes classes"]:
    return summing_to_one(model.method_.combined(peers[None], model.parameters_)[0])


def _place_in_same_graph(fitted: Graph, graph: Graph) -> Int[np.ndarray, "nodes"] | None:
    """Where each node stands in the fitted graph, if both have the same nodes, features and edges; None if not."""
    if graph.num_nodes != fitted.num_nodes or graph.adjacency.nnz != fitted.adjacency.nnz:
        return None
    place = place_of_ids(fitted.node_ids, graph.node_ids)
    if (place == NOWHERE).any():
        return None
    if graph.features is None or fitted.features is None:
        same_features = graph.features is fitted.features
    else:
        same_features = same_table(fitted.features[place], graph.features)
    if not same_features or (fitted.adjacency[place][:, place] != graph.adjacency).nnz:
        return None
    return place
