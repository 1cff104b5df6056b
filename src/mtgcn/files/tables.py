"""An edge list, a node table and a label table, put together by the nodes' ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.files.arrays import GraphArrays
from mtgcn.files.columns import (
    ID_NAMES,
    LABEL_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    Choices,
    NodeColumns,
    edge_columns,
    label_columns,
    node_columns,
    open_table,
)
from mtgcn.files.ids import NodeIndex, checked_ids
from mtgcn.files.labels import UNKNOWN, check_classes, classes_of
from mtgcn.files.paths import PathLike, readable_file, shown
from mtgcn.files.table import MISSING, Batch, Coded, Table

FEW_NONZEROS = 0.05  # below this share a table of features is kept as a sparse matrix


def read_tables(
    edges: PathLike | None, nodes: PathLike | None, labels: PathLike | None, choices: Choices
) -> GraphArrays:
    """A graph from its tables. A node table says which nodes there are; without one the edge list does."""
    edge_table = _opened(edges, [SOURCE_NAMES, TARGET_NAMES], choices)
    node_table = _opened(nodes, [ID_NAMES + LABEL_NAMES], choices)
    label_table = _opened(labels, [ID_NAMES + LABEL_NAMES], choices)
    _check_choices(choices, edge_table, node_table, label_table)
    index = NodeIndex()
    book = LabelBook(index)
    features: sp.csr_array | np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    if node_table is not None:
        features, feature_names = _read_nodes(node_table, _meant_for(node_table, label_table, choices), index, book)
    sources = targets = np.zeros(0, np.int64)
    weights = None
    if edge_table is not None:
        sources, targets, weights = _read_edges(edge_table, choices, index, node_table)
    if label_table is not None:
        home = node_table or edge_table
        book.read(label_table, _meant_for(label_table, node_table, choices), home=str(home.path if home else ""))
    node_ids = index.ids()
    codes, class_names = book.settled()
    if node_table is None:  # sorted, so that the order of the edges decides nothing
        order = np.argsort(node_ids, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        node_ids, sources, targets, codes = node_ids[order], place[sources], place[targets], codes[order]
    return GraphArrays(
        node_ids, sources, targets, weights, features, feature_names, codes if class_names else None, class_names
    )


def read_labels(
    path: PathLike, node_ids: np.ndarray, choices: Choices, *, alone: bool = True
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels that a label table gives to nodes that are known already; unless they come beside others, of at least
    two classes."""
    book = LabelBook(NodeIndex.of(node_ids))
    book.read(open_table(readable_file(path), [ID_NAMES + LABEL_NAMES], choices), choices, home="the graph")
    return book.settled(alone=alone)


def _opened(given: PathLike | None, names: Sequence[Sequence[str]], choices: Choices) -> Table | None:
    return None if given is None else open_table(readable_file(given), names, choices)


def _check_choices(
    choices: Choices, edge_table: Table | None, node_table: Table | None, label_table: Table | None
) -> None:
    if edge_table is None and node_table is None:
        raise InputError("neither an edge list nor a node table; give at least one of them")
    for column, tables, where in (
        (choices.source, [edge_table], "an edge list"),
        (choices.target, [edge_table], "an edge list"),
        (choices.weight or None, [edge_table], "an edge list"),
        (choices.features, [node_table], "a node table"),
        (choices.node_id, [node_table, label_table], "a node or label table"),
        (choices.label or None, [node_table, label_table], "a node or label table"),
    ):
        if column is not None and not any(tables):
            raise InputError(f"column {column!r} is looked for in {where} and there is none; give one")


def _meant_for(table: Table, other: Table | None, choices: Choices) -> Choices:
    """Of the columns a person names, those that are not the other table's alone."""
    if other is None:
        return choices
    theirs = {
        role: None
        for role in ("node_id", "label")
        if getattr(choices, role) in other.columns and getattr(choices, role) not in table.columns
    }
    return replace(choices, **theirs)


def _read_nodes(
    table: Table, choices: Choices, index: NodeIndex, book: LabelBook
) -> tuple[sp.csr_array | np.ndarray | None, tuple[str, ...]]:
    columns = node_columns(table, choices)
    texts = [columns.node_id] if columns.label is None else [columns.node_id, columns.label]
    blocks: list[np.ndarray | sp.csr_array] = []
    places: list[np.ndarray] = []
    keep_sparse = False
    for batch in table.batches(texts, columns.features):
        known = len(index)
        found = index.add(checked_ids(table, batch, batch.texts[0], columns.node_id))
        places.append(batch.places)
        if len(index) - known < len(batch):
            raise _listed_twice(table, columns, batch, found, known, np.concatenate(places))
        if columns.label is not None:
            book.add(table, batch, found, batch.texts[1])
        if columns.features:
            if not blocks:
                keep_sparse = bool(np.count_nonzero(batch.numbers) < FEW_NONZEROS * batch.numbers.size)
            blocks.append(sp.csr_array(batch.numbers) if keep_sparse else batch.numbers)
    if not len(index):
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    names = tuple(table.columns[column] or f"column {column + 1}" for column in columns.features)
    if not blocks:
        return None, ()
    return (sp.vstack(blocks, format="csr") if keep_sparse else np.concatenate(blocks)), names


