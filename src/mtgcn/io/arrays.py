"""What every reader answers: a graph as plain arrays; and arrays from what holds them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.paths import shown
from mtgcn.io.preprocessing.prepared import Preparation
from mtgcn.memory import check_fits
from mtgcn.shapes import Int


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """Edges as they are listed, in any direction and any number of times, and what is known of the nodes."""

    node_ids: np.ndarray
    sources: Int[np.ndarray, "listed"]  # numbers of nodes, not ids
    targets: Int[np.ndarray, "listed"]
    # The rest is as it was given; whether it fits is for `check_edges` and `Graph` to say.
    weights: np.ndarray | None = None  # None: every edge weighs 1
    features: sp.sparray | np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    labels: np.ndarray | None = None  # -1 where unknown
    class_names: tuple[str, ...] = ()
    directed: bool | None = None  # None: the source does not say
    preparation: Preparation | None = None  # how features were made of columns; None: they are as they were given


BYTES_PER_NODE = 64  # ids, labels, where a row of the adjacency begins, and what is made while they are checked


def checked_count(nodes: int, where: str) -> int:
    """The number of nodes that a file or an array tells, if memory holds so many: a single stray number in an edge
    list can ask for more than any machine has."""
    if not isinstance(nodes, int | np.integer) or isinstance(nodes, bool):
        raise InputError(f"{where} tells of {shown(nodes)} nodes; give a whole number")
    if nodes < 0:
        raise InputError(f"{where} tells of {nodes} nodes; give at least one")
    if nodes > np.iinfo(np.int64).max:
        raise InputError(f"{where} tells of more nodes than can be numbered; number them from 0 on")
    check_fits(BYTES_PER_NODE * nodes, f"{where} numbers its nodes up to {nodes - 1}, which", "number them from 0 on")
    return int(nodes)


def compressed_matrix(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int], *, by_column: bool = False
) -> sp.csr_array:
    """A sparse matrix from its three arrays, or a ValueError: an index out of range would be read as memory that is
    not ours. (scipy's own check passes over whatever stands before an end of 0.)"""
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"a matrix of shape {shape}")
    rows, width = shape[::-1] if by_column else shape
    for name, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if array.ndim != 1 or array.dtype.kind not in ("biuf" if name == "data" else "iu"):
            raise ValueError(f"{name} of type {array.dtype} and shape {array.shape}")
    if not len(indices) == len(data) < np.iinfo(np.int64).max or len(indptr) != rows + 1:
        raise ValueError(f"{len(indptr)} starts of {rows} rows, {len(indices)} indices and {len(data)} values")
    if indptr[0] != 0 or indptr[-1] != len(data) or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("starts of rows that do not follow each other")
    if len(indices) and (indices.min() < 0 or indices.max() >= width):
        raise ValueError(f"an index beyond {width}")
    check_fits(BYTES_PER_NODE * (rows + width), f"a matrix of shape {shape}", "give a smaller one")
    build: Any = sp.csc_array if by_column else sp.csr_array
    return sp.csr_array(build((data, indices, indptr), shape=shape))


def as_array(given: Any) -> Any:
    """Tensors as arrays, wherever they are; anything else as it is, or as an array if it is a list."""
    if given is None or sp.issparse(given):
        return given
    if hasattr(given, "detach"):
        tensor = given.detach().cpu()
        if str(tensor.layout) != "torch.strided":
            tensor = tensor.to_sparse_coo().coalesce()
            return sp.coo_array((tensor.values().numpy(), tensor.indices().numpy()), shape=tuple(tensor.shape))
        return tensor.numpy()
    return np.asarray(given)
