"""Parquet, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from mtgcn.errors import InputError
from mtgcn.io.arrow_columns import as_texts, is_day, is_numeric, is_textual, numbers_of
from mtgcn.io.faults import Faults
from mtgcn.io.paths import reason
from mtgcn.io.table import Batch, Coded, Table

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
                    rows.validate(full=True)  # text from elsewhere may not be UTF-8, whatever its type says
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
        if pa.types.is_dictionary(column.type):  # its entries need not differ
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