def _listed_twice(
    table: Table, columns: NodeColumns, batch: Batch, found: np.ndarray, known: int, places: np.ndarray
) -> InputError:
    """Nodes are numbered as they come, so the first row that is not one further is a repetition."""
    row = int(np.flatnonzero(found != known + np.arange(len(found)))[0])
    text = batch.texts[0].text(row)
    return InputError(
        f"{table.at(int(batch.places[row]))}, {table.name_of(columns.node_id)}: node {shown(text)} stands on "
        f"{table.unit} {places[found[row]]} already; keep one row per node, or name the column of the ids"
    )


def _read_edges(
    table: Table, choices: Choices, index: NodeIndex, node_table: Table | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    columns = edge_columns(table, choices)
    ends: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    weights: list[np.ndarray] = []
    for batch in table.batches([columns.source, columns.target], [] if columns.weight is None else [columns.weight]):
        for column, number, nodes in zip(batch.texts, (columns.source, columns.target), ends, strict=True):
            ids = checked_ids(table, batch, column, number)
            found = index.add(ids) if node_table is None else index.find(ids)
            if node_table is not None and (found == MISSING).any():
                raise _unknown_node(table, batch, ids, found, str(node_table.path), "the edge")
            nodes.append(found)
        if columns.weight is not None:
            _check_weights(table, batch, columns.weight)
            weights.append(batch.numbers[:, 0])
    if not ends[0]:
        raise InputError(f"{table.path} holds a header and no edge; write it again, with one row per edge")
    return np.concatenate(ends[0]), np.concatenate(ends[1]), np.concatenate(weights) if weights else None


def _check_weights(table: Table, batch: Batch, column: int) -> None:
    negative = np.flatnonzero(batch.numbers[:, 0] < 0)
    if len(negative):
        row = int(negative[0])
        raise InputError(
            f"{table.at(int(batch.places[row]))}, {table.name_of(column)} is {batch.numbers[row, 0]:g}; "
            "weights must be >= 0"
        )


def _unknown_node(table: Table, batch: Batch, column: Coded, found: np.ndarray, home: str, dropped: str) -> InputError:
    row = int(np.flatnonzero(found == MISSING)[0])
    text = column.text(row)
    place = int(batch.places[row])
    header = place == table.first_place and not table.has_header
    return InputError(
        f"{table.at(place)}: node {shown(text)} is not in {home}; add it there or drop {dropped}"
        + (", or pass header=True if this line names the columns" if header else "")
    )


class LabelBook:
    """Labels as tables give them, in whatever order, until all are known and can be numbered."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._texts = NodeIndex()  # different labels are numbered as ids are
        self._tables: list[Table] = []
        self._given: list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = []  # node, text, place, table
        self._must_hold_labels = False

    def add(self, table: Table, batch: Batch, nodes: np.ndarray, labels: Coded) -> None:
        """What some rows of a table say of the nodes that they are about."""
        if table not in self._tables:
            self._tables.append(table)
        labelled = np.flatnonzero(labels.codes != MISSING)
        texts = self._texts.add(Coded(labels.codes[labelled], labels.values))
        self._given.append(
            (nodes[labelled], texts, batch.places[labelled], np.full(len(labelled), len(self._tables) - 1))
        )

    def read(self, table: Table, choices: Choices, home: str) -> None:
        """What every row of a label table says. `home` is where its nodes should be."""
        columns = label_columns(table, choices)
        self._must_hold_labels = True
        for batch in table.batches([columns.node_id, columns.label], []):
            ids = checked_ids(table, batch, batch.texts[0], columns.node_id)
            nodes = self._index.find(ids)
            if (nodes == MISSING).any():
                raise _unknown_node(table, batch, ids, nodes, home, "its label")
            self.add(table, batch, nodes, batch.texts[1])
        if table not in self._tables:
            raise InputError(f"{table.path} holds a header and no label; label some nodes")

    def settled(self, *, alone: bool = True) -> tuple[np.ndarray, tuple[str, ...]]:
        """The class of each node, -1 where nobody gave one, and the classes' names."""
        labels = np.full(len(self._index), UNKNOWN)
        if not self._given:
            return labels, ()
        node, text, place, source = (np.concatenate(parts) for parts in zip(*self._given, strict=True))
        code_of_text, names = classes_of(self._texts.texts())
        paths = " and ".join(str(table.path) for table in self._tables)
        if not names:
            if self._must_hold_labels:
                raise InputError(f"{paths}: every label is empty; label some nodes")
            return labels, ()
        if alone:
            check_classes(names, paths)
        code = code_of_text[text]
        labelled = np.flatnonzero(code != UNKNOWN)
        order = labelled[np.argsort(node[labelled], kind="stable")]
        node, code, place, source = node[order], code[order], place[order], source[order]
        clash = np.flatnonzero((node[1:] == node[:-1]) & (code[1:] != code[:-1]))
        if len(clash):
            first, second = (
                f"{self._tables[source[row]].at(int(place[row]))} says {shown(names[code[row]])}"
                for row in (clash[0], clash[0] + 1)
            )
            raise InputError(
                f"two labels for node {shown(self._index.ids()[node[clash[0]]])}: {first}, {second}; keep one"
            )
        labels[node] = code
        return labels, names
