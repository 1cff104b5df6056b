"""What every reader answers: a graph as plain arrays; and arrays from what holds them elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.free_memory import check_fits
from mtgcn.preparation.prepared import Preparation
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
    if nodes < 0:
        raise InputError(f"{where} tells of {nodes} nodes; give at least one")
    check_fits(BYTES_PER_NODE * nodes, f"{where} numbers its nodes up to {nodes - 1}, which", "number them from 0 on")
    return nodes


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
