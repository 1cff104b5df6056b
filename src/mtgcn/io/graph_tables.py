"""The three tables of a graph: edge lists, label tables and node tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from mtgcn.errors import InputError, log_file, note, shown
from mtgcn.io.column_table import COMMA, MISSING, PLACES_SHOWN, POINT, ColumnTable, Texts, parse
from mtgcn.io.csv_table import CsvTable
from mtgcn.io.options import TableOptions
from mtgcn.io.roles import NodeColumns, edge_columns, given_kinds, label_columns, node_columns, title_of
from mtgcn.io.table import (
    Batch,
    Coded,
    Faults,
    NodeIndex,
    Table,
    checked_ids,
    number_value,
    number_values,
    numbers_of_cells,
)
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
MAX_ID_COLUMNS = 50  # columns that are searched for unknown ids
MAX_SHOWN_COLUMNS, MAX_SHOWN_CELLS = 100, 5_000_000  # largest table that is kept for display
SPARSE_BELOW = 0.05  # share of nonzeros below which numbers are kept as a sparse matrix


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Edges as listed, by node number."""

    sources: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    targets: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: np.ndarray | None = None  # None if the list has no weights


def read_edges(table: Table, options: TableOptions, index: NodeIndex, nodes: Table | None) -> EdgeRows:
    """The edges between nodes of the index. Without a node table, every id in the edge list is a node."""
    parts: list[EdgeRows] = []
    listed = 0
    for part, rows in edge_batches(table, options, index, nodes):
        parts.append(part)
        listed += rows
        check_fits(BYTES_PER_EDGE * listed, f"{table.path}, of which {listed} edges are read,", "remove some")
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
    others = [column for column in range(len(table.columns)) if column not in (source, target)]
    if weight is None and others and "weight" not in options.columns:
        beginning = next(table.batches([], others), None)
        cells = [] if beginning is None else zip(others, beginning.features, strict=True)
        unused = next((table.columns[one] for one, some in cells if numbers_of_cells(some) is not None), None)
        if unused is not None:
            note(f"{table.path}: column {shown(unused)} is not used; --column weight={unused} uses it as edge weights")
    style = COMMA if any("," in row[weight or 0] for row in table.sample if len(row) > (weight or 0)) else POINT
    rows, empty = References(table, [source, target], index, nodes, options), True
    for batch in table.batches([source, target], [] if weight is None else [weight]):
        weights = None if weight is None else _weights(table, batch, weight, style, rows.faults)
        found = rows.nodes_of(batch)
        if found is None:
            continue
        known = (found[0] != MISSING) & (found[1] != MISSING)
        empty = False
        yield EdgeRows(found[0][known], found[1][known], None if weights is None else weights[known]), len(known)
    rows.finish()
    if empty:
        raise InputError(f"{table.path} holds a header and no edge; write it again, with one row per edge")


def _weights(table: Table, batch: Batch, column: int, style: str, faults: Faults) -> np.ndarray:
    """The weights of the edges of a batch; missing, non-numeric and negative ones are added to the faults."""
    [cells] = batch.features
    weights = numbers_of_cells(cells)
    if weights is None:
        assert isinstance(cells, Coded)
        weights = np.append(parse(map(str, cells.values.to_pylist()), style), np.nan)[cells.codes]
    for row in np.flatnonzero(np.isnan(weights)).tolist():
        text = cells.text(row) if isinstance(cells, Coded) and cells.codes[row] != MISSING else None
        table.add_not_a_number(faults, int(batch.places[row]), column, text)
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        message = f"{table.at(int(batch.places[negative[0]]))}, {table.name_of(column)} is {weights[negative[0]]:g}"
        places = [f"{table.unit} {batch.places[row]} {weights[row]:g}" for row in negative[:PLACES_SHOWN]]
        faults.add(message, "weights must be >= 0", places, len(negative))
    return weights


