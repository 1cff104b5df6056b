"""A node table: ids, perhaps labels, and the columns that features are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.columns import Choices, NodeColumns, node_columns, title_of
from mtgcn.io.faults import FaultKind, Faults
from mtgcn.io.ids import NodeIndex, checked_ids
from mtgcn.io.label_book import LabelBook
from mtgcn.io.paths import shown
from mtgcn.io.preprocessing.kinds import IGNORE
from mtgcn.io.preprocessing.table import ColumnTable, Texts
from mtgcn.io.table import MISSING, Batch, Coded, NotNumbers, Table
from mtgcn.memory import check_fits

ONE_ROW_PER_NODE = "keep one row per node, or name the column of the ids (--column id=NAME)"
FEW_NONZEROS = 0.05  # below this share a table of numbers is kept as a sparse matrix


@dataclass(frozen=True, eq=False)
class NodeRows:
    """What a node table holds: its ids, its labels, and what features are made of."""

    index: NodeIndex
    book: LabelBook
    columns: ColumnTable | None  # None: no column is a feature
    told: dict[str, str]  # the kinds of columns that a person named


def read_nodes(table: Table, choices: Choices, *, labels_elsewhere: bool = False) -> NodeRows:
    """What a node table holds; `labels_elsewhere` says whether there is a label table beside it."""
    columns = node_columns(table, choices, labels_elsewhere=labels_elsewhere)
    told = told_kinds(table, choices)
    numbers = number_columns(table, columns, choices, told)
    while True:
        index = NodeIndex()
        book = LabelBook(index)
        try:
            return NodeRows(index, book, _rows(table, columns, numbers, index, book), told)
        except NotNumbers as found:  # further down than the beginning that was looked at
            numbers = [column for column in numbers if column not in found.columns]


def number_columns(table: Table, columns: NodeColumns, choices: Choices, told: dict[str, str]) -> list[int]:
    """Those of the features that seem to be numbers."""
    # Dates and categories that the file itself has a type for are no text, unless a person says so.
    are_texts = {
        column
        for column, name in zip(columns.features, columns.names, strict=True)
        if told.get(name) in ("category", "text") or (choices.preparation and name in choices.preparation.read_as_text)
    }
    return table.numeric([column for column in columns.features if column not in are_texts])


def told_kinds(table: Table, choices: Choices) -> dict[str, str]:
    """The kinds of columns that a person named, by what the columns are called."""
    names = [title_of(table, column) for column in range(len(table.columns))]
    return {
        names[name] if isinstance(name, int) and name < len(names) else str(name): kind
        for name, kind in choices.kinds.items()
        if kind != IGNORE
    }


def _rows(
    table: Table, columns: NodeColumns, numbers: Sequence[int], index: NodeIndex, book: LabelBook
) -> ColumnTable | None:
    are_numbers = set(numbers)
    texts = [column for column in columns.features if column not in are_numbers]
    head = [columns.node_id] if columns.label is None else [columns.node_id, columns.label]
    blocks: list[np.ndarray | sp.csr_array] = []
    places: list[np.ndarray] = []
    words = {column: TextColumn() for column in texts}
    keep_sparse = False
    gathered = 0  # bytes, which are needed once more when the blocks are put together
    faults = Faults(str(table.path))
    for batch in table.batches([*head, *texts], numbers, gaps=True):
        ids = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
        if ids is None:
            continue
        known = len(index)
        found = index.add(ids)
        places.append(batch.places)
        if len(index) - known < len(batch):
            _note_repeated(table, columns, batch, found, np.concatenate(places), known, faults)
            continue
        if columns.label is not None:
            book.add(table, batch, found, batch.texts[1])
        for column, cells in zip(texts, batch.texts[len(head) :], strict=True):
            words[column].add(cells)
        if not blocks:
            keep_sparse = bool(np.count_nonzero(batch.numbers) < FEW_NONZEROS * batch.numbers.size)
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
    """Some rows as a table to prepare: the values of the columns that are `numbers`, the words of the others, and on
    which line each row stands."""
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
    """A column of text that comes in batches."""

    def __init__(self) -> None:
        self._values = NodeIndex()  # different texts are numbered as ids are
        self._codes: list[np.ndarray] = []

    def add(self, cells: Coded) -> None:
        codes = np.full(len(cells.codes), MISSING)
        present = cells.codes != MISSING
        codes[present] = self._values.add(Coded(cells.codes[present], cells.values))
        self._codes.append(codes)

    def keep(self, rows: Sequence[np.ndarray]) -> None:
        """Of each batch these rows alone; the words of others stay known, and stand nowhere."""
        self._codes = [codes[some] for codes, some in zip(self._codes, rows, strict=True)]

    def joined(self) -> Texts:
        return Texts(np.concatenate(self._codes), self._values.texts())


def _note_repeated(
    table: Table,
    columns: NodeColumns,
    batch: Batch,
    found: np.ndarray,
    places: np.ndarray,
    known: int,
    faults: Faults,
) -> None:
    """Rows of nodes that were there before. Nodes are numbered as they come, so new ones go on where others ended."""
    _, first = np.unique(found, return_index=True)
    again = np.ones(len(found), dtype=bool)
    again[first] = False
    again |= found < known
    rows = np.flatnonzero(again)
    row, text = int(rows[0]), batch.texts[0].text(int(rows[0]))
    alone = (
        f"{table.at(int(batch.places[row]))}, {table.name_of(columns.node_id)}: node {shown(text)} stands on "
        f"{table.unit} {places[found[row]]} already; {ONE_ROW_PER_NODE}"
    )
    kind = FaultKind(
        f"rows repeat an id of {table.name_of(columns.node_id)}",
        ONE_ROW_PER_NODE,
    )
    named = [f"{table.unit} {batch.places[row]} {shown(batch.texts[0].text(int(row)))}" for row in rows[:3]]
    faults.add(kind, alone, named, len(rows))
