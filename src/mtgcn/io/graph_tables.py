"""The three tables of a graph: edge lists, label tables and node tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from mtgcn.errors import InputError, log_file, note, shown
from mtgcn.io.column_table import COMMA, MISSING, PLACES_SHOWN, POINT, ColumnTable, Texts, parse
from mtgcn.io.ids import NodeIndex, UnknownIds, checked_ids, settle_header
from mtgcn.io.options import TableOptions
from mtgcn.io.roles import NodeColumns, edge_columns, given_kinds, label_columns, node_columns, title_of
from mtgcn.io.table import Batch, Coded, Faults, NotNumbers, Table, number_value, number_values
from mtgcn.labels import (
    UNLABELED,
    are_numbers,
    check_classes,
    check_not_regression,
    classes_of,
    integer_text,
    is_missing,
)
from mtgcn.memory import check_fits
from mtgcn.shapes import Int

BYTES_PER_EDGE = 60  # temporary memory to concatenate, sort and symmetrise
ONE_ROW_PER_NODE = "keep one row per node, name the id column (--column id=NAME), or number the rows (--column id=none)"
MAX_SHOWN_COLUMNS, MAX_SHOWN_CELLS = 100, 5_000_000  # of a table that is kept for display
SPARSE_BELOW = 0.05  # share of nonzeros below which numbers are kept as a sparse matrix


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Edges as listed, by node number."""

    sources: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    targets: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: np.ndarray | None = None  # None: the list has none


def read_edges(table: Table, options: TableOptions, index: NodeIndex, nodes: Table | None) -> EdgeRows:
    """The edges between the nodes of the index, which is filled from `nodes`; without that, every id is a node."""
    parts: list[EdgeRows] = []
    listed = 0
    for part, rows in edge_batches(table, options, index, nodes):
        parts.append(part)
        listed += rows
        check_fits(BYTES_PER_EDGE * listed, f"{table.path}, of which {listed} edges are read,", "leave some out")
    some = [part.weights for part in parts if part.weights is not None]
    log_file(table.path, f"edge list, {table.form}", edges=listed)
    return EdgeRows(
        np.concatenate([part.sources for part in parts]),
        np.concatenate([part.targets for part in parts]),
        np.concatenate(some) if some else None,
    )


def edge_batches(
    table: Table, options: TableOptions, index: NodeIndex, nodes: Table | str | None
) -> Iterator[tuple[EdgeRows, int]]:
    """Edges in batches, with the number of rows; faults are raised at the end."""
    if nodes is not None:
        settle_header(table, index, [0, 1] if table.header_is_guessed else edge_columns(table, options)[:2], options)
    else:
        table.note_header()
    source, target, weight = edge_columns(table, options)
    if weight is None and "weight" not in options.columns:
        unused = table.numeric([column for column in range(len(table.columns)) if column not in (source, target)])
        if unused:
            name = table.columns[unused[0]]
            note(f"{table.path}: column {shown(name)} is not used; --column weight={name} takes it as edge weights")
    texts, numbers, style = [source, target], [], POINT
    if weight is not None and table.numeric([weight]):
        numbers = [weight]
    elif weight is not None:
        texts.append(weight)
        style = COMMA if any("," in row[weight] for row in table.sample if len(row) > weight) else POINT
    faults, unknown = Faults(), UnknownIds(table, nodes or "", options, "edges")
    empty = True
    try:
        for batch in table.batches(texts, numbers):
            if np.isnan(batch.numbers).any():
                raise NotNumbers(numbers)
            weights = batch.numbers[:, 0] if numbers else None
            if len(texts) > 2:
                weights = _parsed_weights(table, batch, texts[2], style, faults)
            if weight is not None and weights is not None:
                _check_signs(table, batch, weight, weights, faults)
            ends = [checked_ids(table, batch, batch.texts[end], (source, target)[end], faults) for end in (0, 1)]
            both = [ids for ids in ends if ids is not None]
            if len(both) < 2:
                continue
            found = [index.add(ids) for ids in both] if nodes is None else unknown.resolved(index, batch, both)
            known = (found[0] != MISSING) & (found[1] != MISSING)
            empty = False
            yield EdgeRows(found[0][known], found[1][known], None if weights is None else weights[known]), len(known)
    except NotNumbers:  # beyond the rows that were inspected; read as text to find the place
        for batch in table.batches([source, target, *numbers], []):
            _parsed_weights(table, batch, numbers[0], style, faults)
    faults.raise_first_kind()
    unknown.finish()
    if empty:
        raise InputError(f"{table.path} holds a header and no edge; write it again, with one row per edge")


