"""`Graph`: nodes, edges, features and known labels, validated once and then frozen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real as RealNumber
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from mtgcn import graph_checks
from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.errors import InputError, check_names, note, shown
from mtgcn.graph_checks import as_array, checked_count
from mtgcn.labels import UNLABELED as UNLABELED
from mtgcn.labels import check_classes, check_not_regression, encoded_labels, integer_text
from mtgcn.shapes import Float, Int, Real

WEIGHT_NAMES = ("weight",)
LABEL_NAMES = ("label", "class")
MAX_FLOAT = float(np.finfo(np.float32).max)
Attribute = str | Literal[False] | None  # networkx attribute; None: the default one, False: none


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """A graph as read: edges in any direction and multiplicity, not validated."""

    node_ids: np.ndarray
    sources: Int[np.ndarray, "listed"]  # node numbers, not ids
    targets: Int[np.ndarray, "listed"]
    weights: np.ndarray | None = None  # None: all 1
    features: sp.sparray | np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    directed: bool | None = None  # None: unknown
    class_type: str = ""
    preprocessing: Any = None
    numbered: bool = False
    cells: Any = None


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
    preprocessing: Any = None  # the `mtgcn.io.preprocessing.Preprocessor` of the features; None: used as given
    class_type: str = ""  # dtype of the classes, whose names are text; by default text if named, else integers
    numbered: bool = False  # whether node ids are row numbers, which are not unique between tables
    cells: Any = None  # the original node table (pyarrow), for display; never used by methods
    communicator: ClassVar[Communicator] = ONE_PROCESS  # communication with processes that hold other nodes

    def __post_init__(self) -> None:
        adjacency = graph_checks.checked_adjacency(self.adjacency)
        nodes = adjacency.shape[0]
        labels = graph_checks.checked_labels(self.labels, nodes)
        features = graph_checks.checked_features(self.features, nodes)
        checked = {
            "adjacency": adjacency,
            "features": features,
            "labels": labels,
            "node_ids": graph_checks.checked_node_ids(self.node_ids, nodes),
            "class_names": graph_checks.checked_class_names(self.class_names, labels),
            "name": graph_checks.checked_name(self.name),
            "feature_names": graph_checks.checked_feature_names(self.feature_names, features),
            "cells": graph_checks.checked_cells(self.cells, nodes),
            "class_type": self.class_type or ("U" if self.class_names else "int64"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        title = f"{self.name!r}, " if self.name else ""
        return (
            f"Graph({title}nodes={self.num_nodes}, edges={self.num_edges}, "
            f"features={self.num_features}, classes={self.num_classes})"
        )

    __iter__ = None

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the adjacency, with which scikit-learn splits graphs like the rows of X."""
        return self.adjacency.shape

    def __getitem__(self, nodes: Any) -> Graph:
        """The subgraph of some nodes, given by numbers or a mask: `graph[:10]`, `graph[graph.known]`.

        >>> Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), labels=[0, -1, 1])[[2, 1]]
        Graph(nodes=2, edges=1, features=0, classes=2)
        """
        rows = np.arange(self.num_nodes)[nodes[0] if isinstance(nodes, tuple) else nodes]  # scikit-learn: [nodes, ...]
        return replace(
            self,
            adjacency=self.adjacency[rows][:, rows],
            features=None if self.features is None else self.features[rows],
            labels=self.labels[rows],
            node_ids=self.node_ids[rows],
            cells=None if self.cells is None else self.cells.take(rows),
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
        """The number of undirected edges between different nodes."""
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
    def classes(self) -> np.ndarray:
        """The classes as they were given, as numbers or names."""
        names = np.array(self.class_names)
        try:
            return names == "True" if np.dtype(self.class_type).kind == "b" else names.astype(self.class_type)
        except ValueError:  # the numbers were given names later
            return names

    @cached_property
    def node_names(self) -> list[str] | None:
        """A title of each node, for display; None if there are none."""
        column = None if self.preprocessing is None else self.preprocessing.name_column
        if self.cells is None or column not in self.cells.column_names:
            return None
        return [name or "" for name in self.cells[column].to_pylist()]

    def node_title(self, node: int) -> str:
        """The name and the id of a node, or only the id if it has no name."""
        name = "" if self.node_names is None else self.node_names[node]
        return f"{name} ({self.node_ids[node]})" if name else str(self.node_ids[node])

    def node_cells(self, node: int) -> dict[str, str]:
        """The row of a node in the node table, for display; empty without a node table."""
        cells = {} if self.cells is None else self.cells.slice(node, 1).to_pylist()[0]
        return {column: cell or "" for column, cell in cells.items()} if any(cells.values()) else {}

    @property
    def without_labels(self) -> Graph:
        """The graph without labels and cells, as methods see it."""
        return self._bare if len(self.known) or self.cells is not None else self

    @cached_property
    def _bare(self) -> Graph:
        graph = self._relabelled(np.full(self.num_nodes, UNLABELED))
        object.__setattr__(graph, "cells", None)
        return graph

    def with_labels(self, labels: Any) -> Graph:
        """This graph with other labels of the same classes; both share `without_labels` and its caches."""
        labels = graph_checks.checked_labels(labels, self.num_nodes)
        graph_checks.checked_class_names(self.class_names, labels)
        graph = self._relabelled(labels)
        vars(graph)["_bare"] = self.without_labels
        return graph if len(graph.known) else self.without_labels

    def _relabelled(self, labels: Int[np.ndarray, "nodes"]) -> Graph:
        graph = object.__new__(Graph)  # all parts were checked and frozen before
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
            raise InputError("the adjacency has no edges; give at least one")
        labels, names, kind = graph_checks.encoded(y, class_names)
        return cls(matrix, as_array(X), labels, node_ids, names, name, tuple(feature_names), class_type=kind)

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
        labels, names, kind = graph_checks.encoded(y, class_names)
        where = "edge_index" if num_nodes is None else "num_nodes"
        if num_nodes is None:
            rows = [part.shape[0] for part in (features, labels) if part is not None and part.ndim]
            num_nodes = rows[0] if rows else int(edges.max(initial=-1)) + 1
        node_ids = graph_checks.checked_node_ids(node_ids, checked_count(num_nodes, where))
        weights = None if edge_weight is None else np.asarray(as_array(edge_weight))
        nodes: dict[str, Any] = {"labels": labels, "class_names": names, "class_type": kind}
        arrays = GraphArrays(node_ids, edges[0], edges[1], weights, features, tuple(feature_names), **nodes)
        return cls.from_arrays(arrays, "edge_index", name)

    @classmethod
    def from_pyg(cls, data: Any, *, mask: str | None = None, class_names: Sequence[str] = (), name: str = "") -> Graph:
        """A graph from a PyTorch Geometric `Data`: `edge_index`, `x`, `y` and `edge_weight` if present.

        All labels are used unless `mask`, such as `"train_mask"`, selects the labelled nodes.
        """
        edge_index, labels = getattr(data, "edge_index", None), getattr(data, "y", None)
        if edge_index is None:
            raise InputError(f"{type(data).__name__} has no edge_index; give a homogeneous Data with edge_index")
        if mask is not None:
            chosen = getattr(data, mask, None)
            if chosen is None or labels is None:
                missing = "y" if labels is None else mask
                raise InputError(f"{type(data).__name__} has no {missing}; name one of its masks")
            codes, names = encoded_labels(as_array(labels))
            use = np.asarray(as_array(chosen))
            if use.shape != codes.shape or use.dtype != bool:
                raise InputError(f"{mask} of shape {use.shape} and type {use.dtype}; give true or false for each node")
            labels, class_names = np.where(use, codes, UNLABELED), class_names or names
        features, weight, nodes = getattr(data, "x", None), getattr(data, "edge_weight", None), data.num_nodes
        parts: dict[str, Any] = {"edge_weight": weight, "num_nodes": nodes, "class_names": class_names, "name": name}
        return cls.from_edge_index(edge_index, features, labels, **parts)

    def to_pyg(self) -> Any:
        """The graph as a PyTorch Geometric `Data`, each edge in both directions; y is -1 for unlabelled nodes."""
        import torch
        from torch_geometric.data import Data

        edges, features = self.adjacency.tocoo(), self.features
        rows = features if isinstance(features, np.ndarray | None) else features.toarray()
        return Data(
            x=None if rows is None else torch.from_numpy(rows.astype(np.float32)),
            edge_index=torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64)),
            edge_weight=torch.from_numpy(edges.data.astype(np.float32)),
            y=torch.from_numpy(self.labels.astype(np.int64)),
            num_nodes=self.num_nodes,
        )

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        weight: Attribute = None,
        label: Attribute = None,
        features: Sequence[str] | None = None,
        nodes: Sequence[Any] | None = None,
        name: str = "",
    ) -> Graph:
        """A graph from networkx.

        By default the edge attribute `weight`, the node attribute `label` or `class` and every numeric node attribute
        are used. Name other attributes, or pass False for none. `nodes` overrides the order of `networkx_nodes`.
        """
        where = "the networkx graph"
        arrays = networkx_arrays(graph, where, weight=weight, label=label, features=features, nodes=nodes)
        return cls.from_arrays(arrays, where, name)

    @classmethod
    def from_arrays(cls, arrays: GraphArrays, where: str, name: str = "", *, few_labels: bool = False) -> Graph:
        """A graph from an edge list and node arrays, called `where` in messages. `few_labels` allows a single class."""
        nodes = len(arrays.node_ids)
        check_edges(arrays, where)
        if not few_labels and arrays.labels is not None:
            check_classes(arrays.class_names, where)
            check_not_regression(arrays.class_names, int(np.count_nonzero(arrays.labels != UNLABELED)), where)
        adjacency, one_way, both_ways, uneven = merged_adjacency(arrays.sources, arrays.targets, arrays.weights, nodes)
        # Edges may be listed once or in both directions; only a mixture shows that the direction matters.
        listed_once = one_way and not both_ways and not arrays.directed
        if (one_way or uneven) and arrays.directed is not False and not listed_once:
            note(
                f"{where}: {one_way + uneven} of {one_way + both_ways} edges go one way, or weigh more one way; "
                "all are taken without direction, the larger weight of two"
            )
        return cls.from_adjacency(adjacency, arrays, name)

    @classmethod
    def from_adjacency(cls, adjacency: sp.csr_array, arrays: GraphArrays, name: str = "") -> Graph:
        """A graph from an adjacency and the node arrays of `arrays`, whose edges are ignored."""
        shared = {field.name for field in fields(cls)} & vars(arrays).keys()
        return cls(adjacency, name=name, **{part: getattr(arrays, part) for part in shared})


