"""Data frames of pandas and polars, and object arrays, as column tables; neither package is imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mtgcn.errors import InputError
from mtgcn.io.column_table import ColumnTable, Texts
from mtgcn.io.table import Coded, as_texts, is_day, is_numeric, is_textual, numbers_of, out_of_range
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
    if is_frame(frame):
        names = [str(name) for name in frame.columns]
        columns = []
        for name in frame.columns if len(set(names)) == len(names) else ():
            series = frame[name]
            try:
                column = series.to_arrow() if hasattr(series, "to_arrow") else pa.Array.from_pandas(series)
            except (pa.ArrowException, TypeError, ValueError):
                column = _from_objects(series.to_numpy(dtype=object))
            columns.append(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    else:
        array = np.asarray(frame, dtype=object)
        names = [f"column {place}" for place in range(1, array.shape[1] + 1)]
        columns = [_from_objects(array[:, place]) for place in range(array.shape[1])]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"the frame names column {twice!r} twice; rename one")
    numbers: dict[int, np.ndarray] = {}
    texts: dict[int, Texts] = {}
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        found = numbers_of(column)
        if found is not None:
            too_large = np.flatnonzero(out_of_range(found, gaps=True))
            if len(too_large):
                row = int(too_large[0])
                raise InputError(
                    f"column {name!r}, row {row + 1} is infinity or too large for single precision; give finite numbers"
                )
            numbers[place] = found
        else:
            texts[place] = _texts(column, name)
    kinds = [column.type for column in columns]
    return ColumnTable(
        names=tuple(names),
        numbers=np.column_stack(list(numbers.values())) if numbers else np.zeros((len(frame), 0)),
        number_columns=tuple(numbers),
        texts=texts,
        days=frozenset(place for place in numbers if is_day(kinds[place])),
        categories=frozenset(place for place in texts if pa.types.is_dictionary(kinds[place])),
        title="the frame",
        place=lambda row: f"row {row + 1}",
    )


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


def _texts(column: pa.Array, name: str) -> Texts:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (is_textual(column.type) or is_numeric(column.type) or pa.types.is_temporal(column.type)):
        raise InputError(f"column {name!r} is of type {column.type}; give numbers or text, or leave the column out")
    coded = Coded.of(column, as_texts)
    return Texts(coded.codes, [str(value).strip() for value in coded.values.to_pylist()])


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return is_missing(cell)
    return True
