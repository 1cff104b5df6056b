"""What a `Graph` asks of its parts: each is checked, copied and frozen, or refused with a line on how to mend it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.arrays import as_array
from mtgcn.io.labels import UNKNOWN, check_classes, encoded_labels
from mtgcn.io.paths import reason, shown
from mtgcn.io.texts import LONGEST_NAME, LONGEST_TEXT, check_names
from mtgcn.shapes import Float, Int

MOST_CLASSES = 100_000  # a stray number among labels would make as many classes, each with a probability at every node


def checked_adjacency(given: object) -> sp.csr_array:
    """A symmetric matrix of weights >= 0, without stored zeros, whose places take 32 bits each where they can."""
    adjacency = _matrix(given, copy=True)
    _refuse_unless_square(adjacency)
    if adjacency.shape[0] == 0:
        raise InputError("a graph of 0 nodes; give at least one node")
    adjacency.sum_duplicates()
    if not np.isfinite(adjacency.data).all():
        raise InputError("an edge weight is NaN or infinite; give finite weights >= 0")
    if adjacency.data.min(initial=0) < 0:
        raise InputError(f"edge weight {adjacency.data.min():g}; weights must be >= 0")
    adjacency.eliminate_zeros()
    if max(adjacency.nnz, *adjacency.shape) <= np.iinfo(np.int32).max:
        # A third less for every matrix that is made of it.
        adjacency.indices, adjacency.indptr = (
            places.astype(np.int32, copy=False) for places in (adjacency.indices, adjacency.indptr)
        )
    if not is_symmetric(adjacency):
        raise InputError("adjacency is not symmetric; pass A.maximum(A.T) for an undirected graph")
    return _frozen_sparse(adjacency)


def checked_features(given: object, nodes: int) -> sp.csr_array | Float[np.ndarray, "nodes features"] | None:
    if given is None:
        return None
    sparse = sp.issparse(given)
    try:
        table: Any = given if sparse else np.asarray(given)
        if table.dtype.kind == "c":
            raise TypeError("complex numbers")
        with np.errstate(over="ignore"):  # what does not fit 32 bits is infinite then, and refused
            features: Any = sp.csr_array(table, dtype=np.float32, copy=True) if sparse else table.astype(np.float32)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"features that are no table of numbers ({reason(problem)}); give one row per node") from None
    if features.ndim != 2 or features.shape[0] != nodes:
        raise InputError(f"features of shape {features.shape} for {nodes} nodes; give one row per node")
    if not features.shape[1]:  # a table without columns tells as much as none
        return None
    values = features.data if sparse else features
    if not np.isfinite(values).all():
        row = int(features.tocoo().row[~np.isfinite(values)][0] if sparse else np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(f"a feature of node {row} is NaN or infinite; give finite numbers")
    if sparse:
        features.sum_duplicates()
        return _frozen_sparse(features)
    return frozen(features)


def checked_labels(given: object, nodes: int) -> Int[np.ndarray, "nodes"]:
    """Classes as numbers; all unknown where none were given."""
    labels = np.full(nodes, UNKNOWN) if given is None else _array("labels", given)
    _refuse_unless_one_per_node("labels", labels, nodes)
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of type {labels.dtype}; give whole numbers, {UNKNOWN} where unknown")
    if labels.dtype.kind == "u":  # which knows no -1; numbers beyond what others hold are refused below
        labels = np.minimum(labels.astype(np.uint64), np.uint64(MOST_CLASSES)).astype(np.int64)
    if labels.min(initial=UNKNOWN) < UNKNOWN:
        raise InputError(f"label {labels.min()}; labels are 0, 1, … and {UNKNOWN} where unknown")
    if labels.max(initial=UNKNOWN) >= MOST_CLASSES:
        raise InputError(f"label {labels.max()}, and {MOST_CLASSES} classes are the most; number them from 0 on")
    return frozen(labels.astype(np.int64))


def checked_node_ids(given: object, nodes: int) -> np.ndarray:
    """One different name per node, of any type; numbers from 0 where none were given."""
    if given is None:
        return frozen(np.arange(nodes))
    node_ids = _array("node ids", given)
    _refuse_unless_one_per_node("node ids", node_ids, nodes)
    if node_ids.dtype.kind in "UO":
        check_names((name for name in node_ids.tolist() if isinstance(name, str)), "node id")
    try:
        names, counts = np.unique(node_ids, return_counts=True)
    except TypeError:  # numbers and texts among each other, which have no order
        raise InputError("node ids of different types; give text alone or numbers alone") from None
    if len(names) < nodes:
        raise InputError(f"node id {names[counts > 1][0]!r} stands for two nodes; give each its own")
    return frozen(node_ids)


def checked_class_names(given: Sequence[str], labels: Int[np.ndarray, "nodes"]) -> tuple[str, ...]:
    """A name for every class that labels mention: its number where none were given."""
    classes = int(labels.max(initial=UNKNOWN)) + 1
    class_names = _names("class", given) or tuple(str(number) for number in range(classes))
    if len(set(class_names)) < len(class_names):
        raise InputError(f"class names {', '.join(map(shown, class_names[:8]))} are not all different; rename one")
    if classes > len(class_names):
        raise InputError(f"label {classes - 1} but only {len(class_names)} class names; name every class")
    return class_names


def checked_name(given: object) -> str:
    """The name of a graph, which stands in cards, rows and pages: often that of a file, and bytes of such a name that
    are no text are written as their numbers."""
    if not isinstance(given, str):
        raise InputError(f"a graph called {shown(given)}, of type {type(given).__name__}; give its name as text")
    name = given.encode("utf-8", "backslashreplace").decode()
    check_names([name], "graph name")
    return name


def checked_feature_names(given: Sequence[str], features: int) -> tuple[str, ...]:
    feature_names = _names("feature", given, LONGEST_TEXT)
    if feature_names and len(feature_names) != features:
        raise InputError(f"{len(feature_names)} feature names for {features} features; name each, or none")
    return feature_names


def checked_edge_index(given: Any) -> Int[np.ndarray, "2 listed"]:
    edges = _array("edge_index", as_array(given))
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        remedy = "pass its transpose" if edges.ndim == 2 and edges.shape[1] == 2 else "give two rows of whole numbers"
        raise InputError(f"edge_index of shape {edges.shape} and type {edges.dtype}; {remedy}")
    if edges.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(f"edge_index names node {edges.max()}; number nodes from 0 on")
    return edges.astype(np.int64)


def encoded(labels: Any, given_names: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """Labels of any type as numbers; with names at hand they must be the numbers of these already."""
    class_names = _names("class", given_names)
    if labels is None:
        return None, class_names
    if class_names:
        return as_array(labels), class_names
    codes, names = encoded_labels(as_array(labels))
    check_classes(names, "y")
    return codes, names


def labels_under(data: Any, mask: str) -> tuple[Int[np.ndarray, "nodes"], tuple[str, ...]]:
    """The labels of PyTorch Geometric's `Data` that a mask of it lets be seen, and the names of all classes."""
    chosen, labels = getattr(data, mask, None), getattr(data, "y", None)
    if chosen is None or labels is None:
        raise InputError(f"{type(data).__name__} without {mask if chosen is None else 'y'}; name a mask of its labels")
    codes, names = encoded_labels(as_array(labels))
    seen = np.asarray(as_array(chosen))
    if seen.shape != codes.shape or seen.dtype != bool:
        raise InputError(f"{mask} of shape {seen.shape} and type {seen.dtype}; give true or false for each node")
    return np.where(seen, codes, UNKNOWN), names


