"""Data frames of pandas and polars, and object arrays, as column tables; neither package is imported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mtgcn.errors import InputError
from mtgcn.io.column_table import MISSING, ColumnTable
from mtgcn.io.columns import NodeColumns
from mtgcn.io.graph_tables import column_table
from mtgcn.io.table import ArrowTable
from mtgcn.labels import is_missing


def is_frame(given: Any) -> bool:
    """Whether this is a data frame."""
    return hasattr(given, "columns") and hasattr(given, "dtypes") and hasattr(given, "shape")


def is_mixed(given: Any) -> bool:
    """Whether this is an object array with text that is not a number."""
    if not isinstance(given, np.ndarray | list | tuple):
        return False
    array = given if isinstance(given, np.ndarray) else np.array(given, dtype=object)
    if array.ndim != 2 or array.dtype.kind not in "OU":
        return False
    return any(isinstance(cell, str) and not _is_number(cell) for cell in array.ravel())


def table_of_frame(frame: Any) -> ColumnTable:
    """The columns of a frame or an object array; those of an array are counted from 1."""
    table = FrameTable(frame)
    if not len(frame) or not table.columns:
        raise InputError(f"the frame holds {len(frame)} rows of {len(table.columns)} columns; give some of both")
    features = tuple(range(len(table.columns)))
    numbers = table.numeric(features)
    texts = [column for column in features if column not in numbers]
    [batch] = table.batches(texts, numbers)
    words = {column: cells.texts() for column, cells in zip(texts, batch.texts, strict=True)}
    columns = NodeColumns(MISSING, None, features, table.columns)
    return column_table(table, columns, numbers, batch.numbers, words, batch.places)


class FrameTable(ArrowTable):
    """A data frame or an object array."""

    path = Path("the frame")
    format = "a data frame"

    def __init__(self, frame: Any) -> None:
        if is_frame(frame):
            names = [str(name) for name in frame.columns]
            series = [frame[name] for name in (frame.columns if len(set(names)) == len(names) else ())]
            self._cells = [_from_series(one) for one in series]
        else:
            array = np.asarray(frame, dtype=object)
            names = [f"column {place}" for place in range(1, array.shape[1] + 1)]
            self._cells = [_from_objects(column) for column in array.T]
        self.take_schema(names, [cells.type for cells in self._cells])

    def record_batches(self, columns: Sequence[int]) -> Iterator[dict[int, pa.Array]]:
        yield {column: self._cells[column] for column in columns}


def _from_series(series: Any) -> pa.Array:
    try:
        column = series.to_arrow() if hasattr(series, "to_arrow") else pa.Array.from_pandas(series)
    except (pa.ArrowException, TypeError, ValueError):
        return _from_objects(series.to_numpy(dtype=object))
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _from_objects(cells: np.ndarray) -> pa.Array:
    """Numbers if all cells are numbers or missing, otherwise text."""
    absent = ("NAType", "NaTType")  # of pandas, which is not imported
    gaps = [
        cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in absent for cell in cells
    ]
    present = [None if gap else cell for cell, gap in zip(cells, gaps, strict=True)]
    if all(cell is None or isinstance(cell, bool | int | float | np.number | np.bool_) for cell in present):
        return pa.array([None if cell is None else float(cell) for cell in present], pa.float64())
    return pa.array([None if cell is None else str(cell) for cell in present], pa.string())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return is_missing(cell)
    return True
