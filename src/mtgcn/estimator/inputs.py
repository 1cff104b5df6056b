"""What a person may hand to the estimator as labels and as a graph, in the one form that the rest works with."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.labels import is_missing
from mtgcn.shapes import Int


def classes_and_labels(y: Any) -> tuple[np.ndarray, Int[np.ndarray, "nodes"]]:
    """The classes in order, and every node's place among them, `UNKNOWN` where no label was given: -1 and NaN among
    numbers; None, NaN and words such as "" and "NA" among anything else.

    >>> classes_and_labels(["cat", None, "dog", ""])
    (array(['cat', 'dog'], dtype='<U3'), array([ 0, -1,  1, -1]))
    """
    given = _column(y)
    known = ~_missing(given)
    classes, places = np.unique(_of_one_type(given[known]), return_inverse=True)
    codes = np.full(len(given), UNKNOWN)
    codes[known] = places
    return classes, codes


def _column(y: Any) -> np.ndarray:
    from sklearn.utils import column_or_1d

    if isinstance(y, list | tuple) and any(isinstance(label, str) or label is None for label in y):
        y = np.array(y, dtype=object)  # numpy would make the string 'nan' of a NaN beside strings
    given = column_or_1d(np.asarray(y), warn=True)
    if given.dtype.kind == "f" and np.isinf(given).any():
        raise InputError("Input y contains infinity; give each node its class, -1 or NaN where it is unknown")
    if given.dtype.kind == "c":
        raise InputError("complex labels; Complex data not supported, give whole numbers or names")
    if given.dtype.kind not in "biufUO":
        raise InputError(f"labels of type {given.dtype}; give whole numbers or names")
    return given


def _of_one_type(labels: np.ndarray) -> np.ndarray:
    """Names as strings or classes as numbers, but not both."""
    if labels.dtype == object:
        if not all(isinstance(label, str) for label in labels) and not all(map(_is_number, labels)):
            kinds = ", ".join(sorted({type(label).__name__ for label in labels}))
            raise InputError(f"labels of the types {kinds}; give names alone or whole numbers alone")
        labels = np.array(labels.tolist())
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        fraction = labels[labels != np.floor(labels)][0]
        raise InputError(f"Unknown label type: continuous, for instance {fraction:g}; give whole numbers or names")
    if labels.dtype.kind == "f" and (abs(labels) >= 2**53).any():  # where two whole numbers may be the same float
        raise InputError(f"label {abs(labels).max():.0f} is too large to tell from its neighbours; give names, as text")
    return labels


def _missing(given: np.ndarray) -> np.ndarray:
    if given.dtype.kind == "O":
        return np.fromiter(map(no_label, given), dtype=bool, count=len(given))
    if given.dtype.kind == "U":
        texts, rows = np.unique(given, return_inverse=True)
        return np.array([is_missing(text) for text in texts.tolist()], dtype=bool)[rows]
    return (given == UNKNOWN) | (given != given) if given.dtype.kind != "b" else np.zeros(len(given), dtype=bool)


def no_label(label: Any) -> bool:
    """Whether this is how somebody writes that they do not know the class."""
    if label is None:
        return True
    if isinstance(label, str):
        return is_missing(label)
    if type(label).__name__ in ("NAType", "NaTType"):  # pandas' own, told without importing it
        return True
    return bool(label == UNKNOWN or label != label) if _is_number(label) else False


def _is_number(label: Any) -> bool:
    return isinstance(label, Number)


def as_graph(given: Any, nodes: int | None) -> Graph:
    """A graph from whatever holds one, without looking at labels it may hold. `nodes`, where features were given and
    so their number is known, tells a 2 x 2 adjacency from two edges."""
    if isinstance(given, Graph):
        return given
    if _is_networkx(given):
        return Graph.from_networkx(given, label=False, features=None if nodes is None else ())
    if hasattr(given, "edge_index"):
        return _from_pyg(given, with_features=nodes is None)
    if isinstance(given, torch.Tensor) and given.layout == torch.strided:
        given = given.detach().cpu().numpy()
    if isinstance(given, np.ndarray | list | tuple):
        return _from_array(np.asarray(given), nodes)
    if sp.issparse(given) or isinstance(given, torch.Tensor):
        return Graph.from_scipy(given)
    raise InputError(
        f"graph of type {type(given).__name__}; give a scipy matrix, an array, an edge index, a networkx graph, PyG "
        "data or a Graph"
    )


def has_node_ids(given: Any) -> bool:
    """Whether what holds a graph also tells what its nodes are called, beyond their order."""
    return isinstance(given, Graph) or _is_networkx(given)


def _is_networkx(given: Any) -> bool:
    return type(given).__module__.startswith("networkx.")


def _from_array(given: np.ndarray, nodes: int | None) -> Graph:
    if given.ndim == 2 and given.shape[0] == 2 and nodes != 2 and given.dtype.kind in "iu":
        return Graph.from_edge_index(given, num_nodes=nodes)
    if given.dtype.kind not in "biuf":
        raise InputError(f"graph of type {given.dtype}; give edge weights, or node numbers in two rows")
    return Graph.from_scipy(given)


def _from_pyg(data: Any, *, with_features: bool) -> Graph:
    return Graph.from_edge_index(
        data.edge_index,
        getattr(data, "x", None) if with_features else None,
        edge_weight=getattr(data, "edge_weight", None),
        num_nodes=data.num_nodes,
    )
