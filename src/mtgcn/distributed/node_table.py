"""Large node tables: read in batches, and an index of their ids.

A table is read twice, first for the ids and to fit the preprocessing of its columns, then for the features.
Preprocessing (`io/preprocessing.py`) is fitted to all rows, or to a reproducible random sample if there are many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from mtgcn.errors import InputError, note, shown
from mtgcn.io.column_table import MISSING, ColumnTable
from mtgcn.io.graph_tables import column_table, text_columns
from mtgcn.io.options import PathLike, TableOptions
from mtgcn.io.preprocessing import Preprocessor, fit_columns
from mtgcn.io.roles import NodeColumns, given_kinds, node_columns, open_table
from mtgcn.io.table import Batch, Coded, Faults, NodeIndex, Table, checked_ids
from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int, UInt64

MAX_ROWS, MAX_CELLS = 200_000, 1 << 26  # that preprocessing is fitted to
MIN_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class FittedTable:
    """The ids of a table, in the order of its rows, and the preprocessing fitted to it."""

    table: Table
    columns: NodeColumns
    sparse: bool
    ids: pa.Array
    preprocessing: Preprocessor

    def features(self) -> Iterator[sp.csr_array | np.ndarray]:
        """The features, a batch of rows at a time."""
        for batch in self.table.batches([], self.columns.features):
            as_text = self.preprocessing.read_as_text
            yield self.preprocessing.matrix(
                column_table(self.table, self.columns, [batch], as_text, sparse=self.sparse)
            )


def fit_table(path: PathLike, options: TableOptions, max_rows: int | None = None) -> FittedTable:
    """Read a node table once, and fit the preprocessing to at most `max_rows` rows."""
    table = open_table(path, options)
    columns = node_columns(table, options, labels_elsewhere=True)
    if not columns.features:
        raise InputError(f"{table.path} has no column that could be a feature; add some")
    if columns.label is not None:
        note(
            f"{table.path}: {table.name_of(columns.label)} holds labels and is no feature; give them to fit by --labels"
        )
    kinds = given_kinds(table, options, columns)
    rows = max_rows or max(MIN_ROWS, min(MAX_ROWS, MAX_CELLS // len(columns.features)))
    ids, sample = _read(table, columns, text_columns(options, kinds), rows)
    preprocessing = replace(fit_columns(sample, kinds, scale=options.scale, use_text=False), **columns.titles(table))
    if not preprocessing.names:
        raise InputError(
            f"{table.path}: nothing can be learned from its columns ({'; '.join(preprocessing.lines()[:3])})"
        )
    if len(ids) > sample.rows:
        note(f"{table.path}: preprocessing was fitted to {sample.rows} of {len(ids)} rows, drawn at random")
    return FittedTable(table, columns, sp.issparse(sample.numbers), ids, preprocessing)


def _read(table: Table, columns: NodeColumns, as_text: frozenset[str], max_rows: int) -> tuple[pa.Array, ColumnTable]:
    """All ids, and the rows to which preprocessing is fitted."""
    assert columns.node_id is not None  # edges need ids
    faults, sample = Faults(), _Sample(max_rows)
    ids: list[pa.Array] = []
    before = 0
    for batch in table.batches([columns.node_id], columns.features):
        found = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
        if found is not None:
            ids.append(found.values.cast(pa.large_string()).take(pa.array(found.codes)))
            sample.add(batch, before)
        before += len(batch)
    faults.raise_first_kind()
    if not ids:
        raise InputError(f"{table.path} holds a header and no row; write it again, with one row per node")
    return pa.concat_arrays(ids), column_table(table, columns, sample.batches, as_text)


class _Sample:
    """The rows with the smallest hashes of their numbers: all rows of a small table."""

    def __init__(self, max_rows: int) -> None:
        self.max_rows = max_rows
        self.threshold = np.uint64(2**64 - 1)
        self.batches: list[Batch] = []
        self.hashes: list[np.ndarray] = []

    def add(self, batch: Batch, before: int) -> None:
        hashes = splitmix64(np.arange(before, before + len(batch), dtype=np.uint64))
        rows = np.flatnonzero(hashes <= self.threshold)
        self.batches.append(batch.take(rows))
        self.hashes.append(hashes[rows])
        known = np.concatenate(self.hashes)
        if len(known) > self.max_rows:  # rows above the threshold are skipped from here on
            self.threshold = np.partition(known, self.max_rows - 1)[self.max_rows - 1]
            kept = [np.flatnonzero(some <= self.threshold) for some in self.hashes]
            self.batches = [batch.take(rows) for batch, rows in zip(self.batches, kept, strict=True)]
            self.hashes = [some[rows] for some, rows in zip(self.hashes, kept, strict=True)]


IDS_AT_ONCE = 1 << 16  # hashed together, to bound memory
_SALT = np.uint64(0xA5A5A5A5A5A5A5A5)  # of the second hash


def id_hashes(ids: pa.Array) -> UInt64[np.ndarray, "ids 2"]:
    """Two independent 64-bit hashes of each text."""
    found = np.empty((len(ids), 2), dtype=np.uint64)
    for start in range(0, len(ids), IDS_AT_ONCE):
        some = pa.concat_arrays([ids.slice(start, IDS_AT_ONCE).cast(pa.large_string())])
        _, ends_buffer, text = some.buffers()
        ends = np.frombuffer(ends_buffer, np.int64)[some.offset : some.offset + len(some) + 1]
        letters = np.frombuffer(text, np.uint8)[ends[0] : ends[-1]] if text is not None else np.zeros(0, np.uint8)
        lengths = np.diff(ends)
        place = np.arange(len(letters)) - np.repeat(ends[:-1] - ends[0], lengths)
        terms = (place.astype(np.uint64) << np.uint64(8)) + letters
        for column, salt in enumerate((np.uint64(0), _SALT)):
            sums = np.zeros(len(letters) + 1, dtype=np.uint64)
            np.cumsum(splitmix64(terms ^ salt), dtype=np.uint64, out=sums[1:])
            total = sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]]
            found[start : start + len(some), column] = splitmix64(total + lengths.astype(np.uint64))
    return found


class LargeIndex(NodeIndex):
    """An index of ids, numbered in their order, with 24 bytes per id. No ids can be added."""

    def __init__(self, ids: pa.Array, title: str) -> None:
        super().__init__()
        self._count = len(ids)
        hashes = id_hashes(ids)
        self._number = np.lexsort((hashes[:, 1], hashes[:, 0]))
        self._sorted = hashes[self._number]
        same = np.flatnonzero(self._sorted[1:, 0] == self._sorted[:-1, 0])
        repeated = same[self._sorted[same + 1, 1] == self._sorted[same, 1]]
        if len(repeated):
            pairs = np.sort(np.stack([self._number[repeated], self._number[repeated + 1]]), axis=0)
            first = int(np.argmin(pairs[1]))
            text = shown(ids[int(pairs[1, first])].as_py())
            more = f" (and {len(repeated) - 1} more)" if len(repeated) > 1 else ""
            raise InputError(
                f"{title}: node {text} has two rows, numbers {pairs[0, first] + 1} and {pairs[1, first] + 1}{more}; "
                "keep one row per node, or name the column of the ids (--column id=NAME)"
            )
        if len(same):
            texts = " and ".join(shown(ids[int(self._number[row])].as_py()) for row in (same[0], same[0] + 1))
            raise InputError(f"{title}: the ids {texts} have equal hashes; rename one")

    def __len__(self) -> int:
        return self._count

    def find(self, column: Coded) -> Int[np.ndarray, "rows"]:
        return np.append(self.places(column.values), MISSING)[column.codes]

    def places(self, ids: pa.Array) -> Int[np.ndarray, "ids"]:
        """The number of each id; MISSING if it is unknown."""
        if not self._count:
            return np.full(len(ids), MISSING)
        hashes = id_hashes(ids.cast(pa.string()))
        place = np.searchsorted(self._sorted[:, 0], hashes[:, 0]).clip(max=self._count - 1)
        return np.where((self._sorted[place] == hashes).all(axis=1), self._number[place], MISSING)

    def knows(self, name: str) -> bool:
        return bool((self.places(pa.array([name])) != MISSING).all())
