"""`Graph`: nodes, edges, features and the labels that are known. Validated once, then frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mtgcn import graph_checks
from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays, as_array, checked_count
from mtgcn.io.edges import check_edges, merge
from mtgcn.io.labels import UNKNOWN as UNKNOWN  # the label of a node whose class is not known
from mtgcn.io.labels import check_classes
from mtgcn.io.notes import say
from mtgcn.io.paths import PathLike
from mtgcn.io.preprocessing.prepared import Preparation
from mtgcn.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Graph:
    """An undirected, possibly weighted graph whose nodes may carry features and labels.

    >>> import numpy as np
    >>> path = Graph(adjacency=np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), labels=[0, -1, 1])
    >>> path
    Graph(nodes=3, edges=2, features=0, classes=2)
    >>> path.mean_degree
    1.3333333333333333
    """

    adjacency: sp.csr_array  # symmetric, weights >= 0; self-edges are kept as given
    features: sp.csr_array | Float[np.ndarray, "nodes features"] | None = None
    labels: Int[np.ndarray, "nodes"] = field(default=None)  # type: ignore[arg-type]  # None: all unknown
    node_ids: np.ndarray = field(default=None)  # type: ignore[arg-type]  # None: 0 .. nodes - 1
    class_names: tuple[str, ...] = ()
    name: str = ""
    feature_names: tuple[str, ...] = ()  # () where they have none
    preparation: Preparation | None = None  # how features were made of a person's columns; None: they are as given

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
        """Neighbours of a node, on average; a self-edge makes a node one neighbour of its own."""
        return self.adjacency.nnz / self.num_nodes

    @cached_property
    def known(self) -> Int[np.ndarray, "known"]:
        """The nodes whose class is known."""
        return np.flatnonzero(self.labels != UNKNOWN)

    @cached_property
    def label_counts(self) -> Int[np.ndarray, "classes"]:
        """How many labels of each class are known."""
        return np.bincount(self.labels[self.known], minlength=self.num_classes)

    @property
    def without_labels(self) -> Graph:
        """The same graph without a single label: all that a method may see of it."""
        return self._bare if len(self.known) else self

    @cached_property
    def _bare(self) -> Graph:
        return self._relabelled(np.full(self.num_nodes, UNKNOWN))

    def with_labels_of(self, other: Graph) -> Graph:
        """This graph with the labels of another, of the same nodes and classes."""
        return self.with_labels(other.labels)

    def with_labels(self, labels: Any) -> Graph:
        """This graph with other labels, of the same classes. What is made once of a graph without labels is shared
        between them."""
        labels = graph_checks.checked_labels(labels, self.num_nodes)
        graph_checks.checked_class_names(self.class_names, labels)
        graph = self._relabelled(labels)
        vars(graph)["_bare"] = self.without_labels
        return graph if len(graph.known) else self.without_labels

    def _relabelled(self, labels: Int[np.ndarray, "nodes"]) -> Graph:
        graph = object.__new__(Graph)  # what is frozen and checked need not be checked and copied again
        for part in fields(self):
            object.__setattr__(graph, part.name, getattr(self, part.name))
        object.__setattr__(graph, "labels", graph_checks.frozen(labels))
        return graph

    @classmethod
    def from_scipy(
        cls,
        adjacency: Any,
        X: Any = None,  # noqa: N803  # what everybody calls a table of features
        y: Any = None,
        *,
        node_ids: Any = None,
        class_names: Sequence[str] = (),
        feature_names: Sequence[str] = (),
        name: str = "",
    ) -> Graph:
        """A graph from a square matrix, sparse or dense, and one label of any type per node.

        A matrix that is not symmetric is made so, with the larger of the two weights, and a `GraphNote` says so.

        >>> import scipy.sparse as sp
        >>> Graph.from_scipy(sp.csr_array([[0, 1], [1, 0]]), y=["cat", "dog"]).class_names
        ('cat', 'dog')
        """
        matrix = graph_checks.square_matrix(adjacency)
        if not graph_checks.is_symmetric(matrix):
            say("the adjacency is not symmetric; its edges are taken without direction, the larger weight of two")
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
        """A graph from two rows of node numbers, as PyTorch Geometric keeps edges; arrays or tensors.

        Without `num_nodes` there are as many nodes as `X` or `y` has rows, or as the edges name.

        >>> Graph.from_edge_index([[0, 1], [1, 0]], num_nodes=3)
        Graph(nodes=3, edges=1, features=0, classes=0)
        """
        edges = graph_checks.checked_edge_index(edge_index)
        features = as_array(X)
        labels, names = graph_checks.encoded(y, class_names)
        told = num_nodes is not None
        if num_nodes is None:
            rows = [part.shape[0] for part in (features, labels) if part is not None and part.ndim]
            num_nodes = rows[0] if rows else int(edges.max(initial=-1)) + 1
        num_nodes = checked_count(num_nodes, "num_nodes" if told else "edge_index")
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
        return cls._from_arrays(arrays, "edge_index", name)

    @classmethod
    def from_pyg(cls, data: Any, *, mask: str | None = None, class_names: Sequence[str] = (), name: str = "") -> Graph:
        """A graph from PyTorch Geometric's `Data`: `edge_index`, `x`, `y` and, if it is there, `edge_weight`.

        Every `y` counts as known unless `mask`, such as `"train_mask"`, names the nodes whose label may be seen.
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
        """A graph from networkx. Attributes may be named; by default `weight` of edges, `label` or `class` of nodes
        and every attribute of nodes that is a number or a list of numbers are taken. False takes none."""
        from mtgcn.io.attributed import graph_arrays

        arrays = graph_arrays(graph, "the networkx graph", weight=weight, label=label, features=features)
        return cls._from_arrays(arrays, "the networkx graph", name)

    @classmethod
    def from_csv(
        cls,
        edges: PathLike | None,
        nodes: PathLike | None = None,
        labels: PathLike | None = None,
        *,
        source_column: str | int | None = None,
        target_column: str | int | None = None,
        weight_column: str | int | Literal[False] | None = None,
        id_column: str | int | None = None,
        label_column: str | int | Literal[False] | None = None,
        feature_columns: Sequence[str | int] | None = None,
        exclude_columns: Sequence[str | int] = (),
        column_kinds: Mapping[str | int, str] | None = None,
        unknown_nodes: Literal["error", "drop", "add"] = "error",
        scale: bool = True,
        preparation: Preparation | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        few_labels: bool = False,
        name: str = "",
    ) -> Graph:
        """A graph from tables in CSV or, by their suffix, Parquet: an edge list, a node table (id, features, label)
        and a label table (id, label). `docs/own-data.md` tells how columns are found when they are not named.

        A node table says which nodes there are, in its order; without one the edge list does, in the order of ids.
        `edges=None` reads a node table alone, into a graph without edges.

        Features are prepared: numbers standardised unless they are counts or words, or `scale` is False, categories
        one-hot, dates as days (see `mtgcn.io.preprocessing`). `preparation`, that of a fitted graph, does it as it was
        done there. `unknown_nodes` says what to do with edges and labels of nodes that the node table lacks. With
        `few_labels`, labels of one class alone, or a label table without any, are no error.
        """
        from mtgcn.io.columns import Choices
        from mtgcn.io.tables import read_tables

        choices = Choices(
            source=source_column,
            target=target_column,
            weight=weight_column,
            node_id=id_column,
            label=label_column,
            features=feature_columns,
            exclude=exclude_columns,
            kinds=column_kinds or {},
            unknown_nodes=unknown_nodes,
            scale=scale,
            preparation=preparation,
            header=header,
            delimiter=delimiter,
            few_labels=few_labels,
        )
        arrays = read_tables(edges, nodes, labels, choices)
        if edges is None:
            return cls._from_adjacency(sp.csr_array((len(arrays.node_ids),) * 2, dtype=np.float32), arrays, name)
        return cls._from_arrays(arrays, str(edges), name, few_labels)

    @classmethod
    def from_file(
        cls,
        path: PathLike,
        labels: PathLike | None = None,
        *,
        weight: str | Literal[False] | None = None,
        label: str | Literal[False] | None = None,
        features: Sequence[str] | None = None,
        few_labels: bool = False,
        name: str = "",
    ) -> Graph:
        """A graph from one file, by its suffix: GraphML, GML, `.npz` or `.pt` with a PyG `Data`; and, if given, a label
        table beside it.

        Attributes of GraphML and GML are chosen as in `from_networkx`; `few_labels` is as in `from_csv`.
        """
        from mtgcn.io.graph_file import read_graph_file

        arrays = read_graph_file(path, labels, weight=weight, label=label, features=features, few_labels=few_labels)
        return cls._from_arrays(arrays, str(path), name, few_labels)

    @classmethod
    def _from_arrays(cls, arrays: GraphArrays, where: str, name: str, few_labels: bool = False) -> Graph:
        nodes = len(arrays.node_ids)
        check_edges(arrays, where)
        if not few_labels:
            check_classes(arrays.class_names, where)
        edges = merge(arrays.sources, arrays.targets, arrays.weights, nodes)
        # An edge list may give each edge once or in both directions; only a mixture tells that direction matters.
        listed_once = edges.one_way and not edges.both_ways and not arrays.directed
        if (edges.one_way or edges.uneven) and arrays.directed is not False and not listed_once:
            say(
                f"{where}: {edges.one_way + edges.uneven} of {edges.one_way + edges.both_ways} edges go one way, or "
                "weigh more one way; all are taken without direction, the larger weight of two"
            )
        return cls._from_adjacency(edges.adjacency(nodes), arrays, name)

    @classmethod
    def _from_adjacency(cls, adjacency: sp.csr_array, arrays: GraphArrays, name: str) -> Graph:
        return cls(
            adjacency,
            arrays.features,
            arrays.labels,  # type: ignore[arg-type]
            arrays.node_ids,
            arrays.class_names,
            name,
            arrays.feature_names,
            arrays.preparation,
        )