class References:
    """Resolves ids in some columns of a table to nodes of an index. Unknown ids are handled according to
    `unknown_nodes`; without `nodes`, the table or source of the nodes, they become new nodes."""

    def __init__(
        self, table: Table, columns: Sequence[int], index: NodeIndex, nodes: Table | str | None, options: TableOptions
    ) -> None:
        self._table, self._columns, self._index, self._nodes = table, columns, index, nodes
        self._options, self._what = options, "edges" if len(columns) == 2 else "labels"
        self._source = str(nodes.path) if isinstance(nodes, Table) else nodes
        self._remedy = ""
        self._unknown: set[str] = set()
        self.faults = Faults()

    def nodes_of(self, batch: Batch) -> list[np.ndarray] | None:
        """The node of each row by each of its ids, the first texts of the batch; MISSING for unknown ids, None if ids
        are missing. `finish` raises the errors."""
        checked = [
            checked_ids(self._table, batch, batch.texts[place], column, self.faults)
            for place, column in enumerate(self._columns)
        ]
        columns = [ids for ids in checked if ids is not None]
        if len(columns) < len(checked):
            return None
        found = [] if self._nodes is None else [self._index.find(ids) for ids in columns]
        if found and all((nodes != MISSING).all() for nodes in found):
            return found
        if found and self._options.unknown_nodes == "error":
            self._refuse(batch, columns, found)
            return found
        for ids, nodes in zip(columns, found, strict=False):
            unknown = np.unique(ids.codes[nodes == MISSING]).tolist()
            self._unknown.update(str(ids.values[code].as_py()) for code in unknown)
        adds = not found or self._options.unknown_nodes == "add"
        return [self._index.add(ids) for ids in columns] if adds else found

    def finish(self) -> None:
        """Raise an error or a note, once the whole table is read."""
        self.faults.raise_first_kind()
        if not self._unknown:
            return
        unknown = f"{len(self._unknown)} ids that are not in {self._source}"
        if self._options.unknown_nodes == "add":
            note(f"{self._table.path}: {unknown} are added as nodes without features")
        else:
            note(f"{self._table.path}: {self._what} of {unknown} are left out")

    def _suggested_column(self, columns: Sequence[Coded]) -> str:
        """The suggested column, if another one matches: a column of the node table with these ids, or of the label
        table with ids of nodes."""
        tables = [self._nodes] if isinstance(self._nodes, Table) else []
        for table in tables if self._what == "edges" else [self._table, *tables]:
            places = list(range(min(len(table.columns), MAX_ID_COLUMNS)))
            with suppress(InputError):  # columns that were not chosen may have errors
                batches = list(table.batches(places))
                for place in places:
                    name, cells = table.columns[place], Coded.joined([batch.texts[place] for batch in batches])
                    if not name or len(cells.values) < len(cells.codes):  # ids are never empty and all differ
                        continue
                    listed, wanted = NodeIndex(), columns
                    listed.add(cells)
                    if table is self._table:
                        listed, wanted = self._index, [cells]
                    if all((listed.find(ids) != MISSING).all() for ids in wanted):
                        return f"column {shown(name)} of {table.path.name} has the ids: give --column id={name}"
        return ""

    def _refuse(self, batch: Batch, columns: Sequence[Coded], found: Sequence[np.ndarray]) -> None:
        table, rows = self._table, np.flatnonzero(np.any([nodes == MISSING for nodes in found], axis=0))

        def name(row: int) -> str:  # the first unknown one of two
            return shown(
                next(ids.text(row) for ids, nodes in zip(columns, found, strict=True) if nodes[row] == MISSING)
            )

        first = int(batch.places[rows[0]])
        if not self._remedy:
            adding = ", or --unknown-nodes add to add the nodes" if self._options.may_add_nodes else ""
            may_be_header = first == table.first_place and not table.has_header
            header = ", or --header yes if this line names the columns" if may_be_header else ""
            drop = f"add it there, or use --unknown-nodes drop to leave such {self._what} out"
            self._remedy = self._suggested_column(columns) or f"{drop}{adding}{header}"
        places = [f"{table.unit} {batch.places[row]} {name(row)}" for row in rows[:PLACES_SHOWN]]
        message = f"{table.at(first)}: node {name(rows[0])} is not in {self._source}"
        self.faults.add(message, self._remedy, places, len(rows))


