"""From the files a person names to a graph, and whether anything can be learned from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from mtgcn.errors import InputError, unknown_name
from mtgcn.estimator.inputs import preprocessed_graph
from mtgcn.graph import UNKNOWN, Graph
from mtgcn.io.columns import UnknownNodes, column_titled
from mtgcn.io.labels import class_named
from mtgcn.io.preprocessing.kinds import IGNORE, KINDS
from mtgcn.io.preprocessing.prepared import Preparation

if TYPE_CHECKING:
    from mtgcn.io.arrays import GraphArrays

ROLES = ("source", "target", "weight", "id", "label")  # of columns
KINDS_TOLD = (*KINDS, IGNORE)  # of columns that are features
FIXED_NAMES = (".npz", ".pt", ".pth")  # files whose parts are called what they are
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
    exclude: Sequence[str] = ()  # columns that are no features
    kinds: Mapping[str, str] = field(default_factory=dict)  # of columns whose kind is not to be found out
    unknown_nodes: UnknownNodes = "error"  # what to do with edges and labels of nodes that --nodes does not list
    header: bool | None = None  # whether the first line of tables names the columns; None: found out
    few_labels: bool = False  # whether no label at all, or labels of one class alone, will do

    def __post_init__(self) -> None:
        if self.graph and (self.edges or self.nodes or self.knn):
            raise InputError("--graph already holds edges and features; leave out --edges, --nodes and --knn")
        if self.edges and self.knn:
            raise InputError("--edges gives the edges and --knn would make others; leave one of them out")
        if self.knn is not None and self.knn < 1:
            raise InputError(f"--knn is {self.knn}; give at least 1")
        if self.knn and not self.nodes:
            raise InputError("--knn joins nodes with similar features and there are none; add --nodes")
        if self.features is not None and self.exclude:
            raise InputError("--features names what to take and --exclude what to leave; give one of them")
        if self.unknown_nodes not in get_args(UnknownNodes):
            raise unknown_name("choice of --unknown-nodes", self.unknown_nodes, get_args(UnknownNodes))
        if self.graph and (self.exclude or self.kinds):
            raise InputError("--graph takes its attributes by --features; kinds and --exclude are for tables")
        known = ROLES_IN_GRAPH_FILES if self.graph else (*ROLES, *KINDS_TOLD)
        for role in self.columns:
            if role not in known:
                raise unknown_name("role or kind of column", role, known)

    @property
    def given(self) -> bool:
        """Whether any file was named."""
        return any((self.edges, self.nodes, self.labels, self.graph, self.knn))

    @property
    def title(self) -> str:
        """The main file with its suffix: a graph called `cora` would be taken for the paper's."""
        main = self.graph or self.edges or self.nodes
        return main.name if main else ""


def parsed_columns(assignments: Sequence[str]) -> tuple[dict[str, str | Literal[False]], dict[str, str]]:
    """`label=topic` and `number=income` texts: the column of each role, and the kind of each column that has one."""
    columns: dict[str, str | Literal[False]] = {}
    kinds: dict[str, str] = {}
    for assignment in assignments:
        role, equals, column = (part.strip() for part in assignment.partition("="))
        if not equals or not column:
            raise InputError(f"column {assignment!r}; write role=column or kind=column, for instance label=topic")
        if role in KINDS_TOLD:
            if column in kinds:
                raise InputError(f"column {column!r} is told to be {kinds[column]} and {role}; tell one")
            kinds[column] = role
            continue
        if role in columns:
            raise InputError(f"column of {role!r} is given twice; give it once")
        columns[role] = column
    return columns, kinds


def parsed_roles(assignments: Sequence[str]) -> dict[str, str | Literal[False]]:
    """The same where no column is a feature, so that there are no kinds to tell."""
    columns, kinds = parsed_columns(assignments)
    for column, kind in kinds.items():
        raise InputError(f"column {kind}={column}: kinds are for features, and there are none here; leave it out")
    return columns


def read_graph(files: GraphFiles) -> Graph:
    """The graph with its edges, read or made by joining nodes with similar features, and with features prepared."""
    if not files.graph and not files.edges and not files.knn:
        raise InputError("no edges; give --edges or --graph, or --nodes with --knn to join similar nodes")
    if files.graph:
        return preprocessed_graph(_read_graph_file(files), scale=True)
    graph = read_tables(files)
    if not files.knn:
        return graph
    if graph.features is None:
        raise InputError(f"{files.nodes} has no feature columns, so no node is near another; add features, or --edges")
    from mtgcn.linalg.neighbours import neighbour_graph

    return replace(graph, adjacency=neighbour_graph(graph.features, files.knn, files.metric))


