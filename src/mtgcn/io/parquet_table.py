"""Parquet, read in batches, and typed arrow columns as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from mtgcn.errors import InputError, reason
from mtgcn.io.table import Batch, Coded, Faults, Table, no_value, numbers_in

CELLS_AT_ONCE = 1 << 22  # rows times columns
PANDAS_INDEX = "__index_level_"  # the index that pandas stores as a column
MILLISECONDS_A_DAY = 86_400_000


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
        self.check_width(len(self.columns))
        self.check_columns(self.columns)
        if not self.columns or not rows:
            raise InputError(f"{path} holds {rows} rows of {len(self.columns)} columns; write it again, with some rows")

    def numeric(self, columns: Sequence[int]) -> list[int]:
        return [column for column in columns if is_numeric(self.types[column]) or is_day(self.types[column])]

    def days(self, columns: Sequence[int]) -> frozenset[int]:
        return frozenset(column for column in columns if is_day(self.types[column]))

    def categories(self, columns: Sequence[int]) -> frozenset[int]:
        return frozenset(column for column in columns if pa.types.is_dictionary(self.types[column]))

    def batches(self, texts: Sequence[int], numbers: Sequence[int], *, gaps: bool = False) -> Iterator[Batch]:
        faults = Faults(str(self.path))
        wanted = sorted({*texts, *numbers})
        rows_at_once = max(1, CELLS_AT_ONCE // len(wanted))
        before = 0
        try:
            with parquet.ParquetFile(self.path) as file:
                for rows in file.iter_batches(rows_at_once, columns=[self.columns[column] for column in wanted]):
                    rows.validate(full=True)  # text may be invalid UTF-8
                    places = np.arange(before + 1, before + rows.num_rows + 1)
                    before += rows.num_rows
                    batch = self._batch(rows, places, texts, numbers, gaps, faults)
                    if rows.num_rows and not faults:
                        yield batch
        except (pa.ArrowException, OSError, ValueError) as problem:
            if isinstance(problem, InputError):
                raise
            raise self._unreadable(problem) from None
        faults.raise_first_kind()

    def _batch(
        self,
        rows: pa.RecordBatch,
        places: np.ndarray,
        texts: Sequence[int],
        numbers: Sequence[int],
        gaps: bool,
        faults: Faults,
    ) -> Batch:
        values = np.empty((len(places), len(numbers)), np.float32)
        for place, column in enumerate(numbers):
            values[:, place] = self._numbers(rows.column(self.columns[column]), column, places, gaps, faults)
        return Batch([self._coded(rows.column(self.columns[column]), column) for column in texts], values, places)

    def _coded(self, column: pa.Array, number: int) -> Coded:
        if pa.types.is_dictionary(column.type):  # with possibly equal entries
            column = column.cast(column.type.value_type)
        kind = column.type
        if not (is_numeric(kind) or is_textual(kind) or pa.types.is_temporal(kind)):
            raise InputError(
                f"{self.path}, {self.name_of(number)} is of type {kind}; give text or numbers, one column for each "
                "feature, or leave the column out"
            )
        return Coded.of(column, as_texts, stays_text=is_textual(kind))

    def _numbers(self, column: pa.Array, number: int, places: np.ndarray, gaps: bool, faults: Faults) -> np.ndarray:
        found = numbers_of(column)
        if found is None:
            raise InputError(
                f"{self.path}, {self.name_of(number)} is of type {column.type}, not numbers; write a numeric column, "
                "or leave it out"
            )
        missing = np.isnan(found)
        bad = np.isinf(found) | (missing & (not gaps))
        for row in np.flatnonzero(bad):
            self.add_not_a_number(faults, int(places[row]), number, column[int(row)].as_py())
        return found

    def _unreadable(self, problem: Exception) -> InputError:
        return InputError(f"{self.path} cannot be read as Parquet ({reason(problem)}); was it cut off? write it again")


def numbers_of(column: pa.Array) -> np.ndarray | None:
    """Numbers in single precision, dates as days since 1970, NaN for nulls; None for other types."""
    if is_day(column.type):
        milliseconds = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
        return numbers_in(milliseconds) / MILLISECONDS_A_DAY
    if not is_numeric(column.type):
        return None
    return numbers_in(column.cast(pa.float32(), safe=False))


def as_texts(values: pa.Array) -> pa.Array:
    """Integers, also those that pandas stored as floats because of gaps; otherwise text."""
    kind = values.type
    if pa.types.is_signed_integer(kind) or pa.types.is_uint8(kind) or pa.types.is_uint16(kind):
        return values.cast(pa.int64())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        values = pc.if_else(pc.is_finite(values), values, no_value(values.type))
        whole = pc.all(pc.equal(pc.round(values), values)).as_py()
        if whole is not False and (pc.max(pc.abs(values)).as_py() or 0) < 2**53:
            return values.cast(pa.int64())
    return values.cast(pa.string())


def is_numeric(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def is_textual(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def is_day(kind: pa.DataType) -> bool:
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)
