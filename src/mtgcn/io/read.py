"""`read_graph`: a `Graph` from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.graph import Graph, GraphArrays
from mtgcn.io.columns import open_table
from mtgcn.io.graph_files import READERS, read_graph_file
from mtgcn.io.graph_tables import EdgeRows, Labels, NodeRows, read_edges, read_nodes
from mtgcn.io.ids import NodeIndex
from mtgcn.io.options import PathLike, TableOptions
from mtgcn.io.preprocessing import Preprocessor, fit_columns
from mtgcn.io.table import Table


def read_graph(path: PathLike | None = None, options: TableOptions | None = None, **more: Any) -> Graph:
    """A graph from files.

    Parameters
    ----------
    path : path
        An edge list in CSV or Parquet, or a whole graph as GraphML, GML, `.npz` or `.pt`, by its suffix. None if
        `options` name all files; with `nodes` alone, the graph has no edges unless `knn` is given.
    options : TableOptions
        Further files, and how to read them.
    **more
        Fields of `TableOptions`, in place of or in addition to `options`.

    Examples
    --------
    >>> read_graph("edges.csv", nodes="nodes.csv", labels="labels.csv")  # doctest: +SKIP
    >>> read_graph("graph.graphml", TableOptions(columns={"label": "topic"}))  # doctest: +SKIP
    >>> read_graph(None, TableOptions(nodes="nodes.csv", knn=10))  # doctest: +SKIP
    """
    options = replace(options or TableOptions(), **more)
    if path is not None:
        if options.edges or options.graph:
            raise InputError(f"{path} and {options.edges or options.graph} both hold edges; give one of them")
        is_graph = isinstance(path, str | Path) and Path(path).suffix.lower() in READERS
        options = replace(options, graph=path) if is_graph else replace(options, edges=path)
    if options.graph:
        arrays = read_graph_file(options)
        if options.labels:
            codes, names = read_labels(options.labels, arrays.node_ids, replace(options, columns={}))
            arrays = replace(arrays, labels=codes, class_names=names)
        return Graph.from_arrays(arrays, str(options.graph), options.title, few_labels=options.few_labels)
    arrays = read_tables(options)
    if options.edges:
        return Graph.from_arrays(arrays, str(options.edges), options.title, few_labels=options.few_labels)
    if not options.knn:
        adjacency = sp.csr_array((len(arrays.node_ids),) * 2, dtype=np.float32)
        return Graph.from_adjacency(adjacency, arrays, options.title)
    if arrays.features is None:
        raise InputError(f"{options.nodes} has no feature columns for nearest neighbours; add features, or --edges")
    from mtgcn.linalg.neighbours import neighbour_graph

    return Graph.from_adjacency(neighbour_graph(arrays.features, options.knn, options.metric), arrays, options.title)


def read_tables(options: TableOptions) -> GraphArrays:
    """The graph of an edge list, a node table and a label table, joined by node ids."""
    edge_table = open_table(options.edges, options, edges=True) if options.edges is not None else None
    node_table = open_table(options.nodes, options) if options.nodes is not None else None
    label_table = open_table(options.labels, options) if options.labels is not None else None
    if edge_table is None and node_table is None:
        raise InputError("neither an edge list nor a node table; give at least one of them")
    given = {role: column for role, column in options.columns.items() if column is not False}
    for table, where, wanted in (
        (edge_table, "an edge list", [given.get(role) for role in ("source", "target", "weight")]),
        (node_table, "a node table", [options.features, options.exclude or None, list(options.kinds) or None]),
        (node_table or label_table, "a node or label table", [given.get("id"), given.get("label")]),
    ):
        column = next((some for some in wanted if some is not None), None)
        if column is not None and table is None:
            raise InputError(f"column {column!r} is looked for in {where} and there is none; give one")
    if node_table is None:
        index = NodeIndex()
        nodes = NodeRows(index, Labels(index), None, {})
    else:
        own = _options_for(node_table, label_table, options)
        nodes = read_nodes(node_table, own, labels_elsewhere=label_table is not None)
    index, labels = nodes.index, nodes.labels
    listed = len(index)
    edges = EdgeRows()
    if edge_table is not None:
        edges = read_edges(edge_table, options, index, None if node_table is None else str(node_table.path))
    if label_table is not None:
        node_source = str(options.nodes or options.edges)
        labels.read(label_table, _options_for(label_table, node_table, options), node_source)
    node_ids = index.ids()
    codes, class_names = labels.encoded(few_labels=options.few_labels)
    features: sp.csr_array | np.ndarray | None = None
    preprocessing: Preprocessor | None = None
    if nodes.columns is not None:
        rows = replace(nodes.columns, absent=len(index) - listed)
        preprocessing = options.preprocessing or fit_columns(rows, nodes.kinds, scale=options.scale)
        features = preprocessing.matrix(rows)
        if options.preprocessing is not None:
            preprocessing.note_unfamiliar(rows)
        features = features if features.shape[1] else None
    sources, targets = edges.sources, edges.targets
    if node_table is None:  # sorted, so that the order of the edges does not matter
        order = np.argsort(node_ids, kind="stable")
        place = np.argsort(order)
        node_ids, sources, targets, codes = node_ids[order], place[sources], place[targets], codes[order]
    return GraphArrays(
        node_ids,
        sources,
        targets,
        edges.weights,
        features,
        () if preprocessing is None else preprocessing.names,
        codes if class_names else None,
        class_names,
        preprocessing=preprocessing,
    )


def read_labels(
    path: PathLike, node_ids: np.ndarray, options: TableOptions, beside: Sequence[str] = ()
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class codes of known nodes and class names from a label table; see `Labels.encoded`."""
    labels = Labels(NodeIndex.of(node_ids))
    labels.read(open_table(path, options), options, "the graph")
    return labels.encoded(beside, few_labels=options.few_labels)


def _options_for(table: Table, other: Table | None, options: TableOptions) -> TableOptions:
    """The options without id and label columns that only the other table has."""
    if other is None:
        return options
    columns = {
        role: column
        for role, column in options.columns.items()
        if role not in ("id", "label") or column in table.columns or column not in other.columns
    }
    return replace(options, columns=columns)