def settle_header(table: Table, index: NodeIndex, columns: Sequence[int], options: TableOptions) -> None:
    """Decide from known ids in these columns whether the first row is a header: it is data if it contains known ids,
    and a header if only later rows do."""
    if options.header is None and isinstance(table, CsvTable) and len(table.rows[0]) > max(columns):
        first, *others = [[row[column] for column in columns] for row in table.rows if len(row) > max(columns)]
        known = [index.knows(name) for name in first]
        if all(known) or (any(known) and table.header_is_guessed):
            if table.has_header:
                table.take_header(False, guessed=True)
        elif not table.has_header and all(table.rows[0]) and not any(known):
            known_later = any(index.knows(name) for row in others for name in row)
            table.take_header(known_later, guessed=known_later or table.header_is_guessed)
    table.note_header()


class Labels:
    """The labels of the nodes of an index, collected from batches of tables."""

    def __init__(self, index: NodeIndex) -> None:
        self._index = index
        # The place, node and label of each row.
        self._given: dict[Table, list[tuple[np.ndarray, np.ndarray, Coded]]] = {}
        self._must_hold_labels = False

    def add(self, table: Table, batch: Batch, nodes: np.ndarray, labels: Coded) -> None:
        """Add the labels of some rows."""
        self._given.setdefault(table, []).append((batch.places, nodes, labels))

    def read(self, table: Table, options: TableOptions, nodes: Table | str) -> None:
        """Read a label table; `nodes` is the table of the nodes or their source, for messages."""
        columns = [0] if table.header_is_guessed else label_columns(table, options)[:1]
        settle_header(table, self._index, columns, options)
        node_id, label = label_columns(table, options)
        self._must_hold_labels = not options.few_labels
        rows, listed = References(table, [node_id], self._index, nodes, options), 0
        for batch in table.batches([node_id, label]):
            for found in rows.nodes_of(batch) or ():
                self.add(table, batch, found, batch.texts[1])
                listed += int(np.count_nonzero(batch.texts[1].codes != MISSING))
        rows.finish()
        log_file(table.path, f"label table, {table.form}", labels=listed)
        if table not in self._given and self._must_hold_labels:
            raise InputError(f"{table.path} holds a header and no label; label some nodes")

    def encoded(
        self, known_classes: Sequence[str] = (), *, few_labels: bool = False
    ) -> tuple[np.ndarray, tuple[str, ...]]:
        """The class code of each node and the class names. At least two classes are required, unless `few_labels` is
        set or `known_classes` are given."""
        labels = np.full(len(self._index), UNLABELED)
        if not self._given:
            return labels, ()
        paths = " and ".join(str(table.path) for table in self._given)
        texts: list[str] = []
        rows: list[tuple[np.ndarray, ...]] = []
        for number, batches in enumerate(self._given.values()):
            place, node, columns = zip(*batches, strict=True)
            places, nodes, cells = np.concatenate(place), np.concatenate(node), Coded.joined(columns)
            some = np.flatnonzero((cells.codes != MISSING) & (nodes != MISSING))
            codes = len(texts) + cells.codes[some].astype(np.int64)
            rows.append((nodes[some], codes, places[some], np.full(len(some), number)))
            texts += _without_gap_floats(cells.values.to_pylist(), known_classes)
        node, text, place, source = (np.concatenate(parts) for parts in zip(*rows, strict=True))
        used, text = np.unique(text, return_inverse=True)
        texts = [texts[one] for one in used.tolist()]
        code_of_text, names = classes_of(texts, known_classes)
        words = [number for number in range(len(texts)) if code_of_text[number] == UNLABELED]  # perhaps a class
        if words:
            named = ", ".join(shown(texts[word]) for word in words[:3])
            count = np.count_nonzero(np.isin(text, words))
            note(f"{paths}: {count} labels are words for a missing value ({named}) and count as unlabelled")
        if not names:
            if self._must_hold_labels:
                raise InputError(f"{paths}: every label is empty; label some nodes")
            return labels, ()
        if not known_classes and not few_labels:
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