def merged_adjacency(
    sources: Int[np.ndarray, "listed"],
    targets: Int[np.ndarray, "listed"],
    weights: Real[np.ndarray, "listed"] | None,
    nodes: int,
) -> tuple[sp.csr_array, int, int, int]:
    """The symmetric adjacency of listed edges, each with the largest of its weights, and the numbers of pairs of
    different nodes that are listed in one direction, in both, and in both with different weights."""
    pair = np.minimum(sources, targets) * np.int64(nodes) + np.maximum(sources, targets)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    if not len(starts):
        return sp.csr_array((nodes, nodes), dtype=np.float32), 0, 0, 0
    first, second = pair[starts] // nodes, pair[starts] % nodes
    listed = np.ones(len(order), np.float32) if weights is None else weights[order].astype(np.float32)
    there, back = (  # -1: not listed in this direction
        np.maximum.reduceat(np.where(forward[order], listed, -1), starts)
        for forward in (sources < targets, sources > targets)
    )
    apart, twice = first != second, (there >= 0) & (back >= 0)
    merged = np.maximum.reduceat(listed, starts)
    rows, columns = np.concatenate([first, second[apart]]), np.concatenate([second, first[apart]])
    entries = np.concatenate([merged, merged[apart]]), (rows, columns)
    counts = [int(np.count_nonzero(some)) for some in (apart & ~twice, twice, twice & (there != back))]
    return sp.coo_array(entries, shape=(nodes, nodes)).tocsr(), counts[0], counts[1], counts[2]