def _parsed_weights(table: Table, batch: Batch, column: int, style: str, faults: Faults) -> np.ndarray:
    """Weights from the third text column."""
    cells = batch.texts[2]
    weights = np.append(parse(map(str, cells.values.to_pylist()), style), np.nan)[cells.codes].astype(np.float32)
    for row in np.flatnonzero(np.isnan(weights)).tolist():
        text = None if cells.codes[row] == MISSING else cells.text(row)
        table.add_not_a_number(faults, int(batch.places[row]), column, text)
    return weights


def _check_signs(table: Table, batch: Batch, column: int, weights: np.ndarray, faults: Faults) -> None:
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        message = f"{table.at(int(batch.places[negative[0]]))}, {table.name_of(column)} is {weights[negative[0]]:g}"
        places = [f"{table.unit} {batch.places[row]} {weights[row]:g}" for row in negative[:PLACES_SHOWN]]
        faults.add(message, "weights must be >= 0", places, len(negative))


class Labels:
    """The labels of the nodes of an index, as listed in batches of tables."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        self._given: dict[Table, list[tuple[Batch, np.ndarray, Coded]]] = {}  # the node and label of each row
        self._must_hold_labels = False

    def add(self, table: Table, batch: Batch, nodes: np.ndarray, labels: Coded) -> None:
        """Add the labels of some rows."""
        self._given.setdefault(table, []).append((batch, nodes, labels))

    def read(self, table: Table, options: TableOptions, nodes: Table | str) -> None:
        """Read a label table; `nodes` is the table of the nodes or their source, for messages."""
        columns = [0] if table.header_is_guessed else label_columns(table, options)[:1]
        settle_header(table, self._index, columns, options)
        node_id, label = label_columns(table, options)
        self._must_hold_labels = not options.few_labels
        faults, unknown = Faults(), UnknownIds(table, nodes, options, "labels")
        listed = 0
        for batch in table.batches([node_id, label], []):
            ids = checked_ids(table, batch, batch.texts[0], node_id, faults)
            if ids is not None:
                [found] = unknown.resolved(self._index, batch, [ids])
                self.add(table, batch, found, batch.texts[1])
                listed += int(np.count_nonzero(batch.texts[1].codes != MISSING))
        faults.raise_first_kind()
        unknown.finish()
        log_file(table.path, f"label table, {table.form}", labels=listed)
        if table not in self._given and self._must_hold_labels:
            raise InputError(f"{table.path} holds a header and no label; label some nodes")

    def encoded(self, beside: Sequence[str] = (), *, few_labels: bool = False) -> tuple[np.ndarray, tuple[str, ...]]:
        """The class code of each node and the class names. At least two classes are required, unless `few_labels` or
        other labels have the classes `beside`."""
        labels = np.full(len(self._index), UNLABELED)
        if not self._given:
            return labels, ()
        paths = " and ".join(str(table.path) for table in self._given)
        texts: list[str] = []
        rows: list[tuple[np.ndarray, ...]] = []
        for number, batches in enumerate(self._given.values()):
            cells, nodes = (
                Coded.joined([cells for *_, cells in batches]),
                np.concatenate([some for _, some, _ in batches]),
            )
            places = np.concatenate([batch.places for batch, *_ in batches])
            some = np.flatnonzero((cells.codes != MISSING) & (nodes != MISSING))
            rows.append((nodes[some], len(texts) + cells.codes[some], places[some], np.full(len(some), number)))
            texts += _without_gap_floats(cells.values.to_pylist(), beside)
        node, text, place, source = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        used, text = np.unique(text, return_inverse=True)
        texts = [texts[one] for one in used.tolist()]
        code_of_text, names = classes_of(texts, beside)
        words = [number for number in range(len(texts)) if code_of_text[number] == UNLABELED]  # perhaps a class
        if words:
            named = ", ".join(shown(texts[word]) for word in words[:3])
            count = np.count_nonzero(np.isin(text, words))
            note(f"{paths}: {count} labels are words for a missing value ({named}) and count as unlabelled")
        if not names:
            if self._must_hold_labels:
                raise InputError(f"{paths}: every label is empty; label some nodes")
            return labels, ()
        if not beside and not few_labels:
            check_classes(names, paths)
            check_not_regression(names, len(text), paths)
        code = code_of_text[text]
        labelled = np.flatnonzero(code != UNLABELED)
        order = labelled[np.argsort(node[labelled], kind="stable")]
        node, code, place, source = node[order], code[order], place[order], source[order]
        conflicts = np.flatnonzero((node[1:] == node[:-1]) & (code[1:] != code[:-1]))
        if len(conflicts):
            tables = list(self._given)
            ids, label, first = self._index.ids(), [shown(names[one]) for one in code], int(conflicts[0])
            given = [f"{tables[source[row]].at(int(place[row]))} has {label[row]}" for row in (first, first + 1)]
            examples = [f"node {shown(ids[node[row]])}: {label[row]} and {label[row + 1]}" for row in conflicts[:3]]
            faults = Faults()
            message = f"two labels for node {shown(ids[node[first]])}: {given[0]}, {given[1]}"
            faults.add(message, "keep one label for each node", examples, len(conflicts))
            faults.raise_first_kind()
        labels[node] = code
        return labels, names


def _without_gap_floats(texts: list[str], beside: Sequence[str]) -> list[str]:
    """The labels of a table, as integers if all are written as 1.0: pandas does so for integers with gaps. Labels stay
    as written if the classes `beside` are not numbers or are written in the same way."""
    present = [text for text in texts if not is_missing(text)]
    if are_numbers(beside) and all(integer_text(text) != text not in beside for text in present):
        return list(map(integer_text, texts))
    return texts


@dataclass(frozen=True, eq=False)
class NodeRows:
    """The ids, labels and feature columns of a node table."""

    index: NodeIndex
    labels: Labels
    columns: ColumnTable | None  # None without features
    kinds: dict[str, str]  # given column kinds
    titles: Mapping[str, Any]  # fields of the preprocessor
    numbered: bool = False  # without ids
    cells: pa.Table | None = None  # as written, for display


def read_nodes(table: Table, options: TableOptions, *, labels_elsewhere: bool = False) -> NodeRows:
    """Read a node table; `labels_elsewhere` if there is also a label table."""
    columns = node_columns(table, options, labels_elsewhere=labels_elsewhere)
    table.note_header()
    columns.note_guesses(table)
    kinds = given_kinds(table, options, columns)
    numbers = number_columns(table, columns, options, kinds)
    while True:
        index = NodeIndex()
        labels = Labels(index)
        try:
            rows = _rows(table, columns, numbers, index, labels)
            break
        except NotNumbers as found:  # beyond the beginning that was inspected
            numbers = [column for column in numbers if column not in found.columns]
    log_file(table.path, f"node table, {table.form}", nodes=len(index))
    cells = text_cells(table, columns.name, len(index))
    return NodeRows(index, labels, rows, kinds, columns.titles(table), columns.node_id is None, cells)


def number_columns(table: Table, columns: NodeColumns, options: TableOptions, kinds: dict[str, str]) -> list[int]:
    """The features that seem to be numbers."""
    are_texts = {
        column
        for column, name in zip(columns.features, columns.names, strict=True)
        if kinds.get(name) in ("category", "text")
        or (options.preprocessing and name in options.preprocessing.read_as_text)
    }
    return table.numeric([column for column in columns.features if column not in are_texts])


def _rows(
    table: Table, columns: NodeColumns, numbers: Sequence[int], index: NodeIndex, labels: Labels
) -> ColumnTable | None:
    are_numbers = set(numbers)
    texts = [column for column in columns.features if column not in are_numbers]
    head = [column for column in (columns.label, columns.node_id) if column is not None]
    blocks: list[np.ndarray | sp.csr_array] = []
    places: list[np.ndarray] = []
    words: dict[int, list[Coded]] = {column: [] for column in texts}
    keep_sparse = False
    gathered = 0  # bytes, needed once more to concatenate
    faults = Faults()
    for batch in table.batches([*head, *texts], numbers):
        known = len(index)
        if columns.node_id is None:
            ids: Coded | None = Coded(np.arange(len(batch)), number_values(known + 1 + np.arange(len(batch))))
        else:
            ids = checked_ids(table, batch, batch.texts[len(head) - 1], columns.node_id, faults)
        if ids is None:
            continue
        found = index.add(ids)
        places.append(batch.places)
        if len(index) - known < len(batch):  # nodes are numbered in order, so new ones are >= `known`
            again = np.ones(len(found), dtype=bool)
            again[np.unique(found, return_index=True)[1]] = False
            rows = np.flatnonzero(again | (found < known)).tolist()
            named = [f"{table.unit} {batch.places[row]} {shown(ids.text(row))}" for row in rows[:PLACES_SHOWN]]
            already = f"is on {table.unit} {np.concatenate(places)[found[rows[0]]]} already"
            at = f"{table.at(int(batch.places[rows[0]]))}, {table.name_of(columns.node_id or 0)}"
            faults.add(f"{at}: node {shown(ids.text(rows[0]))} {already}", ONE_ROW_PER_NODE, named, len(rows))
            continue
        if columns.label is not None:
            labels.add(table, batch, found, batch.texts[0])
        for column, cells in zip(texts, batch.texts[len(head) :], strict=True):
            words[column].append(cells)
        if not blocks:
            keep_sparse = bool(np.count_nonzero(batch.numbers) < SPARSE_BELOW * batch.numbers.size)
        blocks.append(sp.csr_array(batch.numbers) if keep_sparse else batch.numbers)
        block = blocks[-1]
        gathered += block.nbytes if isinstance(block, np.ndarray) else block.data.nbytes + block.indices.nbytes
        gathered += sum(cells.codes.nbytes for cells in batch.texts)
        check_fits(gathered, f"{table.path}, of which {len(index)} rows are read,", "leave columns or rows out")
    faults.raise_first_kind()
    if not len(index):
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    if not columns.features:
        return None
    values = sp.vstack(blocks, format="csr") if keep_sparse else np.concatenate(blocks)
    joined = {column: Coded.joined(cells).texts() for column, cells in words.items()}
    return column_table(table, columns, numbers, values, joined, np.concatenate(places))


def text_cells(table: Table, name: int | None, rows: int) -> pa.Table | None:
    """All columns as text, for display; of a wide or long table only the name."""
    columns = [column for column in range(len(table.columns)) if column not in table.nested]
    if len(columns) > MAX_SHOWN_COLUMNS or len(columns) * rows > MAX_SHOWN_CELLS:
        columns = [] if name is None else [name]
    kind = pa.dictionary(pa.int64(), pa.string())
    chunks: list[list[pa.Array]] = [[] for _ in columns]
    for batch in table.batches(columns, []) if columns else ():
        for column, cells in zip(chunks, batch.texts, strict=True):
            codes = number_values(cells.codes)
            codes = pc.if_else(pc.equal(codes, number_value(MISSING)), pa.nulls(1, pa.int64())[0], codes)
            column.append(pa.DictionaryArray.from_arrays(codes, cells.values.cast(pa.string())))
    titles = [title_of(table, column) for column in columns]
    arrays = [pa.chunked_array(column, kind) for column in chunks]
    return pa.Table.from_arrays(arrays, names=titles) if columns else None


def first_rows(table: Table, columns: NodeColumns, numbers: Sequence[int]) -> ColumnTable | None:
    """The features of the first batch of rows: all rows of a small file or a frame."""
    texts = [column for column in columns.features if column not in numbers]
    batch = next(table.batches(texts, numbers), None) if columns.features else None
    if batch is None:
        return None
    words = {column: cells.texts() for column, cells in zip(texts, batch.texts, strict=True)}
    return column_table(table, columns, numbers, batch.numbers, words, batch.places)


def column_table(
    table: Table,
    columns: NodeColumns,
    numbers: Sequence[int],
    values: np.ndarray | sp.csr_array,
    words: Mapping[int, Texts],
    lines: np.ndarray,
) -> ColumnTable:
    """Rows for preprocessing: the values of the columns `numbers`, the texts of the others, and line numbers."""
    place_of = {column: place for place, column in enumerate(columns.features)}
    return ColumnTable(
        names=columns.names,
        numbers=values,
        number_columns=tuple(place_of[column] for column in numbers),
        texts={place_of[column]: cells for column, cells in words.items()},
        days=frozenset(place_of[column] for column in numbers if column in table.days),
        categories=frozenset(place_of[column] for column in words if column in table.categories),
        title=str(table.path),
        place=lambda row: f"{table.unit} {lines[row]}" if row < len(lines) else "an added node",
    )
