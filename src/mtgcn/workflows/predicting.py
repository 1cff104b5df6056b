"""`mtgcn predict`: what a stored model says of the nodes it was fitted on, or of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError, note
from mtgcn.estimator.answers import of_fit, of_graph, of_new_nodes, of_nodes, share_of_absent_peers, together
from mtgcn.estimator.checks import check_width
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.model_folder import load_model
from mtgcn.estimator.preparing import graph_for
from mtgcn.estimator.row_lookup import NOWHERE, rows_equal
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.workflows.inputs import read_like
from mtgcn.workflows.joining import read_new_nodes
from mtgcn.workflows.notes import collected_notes
from mtgcn.workflows.predictions import Predictions, predictions_of, write_predictions
from mtgcn.workflows.tables_out import check_output

MUCH_OF_THE_VOTE = 0.2


def predict_files(
    folder: Path,
    files: TableOptions,
    *,
    out: Path,
    new_graph: bool = False,
    with_known: bool = False,
    device: str = "auto",
) -> tuple[Predictions, list[str]]:
    """Write predictions for the nodes of these files; without files, for those the model was fitted on. Returns them,
    and what there was to remark.

    Nodes with edges join the graph that the model knows; with `new_graph`, they are a graph of their own. Beside new
    nodes, those of the fit are listed only with `with_known`.
    """
    chosen_device(device)  # complain before anything is read
    check_output(out)
    if new_graph and not (files.edges or files.graph):
        raise InputError("--new-graph reads edges as a graph of their own, and there are none; add --edges, or drop it")
    joins = bool(files.edges) and not new_graph
    if with_known and not joins:
        raise InputError("--all lists the nodes of the fit beside new ones that join them; give --nodes and --edges")
    model = load_model(folder)
    model.device = device
    with collected_notes() as notes:
        predictions = _joined(model, files, with_known) if joins else _predictions(model, files)
    write_predictions(out, predictions)
    return predictions, notes


def _joined(model: GraphModel, files: TableOptions, with_known: bool) -> Predictions:
    """What the model says of new nodes in the graph it knows."""
    if not model.has_node_ids_:
        raise InputError(
            "the nodes of this model were never given ids, so that no edge can name them; fit it on files, or add "
            "--new-graph to read these files as a graph of their own"
        )
    check_width(model.graph_.num_features, model.graph_)
    new = read_new_nodes(files, model.graph_)
    answers, ids = of_new_nodes(model, new.nodes, new.to_known), new.nodes.node_ids
    absent = share_of_absent_peers(model)
    if absent > MUCH_OF_THE_VOTE:
        note(
            f"peers with {100 * absent:.0f} % of the vote know nodes by their place in the graph of the fit and have "
            "no say about new ones, so expect less of these answers; to have it, fit on a graph with the new nodes"
        )
    if with_known:
        answers, ids = together(of_fit(model), answers), np.array([*model.graph_.node_ids, *ids])
    return predictions_of(model, ids, answers)


def _predictions(model: GraphModel, files: TableOptions) -> Predictions:
    if not files.given:
        return predictions_of(model, model.graph_.node_ids, of_fit(model))
    nodes = read_like(files, model.graph_)
    if files.edges or files.graph:
        return predictions_of(model, nodes.node_ids, of_graph(model, nodes))
    nodes = graph_for(model, nodes)
    answers = of_nodes(model, nodes)
    if model.has_node_ids_ and (answers.place != NOWHERE).any():
        note(_known_nodes(model.graph_, nodes, answers.place))
    return predictions_of(model, nodes.node_ids, answers)


def _known_nodes(fitted: Graph, nodes: Graph, place: np.ndarray) -> str:
    """How many nodes are answered by their ids, and how many of these look different now."""
    known = np.flatnonzero(place != NOWHERE)
    note = f"{len(known)} of {len(place)} nodes have ids that the model knows and get the answers of the fit"
    if fitted.features is None or nodes.features is None or nodes.num_features != fitted.num_features:
        return note
    changed = int((~rows_equal(fitted.features[place[known]], nodes.features[known])).sum())
    if not changed:
        return note
    return f"{note}; {changed} of them have other features here, which are not looked at: fit again to count them in"