def check_edges(arrays: GraphArrays, where: str) -> None:
    """Reject empty edge lists, node numbers out of range and invalid weights."""
    nodes, weights = len(arrays.node_ids), arrays.weights
    if not len(arrays.sources):
        raise InputError(f"{where} has no edges; give at least one")
    ends = np.array([arrays.sources, arrays.targets])
    outside = np.argwhere(((ends < 0) | (ends >= nodes)).T)
    if len(outside):
        edge, end = outside[0]
        raise InputError(
            f"{where}: edge {edge} refers to node {ends[end, edge]}, but the {nodes} nodes are numbered from 0; "
            "correct it, or give more nodes"
        )
    if weights is None:
        return
    if weights.shape != arrays.sources.shape:
        raise InputError(f"{where}: weights of shape {weights.shape} for {len(arrays.sources)} edges; give one each")
    if weights.dtype.kind not in "biuf":
        raise InputError(f"{where} has weights of type {weights.dtype}; give numbers")
    bad = np.flatnonzero(~((weights >= 0) & (weights <= MAX_FLOAT)))
    if len(bad):
        raise InputError(f"{where}: edge {bad[0]} has weight {weights[bad[0]]:g}; give finite weights >= 0")
    graph_checks.note_dropped(weights, where)


def networkx_nodes(graph: Any, rows: int | None = None, index: Sequence[Any] | None = None) -> list[Any]:
    """The nodes of a networkx graph in the order of the rows of a table, whose `index` may hold their ids.

    Nodes are matched with the index, or by number if they are 0 … n-1. Otherwise they keep the order of the graph; with
    `rows`, this is an error.
    """
    nodes = list(graph.nodes)
    if index is not None and len(index) == len(nodes) and {*index} == {*nodes}:
        return list(index)
    if {*nodes} == {*range(len(nodes))}:
        return sorted(nodes)
    if rows == len(nodes):
        raise InputError(
            f"node {shown(nodes[0])} of the networkx graph is neither a row number from 0 to {rows - 1} nor in the "
            "index of X; number the nodes like the rows, or give X as a data frame whose index holds the nodes"
        )
    return nodes


