"""Validation of the parts of a `Graph`. Each part is checked, copied and frozen, or rejected with a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import LONGEST_NAME, LONGEST_TEXT, InputError, as_input_error, check_names, note, shown
from mtgcn.labels import UNLABELED, check_classes, check_not_regression, encoded_labels
from mtgcn.memory import check_fits
from mtgcn.shapes import Float, Int

MAX_CLASSES = 100_000  # a stray number among the labels would create that many classes
MIN_SPREAD = 1e-4  # smallest spread relative to the values; below, 32-bit floats resolve fewer than 1000 steps
NOT_NUMBERS = TypeError, ValueError, OverflowError  # exceptions of NumPy and SciPy
BYTES_PER_NODE = 64  # memory for ids, labels, row starts of the adjacency and temporary arrays


def as_array(given: Any) -> Any:
    """Convert tensors to NumPy arrays or scipy matrices, and other objects to arrays; keeps sparse matrices."""
    if given is None or sp.issparse(given) or isinstance(given, np.ma.MaskedArray):
        return given
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        if str(tensor.layout) != "torch.strided":
            tensor = tensor.to_sparse_coo().coalesce()
            return sp.coo_array((tensor.values().numpy(), tensor.indices().numpy()), shape=tuple(tensor.shape))
        return tensor.numpy()
    return np.asarray(given)


def checked_count(nodes: int, where: str) -> int:
    """A number of nodes that fits into memory; a stray number in an edge list may exceed it."""
    if not isinstance(nodes, int | np.integer) or isinstance(nodes, bool):
        raise InputError(f"{where} has {shown(nodes)} nodes; give a whole number")
    if nodes < 0:
        raise InputError(f"{where} has {nodes} nodes; give at least one")
    if nodes > np.iinfo(np.int64).max:
        raise InputError(f"{where} has more nodes than 64 bits can number; number them from 0 on")
    check_fits(BYTES_PER_NODE * nodes, f"{where} numbers its nodes up to {nodes - 1}, which", "number them from 0 on")
    return int(nodes)


def compressed_matrix(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], *, by_column: bool = False
) -> sp.csr_array:
    """A sparse matrix from its three arrays; a ValueError if an index would read memory out of bounds.

    scipy's own check does not look at entries before an end of 0.
    """
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"a matrix of shape {shape}")
    rows, width = shape[::-1] if by_column else shape
    for name, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or array.dtype.kind not in ("biuf" if name == "data" else "iu"):
            raise ValueError(f"{name} of type {array.dtype} and shape {array.shape}")
    if not len(indices) == len(data) < np.iinfo(np.int64).max or len(indptr) != rows + 1:
        raise ValueError(f"{len(indptr)} starts of {rows} rows, {len(indices)} indices and {len(data)} values")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("row starts are not increasing")
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise ValueError(f"an index beyond {width}")
    check_fits(BYTES_PER_NODE * (rows + width), f"a matrix of shape {shape}", "give a smaller one")
    build: Any = sp.csc_array if by_column else sp.csr_array
    return sp.csr_array(build((data, indices, indptr), shape=shape))


def checked_adjacency(given: object) -> sp.csr_array:
    """A symmetric matrix of weights >= 0 without stored zeros, with 32-bit indices where they suffice."""
    adjacency = square_matrix(given, copy=True)
    if adjacency.shape[0] == 0:
        raise InputError("the graph has 0 nodes; give at least one")
    if not np.isfinite(adjacency.data).all():
        raise InputError("an edge weight is NaN or infinite; give finite weights >= 0")
    if adjacency.data.min(initial=0) < 0:
        raise InputError(f"edge weight {adjacency.data.min():g}; weights must be >= 0")
    adjacency.eliminate_zeros()
    if max(adjacency.nnz, *adjacency.shape) <= np.iinfo(np.int32).max:
        # This saves a third of the memory of every derived matrix.
        adjacency.indices = adjacency.indices.astype(np.int32, copy=False)
        adjacency.indptr = adjacency.indptr.astype(np.int32, copy=False)
    if not is_symmetric(adjacency):
        raise InputError("adjacency is not symmetric; pass A.maximum(A.T) for an undirected graph")
    return frozen(adjacency)


def note_dropped(weights: np.ndarray, where: str) -> None:
    """Note edges that are dropped because all weights are 0, or because 32-bit floats round them to 0."""
    rounded_to_zero = np.abs(weights) <= float(np.finfo(np.float32).smallest_subnormal) / 2
    zero = int(np.count_nonzero(rounded_to_zero))
    lost = int(np.count_nonzero(weights)) - (len(weights) - zero)
    if lost or (zero and zero == len(weights)):
        why = f"{lost} of them too small for 32-bit floats; scale all weights up" if lost else "as all others"
        note(f"{where}: {zero} of {len(weights)} edges have weight 0 and are dropped, {why}")


def checked_features(given: object, nodes: int) -> sp.csr_array | Float[np.ndarray, "nodes features"] | None:
    if given is None:
        return None
    sparse = sp.issparse(given)
    with as_input_error("features are not a table of numbers", "give one row per node", *NOT_NUMBERS):
        table: Any = given if sparse else np.asarray(given)
        if table.dtype.kind in "cmM":
            raise TypeError(f"they have type {table.dtype}")
        with np.errstate(over="ignore"):  # overflow to infinity is rejected below
            features: Any = sp.csr_array(table, dtype=np.float32, copy=True) if sparse else table.astype(np.float32)
    if features.ndim != 2 or features.shape[0] != nodes:
        raise InputError(f"features of shape {features.shape} for {nodes} nodes; give one row per node")
    if not features.shape[1]:
        return None
    values = features.data if sparse else features
    if not np.isfinite(values).all():
        row = int(features.tocoo().row[~np.isfinite(values)][0] if sparse else np.argwhere(~np.isfinite(values))[0][0])
        raise InputError(f"a feature of node {row} is NaN or infinite; give finite numbers")
    if sparse:
        features.sum_duplicates()
    elif table.dtype.kind in "iufO" and table.dtype.itemsize > features.itemsize:
        spread, size = np.ptp(table, axis=0), np.abs(features).max(axis=0)
        lost = np.flatnonzero((spread > 0) & (spread < MIN_SPREAD * size))
        if len(lost):
            note(
                f"feature {lost[0]} varies by {spread[lost[0]]:g} around {size[lost[0]]:g}, which 32-bit floats round; "
                "subtract its mean first"
            )
    return frozen(features)


def checked_labels(given: object, nodes: int) -> Int[np.ndarray, "nodes"]:
    """The class codes; all nodes are unlabelled if None."""
    labels = np.full(nodes, UNLABELED) if given is None else _array("labels", given, nodes)
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels have type {labels.dtype}; give whole numbers, {UNLABELED} for unlabelled nodes")
    if labels.dtype.kind == "u":  # unsigned labels have no -1; numbers beyond int64 are rejected below
        labels = np.minimum(labels.astype(np.uint64), np.uint64(MAX_CLASSES)).astype(np.int64)
    if labels.min(initial=UNLABELED) < UNLABELED:
        raise InputError(f"label {labels.min()} is negative; give 0, 1, …, or {UNLABELED} for unlabelled nodes")
    if labels.max(initial=UNLABELED) >= MAX_CLASSES:
        raise InputError(f"label {labels.max()} exceeds the limit of {MAX_CLASSES} classes; number classes from 0 on")
    return frozen(labels.astype(np.int64))


def checked_node_ids(given: object, nodes: int) -> np.ndarray:
    """One unique id per node, of any type; 0, 1, … if None."""
    if given is None:
        return frozen(np.arange(nodes))
    node_ids = _array("node ids", given, nodes)
    if node_ids.dtype.kind in "UO":
        check_names((name for name in node_ids.tolist() if isinstance(name, str)), "node id")
    try:
        names, counts = np.unique(node_ids, return_counts=True)
    except TypeError:  # a mixture of numbers and text cannot be sorted
        raise InputError("node ids have different types; give only text or only numbers") from None
    if len(names) < nodes:
        raise InputError(f"node id {names[counts > 1][0]!r} occurs twice; give unique ids")
    return frozen(node_ids)


def checked_class_names(given: Sequence[str], labels: Int[np.ndarray, "nodes"]) -> tuple[str, ...]:
    """A name for every class of the labels; its number by default."""
    classes = int(labels.max(initial=UNLABELED)) + 1
    class_names = _names("class", given) or tuple(str(number) for number in range(classes))
    if len(set(class_names)) < len(class_names):
        raise InputError(f"class names {', '.join(map(shown, class_names[:8]))} are not all different; rename one")
    if classes > len(class_names):
        raise InputError(f"label {classes - 1} exceeds the {len(class_names)} class names; name every class")
    return class_names


def checked_cells(cells: Any, nodes: int) -> Any:
    """The cells for display, one row per node."""
    if cells is not None and cells.num_rows != nodes:
        raise InputError(f"cells have {cells.num_rows} rows for {nodes} nodes; give one row per node")
    return cells


def checked_name(given: object) -> str:
    """The name of a graph, often a file name; bytes that are not UTF-8 are escaped."""
    if not isinstance(given, str):
        raise InputError(f"graph name {shown(given)} has type {type(given).__name__}; give text")
    name = given.encode("utf-8", "backslashreplace").decode()
    check_names([name], "graph name")
    return name


def checked_feature_names(given: Sequence[str], features: Any) -> tuple[str, ...]:
    feature_names, width = _names("feature", given, LONGEST_TEXT), 0 if features is None else features.shape[1]
    if feature_names and len(feature_names) != width:
        raise InputError(f"{len(feature_names)} feature names do not match {width} features; name all features or none")
    return feature_names


def checked_edge_index(given: Any, where: str = "") -> Int[np.ndarray, "2 listed"]:
    edges = _array("edge_index", as_array(given))
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        remedy = "pass its transpose" if edges.ndim == 2 and edges.shape[1] == 2 else "give two rows of whole numbers"
        raise InputError(f"{where}edge_index of shape {edges.shape} and type {edges.dtype}; {remedy}")
    if edges.max(initial=0) > np.iinfo(np.int64).max:
        raise InputError(f"{where}edge_index names node {edges.max()}; number nodes from 0 on")
    return edges.astype(np.int64)


def encoded(labels: Any, given_names: Sequence[str]) -> tuple[Any, tuple[str, ...], str]:
    """Labels of any type as class codes, the class names, and the dtype of the classes: text if they are named. With
    `given_names`, labels must be codes already."""
    class_names, given = _names("class", given_names), as_array(labels)
    if given is None or class_names:
        return given, class_names, "U"
    codes, names = encoded_labels(given)
    check_classes(names, "y")
    check_not_regression(names, int(np.count_nonzero(codes != UNLABELED)), "y")
    kind = np.asarray(given).dtype  # floats are named like integers
    return codes, names, kind.str if kind.kind in "biu" else "int64" if kind.kind == "f" else "U"


def square_matrix(given: Any, *, copy: bool = False) -> sp.csr_array:
    """A square matrix as a scipy CSR array."""
    with as_input_error("adjacency is not a matrix of numbers", "give a square one", *NOT_NUMBERS, AttributeError):
        given = as_array(given)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers")
        if given.ndim != 2 or given.shape[0] != given.shape[1]:  # scipy also accepts one or three axes
            raise InputError(f"adjacency of shape {given.shape}; give a square matrix, one row per node")
        with np.errstate(over="ignore", under="ignore"):  # overflow to infinity is rejected later
            matrix = sp.csr_array(given, dtype=np.float32, copy=copy)
        if not copy:  # the matrix of a `Graph`, whose edges were already checked
            note_dropped(given.data if sp.issparse(given) else given[given != 0], "the adjacency")
    matrix.sum_duplicates()
    return matrix


def _names(what: str, given: Any, longest: int = LONGEST_NAME) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f"{what} names are {shown(given)}; give a list")
    names = tuple(map(str, given))
    check_names(names, what, longest=longest)
    return names


def _array(what: str, given: object, nodes: int | None = None) -> np.ndarray:
    """A copy as an array, with one entry per node if `nodes` is given."""
    with as_input_error(f"{what} are not an array", "give one-dimensional data", *NOT_NUMBERS):
        array = np.array(given)
    if nodes is not None and array.shape != (nodes,):
        raise InputError(f"{what} of shape {array.shape} for {nodes} nodes; give one per node")
    return array


def is_symmetric(adjacency: sp.csr_array) -> bool:
    mirrored = adjacency.T.tocsr()
    mirrored.sort_indices()
    return (
        np.array_equal(adjacency.indptr, mirrored.indptr)
        and np.array_equal(adjacency.indices, mirrored.indices)
        and np.allclose(adjacency.data, mirrored.data)
    )


def frozen(array: Any) -> Any:
    """The array or sparse matrix, made read-only."""
    for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (array,):
        part.setflags(write=False)
    return array