def read_like(files: GraphFiles, trained: Graph) -> Graph:
    """Nodes, with edges if the files have any, whose features are made as those of the trained graph were."""
    if files.kinds:
        raise InputError("the model knows what its columns are; leave out --column with a kind")
    if files.graph:
        has_names = bool(trained.feature_names) and files.graph.suffix.lower() not in FIXED_NAMES
        columns = {**files.columns, "label": False} if has_names else files.columns
        return _with_columns_of(_read_graph_file(replace(files, features=None, columns=columns)), trained)
    preparation = trained.preparation
    if preparation is not None and preparation.named:
        columns = {**files.columns, "label": False}
        return read_tables(replace(files, features=None, columns=columns), preparation)
    graph = read_tables(files, scale=False)
    if trained.features is None:  # and new nodes are refused; those that are known need none
        return replace(graph, features=None, feature_names=(), preparation=None)
    if graph.preparation is None or graph.preparation.changes_nothing:
        return replace(graph, preparation=None)
    raise InputError(
        f"{files.nodes}: the model was fitted on numbers, and some columns here are none, or have gaps "
        f"({'; '.join(graph.preparation.lines()[:3])}); give the same columns as in the fit"
    )


def read_tables(files: GraphFiles, preparation: Preparation | None = None, *, scale: bool = True) -> Graph:
    """What the tables hold; without an edge list, nodes without edges. Features are prepared as told, or by what is
    learned of them here."""
    columns: dict[str, Any] = {f"{role}_column": name and column_titled(name) for role, name in files.columns.items()}
    if files.features is not None:
        columns["feature_columns"] = [column_titled(name) for name in files.features]
    return Graph.from_csv(
        files.edges,
        files.nodes,
        files.labels,
        **columns,
        exclude_columns=[column_titled(name) for name in files.exclude],
        column_kinds={column_titled(name): kind for name, kind in files.kinds.items()},
        unknown_nodes=files.unknown_nodes,
        scale=scale,
        preparation=preparation,
        header=files.header,
        few_labels=files.few_labels,
        name=files.title,
    )


def read_edges(path: Path, columns: Mapping[str, str | Literal[False]], header: bool | None = None) -> GraphArrays:
    """The edges that a list holds, between nodes that it alone names."""
    from mtgcn.io.columns import Choices
    from mtgcn.io.tables import read_tables

    named: dict[str, Any] = {role: name and column_titled(name) for role, name in columns.items()}
    return read_tables(path, None, None, Choices(**named, header=header))


def read_more_labels(path: Path, graph: Graph, columns: Mapping[str, str | Literal[False]]) -> dict[Any, str]:
    """The labels of a table, by the ids of nodes that this graph must have."""
    from mtgcn.io.columns import Choices
    from mtgcn.io.tables import read_labels

    for role in columns:
        if role not in ("id", "label"):
            raise unknown_name("column role", role, ("id", "label"))
    choices = Choices(
        node_id=column_titled(str(columns["id"])) if "id" in columns else None,
        label=column_titled(str(columns["label"])) if "label" in columns else None,
    )
    codes, names = read_labels(path, graph.node_ids, choices, graph.class_names)
    return {node: names[code] for node, code in zip(graph.node_ids.tolist(), codes, strict=True) if code != UNKNOWN}


def _read_graph_file(files: GraphFiles) -> Graph:
    assert files.graph is not None, "asked for by its name"
    attributes: Mapping[str, Any] = files.columns
    return Graph.from_file(
        files.graph,
        files.labels,
        **attributes,
        features=files.features,
        few_labels=files.few_labels,
        name=files.title,
    )


def _with_columns_of(graph: Graph, trained: Graph) -> Graph:
    """The same nodes with those columns, in that order, that the features of the trained graph were made of."""
    preparation = trained.preparation
    if preparation is None:
        wanted = trained.feature_names
    else:
        wanted = tuple(column.name for column in preparation.columns) if preparation.named else ()
    names = list(graph.feature_names)
    if not wanted or not names or names == list(wanted):
        return graph
    missing = next((name for name in wanted if name not in names), None)
    if missing is not None or graph.features is None:
        raise InputError(f"the model was fitted with a feature {missing!r}, which these nodes lack; add the column")
    return replace(graph, features=graph.features[:, [names.index(name) for name in wanted]], feature_names=wanted)


def check_learnable(graph: Graph, classes: Sequence[str] | None = None) -> None:
    """Refuse labels that leave nothing to learn or nothing to tell. `classes` are those that there should be."""
    counts = dict(zip(graph.class_names, graph.label_counts.tolist(), strict=True))
    if not len(graph.known):
        raise InputError("no node is labelled; give --labels, or a column 'label' in --nodes")
    if classes is not None:
        classes = [class_named(name, graph.class_names) for name in classes]
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