def networkx_arrays(
    graph: Any,
    where: str,
    *,
    weight: Attribute = None,
    label: Attribute = None,
    features: Sequence[str] | None = None,
    nodes: Sequence[Any] | None = None,
    from_file: bool = False,
) -> GraphArrays:
    """The arrays of a networkx graph, called `where` in messages."""
    nodes = networkx_nodes(graph) if nodes is None else list(nodes)
    if len(nodes) != len(graph) or {*nodes} != {*graph.nodes}:
        raise InputError(f"{where} has {len(graph)} nodes, but others are listed; list each of its nodes once")
    if not nodes:
        raise InputError(f"{where} has no nodes; give at least one")
    number = {node: place for place, node in enumerate(nodes)}
    ends = [(number[one], number[other]) for one, other in graph.edges()]
    sources, targets = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    attributes = [graph.nodes[node] for node in nodes]
    label_name = label or None
    if label and not any(label in some for some in attributes):
        raise InputError(f"{where}: no node has an attribute {label!r}; name the one that holds the classes")
    for name in LABEL_NAMES if label is None else ():
        found = [str(some[name]) for some in attributes if name in some]
        # Drawing programs write the name of each node into `label`, which is not a class.
        if label_name is None and found and (name != "label" or len(set(found)) < len(nodes)):
            label_name = name
    given = [some.get(label_name) for some in attributes] if label_name else []
    if from_file:  # in files, -1 is a class
        given = ["" if value is None else integer_text(str(value)) for value in given]
    labels, class_names = encoded_labels(given)
    if features is None:
        seen = {name: value for some in reversed(attributes) for name, value in some.items()}
        features = [name for name, value in seen.items() if name != label_name and _numbers(value) is not None]
    columns, names = [], []
    for name in features:
        column = _feature(nodes, attributes, name, where)
        columns.append(column)
        names += [name] if column.shape[1] == 1 else [f"{name}[{place}]" for place in range(column.shape[1])]
    table, known = np.hstack(columns) if columns else None, labels if class_names else None
    ids, weights, directed = id_array(nodes, where), _weights(graph, weight, where), graph.is_directed()
    return GraphArrays(ids, sources, targets, weights, table, tuple(names), known, class_names, directed)


def id_array(nodes: Sequence[Any], where: str) -> np.ndarray:
    """Node ids as an array: of integers if all are integers, otherwise of text."""
    whole = all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes)
    if whole and all(abs(int(node)) < 2**63 for node in nodes):
        return np.array([int(node) for node in nodes], dtype=np.int64)
    names = [str(node) for node in nodes]
    check_names(names, "node id", where)
    return np.array(names)


def _feature(
    nodes: list[Any], attributes: list[dict[str, Any]], name: str, where: str
) -> Float[np.ndarray, "nodes features"]:
    """An attribute that is a number, or a list of numbers of one length."""
    rows = [_numbers(some.get(name)) for some in attributes]
    for node, some, row in zip(nodes, attributes, rows, strict=True):
        if row is None or rows[0] is None or len(row) != len(rows[0]):
            remedy = "give every node a number there (or lists of one length), or name the features to use"
        elif not (np.abs(row) <= MAX_FLOAT).all():
            remedy = "give finite numbers that single precision can hold"
        else:
            continue
        raise InputError(f"{where}, node {shown(node)}: attribute {name!r} is {shown(some.get(name))}; {remedy}")
    return np.array(rows)


def _numbers(value: Any) -> np.ndarray | None:
    """A number, or a list of numbers, in double precision, too large integers as infinity. None for anything else."""
    values = np.atleast_1d(np.asarray(value, dtype=object))
    if values.ndim != 1 or not len(values) or not all(isinstance(one, (RealNumber, np.bool_)) for one in values):
        return None
    try:
        return values.astype(np.float64)
    except OverflowError:
        return np.full(len(values), np.inf)


def _weights(graph: Any, named: Attribute, where: str) -> np.ndarray | None:
    """The edge weights; edges without the attribute have weight 1, as in networkx."""
    name = named or WEIGHT_NAMES[0]
    given = [] if named is False else [edge for edge in graph.edges(data=name) if edge[2] is not None]
    if not given:
        if named:
            raise InputError(f"{where}: no edge has an attribute {named!r}; name the one that holds the weights")
        return None
    for one, other, value in given:
        numbers = _numbers(value) if isinstance(value, RealNumber) else None
        if numbers is None or not 0 <= numbers[0] <= MAX_FLOAT:
            raise InputError(
                f"{where}, edge {shown(one)} - {shown(other)}: {name} is {shown(value)}; give a finite weight >= 0"
            )
    return np.array([1 if value is None else value for *_, value in graph.edges(data=name)], dtype=np.float32)
