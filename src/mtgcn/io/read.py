"""`read_graph`: a `Graph` from files; `preview`: the first rows of a table, and the role of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.errors import InputError, note, shown
from mtgcn.graph import UNLABELED, Graph, GraphArrays
from mtgcn.io.archives import suffix_of
from mtgcn.io.column_table import MISSING, ColumnTable
from mtgcn.io.graph_files import READERS, read_graph_file
from mtgcn.io.graph_tables import EdgeRows, Labels, NodeRows, first_rows, read_edges, read_nodes, text_columns
from mtgcn.io.options import PathLike, TableOptions
from mtgcn.io.preprocessing import IGNORE, Preprocessor, fit_columns, infer_types
from mtgcn.io.roles import given_kinds, label_columns, node_columns, open_table, title_of
from mtgcn.io.table import NodeIndex, Table
from mtgcn.labels import are_numbers
from mtgcn.training.progress import report_progress, stage

MIN_EQUAL_NUMBERS = 8  # fewer numeric labels may equal a column by chance
ROWS_SHOWN = 10


def read_graph(path: PathLike | None = None, options: TableOptions | None = None, **more: Any) -> Graph:
    """A graph from files.

    Parameters
    ----------
    path : path
        An edge list as text, Parquet or JSON, or a whole graph, by its suffix; see `TableOptions`. None if `options`
        name all files; with `nodes` alone, the graph has no edges unless `knn` is given.
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
        is_graph = isinstance(path, str | Path) and suffix_of(Path(path)) in READERS
        options = replace(options, graph=path) if is_graph else replace(options, edges=path)
    if options.graph:
        given = options.columns.items()
        of_labels = {role: column for role, column in given if options.labels and role != "weight" and column}
        arrays = read_graph_file(replace(options, columns={role: one for role, one in given if role not in of_labels}))
        if options.labels:
            own = replace(options, columns=of_labels)
            if suffix_of(Path(options.graph)) == ".mtx" and _names_zero(open_table(options.labels, own), own):
                note(f"{options.graph}: nodes are numbered from 0, as in {options.labels}")
                arrays = replace(arrays, node_ids=arrays.node_ids - 1)
            codes, names = read_labels(options.labels, arrays.node_ids, own)
            arrays = replace(arrays, labels=codes, class_names=names)
    else:
        arrays = read_tables(options)
    if edges := options.graph or options.edges:
        return Graph.from_arrays(arrays, str(edges), options.title, few_labels=options.few_labels)
    if not options.knn:
        adjacency = sp.csr_array((len(arrays.node_ids),) * 2, dtype=np.float32)
        return Graph.from_adjacency(adjacency, arrays, options.title)
    if arrays.features is None:
        raise InputError(f"{options.nodes} has no feature columns for nearest neighbours; add columns, or give --edges")
    from mtgcn.linalg.neighbours import neighbour_graph

    k = min(options.knn, len(arrays.node_ids) - 1)
    with stage("nearest neighbours", "row"):
        adjacency = neighbour_graph(arrays.features, k, options.metric, progress=report_progress)
    return Graph.from_adjacency(adjacency, arrays, options.title)


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
            raise InputError(f"column {column!r} requires {where}; give one")
    if node_table is None:
        index = NodeIndex()
        nodes = NodeRows(index, Labels(index), None, {}, {})
    else:
        own = _options_for(node_table, label_table, options)
        nodes = read_nodes(node_table, own, labels_elsewhere=label_table is not None)
    index, labels = nodes.index, nodes.labels
    listed = len(index)
    edges = EdgeRows() if edge_table is None else read_edges(edge_table, options, index, node_table)
    if label_table is not None:
        nodes_of = node_table or str(options.edges)
        labels.read(label_table, _options_for(label_table, node_table, options), nodes_of)
    node_ids = index.ids()
    codes, class_names = labels.encoded(few_labels=options.few_labels)
    features: sp.csr_array | np.ndarray | None = None
    preprocessing: Preprocessor | None = None
    if nodes.columns is not None:
        rows = replace(nodes.columns, absent=len(index) - listed)
        preprocessing = options.preprocessing
        if preprocessing is None:
            kinds = nodes.kinds
            if label_table is not None and options.features is None:
                kinds = kinds | dict.fromkeys(_copies(rows, codes, class_names, kinds), IGNORE)
            preprocessing = replace(
                fit_columns(rows, kinds, scale=options.scale, text_encoder=options.text_encoder), **nodes.titles
            )
        features = preprocessing.matrix(rows)
        if options.preprocessing is not None:
            preprocessing.note_unfamiliar(rows)
        features = features if features.shape[1] else None
    cells = nodes.cells
    if cells is not None and len(index) > listed:  # empty rows for nodes that the table does not list
        absent = [pa.nulls(len(index) - listed, kind) for kind in cells.schema.types]
        cells = pa.concat_tables([cells, pa.Table.from_arrays(absent, schema=cells.schema)])
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
        numbered=nodes.numbered,
        cells=cells,
    )


