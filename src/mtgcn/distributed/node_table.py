"""Large node tables, which are read in batches, and the index of their ids.

A table is read three times: for the ids, to fit the preprocessing of its columns, and to compute the features.
Preprocessing (`io/preprocessing.py`) is fitted to all rows, or to a reproducible random sample of a large table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from mtgcn.errors import InputError, note, shown
from mtgcn.io.column_table import MISSING, ColumnTable
from mtgcn.io.graph_tables import column_table, text_columns
from mtgcn.io.options import PathLike, TableOptions
from mtgcn.io.preprocessing import Preprocessor, fit_columns
from mtgcn.io.roles import NodeColumns, given_kinds, node_columns, open_table
from mtgcn.io.table import Coded, Faults, NodeIndex, Table, checked_ids, number_values
from mtgcn.linalg.node_keys import splitmix64
from mtgcn.shapes import Int

MAX_ROWS, MAX_CELLS = 200_000, 1 << 26  # largest sample to which preprocessing is fitted
MIN_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class FittedTable:
    """The ids of a table, in row order, and the preprocessing fitted to it."""

    table: Table
    columns: NodeColumns
    sparse: bool
    ids: pa.Array
    preprocessing: Preprocessor

    def features(self) -> Iterator[sp.csr_array | np.ndarray]:
        """Yields the features in batches of rows."""
        for batch in self.table.batches([], self.columns.features):
            as_text = self.preprocessing.read_as_text
            yield self.preprocessing.matrix(
                column_table(self.table, self.columns, [batch], as_text, sparse=self.sparse)
            )


def fit_table(path: PathLike, options: TableOptions) -> FittedTable:
    """Read the ids of a node table, and fit the preprocessing to its rows."""
    table = open_table(path, options)
    columns = node_columns(table, options, labels_elsewhere=True)
    if not columns.features:
        raise InputError(f"{table.path} has no feature columns; add some")
    if columns.label is not None:
        note(f"{table.path}: {table.name_of(columns.label)} holds labels; pass them to fit with --labels")
    kinds = given_kinds(table, options, columns)
    ids = _read_ids(table, columns)
    most = max(MIN_ROWS, min(MAX_ROWS, MAX_CELLS // len(columns.features)))
    chosen = np.sort(np.argsort(splitmix64(np.arange(len(ids), dtype=np.uint64)))[:most])
    sample = _read_rows(table, columns, text_columns(options, kinds), chosen)
    preprocessing = replace(fit_columns(sample, kinds, scale=options.scale, use_text=False), **columns.titles(table))
    if not preprocessing.names:
        raise InputError(f"{table.path}: no column yields a feature ({'; '.join(preprocessing.lines()[:3])})")
    if len(ids) > len(chosen):
        note(f"{table.path}: preprocessing was fitted to {len(chosen)} of {len(ids)} rows, drawn at random")
    return FittedTable(table, columns, sp.issparse(sample.numbers), ids, preprocessing)


def _read_ids(table: Table, columns: NodeColumns) -> pa.Array:
    """The ids of all rows, as text."""
    assert columns.node_id is not None  # ids were required, since edges refer to them
    faults, ids = Faults(), []
    for batch in table.batches([columns.node_id], []):
        found = checked_ids(table, batch, batch.texts[0], columns.node_id, faults)
        if found is not None:
            ids.append(found.values.cast(pa.large_string()).take(number_values(found.codes)))
    faults.raise_first_kind()
    if not ids:
        raise InputError(f"{table.path} has a header but no rows; write one row per node")
    return pa.concat_arrays(ids)


def _read_rows(
    table: Table, columns: NodeColumns, as_text: frozenset[str], chosen: Int[np.ndarray, "rows"]
) -> ColumnTable:
    """Read the rows with these numbers, which are in ascending order."""
    batches, before = [], 0
    for batch in table.batches([], columns.features):
        first, end = np.searchsorted(chosen, [before, before + len(batch)])
        batches.append(batch.take(chosen[first:end] - before))
        before += len(batch)
    return column_table(table, columns, batches, as_text)


IDS_AT_ONCE = 1 << 16  # ids that are converted to Python objects at a time


def _hashes(ids: pa.Array) -> Int[np.ndarray, "ids"]:
    """Hashes of texts, which are valid within this process only."""
    blocks = (ids.slice(start, IDS_AT_ONCE).to_pylist() for start in range(0, len(ids), IDS_AT_ONCE))
    return np.fromiter(map(hash, chain.from_iterable(blocks)), np.int64, len(ids))


class LargeIndex(NodeIndex):
    """An index of ids, numbered in their order, with 16 bytes per id in addition to its text. No ids can be added."""

    def __init__(self, ids: pa.Array, title: str) -> None:
        super().__init__()
        self._texts = self._ids = ids.cast(pa.large_string())
        hashes = _hashes(ids)
        self._number = np.argsort(hashes, kind="stable")
        self._sorted = hashes[self._number]
        same = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if not len(same):
            return
        pair = min(zip(self._number[same + 1].tolist(), self._number[same].tolist(), strict=True))
        other, one = (shown(ids[number].as_py()) for number in pair)
        if one != other:
            raise InputError(f"{title}: the ids {one} and {other} have the same hash; start again, or rename one")
        more = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
        raise InputError(
            f"{title}: node {one} has two rows, numbers {pair[1] + 1} and {pair[0] + 1}{more}; "
            "keep one row per node, or name the column of the ids (--column id=NAME)"
        )

    def _places(self, column: Coded) -> tuple[pa.Array, np.ndarray]:
        values = column.values.cast(pa.large_string())
        rank = np.searchsorted(self._sorted, _hashes(values)).clip(max=len(self) - 1)
        number = self._number[rank]
        is_known = np.array(pc.equal(self._texts.take(number_values(number)), values))
        return values, np.where(is_known, number, MISSING)
