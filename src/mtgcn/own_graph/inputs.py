"""From the files a person names to a graph, and whether anything can be learned from it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import UNKNOWN, Graph

if TYPE_CHECKING:
    from mtgcn.files.arrays import GraphArrays

ROLES = ("source", "target", "weight", "id", "label")  # of columns
ROLES_IN_GRAPH_FILES = ("weight", "label")  # there they are attributes


@dataclass(frozen=True)
class GraphFiles:
    """What was named on the command line: `graph`, or `edges` and perhaps `nodes`, or `nodes` and `knn`."""

    edges: Path | None = None
    nodes: Path | None = None
    labels: Path | None = None
    graph: Path | None = None
    knn: int | None = None
    metric: str = "euclidean"
    # The column of a role, where its name does not tell; False: none is.
    columns: Mapping[str, str | Literal[False]] = field(default_factory=dict)
    features: Sequence[str] | None = None  # the columns that are features; None: all that are nothing else

    def __post_init__(self) -> None:
        if self.graph and (self.edges or self.nodes or self.knn):
            raise InputError("--graph already holds edges and features; leave out --edges, --nodes and --knn")
        if self.edges and self.knn:
            raise InputError("--edges gives the edges and --knn would make others; leave one of them out")
        if self.knn is not None and self.knn < 1:
            raise InputError(f"--knn is {self.knn}; give at least 1")
        if self.knn and not self.nodes:
            raise InputError("--knn joins nodes with similar features and there are none; add --nodes")
        known = ROLES_IN_GRAPH_FILES if self.graph else ROLES
        for role in self.columns:
            if role not in known:
                raise unknown_name("column role", role, known)

    @property
    def given(self) -> bool:
        """Whether any file was named."""
        return any((self.edges, self.nodes, self.labels, self.graph, self.knn))

    @property
    def title(self) -> str:
        """The main file with its suffix: a graph called `cora` would be taken for the paper's."""
        main = self.graph or self.edges or self.nodes
        return main.name if main else ""


def parsed_columns(assignments: Sequence[str]) -> dict[str, str | Literal[False]]:
    """`label=topic` texts as a mapping."""
    columns: dict[str, str | Literal[False]] = {}
    for assignment in assignments:
        role, equals, column = (part.strip() for part in assignment.partition("="))
        if not equals or not column:
            raise InputError(f"column {assignment!r}; write role=column, for instance label=topic")
        if role in columns:
            raise InputError(f"column of {role!r} is given twice; give it once")
        columns[role] = column
    return columns


def read_graph(files: GraphFiles) -> Graph:
    """The graph with its edges: read, or made by joining nodes with similar features."""
    if files.graph:
        attributes: Mapping[str, Any] = files.columns
        return Graph.from_file(files.graph, files.labels, **attributes, features=files.features, name=files.title)
    if not files.edges and not files.knn:
        raise InputError("no edges; give --edges or --graph, or --nodes with --knn to join similar nodes")
    graph = read_tables(files)
    if not files.knn:
        return graph
    if graph.features is None:
        raise InputError(f"{files.nodes} has no feature columns, so no node is near another; add features, or --edges")
    from mtgcn.linalg.neighbours import neighbour_graph

    return replace(graph, adjacency=neighbour_graph(graph.features, files.knn, files.metric))


def read_tables(files: GraphFiles) -> Graph:
    """What the tables hold; without an edge list, nodes without edges."""
    columns: dict[str, Any] = {f"{role}_column": _column(name) for role, name in files.columns.items()}
    if files.features is not None:
        columns["feature_columns"] = [_column(name) for name in files.features]
    return Graph.from_csv(files.edges, files.nodes, files.labels, **columns, name=files.title)


def read_edges(path: Path, columns: Mapping[str, str | Literal[False]]) -> GraphArrays:
    """The edges that a list holds, between nodes that it alone names."""
    from mtgcn.files.columns import Choices
    from mtgcn.files.tables import read_tables

    named: dict[str, Any] = {role: _column(name) for role, name in columns.items()}
    return read_tables(path, None, None, Choices(**named))


def read_more_labels(path: Path, graph: Graph, columns: Mapping[str, str | Literal[False]]) -> dict[Any, str]:
    """The labels of a table, by the ids of nodes that this graph must have."""
    from mtgcn.files.columns import Choices
    from mtgcn.files.tables import read_labels

    for role in columns:
        if role not in ("id", "label"):
            raise unknown_name("column role", role, ("id", "label"))
    choices = Choices(
        node_id=_column(columns["id"]) or None if "id" in columns else None,
        label=_column(columns["label"]) if "label" in columns else None,
    )
    codes, names = read_labels(path, graph.node_ids, choices, alone=False)
    return {node: names[code] for node, code in zip(graph.node_ids.tolist(), codes, strict=True) if code != UNKNOWN}


def _column(name: str | Literal[False]) -> str | int | Literal[False]:
    """A column by its name; `column 3` is what the third is called in a table without a header."""
    position = re.fullmatch(r"column ([1-9][0-9]*)", name) if name else None
    return int(position[1]) - 1 if position else name


def for_prediction(files: GraphFiles, trained: Graph) -> GraphFiles:
    """The same files, of which only the features that the model knows are wanted, and no label."""
    if not trained.feature_names:
        return files  # which columns are features must then be found as it was for the training data
    if files.graph and files.graph.suffix.lower() in (".npz", ".pt", ".pth"):
        return replace(files, features=None)  # what such a file calls its parts is fixed
    features = None if files.graph else trained.feature_names
    return replace(files, features=features, columns={**files.columns, "label": False})


def with_features_of(graph: Graph, trained: Graph) -> Graph:
    """The same nodes with those features, in that order, that the trained graph has."""
    names = list(graph.feature_names)
    if not trained.feature_names or not names or names == list(trained.feature_names):
        return graph
    missing = next((name for name in trained.feature_names if name not in names), None)
    if missing is not None or graph.features is None:
        raise InputError(f"the model was fitted with a feature {missing!r}, which these nodes lack; add the column")
    order = [names.index(name) for name in trained.feature_names]
    return replace(graph, features=graph.features[:, order], feature_names=trained.feature_names)


def check_learnable(graph: Graph, classes: Sequence[str] | None = None) -> None:
    """Refuse labels that leave nothing to learn or nothing to tell. `classes` are those that there should be."""
    counts = dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True))
    if not len(graph.known):
        raise InputError("no node is labelled; give --labels, or a column 'label' in --nodes")
    if classes is not None:
        for name in graph.class_names:
            if name not in classes:
                raise InputError(
                    f"a node is labelled {name!r}, which --classes does not list; add it, or mend the label"
                )
        counts = {name: counts.get(name, 0) for name in classes}
    for name, count in counts.items():
        if count == 0:
            raise InputError(f"class {name!r} has no labelled node; label at least one, or leave the class out")
    if len(counts) == 1:
        raise InputError(f"all labels are of one class, {next(iter(counts))!r}; label nodes of at least two classes")
    if len(graph.known) == graph.num_nodes:
        raise InputError(
            f"all {graph.num_nodes} nodes are labelled, so there is nothing to predict; leave some labels out, "
            "or add nodes without"
        )
