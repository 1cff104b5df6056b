"""A node table read in batches: first for its ids and to learn how its columns are prepared, then for the features.

Preprocessing is learned as everywhere (`io/preprocessing/fit.py`), from as many rows as memory is sure to hold: all of
them, or a random choice that a hash of their number makes, the same every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.errors import InputError, note
from mtgcn.graph import LABEL_NAMES
from mtgcn.io.columns import ID_NAMES, NodeColumns, given_kinds, node_columns, open_table
from mtgcn.io.graph_tables import SPARSE_BELOW, TextColumn, column_table, number_columns
from mtgcn.io.ids import checked_ids
from mtgcn.io.options import PathLike, TableOptions, readable_file
from mtgcn.io.preprocessing.column_table import ColumnTable, Texts
from mtgcn.io.preprocessing.fit import fit_columns
from mtgcn.io.preprocessing.preprocessor import Preprocessor
from mtgcn.io.table import MISSING, Batch, Coded, Faults, NotNumbers, Table
from mtgcn.linalg.node_keys import splitmix64

MOST_ROWS, MOST_CELLS = 200_000, 1 << 26  # that preprocessing is learned from
FEWEST_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """What a first reading has found: the ids, in the order of the rows, and how features are made."""

    table: Table
    columns: NodeColumns
    numbers: Sequence[int]  # the columns that are numbers already
    sparse: bool
    ids: pa.Array
    preprocessing: Preprocessor

    def features(self) -> Iterator[sp.csr_array | np.ndarray]:
        """The features of some rows after those of others, in order."""
        for batch in _batches(self.table, self.columns, self.numbers):
            cells = {
                column: _texts(cells)
                for column, cells in zip(_texts_of(self.columns, self.numbers), batch.texts[1:], strict=True)
            }
            values = sp.csr_array(batch.numbers) if self.sparse else batch.numbers
            rows = column_table(self.table, self.columns, self.numbers, values, cells, batch.places)
            yield self.preprocessing.matrix(rows)


def learned_table(path: PathLike, choices: TableOptions, most_rows: int | None = None) -> LearnedTable:
    """Read a node table once."""
    table = open_table(readable_file(path), [ID_NAMES + LABEL_NAMES], choices)
    columns = node_columns(table, choices, labels_elsewhere=True)
    if not columns.features:
        raise InputError(f"{table.path} has no column that could be a feature; add some")
    if columns.label is not None:
        note(
            f"{table.path}: {table.name_of(columns.label)} holds labels and is no feature; give them to fit by --labels"
        )
    told = given_kinds(table, choices)
    numbers = number_columns(table, columns, choices, told)
    rows = most_rows or max(FEWEST_ROWS, min(MOST_ROWS, MOST_CELLS // len(columns.features)))
    while True:
        try:
            ids, sample = _read(table, columns, numbers, rows)
            break
        except NotNumbers as found:  # further down than the beginning that was looked at
            numbers = [column for column in numbers if column not in found.columns]
    preprocessing = fit_columns(sample, told, scale=choices.scale)
    if not preprocessing.names:
        raise InputError(
            f"{table.path}: nothing can be learned from its columns ({'; '.join(preprocessing.lines()[:3])})"
        )
    if len(ids) > sample.rows:
        note(
            f"{table.path}: how columns are prepared was learned from {sample.rows} of {len(ids)} rows, drawn at random"
        )
    return LearnedTable(table, columns, numbers, sp.issparse(sample.numbers), ids, preprocessing)


def _texts_of(columns: NodeColumns, numbers: Sequence[int]) -> list[int]:
    return [column for column in columns.features if column not in set(numbers)]


def _batches(table: Table, columns: NodeColumns, numbers: Sequence[int]) -> Iterator[Batch]:
    """Some rows: ids first among the texts, then the features that are none."""
    return table.batches([columns.node_id, *_texts_of(columns, numbers)], numbers, gaps=True)


def _read(table: Table, columns: NodeColumns, numbers: Sequence[int], most_rows: int) -> tuple[pa.Array, ColumnTable]:
    faults = Faults(str(table.path))
    ids: list[pa.Array] = []
    sample = _Sample(_texts_of(columns, numbers), most_rows)
    before = 0
    for batch in _batches(table, columns, numbers):
        found = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
        if found is not None:
            ids.append(found.values.cast(pa.large_string()).take(pa.array(found.codes)))
            sample.add(batch, before)
        before += len(batch)
    faults.raise_first_kind()
    if not ids:
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    return pa.concat_arrays(ids), column_table(table, columns, numbers, *sample.drawn())


class _Sample:
    """Rows whose hash is small: all, as long as they are few, and of more ever fewer."""

    def __init__(self, texts: Sequence[int], most_rows: int) -> None:
        self.most_rows = most_rows
        self.threshold = np.uint64(2**64 - 1)
        self.blocks: list[Any] = []
        self.places: list[np.ndarray] = []
        self.hashes: list[np.ndarray] = []
        self.words = {column: TextColumn() for column in texts}
        self.sparse = False

    def add(self, batch: Batch, before: int) -> None:
        hashes = splitmix64(np.arange(before, before + len(batch), dtype=np.uint64))
        rows = np.flatnonzero(hashes <= self.threshold)
        values = batch.numbers[rows]
        if not self.blocks:
            self.sparse = bool(np.count_nonzero(batch.numbers) < SPARSE_BELOW * batch.numbers.size)
        self.blocks.append(sp.csr_array(values) if self.sparse else values)
        self.places.append(batch.places[rows])
        self.hashes.append(hashes[rows])
        for one, cells in zip(self.words.values(), batch.texts[1:], strict=True):
            one.add(_of_rows(cells, rows))
        known = np.concatenate(self.hashes)
        if len(known) > self.most_rows:  # what is above is left out in the end, and not even read from here on
            self.threshold = np.partition(known, self.most_rows - 1)[self.most_rows - 1]
            kept = [np.flatnonzero(some <= self.threshold) for some in self.hashes]
            self.blocks = [block[rows] for block, rows in zip(self.blocks, kept, strict=True)]
            self.places = [block[rows] for block, rows in zip(self.places, kept, strict=True)]
            self.hashes = [block[rows] for block, rows in zip(self.hashes, kept, strict=True)]
            for one in self.words.values():
                one.keep(kept)

    def drawn(self) -> tuple[Any, dict[int, Texts], np.ndarray]:
        """Numbers, words and places of the rows, as `column_table` takes them."""
        values = sp.vstack(self.blocks, format="csr") if self.sparse else np.concatenate(self.blocks)
        words = {column: one.joined().without_missing_words for column, one in self.words.items()}
        return values, words, np.concatenate(self.places)


def _of_rows(cells: Coded, rows: np.ndarray) -> Coded:
    """Some rows of a column, with the values alone that stand in them."""
    codes = cells.codes[rows]
    used = np.unique(codes[codes != MISSING])
    place = np.full(len(cells.values) + 1, MISSING)  # the last answers for MISSING, as an index
    place[used] = np.arange(len(used))
    return Coded(place[codes], cells.values.take(pa.array(used)), cells.stays_text)


def _texts(cells: Coded) -> Texts:
    return Texts(cells.codes, [str(value) for value in cells.values.to_pylist()])
