"""The numbers of a model as named arrays, and back: what it answered, and the graph it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.estimator.model_folder.files import Arrays
from mtgcn.graph import Graph
from mtgcn.preparation.prepared import Preparation
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from mtgcn.estimator.classifier import MutualTeachingClassifier


REPORT_PARTS = ("weights", "held_out_accuracy", "agreement", "teaching")


def answers_of(model: MutualTeachingClassifier) -> Arrays:
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


def set_answers(model: MutualTeachingClassifier, answers: Arrays, card: Mapping[str, Any]) -> None:
    """Give a model, whose graph and classes are known, what `answers_of` kept; the card names the peers."""
    nodes, classes = model.graph_.num_nodes, len(model.classes_)
    model.label_distributions_ = _of_shape(answers["label_distributions"], (nodes, classes))
    model.labeled_iter_ = _of_shape(answers["labeled_iter"], (nodes,))
    peers = answers.get("peer_distributions")
    model.peer_distributions_ = None if peers is None else _of_shape(peers, (len(peers), nodes, classes))
    model.peer_report_ = _report_from(answers, card)
    model.transduction_ = model.classes_[model.label_distributions_.argmax(axis=1)]
    model.history_ = {
        name.removeprefix("history."): values for name, values in answers.items() if name.startswith("history.")
    }


def _report_from(answers: Arrays, card: Mapping[str, Any]) -> PeerReport | None:
    if "peer_names" not in card:  # the method's votes have no weights, or the model is older than such reports
        return None
    names = tuple(card["peer_names"])
    shapes = ((1, len(names)), (1, len(names)), (1, len(names)), (1,))
    return PeerReport(
        names,
        *(_of_shape(answers[f"peer_report.{part}"], shape) for part, shape in zip(REPORT_PARTS, shapes, strict=True)),
    )


def _of_shape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape != shape:
        raise ValueError(f"an answer of shape {array.shape} where {shape} is due")
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
        preparation=None if card["preparation"] is None else Preparation.of(card["preparation"]),
    )


def _sparse_arrays(name: str, matrix: sp.csr_array) -> Arrays:
    return {f"{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _sparse_from(name: str, arrays: Arrays, shape: tuple[int, int]) -> sp.csr_array:
    matrix = sp.csr_array(tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr")), shape=shape)
    matrix.check_format(full_check=True)  # an index out of range would be read as memory that is not ours
    return matrix


def _id_arrays(ids: np.ndarray) -> Arrays:
    """Numbers as they are; text as UTF-8, and where the text of each id ends."""
    if ids.dtype.kind in "iuf":
        return {"ids": ids}
    strange = next((name for name in ids.tolist() if not isinstance(name, str)), None)
    if strange is not None:
        raise InputError(f"node id {strange!r} is neither text nor a number like all others; rename it")
    encoded = [name.encode("utf-8", "surrogatepass") for name in ids.tolist()]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {"ids.text": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ids.ends": ends}


def _ids_from(arrays: Arrays) -> np.ndarray:
    if "ids" in arrays:
        return arrays["ids"]
    content, ends = arrays["ids.text"].tobytes(), arrays["ids.ends"].tolist()
    starts = [0, *ends[:-1]]
    return np.array(
        [content[start:end].decode("utf-8", "surrogatepass") for start, end in zip(starts, ends, strict=True)]
    )
