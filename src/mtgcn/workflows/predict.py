"""`mtgcn predict`: predictions of a stored model for the nodes of its graph, for new nodes, or for another graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, note
from mtgcn.estimator.graph_model import GIVEN, NOT_PSEUDO_LABELED, GraphModel
from mtgcn.estimator.inference import (
    MISSING,
    NodePredictions,
    absent_peer_weight,
    concatenated,
    joint_positions,
    mean_weight,
    new_edges,
    positions_of_ids,
    predict_fitted,
    predict_graph,
    predict_new_nodes,
    predict_nodes,
    rows_equal,
)
from mtgcn.estimator.inputs import check_width, transformed_graph
from mtgcn.estimator.persistence import load_model
from mtgcn.graph import Graph, check_edges
from mtgcn.io.options import TableOptions
from mtgcn.memory import check_address_space
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import peer_weights, peers_agree
from mtgcn.workflows.inputs import read_edges, read_like
from mtgcn.workflows.output import check_output, collected_notes, table_bytes, write_output

NOTED_WEIGHT = 0.2  # a note is given if peers with more than this weight cannot predict new nodes
ROWS_PER_BATCH = 10_000
NODE_ROLES = ("id", "label")
MAX_IDS_LISTED = 3


@dataclass(frozen=True, eq=False)
class Predictions:
    """Class probabilities of nodes, and the role of each node in training."""

    ids: np.ndarray
    class_names: tuple[str, ...]
    probabilities: Float[np.ndarray, "nodes classes"]
    peers: Float[np.ndarray, "peers nodes classes"] | None
    labeled_iter: Int[np.ndarray, "nodes"]  # 0: labelled; n: pseudo-labelled in iteration n; -1: neither
    weights: Float[np.ndarray, "peers"] | None = None  # None: equal weights

    @property
    def predicted(self) -> Int[np.ndarray, "nodes"]:
        return self.probabilities.argmax(axis=1)

    @property
    def peers_agree(self) -> np.ndarray | None:
        """Whether the leading peers predict the same class, for each node; None for methods without peers."""
        return None if self.peers is None else peers_agree(self.peers, self.weights)

    def count_by_class(self) -> dict[str, int]:
        counts = np.bincount(self.predicted, minlength=len(self.class_names))
        return dict(zip(self.class_names, counts.tolist(), strict=True))


def predict_files(
    folder: Path,
    files: TableOptions,
    *,
    out: Path,
    new_graph: bool = False,
    with_known: bool = False,
    device: str = "auto",
) -> tuple[Predictions, list[str]]:
    """Write predictions for the nodes of these files; without files, for the nodes of the model's graph.

    Nodes with edges join the graph of the model, or with `new_graph` form a graph of their own. With `with_known`, the
    nodes of the model are listed beside new nodes. Returns the predictions and the notes.
    """
    check_address_space()
    chosen_device(device)
    check_output(out)
    if new_graph and not (files.edges or files.graph):
        raise InputError("--new-graph reads edges as a graph of their own, and there are none; add --edges, or drop it")
    joins = bool(files.edges) and not new_graph
    if with_known and not joins:
        raise InputError("--all lists the nodes of the fit beside new ones that join them; give --nodes and --edges")
    model = load_model(folder)
    model.device = device
    with collected_notes() as notes:
        predictions = _predict_joined(model, files, with_known) if joins else _predict(model, files)
    write_output(out, predictions_table(predictions))
    return predictions, notes


def _predict(model: GraphModel, files: TableOptions) -> Predictions:
    """Predictions for the model's own nodes, for a table of nodes, or for another graph."""
    fitted = model.graph_
    if not files.given:
        return predictions_of(model, fitted.node_ids, predict_fitted(model))
    nodes = read_like(files, fitted)
    if files.edges or files.graph:
        return predictions_of(model, nodes.node_ids, predict_graph(model, nodes))
    nodes = transformed_graph(model, nodes)
    answers = predict_nodes(model, nodes)
    known = np.flatnonzero(answers.positions != MISSING)
    if model.has_node_ids_ and len(known):
        found = (
            f"{len(known)} of {len(answers.positions)} nodes have ids of the model and get the predictions of the fit"
        )
        if fitted.features is not None and nodes.features is not None and nodes.num_features == fitted.num_features:
            same = rows_equal(fitted.features[answers.positions[known]], nodes.features[known])
            if changed := int((~same).sum()):
                found += f"; {changed} of them have other features here, which are ignored: fit again to use them"
        note(found)
    return predictions_of(model, nodes.node_ids, answers)


def _predict_joined(model: GraphModel, files: TableOptions, with_known: bool) -> Predictions:
    """Predictions for new nodes that join the graph of the model."""
    if not model.has_node_ids_:
        raise InputError(
            "the nodes of this model have no ids, so edges cannot refer to them; fit it on files, or add --new-graph "
            "to read these files as a graph of their own"
        )
    check_width(model.graph_.num_features, model.graph_)
    nodes, to_known = read_new_nodes(files, model.graph_)
    answers, ids = predict_new_nodes(model, nodes, to_known), nodes.node_ids
    absent = absent_peer_weight(model)
    if absent > NOTED_WEIGHT:
        note(
            f"peers with {100 * absent:.0f} % of the weight use the position of a node in the graph of the fit and do "
            "not predict new nodes, so these predictions are less accurate; to include them, fit with the new nodes"
        )
    if with_known:
        answers, ids = concatenated(predict_fitted(model), answers), np.array([*model.graph_.node_ids, *ids])
    return predictions_of(model, ids, answers)


