"""`Graph`: nodes, links, features and the labels that are known. Validated once, then frozen."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

UNKNOWN = -1  # the label of a node whose class is not known


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected, possibly weighted graph whose nodes may carry features and labels.

    >>> import numpy as np
    >>> path = Graph(adjacency=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), labels=[0, -1, 1])
    >>> path
    Graph(nodes=3, links=2, features=0, classes=2)
    >>> path.mean_degree
    1.3333333333333333
    """

    adjacency: sp.csr_array  # symmetric, weights >= 0; self-links are kept as given
    features: sp.csr_array | Float[np.ndarray, "nodes features"] | None = None
    labels: Int[np.ndarray, "nodes"] = field(default=None)  # type: ignore[arg-type]  # None: all unknown
    node_ids: np.ndarray = field(default=None)  # type: ignore[arg-type]  # None: 0 .. nodes - 1
    class_names: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        adjacency = _checked_adjacency(self.adjacency)
        nodes = adjacency.shape[0]
        labels = np.full(nodes, UNKNOWN) if self.labels is None else np.array(self.labels)
        node_ids = np.arange(nodes) if self.node_ids is None else np.array(self.node_ids)
        for what, array in (("labels", labels), ("node ids", node_ids)):
            if array.shape != (nodes,):
                raise InputError(f"{what} of shape {array.shape} for {nodes} nodes; give one per node")
        if self.node_ids is not None:
            names, counts = np.unique(node_ids, return_counts=True)
            if len(names) < nodes:
                raise InputError(f"node id {names[counts > 1][0]!r} stands for two nodes; give each its own")
        labels = _checked_labels(labels)
        classes = int(labels.max(initial=UNKNOWN)) + 1
        class_names = tuple(self.class_names) or tuple(str(number) for number in range(classes))
        if classes > len(class_names):
            raise InputError(f"label {classes - 1} but only {len(class_names)} class names; name every class")
        for name, value in (
            ("adjacency", adjacency),
            ("features", _checked_features(self.features, nodes)),
            ("labels", _frozen(labels)),
            ("node_ids", _frozen(node_ids)),
            ("class_names", class_names),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        title = f"{self.name!r}, " if self.name else ""
        return (
            f"Graph({title}nodes={self.num_nodes}, links={self.num_links}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )

    @property
    def num_nodes(self) -> int:
        return self.adjacency.shape[0]

    @property
    def num_features(self) -> int:
        return 0 if self.features is None else self.features.shape[1]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def num_links(self) -> int:
        """Undirected links between different nodes, each counted once."""
        return int(self.adjacency.nnz - np.count_nonzero(self.adjacency.diagonal())) // 2

    @property
    def mean_degree(self) -> float:
        """Neighbours of a node, on average; a self-link makes a node one neighbour of its own."""
        return self.adjacency.nnz / self.num_nodes

    @cached_property
    def known(self) -> Int[np.ndarray, "known"]:
        """The nodes whose class is known."""
        return np.flatnonzero(self.labels != UNKNOWN)

    @cached_property
    def unlabelled(self) -> Graph:
        """The same graph without a single label: all that a method may see of it."""
        bare = object.__new__(Graph)  # what is frozen and checked need not be checked and copied again
        for part in fields(self):
            object.__setattr__(bare, part.name, getattr(self, part.name))
        object.__setattr__(bare, "labels", _frozen(np.full(self.num_nodes, UNKNOWN)))
        return bare


def _checked_adjacency(given: object) -> sp.csr_array:
    adjacency = sp.csr_array(given, dtype=np.float32, copy=True)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise InputError(f"adjacency of shape {adjacency.shape}; give a square matrix, one row per node")
    if adjacency.shape[0] == 0:
        raise InputError("a graph of 0 nodes; give at least one node")
    adjacency.sum_duplicates()
    if not np.isfinite(adjacency.data).all():
        raise InputError("an edge weight is NaN or infinite; give finite weights >= 0")
    if adjacency.data.min(initial=0) < 0:
        raise InputError(f"edge weight {adjacency.data.min():g}; weights must be >= 0")
    adjacency.eliminate_zeros()
    if not _is_symmetric(adjacency):
        raise InputError("adjacency is not symmetric; pass A.maximum(A.T) for an undirected graph")
    return _frozen_sparse(adjacency)


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _frozen_sparse(matrix: sp.csr_array) -> sp.csr_array:
    for part in (matrix.data, matrix.indices, matrix.indptr):
        _frozen(part)
    return matrix


def _is_symmetric(adjacency: sp.csr_array) -> bool:
    mirrored = adjacency.T.tocsr()
    mirrored.sort_indices()
    return (
        np.array_equal(adjacency.indptr, mirrored.indptr)
        and np.array_equal(adjacency.indices, mirrored.indices)
        and np.allclose(adjacency.data, mirrored.data)
    )


def _checked_features(given: object, nodes: int) -> sp.csr_array | np.ndarray | None:
    if given is None:
        return None
    sparse = sp.issparse(given)
    features: Any = sp.csr_array(given, copy=True, dtype=np.float32) if sparse else np.array(given, dtype=np.float32)
    if features.ndim != 2 or features.shape[0] != nodes:
        raise InputError(f"features of shape {features.shape} for {nodes} nodes; give one row per node")
    values = features.data if sparse else features
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(features.sum(axis=1)))[0])
        raise InputError(f"a feature of node {row} is NaN or infinite; give finite numbers")
    if sparse:
        features.sum_duplicates()
        return _frozen_sparse(features)
    return _frozen(features)


def _checked_labels(labels: np.ndarray) -> np.ndarray:
    if not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels of type {labels.dtype}; give whole numbers, {UNKNOWN} where unknown")
    if labels.min(initial=UNKNOWN) < UNKNOWN:
        raise InputError(f"label {labels.min()}; labels are 0, 1, … and {UNKNOWN} where unknown")
    return labels.astype(np.int64)
