"""Node tables: ids, labels, and the columns from which features are computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, shown
from mtgcn.io.columns import NodeColumns, given_kinds, node_columns
from mtgcn.io.ids import NodeIndex, checked_ids
from mtgcn.io.label_table import Labels
from mtgcn.io.options import TableOptions
from mtgcn.io.preprocessing.column_table import ColumnTable, Texts
from mtgcn.io.table import MISSING, Batch, Coded, FaultKind, Faults, NotNumbers, Table
from mtgcn.memory import check_fits

ONE_ROW_PER_NODE = "keep one row per node, or name the id column (--column id=NAME)"
SPARSE_BELOW = 0.05  # share of nonzeros below which numbers are kept as a sparse matrix


@dataclass(frozen=True, eq=False)
class NodeRows:
    """The ids, labels and feature columns of a node table."""

    index: NodeIndex
    labels: Labels
    columns: ColumnTable | None  # None without features
    kinds: dict[str, str]  # given column kinds


def read_nodes(table: Table, options: TableOptions, *, labels_elsewhere: bool = False) -> NodeRows:
    """Read a node table; `labels_elsewhere` if there is also a label table."""
    columns = node_columns(table, options, labels_elsewhere=labels_elsewhere)
    kinds = given_kinds(table, options)
    numbers = number_columns(table, columns, options, kinds)
    while True:
        index = NodeIndex()
        labels = Labels(index)
        try:
            return NodeRows(index, labels, _rows(table, columns, numbers, index, labels), kinds)
        except NotNumbers as found:  # beyond the beginning that was inspected
            numbers = [column for column in numbers if column not in found.columns]


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
    head = [columns.node_id] if columns.label is None else [columns.node_id, columns.label]
    blocks: list[np.ndarray | sp.csr_array] = []
    places: list[np.ndarray] = []
    words = {column: TextColumn() for column in texts}
    keep_sparse = False
    gathered = 0  # bytes, needed once more to concatenate
    faults = Faults(str(table.path))
    for batch in table.batches([*head, *texts], numbers, gaps=True):
        ids = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
        if ids is None:
            continue
        known = len(index)
        found = index.add(ids)
        places.append(batch.places)
        if len(index) - known < len(batch):
            _add_repeated(table, columns, batch, found, np.concatenate(places), known, faults)
            continue
        if columns.label is not None:
            labels.add(table, batch, found, batch.texts[1])
        for column, cells in zip(texts, batch.texts[len(head) :], strict=True):
            words[column].add(cells)
        if not blocks:
            keep_sparse = bool(np.count_nonzero(batch.numbers) < SPARSE_BELOW * batch.numbers.size)
        blocks.append(sp.csr_array(batch.numbers) if keep_sparse else batch.numbers)
        gathered += _bytes_of(blocks[-1]) + sum(cells.codes.nbytes for cells in batch.texts)
        check_fits(gathered, f"{table.path}, of which {len(index)} rows are read,", "leave columns or rows out")
    faults.raise_first_kind()
    if not len(index):
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    if not columns.features:
        return None
    values = sp.vstack(blocks, format="csr") if keep_sparse else np.concatenate(blocks)
    joined = {column: one.joined() for column, one in words.items()}
    return column_table(table, columns, numbers, values, joined, np.concatenate(places))


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
        days=frozenset(place_of[column] for column in table.days(numbers)),
        categories=frozenset(place_of[column] for column in table.categories(list(words))),
        title=str(table.path),
        place=lambda row: f"{table.unit} {lines[row]}" if row < len(lines) else "an added node",
    )


def _bytes_of(block: np.ndarray | sp.csr_array) -> int:
    return int(block.nbytes if isinstance(block, np.ndarray) else block.data.nbytes + block.indices.nbytes)


class TextColumn:
    """A text column that is read in batches."""

    def __init__(self) -> None:
        self._values = NodeIndex()  # distinct texts are numbered like ids
        self._codes: list[np.ndarray] = []

    def add(self, cells: Coded) -> None:
        codes = np.full(len(cells.codes), MISSING)
        present = cells.codes != MISSING
        codes[present] = self._values.add(Coded(cells.codes[present], cells.values))
        self._codes.append(codes)

    def keep(self, rows: Sequence[np.ndarray]) -> None:
        """Keep only these rows of each batch."""
        self._codes = [codes[some] for codes, some in zip(self._codes, rows, strict=True)]

    def joined(self) -> Texts:
        return Texts(np.concatenate(self._codes), self._values.texts())


def _add_repeated(
    table: Table,
    columns: NodeColumns,
    batch: Batch,
    found: np.ndarray,
    places: np.ndarray,
    known: int,
    faults: Faults,
) -> None:
    """Add the faults of repeated ids. Nodes are numbered in order, so new ones are >= `known`."""
    _, first = np.unique(found, return_index=True)
    again = np.ones(len(found), dtype=bool)
    again[first] = False
    again |= found < known
    rows = np.flatnonzero(again)
    row, text = int(rows[0]), batch.texts[0].text(int(rows[0]))
    alone = (
        f"{table.at(int(batch.places[row]))}, {table.name_of(columns.node_id)}: node {shown(text)} is on "
        f"{table.unit} {places[found[row]]} already; {ONE_ROW_PER_NODE}"
    )
    kind = FaultKind(
        f"rows repeat an id of {table.name_of(columns.node_id)}",
        ONE_ROW_PER_NODE,
    )
    named = [f"{table.unit} {batch.places[row]} {shown(batch.texts[0].text(int(row)))}" for row in rows[:3]]
    faults.add(kind, alone, named, len(rows))