def _copies(rows: ColumnTable, codes: np.ndarray, names: Sequence[str], kinds: Mapping[str, str]) -> list[str]:
    """The columns without a given kind that equal the labels of another table on all labelled rows."""
    labelled = np.flatnonzero(codes != UNLABELED)
    if len(names) < 2 or (are_numbers(names) and len(labelled) < MIN_EQUAL_NUMBERS):
        return []
    wanted, found = [names[code] for code in codes[labelled]], []
    for column, name in enumerate(rows.names):
        if column in rows.number_place and len(np.unique(rows.number(column)[labelled])) < len(names):
            continue  # as text, thousands of words take a while
        texts = rows.text(column)
        if name not in kinds and [texts.values[code] if code >= 0 else "" for code in texts.codes[labelled]] == wanted:
            found.append(name)
            remedy = f"--column category={name} uses it anyway"
            note(f"{rows.title}: column {shown(name)} equals the labels and is left out; {remedy}")
    return found


@dataclass(frozen=True)
class ColumnRole:
    """The role of a column, as given or guessed: id, label, name, feature, text, picture or ignore."""

    column: str
    role: str
    reason: str
    problem: str = ""  # why it cannot be read as it is


@dataclass(frozen=True)
class Preview:
    """The beginning of a node table."""

    columns: tuple[ColumnRole, ...]
    rows: Sequence[Sequence[str]]  # the first rows, as written; nested values are empty
    targets: tuple[str, ...] = ()  # several columns that may be the target: one must be chosen


def preview(nodes: PathLike, options: TableOptions | None = None) -> Preview:
    """The first rows of a node table, and the role of each column as `read_graph` would use it with these options.

    The roles label, id and name belong to at most one column each. Without an id, rows are numbered from 1.
    `TableOptions.with_roles` applies other roles.

    >>> preview("customers.csv").columns[0]  # doctest: +SKIP
    ColumnRole(column='customer_no', role='id', reason='by its name, and since all values differ', problem='')
    """
    options = replace(options or TableOptions(), nodes=nodes)
    table = open_table(nodes, options)
    readable = [column for column in range(len(table.columns)) if column not in table.nested]
    titles = [title_of(table, column) for column in range(len(table.columns))]
    columns = node_columns(table, options, labels_elsewhere=options.labels is not None, several_targets=True)
    kinds, problems = given_kinds(table, options, columns), dict[str, str]()
    features = [column for column in columns.features if column in readable]
    columns = replace(columns, features=tuple(features), names=tuple(titles[column] for column in features))
    first = first_rows(table, columns, text_columns(options, kinds))
    roles = {one.name: one.role for one in infer_types(first, kinds, problems=problems)} if first else {}
    for role, column in columns.by_role.items():
        if column is not None:
            roles[titles[column]] = role, columns.guesses.get(role, "as chosen, or by its name")
    batch = next(table.batches(readable), None)
    cells = {} if batch is None else dict(zip(readable, batch.texts, strict=True))

    def shown_cell(column: int, row: int) -> str:
        return cells[column].text(row) if column in cells and cells[column].codes[row] != MISSING else ""

    return Preview(
        tuple(ColumnRole(title, *roles.get(title, (IGNORE, "not used")), problems.get(title, "")) for title in titles),
        [[shown_cell(one, row) for one in range(len(titles))] for row in range(min(ROWS_SHOWN, len(batch or ())))],
        tuple(titles[column] for column in columns.targets),
    )


def read_labels(
    path: PathLike, node_ids: np.ndarray, options: TableOptions, known_classes: Sequence[str] = ()
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Class codes of known nodes and class names from a label table; see `Labels.encoded`."""
    labels = Labels(NodeIndex.of(node_ids))
    labels.read(open_table(path, options), options, f"the graph (first id {shown(node_ids[0])})")
    return labels.encoded(known_classes, few_labels=options.few_labels)


def _names_zero(table: Table, options: TableOptions) -> bool:
    """Whether a label table contains node 0, also in a first row that may be a header."""
    column = label_columns(table, options)[0]
    batches = (map(str, batch.texts[0].values.to_pylist()) for batch in table.batches([column]))
    return "0" in [row[column] for row in table.rows[:1]] or any("0" in ids for ids in batches)


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
