"""`mtgcn predict`: what a stored model believes of the nodes it was fitted on, or of others."""

from __future__ import annotations

from pathlib import Path

from mtgcn.environment import chosen_device
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_folder import load_model
from mtgcn.own_graph.inputs import GraphFiles, for_prediction, read_graph, read_tables, with_features_of
from mtgcn.own_graph.notes import collected_notes
from mtgcn.own_graph.outputs import check_file_destination
from mtgcn.own_graph.predictions import Predictions, training_predictions, write_predictions


def predict_files(folder: Path, files: GraphFiles, *, out: Path, device: str = "auto") -> tuple[Predictions, list[str]]:
    """Write predictions for the nodes of these files; without files, for those the model was fitted on. Returns them,
    and what reading had to remark."""
    chosen_device(device)  # complain before anything is read
    check_file_destination(out)
    model = load_model(folder).set_params(device=device)
    with collected_notes() as notes:
        predictions = _of_files(model, files) if files.given else training_predictions(model)
    write_predictions(out, predictions)
    return predictions, notes


def _of_files(model: MutualTeachingClassifier, files: GraphFiles) -> Predictions:
    files = for_prediction(files, model.graph_)
    if files.edges or files.graph:
        graph = with_features_of(read_graph(files), model.graph_)
        peers = model.peer_probabilities(graph=graph)
    else:  # rows alone: each is attached to the nodes of the training graph that are most like it
        graph = with_features_of(read_tables(files), model.graph_)
        peers = model.peer_probabilities(graph.features)
    return Predictions(
        ids=graph.node_ids,
        class_names=tuple(map(str, model.classes_)),
        probabilities=peers.mean(axis=0),
        peers=peers if len(peers) > 1 else None,
        labeled_iter=None,
    )