# New nodes and their edges


def read_new_nodes(files: TableOptions, known: Graph) -> tuple[Graph, sp.csr_array]:
    """The nodes of `files.nodes`, which must all be new, with the edges between them, and the weights of their edges
    to the nodes of the model, `[new, known]`."""
    assert files.edges is not None
    if files.nodes is None:
        raise InputError(
            f"{files.edges} alone does not give the features of new nodes; give them with --nodes, or add --new-graph "
            "to read the edges as a graph of their own"
        )
    node_columns = {role: column for role, column in files.columns.items() if role in NODE_ROLES}
    nodes = read_like(replace(files, edges=None, columns=node_columns), known)
    present = nodes.node_ids[positions_of_ids(known.node_ids, nodes.node_ids) != MISSING]
    if len(present):
        raise InputError(
            f"{files.nodes}: the model already has {len(present)} of these {nodes.num_nodes} nodes, for instance "
            f"{_listed(present)}; give new nodes only, whose edges may lead to those, or add --new-graph to read both "
            "files as a graph of their own"
        )
    to_known, among_new = _read_new_edges(files, nodes, known)
    if not to_known.nnz:
        note("no edge leads to a node of the model; if this is a graph of its own, add --new-graph")
    isolated = int((np.diff(to_known.indptr) + np.diff(among_new.indptr) == 0).sum())
    if isolated:
        note(f"{isolated} of {nodes.num_nodes} new nodes have no edge; their predictions use features only")
    return replace(nodes, adjacency=among_new), to_known


def _read_new_edges(files: TableOptions, nodes: Graph, known: Graph) -> tuple[sp.csr_array, sp.csr_array]:
    """The edges of new nodes to the nodes of the model, and among each other."""
    listed = read_edges(files)
    check_edges(listed, str(files.edges))
    place = joint_positions(known, nodes.node_ids, listed.node_ids)
    unknown = listed.node_ids[place == MISSING]
    if len(unknown) and files.unknown_nodes != "drop":
        raise InputError(
            f"{files.edges}: {len(unknown)} ids are neither in {files.nodes} nor in the model, for instance "
            f"{_listed(unknown)}; add these nodes to {files.nodes}, or drop their edges by --unknown-nodes drop"
        )
    ends = np.stack([place[listed.sources], place[listed.targets]])
    complete = (ends != MISSING).all(axis=0)
    if not complete.all():
        note(f"{files.edges}: {int((~complete).sum())} edges refer to unknown nodes and are dropped")
    weights = listed.weights
    if weights is None and (weight := mean_weight(known)) != 1:
        note(f"{files.edges} has no weights; new edges get weight {weight:.3g}, the mean of the model's graph")
        weights = np.full(len(complete), weight)
    weights = None if weights is None else weights[complete]
    return new_edges(known, nodes.num_nodes, ends[:, complete], weights, f"{files.edges}: ")


def _listed(ids: np.ndarray) -> str:
    return ", ".join(repr(name) for name in ids[:MAX_IDS_LISTED].tolist())


# The table of predictions


def predictions_of(model: GraphModel, ids: np.ndarray, answers: NodePredictions) -> Predictions:
    """Predictions for the nodes with these ids; nodes of the fit keep their role in it."""
    return Predictions(
        ids=ids,
        class_names=tuple(map(str, model.classes_)),
        probabilities=answers.probabilities,
        peers=answers.peers,
        labeled_iter=np.where(answers.positions == MISSING, NOT_PSEUDO_LABELED, model.labeled_iter_[answers.positions]),
        weights=peer_weights(model),
    )


def predictions_table(predictions: Predictions) -> bytes:
    """The table of predictions as CSV: `id,predicted,probability,probability_CLASS…`."""
    classes, agree = predictions.class_names, predictions.peers_agree
    shares = [f"probability_{name}" for name in classes]

    def rows() -> Iterator[list[str]]:
        for start in range(0, len(predictions.ids), ROWS_PER_BATCH):
            batch = slice(start, start + ROWS_PER_BATCH)
            ids, iterations = predictions.ids[batch].tolist(), predictions.labeled_iter[batch].tolist()
            agreed = [""] * len(ids) if agree is None else np.where(agree[batch], "yes", "no").tolist()
            columns = (ids, predictions.probabilities[batch].tolist(), agreed, iterations)
            for name, probabilities, agreement, iteration in zip(*columns, strict=True):
                best = max(probabilities)
                role = {GIVEN: ("given", ""), NOT_PSEUDO_LABELED: ("neither", "")}.get(
                    iteration, ("pseudo-label", str(iteration))
                )
                texts = (f"{share:.6f}" for share in (best, *probabilities))
                yield [str(name), classes[probabilities.index(best)], *texts, agreement, *role]

    header = ["id", "predicted", "probability", *shares, "peers_agree", "role", "pseudo_label_epoch"]
    return table_bytes(header, rows())
