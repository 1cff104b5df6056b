"""`Graph`: nodes, edges, features and known labels. Validated once, then frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from mtgcn import graph_checks
from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.errors import InputError, note
from mtgcn.graph_checks import as_array, checked_count
from mtgcn.graph_sources import GraphArrays, Preprocessing, check_edges, merge_edges, networkx_arrays
from mtgcn.labels import UNLABELED as UNLABELED
from mtgcn.labels import check_classes
from mtgcn.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected, possibly weighted graph with node features and labels.

    >>> import numpy as np
    >>> path = Graph(adjacency=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), labels=[0, -1, 1])
    >>> path
    Graph(nodes=3, edges=2, features=0, classes=2)
    >>> path.mean_degree
    1.3333333333333333
    """

    adjacency: sp.csr_array  # symmetric, weights >= 0; self-edges are kept as given
    features: sp.csr_array | Float[np.ndarray, "nodes features"] | None = None
    labels: Int[np.ndarray, "nodes"] = field(default=None)  # type: ignore[arg-type]  # None: all unlabelled
    node_ids: np.ndarray = field(default=None)  # type: ignore[arg-type]  # None: 0 .. nodes - 1
    class_names: tuple[str, ...] = ()
    name: str = ""
    feature_names: tuple[str, ...] = ()  # () if unnamed
    preprocessing: Preprocessing | None = None  # how features were computed from table columns; None: as given
    communicator: ClassVar[Communicator] = ONE_PROCESS  # with the processes that hold other nodes

    def __post_init__(self) -> None:
        adjacency = graph_checks.checked_adjacency(self.adjacency)
        nodes = adjacency.shape[0]
        labels = graph_checks.checked_labels(self.labels, nodes)
        node_ids = graph_checks.checked_node_ids(self.node_ids, nodes)
        class_names = graph_checks.checked_class_names(self.class_names, labels)
        features = graph_checks.checked_features(self.features, nodes)
        feature_names = graph_checks.checked_feature_names(
            self.feature_names, 0 if features is None else features.shape[1]
        )
        for name, value in (
            ("adjacency", adjacency),
            ("features", features),
            ("labels", labels),
            ("node_ids", node_ids),
            ("class_names", class_names),
            ("name", graph_checks.checked_name(self.name)),
            ("feature_names", feature_names),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        title = f"{self.name!r}, " if self.name else ""
        return (
            f"Graph({title}nodes={self.num_nodes}, edges={self.num_edges}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )

    @property
    def num_nodes(self) -> int:
        return self.adjacency.shape[0]

    @property
    def with_self_loops(self) -> sp.csr_array:
        """A + I, in new arrays."""
        return (self.adjacency + sp.eye_array(self.num_nodes, dtype=np.float32, format="csr")).tocsr()

    @property
    def num_features(self) -> int:
        return 0 if self.features is None else self.features.shape[1]

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @cached_property
    def num_edges(self) -> int:
        """Undirected edges between different nodes, each counted once."""
        return int(self.adjacency.nnz - np.count_nonzero(self.adjacency.diagonal())) // 2

    @property
    def mean_degree(self) -> float:
        """The mean number of neighbours; a self-edge counts as one."""
        return self.adjacency.nnz / self.num_nodes

    @cached_property
    def known(self) -> Int[np.ndarray, "known"]:
        """The labelled nodes."""
        return np.flatnonzero(self.labels != UNLABELED)

    @cached_property
    def label_counts(self) -> Int[np.ndarray, "classes"]:
        """The number of labels of each class."""
        return np.bincount(self.labels[self.known], minlength=self.num_classes)

    @property
    def without_labels(self) -> Graph:
        """The graph without labels, which is what a method sees."""
        return self._bare if len(self.known) else self

    @cached_property
    def _bare(self) -> Graph:
        return self._relabelled(np.full(self.num_nodes, UNLABELED))

    def with_labels_of(self, other: Graph) -> Graph:
        """This graph with the labels of another one with the same nodes and classes."""
        return self.with_labels(other.labels)

    def with_labels(self, labels: Any) -> Graph:
        """This graph with other labels of the same classes; both share `without_labels` and its caches."""
        labels = graph_checks.checked_labels(labels, self.num_nodes)
        graph_checks.checked_class_names(self.class_names, labels)
        graph = self._relabelled(labels)
        vars(graph)["_bare"] = self.without_labels
        return graph if len(graph.known) else self.without_labels

    def _relabelled(self, labels: Int[np.ndarray, "nodes"]) -> Graph:
        graph = object.__new__(Graph)  # the parts are checked and frozen already
        for part in fields(self):
            object.__setattr__(graph, part.name, getattr(self, part.name))
        object.__setattr__(graph, "labels", graph_checks.frozen(labels))
        return graph

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        X: Any = None,  # noqa: N803  # as in scikit-learn
        y: Any = None,
        *,
        node_ids: Any = None,
        class_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        name: str = "",
    ) -> Graph:
        """A graph from a square matrix, sparse or dense, and one label of any type per node.

        An asymmetric matrix is symmetrised with the larger of the two weights, with a `GraphNote`.

        >>> import scipy.sparse as sp
        >>> Graph.from_scipy(sp.csr_array([[0, 1], [1, 0]]), y=["cat", "dog"]).class_names
        ('cat', 'dog')
        """
        matrix = graph_checks.square_matrix(adjacency)
        if not graph_checks.is_symmetric(matrix):
            note("the adjacency is not symmetric; its edges are taken without direction, the larger weight of two")
            matrix = matrix.maximum(matrix.T).tocsr()
        if not matrix.nnz:
            raise InputError("the adjacency holds no edge; give at least one")
        labels, names = graph_checks.encoded(y, class_names)
        return cls(matrix, as_array(X), labels, node_ids, names, name, tuple(feature_names))

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Any,
        X: Any = None,  # noqa: N803
        y: Any = None,
        *,
        edge_weight: Any = None,
        num_nodes: int | None = None,
        node_ids: Any = None,
        class_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        name: str = "",
    ) -> Graph:
        """A graph from two rows of node numbers, as in PyTorch Geometric; arrays or tensors.

        `num_nodes` defaults to the rows of `X` or `y`, or to the largest node number plus one.

        >>> Graph.from_edge_index([[0, 1], [1, 0]], num_nodes=3)
        Graph(nodes=3, edges=1, features=0, classes=0)
        """
        edges = graph_checks.checked_edge_index(edge_index)
        features = as_array(X)
        labels, names = graph_checks.encoded(y, class_names)
        where = "edge_index" if num_nodes is None else "num_nodes"
        if num_nodes is None:
            rows = [part.shape[0] for part in (features, labels) if part is not None and part.ndim]
            num_nodes = rows[0] if rows else int(edges.max(initial=-1)) + 1
        num_nodes = checked_count(num_nodes, where)
        arrays = GraphArrays(
            node_ids=graph_checks.checked_node_ids(node_ids, num_nodes),
            sources=edges[0],
            targets=edges[1],
            weights=None if edge_weight is None else np.asarray(as_array(edge_weight)),
            features=features,
            feature_names=tuple(feature_names),
            labels=labels,
            class_names=names,
            directed=True,  # PyTorch Geometric lists both directions of an edge
        )
        return cls.from_arrays(arrays, "edge_index", name)

    @classmethod
    def from_pyg(cls, data: Any, *, mask: str | None = None, class_names: Sequence[str] = (), name: str = "") -> Graph:
        """A graph from a PyTorch Geometric `Data`: `edge_index`, `x`, `y` and `edge_weight` if present.

        All labels are used unless `mask`, such as `"train_mask"`, selects the labelled nodes.
        """
        edge_index, labels = getattr(data, "edge_index", None), getattr(data, "y", None)
        if edge_index is None:
            raise InputError(f"{type(data).__name__} without edge_index; give a homogeneous Data that has one")
        if mask is not None:
            labels, names = graph_checks.labels_under(data, mask)
            class_names = class_names or names
        return cls.from_edge_index(
            edge_index,
            getattr(data, "x", None),
            labels,
            edge_weight=getattr(data, "edge_weight", None),
            num_nodes=data.num_nodes,
            class_names=class_names,
            name=name,
        )

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        weight: str | Literal[False] | None = None,
        label: str | Literal[False] | None = None,
        features: Sequence[str] | None = None,
        name: str = "",
    ) -> Graph:
        """A graph from networkx.

        By default the edge attribute `weight`, the node attribute `label` or `class` and every numeric node attribute
        are used. Name others, or pass False for none.
        """
        arrays = networkx_arrays(graph, "the networkx graph", weight=weight, label=label, features=features)
        return cls.from_arrays(arrays, "the networkx graph", name)

    @classmethod
    def from_arrays(cls, arrays: GraphArrays, where: str, name: str = "", *, few_labels: bool = False) -> Graph:
        """A graph from an edge list and node arrays that messages call `where`. `few_labels` allows a single class."""
        nodes = len(arrays.node_ids)
        check_edges(arrays, where)
        if not few_labels:
            check_classes(arrays.class_names, where)
        edges = merge_edges(arrays.sources, arrays.targets, arrays.weights, nodes)
        # An edge list may list each edge once or in both directions; only a mixture shows that direction matters.
        listed_once = edges.one_way and not edges.both_ways and not arrays.directed
        if (edges.one_way or edges.uneven) and arrays.directed is not False and not listed_once:
            note(
                f"{where}: {edges.one_way + edges.uneven} of {edges.one_way + edges.both_ways} edges go one way, or "
                "weigh more one way; all are taken without direction, the larger weight of two"
            )
        return cls.from_adjacency(edges.adjacency(nodes), arrays, name)

    @classmethod
    def from_adjacency(cls, adjacency: sp.csr_array, arrays: GraphArrays, name: str = "") -> Graph:
        """A graph from an adjacency and the node arrays of `arrays`, whose edges are ignored."""
        return cls(
            adjacency,
            arrays.features,
            arrays.labels,  # type: ignore[arg-type]
            arrays.node_ids,
            arrays.class_names,
            name,
            arrays.feature_names,
            arrays.preprocessing,
        )
