"""Parquet, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from mtgcn.errors import InputError
from mtgcn.files.paths import reason, shown
from mtgcn.files.table import Batch, Coded, Table, is_finite_number

CELLS_AT_ONCE = 1 << 22  # rows times columns
PANDAS_INDEX = "__index_level_"  # what pandas calls the index it stores beside the columns


class ParquetTable(Table):
    """Named, typed columns."""

    unit = "row"
    has_header = True
    first_place = 1

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sample = []
        try:
            with parquet.ParquetFile(path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise self._unreadable(problem) from None
        self._fields = [number for number, name in enumerate(schema.names) if not name.startswith(PANDAS_INDEX)]
        self.columns = tuple(schema.names[number] for number in self._fields)
        self.types = [schema.types[number] for number in self._fields]
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise InputError(f"{path} names column {shown(twice)} twice; rename one")
        if not self.columns or not rows:
            raise InputError(f"{path} holds {rows} rows of {len(self.columns)} columns; write it again, with some rows")

    def batches(self, texts: Sequence[int], numbers: Sequence[int]) -> Iterator[Batch]:
        wanted = sorted({*texts, *numbers})
        rows_at_once = max(1, CELLS_AT_ONCE // len(wanted))
        before = 0
        try:
            with parquet.ParquetFile(self.path) as file:
                for rows in file.iter_batches(rows_at_once, columns=[self.columns[column] for column in wanted]):
                    rows.validate(full=True)  # text from elsewhere may not be UTF-8, whatever its type says
                    places = np.arange(before + 1, before + rows.num_rows + 1)
                    before += rows.num_rows
                    if rows.num_rows:
                        yield self._batch(rows, places, texts, numbers)
        except (pa.ArrowException, OSError, ValueError) as problem:
            if isinstance(problem, InputError):
                raise
            raise self._unreadable(problem) from None

    def _batch(self, rows: pa.RecordBatch, places: np.ndarray, texts: Sequence[int], numbers: Sequence[int]) -> Batch:
        values = np.empty((len(places), len(numbers)), np.float32)
        for place, column in enumerate(numbers):
            values[:, place] = self._numbers(rows.column(self.columns[column]), column, places)
        return Batch([self._coded(rows.column(self.columns[column]), column) for column in texts], values, places)

    def _coded(self, column: pa.Array, number: int) -> Coded:
        if pa.types.is_dictionary(column.type):  # its entries need not differ
            column = column.cast(column.type.value_type)
        kind = column.type
        if not (_is_numeric(kind) or _is_textual(kind) or pa.types.is_temporal(kind)):
            raise InputError(f"{self.path}, {self.name_of(number)} is of type {kind}; give text or whole numbers")
        return Coded.of(column, _ids_or_labels, stays_text=_is_textual(kind))

    def _numbers(self, column: pa.Array, number: int, places: np.ndarray) -> np.ndarray:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (_is_numeric(kind) or _is_textual(kind)):
            raise InputError(
                f"{self.path}, {self.name_of(number)} is of type {kind}, not numbers; "
                "write one numeric column for each feature, or leave the column out"
            )
        values = column.cast(kind)
        if _is_textual(kind):
            values = pc.utf8_trim(values.cast(pa.string()), " \t")
        try:
            values = values.cast(pa.float32(), safe=False)
        except pa.ArrowException:
            cells = [value or "" for value in values.to_pylist()]
            row = next(row for row, cell in enumerate(cells) if not is_finite_number(cell))
            raise self.not_a_number(int(places[row]), number, cells[row]) from None
        found = pc.fill_null(values, np.nan).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            raise self.not_a_number(int(places[bad[0]]), number, column[int(bad[0])].as_py())
        return found

    def _unreadable(self, problem: Exception) -> InputError:
        return InputError(f"{self.path} cannot be read as Parquet ({reason(problem)}); was it cut off? write it again")


def _ids_or_labels(values: pa.Array) -> pa.Array:
    """Whole numbers, also those that pandas wrote with a point since some cells were empty; else text."""
    kind = values.type
    if pa.types.is_signed_integer(kind) or pa.types.is_uint8(kind) or pa.types.is_uint16(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        values = pc.if_else(pc.is_finite(values), values, None)
        whole = pc.all(pc.equal(pc.round(values), values)).as_py()
        if whole is not False and (pc.max(pc.abs(values)).as_py() or 0) < 2**53:
            return values.cast(pa.int64())
    return values.cast(pa.string())


def _is_numeric(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def _is_textual(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)