def _without_gap_floats(texts: list[str], known_classes: Sequence[str]) -> list[str]:
    """The labels of a table, as integers if all are written as 1.0: pandas does so for integers with gaps. Labels stay
    as written if the known classes are not numbers or are written in the same way."""
    present = [text for text in texts if not is_missing(text)]
    if are_numbers(known_classes) and all(integer_text(text) != text not in known_classes for text in present):
        return list(map(integer_text, texts))
    return texts


@dataclass(frozen=True, eq=False)
class NodeRows:
    """The ids, labels and feature columns of a node table."""

    index: NodeIndex
    labels: Labels
    columns: ColumnTable | None  # None without features
    kinds: dict[str, str]  # given column kinds
    titles: Mapping[str, Any]  # columns of the roles, as fields of the preprocessor
    numbered: bool = False  # whether rows are numbered, since there are no ids
    cells: pa.Table | None = None  # as written, for display


def read_nodes(table: Table, options: TableOptions, *, labels_elsewhere: bool = False) -> NodeRows:
    """Read a node table; `labels_elsewhere` if there is also a label table."""
    columns = node_columns(table, options, labels_elsewhere=labels_elsewhere)
    table.note_header()
    columns.note_guesses(table)
    kinds = given_kinds(table, options, columns)
    index = NodeIndex()
    labels = Labels(index)
    head = [column for column in (columns.label, columns.node_id) if column is not None]
    batches: list[Batch] = []
    numbers: list[np.ndarray] = []  # node of each row
    size, faults = 0, Faults()
    for batch in table.batches(head, columns.features):
        if columns.node_id is None:
            ids: Coded | None = Coded(np.arange(len(batch)), number_values(len(index) + 1 + np.arange(len(batch))))
        else:
            ids = checked_ids(table, batch, batch.texts[-1], columns.node_id, faults)
        if ids is None:
            continue
        numbers.append(index.add(ids))
        batches.append(batch)
        if columns.label is not None:
            labels.add(table, batch, numbers[-1], batch.texts[0])
        size += sum(cells.nbytes for cells in batch.features)
        check_fits(size, f"{table.path}, of which {len(index)} rows are read,", "leave columns or rows out")
    faults.raise_first_kind()
    if not len(index):
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    _check_unique(table, index, columns.node_id, np.concatenate(numbers), batches)
    log_file(table.path, f"node table, {table.form}", nodes=len(index))
    rows = column_table(table, columns, batches, text_columns(options, kinds)) if columns.features else None
    cells = text_cells(table, columns.name, len(index))
    return NodeRows(index, labels, rows, kinds, columns.titles(table), columns.node_id is None, cells)


def _check_unique(
    table: Table, index: NodeIndex, column: int | None, numbers: np.ndarray, batches: Sequence[Batch]
) -> None:
    """Reject ids that occur in several rows; `numbers` holds the node of each row."""
    if len(index) == len(numbers):
        return
    first = np.unique(numbers, return_index=True)[1]
    again = np.setdiff1d(np.arange(len(numbers)), first)
    places, ids = np.concatenate([batch.places for batch in batches]), index.ids()
    named = [f"{table.unit} {places[row]} {shown(ids[numbers[row]])}" for row in again[:PLACES_SHOWN]]
    node = numbers[again[0]]
    message = f"{table.at(int(places[again[0]]))}, {table.name_of(column or 0)}: node {shown(ids[node])} is on"
    faults = Faults()
    faults.add(f"{message} {table.unit} {places[first[node]]} already", ONE_ROW_PER_NODE, named, len(again))
    faults.raise_first_kind()


