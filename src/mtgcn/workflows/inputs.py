"""Reading graphs for the commands, and checking their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mtgcn.errors import InputError, note, unknown_name
from mtgcn.estimator.inputs import check_learnable, preprocessed_graph
from mtgcn.graph import Graph
from mtgcn.io import read
from mtgcn.io.archives import suffix_of
from mtgcn.io.graph_files import WITH_ATTRIBUTES
from mtgcn.io.options import Column, TableOptions
from mtgcn.labels import UNLABELED, class_named

if TYPE_CHECKING:
    from mtgcn.graph import GraphArrays

NEIGHBORS = 10  # default of --knn
EDGE_ROLES = ("source", "target", "weight")


def read_graph(files: TableOptions) -> Graph:
    """The graph of a fit, with edges and preprocessed features."""
    if not files.graph and not files.edges:
        if not files.nodes:
            raise InputError("no graph and no table; give TABLE, --edges or --graph")
        if not files.knn:
            files = replace(files, knn=NEIGHBORS)
            note(f"{files.nodes}: without edges, each row is linked to its {NEIGHBORS} nearest; change it with --knn N")
    return preprocessed_graph(read.read_graph(options=files), scale=True)


def read_like(files: TableOptions, trained: Graph) -> Graph:
    """Nodes, and edges if given, with the features of the trained graph."""
    if files.kinds:
        raise InputError("the model fixes the column kinds; omit --column with a kind")
    if files.graph:
        has_names = bool(trained.feature_names) and suffix_of(Path(files.graph)) in WITH_ATTRIBUTES
        named = files.with_column("label", False) if has_names else files
        return _with_columns_of(read.read_graph(options=replace(named, features=None)), trained)
    preprocessing = trained.preprocessing
    if preprocessing is not None and preprocessing.named:
        same = replace(files.with_column("label", False), features=None, preprocessing=preprocessing)
        return read.read_graph(options=same)
    graph = read.read_graph(options=replace(files, scale=False))
    if trained.features is None:  # new nodes are rejected later; known nodes need no features
        return replace(graph, features=None, feature_names=(), preprocessing=None)
    if graph.preprocessing is None or graph.preprocessing.changes_nothing:
        return replace(graph, preprocessing=None)
    raise InputError(
        f"{files.nodes}: the model was fitted on numbers, but some columns here are not numbers, or have gaps "
        f"({'; '.join(graph.preprocessing.lines()[:3])}); give the same columns as in the fit"
    )


def read_edges(files: TableOptions) -> GraphArrays:
    """The graph of an edge list without a node table."""
    columns = {role: column for role, column in files.columns.items() if role in EDGE_ROLES}
    return read.read_tables(TableOptions(edges=files.edges, columns=columns, header=files.header))


def read_more_labels(path: Path, graph: Graph, columns: Mapping[str, Column | Literal[False]]) -> dict[Any, str]:
    """The labels of a table by node id; all ids must be in the graph."""
    for role in columns:
        if role not in ("id", "label"):
            raise unknown_name("column role", role, ("id", "label"))
    codes, names = read.read_labels(path, graph.node_ids, TableOptions(columns=columns), graph.class_names)
    return {node: names[code] for node, code in zip(graph.node_ids.tolist(), codes, strict=True) if code != UNLABELED}


def _with_columns_of(graph: Graph, trained: Graph) -> Graph:
    """The graph with the feature columns of the trained graph, in their order."""
    preprocessing = trained.preprocessing
    if preprocessing is None:
        wanted = trained.feature_names
    else:
        wanted = tuple(column.name for column in preprocessing.columns) if preprocessing.named else ()
    names = list(graph.feature_names)
    if not wanted or not names or names == list(wanted):
        return graph
    missing = next((name for name in wanted if name not in names), None)
    if missing is not None or graph.features is None:
        raise InputError(f"the model was fitted with a feature {missing!r}, which these nodes lack; add the column")
    return replace(graph, features=graph.features[:, [names.index(name) for name in wanted]], feature_names=wanted)


def check_labels(graph: Graph, classes: Sequence[str] | None = None) -> None:
    """Raise unless a fit can learn from the labels and has nodes to predict. `classes` are the expected ones."""
    if not len(graph.known):
        raise InputError("no row or node is labelled; name the class column with --target, or give --labels")
    names = graph.class_names if classes is None else [class_named(name, graph.class_names) for name in classes]
    for name in graph.class_names:
        if name not in names:
            raise InputError(
                f"a node is labelled {name!r}, which --classes does not list; add it, or correct the label"
            )
    counts = dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True))
    check_learnable(names, [counts.get(name, 0) for name in names], graph.num_nodes)