def square_matrix(given: Any) -> sp.csr_array:
    """Anything that holds a square matrix, as one of scipy's."""
    matrix = _matrix(as_array(given))
    _refuse_unless_square(matrix)
    matrix.sum_duplicates()
    return matrix


def _matrix(given: object, *, copy: bool = False) -> sp.csr_array:
    shape = getattr(given, "shape", None)
    if shape is not None and len(shape) != 2:  # scipy would take three axes, and make one row of a single one
        raise InputError(f"adjacency of shape {tuple(shape)}; give a square matrix, one row per node")
    try:
        if not sp.issparse(given):
            given = np.asarray(given)
        if getattr(given, "dtype", np.dtype(float)).kind == "c":
            raise TypeError("complex numbers")
        with np.errstate(over="ignore"):  # what does not fit 32 bits is infinite then, and refused
            return sp.csr_array(given, dtype=np.float32, copy=copy)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"an adjacency that is no matrix of numbers ({reason(problem)}); give a square one") from None


def _names(what: str, given: Any, longest: int = LONGEST_NAME) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{what} names are {shown(given)}; give a list of them")
    names = tuple(map(str, given))
    check_names(names, what, longest=longest)
    return names


def _array(what: str, given: object) -> np.ndarray:
    try:
        return np.array(given)
    except (TypeError, ValueError, OverflowError) as problem:
        raise InputError(f"{what} that are no array ({reason(problem)}); give one row of them") from None


def is_symmetric(adjacency: sp.csr_array) -> bool:
    mirrored = adjacency.T.tocsr()
    mirrored.sort_indices()
    return (
        np.array_equal(adjacency.indptr, mirrored.indptr)
        and np.array_equal(adjacency.indices, mirrored.indices)
        and np.allclose(adjacency.data, mirrored.data)
    )


def frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _frozen_sparse(matrix: sp.csr_array) -> sp.csr_array:
    for part in (matrix.data, matrix.indices, matrix.indptr):
        frozen(part)
    return matrix


def _refuse_unless_square(matrix: sp.csr_array) -> None:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"adjacency of shape {matrix.shape}; give a square matrix, one row per node")


def _refuse_unless_one_per_node(what: str, array: np.ndarray, nodes: int) -> None:
    if array.shape != (nodes,):
        raise InputError(f"{what} of shape {array.shape} for {nodes} nodes; give one per node")