def text_columns(options: TableOptions, kinds: Mapping[str, str]) -> frozenset[str]:
    """The features that are read as text, whatever their content."""
    fitted = frozenset() if options.preprocessing is None else options.preprocessing.read_as_text
    return fitted.union(name for name, kind in kinds.items() if kind in ("category", "text"))


def text_cells(table: Table, name: int | None, rows: int) -> pa.Table | None:
    """All columns as text, for display; for a wide or long table, only the name column."""
    columns = [column for column in range(len(table.columns)) if column not in table.nested]
    if len(columns) > MAX_SHOWN_COLUMNS or len(columns) * rows > MAX_SHOWN_CELLS:
        columns = [] if name is None else [name]
    kind = pa.dictionary(pa.int64(), pa.string())
    chunks: list[list[pa.Array]] = [[] for _ in columns]
    for batch in table.batches(columns) if columns else ():
        for column, cells in zip(chunks, batch.texts, strict=True):
            codes = number_values(cells.codes.astype(np.int64))
            codes = pc.if_else(pc.equal(codes, number_value(MISSING)), pa.nulls(1, pa.int64())[0], codes)
            column.append(pa.DictionaryArray.from_arrays(codes, cells.values.cast(pa.string())))
    titles = [title_of(table, column) for column in columns]
    arrays = [pa.chunked_array(column, kind) for column in chunks]
    return pa.Table.from_arrays(arrays, names=titles) if columns else None


def first_rows(table: Table, columns: NodeColumns, texts: frozenset[str] = frozenset()) -> ColumnTable | None:
    """The features of the first batch of rows: all rows of a small file or a frame."""
    batch = next(table.batches([], columns.features), None) if columns.features else None
    return None if batch is None else column_table(table, columns, [batch], texts)


def column_table(
    table: Table,
    columns: NodeColumns,
    batches: Sequence[Batch],
    as_text: frozenset[str] = frozenset(),
    *,
    sparse: bool | None = None,
) -> ColumnTable:
    """The features of these batches for preprocessing: as numbers where all cells are numbers, except the columns
    `as_text`. Mostly zero numbers are kept as a sparse matrix, unless `sparse` is given."""
    texts: dict[int, Texts] = {}
    numbers: dict[int, Any] = {}  # a dense or sparse matrix of one column
    for place, (name, *parts) in enumerate(zip(columns.names, *(batch.features for batch in batches), strict=True)):
        if isinstance(parts[0], np.ndarray):
            values: np.ndarray | None = np.concatenate(parts)
        else:
            cells = Coded.joined(parts)
            stays_text = name in as_text or columns.features[place] in table.categories
            values = None if stays_text else cells.numbers()
        if values is None:
            texts[place] = cells.texts()
        else:
            is_sparse = np.count_nonzero(values) < SPARSE_BELOW * len(values)
            numbers[place] = sp.csc_array(values[:, None]) if is_sparse else values[:, None]
    places = np.concatenate([batch.places for batch in batches])
    if sparse is None:
        nonzero = sum(int(one.nnz if sp.issparse(one) else np.count_nonzero(one)) for one in numbers.values())
        sparse = nonzero < SPARSE_BELOW * len(places) * len(numbers)
    blocks = [np.zeros((len(places), 0)), *numbers.values()]
    if sparse:
        matrix = sp.hstack([sp.csc_array(block) for block in blocks], format="csr")
    else:
        matrix = np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])
    return ColumnTable(
        names=columns.names,
        numbers=matrix,
        number_columns=tuple(numbers),
        texts=texts,
        days=frozenset(place for place in numbers if columns.features[place] in table.days),
        categories=frozenset(place for place in texts if columns.features[place] in table.categories),
        title=str(table.path),
        place=lambda row: f"{table.unit} {places[row]}" if row < len(places) else "an added node",
    )
