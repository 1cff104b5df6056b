"""`mtgcn predict`: what a stored model says of the nodes it was fitted on, or of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mtgcn.environment import chosen_device
from mtgcn.estimator.answers import of_fit, of_graph, of_nodes
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_folder import load_model
from mtgcn.estimator.preparing import graph_for
from mtgcn.estimator.row_lookup import NOWHERE, rows_equal
from mtgcn.files.notes import say
from mtgcn.graph import Graph
from mtgcn.own_graph.inputs import GraphFiles, read_like
from mtgcn.own_graph.notes import collected_notes
from mtgcn.own_graph.predictions import Predictions, predictions_of, write_predictions
from mtgcn.storage.destinations import check_file


def predict_files(folder: Path, files: GraphFiles, *, out: Path, device: str = "auto") -> tuple[Predictions, list[str]]:
    """Write predictions for the nodes of these files; without files, for those the model was fitted on. Returns them,
    and what there was to remark."""
    chosen_device(device)  # complain before anything is read
    check_file(out)
    model = load_model(folder).set_params(device=device)
    with collected_notes() as notes:
        predictions = _predictions(model, files)
    write_predictions(out, predictions)
    return predictions, notes


def _predictions(model: MutualTeachingClassifier, files: GraphFiles) -> Predictions:
    if not files.given:
        return predictions_of(model, model.graph_.node_ids, of_fit(model))
    nodes = read_like(files, model.graph_)
    if files.edges or files.graph:
        return predictions_of(model, nodes.node_ids, of_graph(model, nodes))
    nodes = graph_for(model, nodes)
    answers = of_nodes(model, nodes)
    if model.has_node_ids_ and (answers.place != NOWHERE).any():
        say(_known_nodes(model.graph_, nodes, answers.place))
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
