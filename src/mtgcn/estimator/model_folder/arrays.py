"""The numbers of a model as named arrays, and back: what it answered, and the graph it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, check_names, shown
from mtgcn.estimator.checks import LARGEST_NUMBER, check_magnitude
from mtgcn.estimator.model_folder.files import Arrays
from mtgcn.graph import Graph
from mtgcn.graph_checks import compressed_matrix
from mtgcn.io.preprocessing.preprocessor import Preprocessor
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from mtgcn.estimator.graph_model import GraphModel


REPORT_PARTS = ("weights", "held_out_accuracy", "agreement", "teaching")


def answers_of(model: GraphModel) -> Arrays:
    """What the model found out about every node, and how its training went."""
    answers = {
        "label_distributions": model.label_distributions_,
        "labeled_iter": model.labeled_iter_,
        **{f"history.{name}": values for name, values in model.history_.items()},
    }
    if model.peer_distributions_ is not None:
        answers["peer_distributions"] = model.peer_distributions_
    if model.peer_report_ is not None:
        answers |= {f"peer_report.{part}": getattr(model.peer_report_, part) for part in REPORT_PARTS}
    return {name: np.ascontiguousarray(array) for name, array in answers.items()}


def set_answers(model: GraphModel, answers: Arrays, card: Mapping[str, Any]) -> None:
    """Give a model, whose graph and classes are known, what `answers_of` kept; the card names the peers."""
    from mtgcn.estimator.graph_model import GIVEN, NEVER

    nodes, classes = model.graph_.num_nodes, len(model.classes_)
    model.label_distributions_ = _shares(answers["label_distributions"], (nodes, classes)).astype(np.float64)
    model.labeled_iter_ = _of_shape(answers["labeled_iter"], (nodes,))
    if model.labeled_iter_.dtype.kind not in "iu":
        raise ValueError(f"epochs of type {model.labeled_iter_.dtype}")
    given = np.flatnonzero(model.labeled_iter_ == GIVEN)
    if model.labeled_iter_.min() < NEVER or not np.array_equal(given, model.graph_.known):
        raise ValueError("epochs that are not those of nodes without a label")
    peers = answers.get("peer_distributions")
    if peers is not None and peers.ndim != 3:
        raise ValueError(f"peers' answers of shape {peers.shape}")
    model.peer_distributions_ = None if peers is None else _shares(peers, (len(peers), nodes, classes))
    model.peer_report_ = _report_from(answers, card)
    model.transduction_ = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.history_ = {
        name.removeprefix("history."): _history(values)
        for name, values in answers.items()
        if name.startswith("history.")
    }


def checked_parameters(parameters: Arrays | None) -> Arrays | None:
    """The parameters, if they are numbers to reckon with; whether they fit the method shows when they are used."""
    for name, array in (parameters or {}).items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise ValueError(f"weights {shown(name)} that are not finite numbers")
        check_magnitude(array, f"weight {shown(name)}")
    return parameters


def _report_from(answers: Arrays, card: Mapping[str, Any]) -> PeerReport | None:
    if "peer_names" not in card:  # the method's votes have no weights, or the model is older than such reports
        return None
    names = tuple(card["peer_names"])
    shapes = ((1, len(names)), (1, len(names)), (1, len(names)), (1,))
    parts = [_of_shape(answers[f"peer_report.{part}"], shape) for part, shape in zip(REPORT_PARTS, shapes, strict=True)]
    for part in parts:  # all are shares; the accuracy of a peer that nobody measured is NaN
        if part.dtype.kind != "f" or ((part < 0) | (part > 1 + 1e-3)).any():
            raise ValueError("a report on peers that holds no shares")
    return PeerReport(names, *parts)


def _of_shape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape != shape:
        raise ValueError(f"an answer of shape {array.shape} where {shape} is due")
    return array


def _shares(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Probabilities, which sum to 1 along the last axis."""
    _of_shape(array, shape)
    if array.dtype.kind != "f" or not np.isfinite(array).all() or array.min(initial=0) < 0:
        raise ValueError("probabilities that are none")
    if not np.allclose(array.sum(axis=-1), 1, atol=1e-3):
        raise ValueError("probabilities that do not sum to 1")
    return array


def _history(array: np.ndarray) -> np.ndarray:
    """What was written down in every epoch: NaN where there was nothing."""
    if array.ndim != 2 or array.dtype.kind != "f" or (np.abs(array.astype(np.float64)) > LARGEST_NUMBER).any():
        raise ValueError(f"a history of type {array.dtype} and shape {array.shape}, or too large")
    return array


def graph_arrays(graph: Graph) -> Arrays:
    """Edges, features, labels and ids; names are the card's."""
    arrays = {**_sparse_arrays("adjacency", graph.adjacency), **_id_arrays(graph.node_ids), "labels": graph.labels}
    if sp.issparse(graph.features):
        arrays |= _sparse_arrays("features", graph.features)
    elif graph.features is not None:
        arrays["features"] = graph.features
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def graph_from(arrays: Arrays, card: Mapping[str, Any]) -> Graph:
    """The graph whose arrays and card these are."""
    nodes, width = card["graph"]["nodes"], card["graph"]["features"]
    if "features.data" in arrays:
        features: sp.csr_array | np.ndarray | None = _sparse_from("features", arrays, (nodes, width))
    else:
        features = arrays.get("features")
    return Graph(
        adjacency=_sparse_from("adjacency", arrays, (nodes, nodes)),
        features=features,
        labels=arrays["labels"],
        node_ids=_ids_from(arrays),
        class_names=tuple(card["class_names"]),
        name=card["graph"]["name"],
        feature_names=tuple(card["graph"]["feature_names"]),
        preprocessing=None if card["preprocessing"] is None else Preprocessor.of(card["preprocessing"]),
    )


def _sparse_arrays(name: str, matrix: sp.csr_array) -> Arrays:
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _sparse_from(name: str, arrays: Arrays, shape: tuple[int, int]) -> sp.csr_array:
    data, indices, indptr = (arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return compressed_matrix(data, indices, indptr, shape)


def _id_arrays(ids: np.ndarray) -> Arrays:
    """Numbers as they are; text as UTF-8, and where the text of each id ends."""
    if ids.dtype.kind in "iuf":
        return {"ids": ids}
    strange = next((name for name in ids.tolist() if not isinstance(name, str)), None)
    if strange is not None:
        raise InputError(f"node id {strange!r} is neither text nor a number like all others; rename it")
    encoded = [name.encode() for name in ids.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {"ids.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ids.ends": ends}


def _ids_from(arrays: Arrays) -> np.ndarray:
    if "ids" in arrays:
        return arrays["ids"]
    content, ends = arrays["ids.text"].tobytes(), arrays["ids.ends"].tolist()
    starts = [0, *ends[:-1]]
    names = [content[start:end].decode() for start, end in zip(starts, ends, strict=True)]
    check_names(names, "node id")
    return np.array(names)
