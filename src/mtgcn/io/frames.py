"""Data frames and object arrays as column tables. narwhals reads frames of pandas, polars, pyarrow and others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from narwhals.exceptions import DuplicateError

from mtgcn.errors import InputError, as_input_error, unknown_name
from mtgcn.io.column_table import ColumnTable
from mtgcn.io.graph_tables import first_rows
from mtgcn.io.roles import NodeColumns
from mtgcn.io.table import memory_table
from mtgcn.labels import is_missing


def is_frame(given: Any) -> bool:
    """Whether this is a data frame in memory."""
    return nw.dependencies.is_into_dataframe(given)


def split_target(frame: Any, target: str) -> tuple[Any, np.ndarray]:
    """The frame without the column of the target, and that column."""
    if not is_frame(frame):
        raise InputError(f"target={target!r} names a column of a data frame, but X is a {type(frame).__name__}; give y")
    data = _narwhal(frame)
    if target not in data.columns:
        raise InputError(f"the frame: {unknown_name('column', target, map(str, data.columns))}")
    return data.drop(target).to_native(), data[target].to_numpy()


def without_column(frame: Any, column: str | None) -> Any:
    """The frame without a column, if it has one of that name."""
    data = _narwhal(frame)
    return data.drop(column).to_native() if column in data.columns else frame


def _narwhal(frame: Any) -> nw.DataFrame[Any]:
    with as_input_error("the frame cannot be read", "rename one", DuplicateError):
        return nw.from_native(frame, eager_only=True)


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
        data = _narwhal(frame)
        names = [str(name) for name in data.columns]
        cells = [_from_series(column) for column in data.iter_columns()]
    else:
        array = np.asarray(frame, dtype=object)
        names = [f"column {place}" for place in range(1, array.shape[1] + 1)]
        cells = [_from_objects(column) for column in array.T]
    table = memory_table(Path("the frame"), "a data frame", names, cells)
    if not len(frame) or not table.columns:
        raise InputError(f"the frame holds {len(frame)} rows of {len(table.columns)} columns; give some of both")
    features = tuple(range(len(table.columns)))
    rows = first_rows(table, NodeColumns(None, None, None, features, table.columns, {}))
    assert rows is not None
    return rows


def _from_series(series: Any) -> pa.Array:
    try:
        return series.to_arrow()
    except (pa.ArrowException, TypeError, ValueError):
        return _from_objects(series.to_numpy())


def _from_objects(cells: np.ndarray) -> pa.Array:
    """Numbers if all cells are numbers or missing, otherwise text."""
    absent = ("NAType", "NaTType")  # missing values of pandas, which is not imported
    present = [
        None if (isinstance(cell, float) and cell != cell) or type(cell).__name__ in absent else cell for cell in cells
    ]
    if all(cell is None or isinstance(cell, bool | int | float | np.number | np.bool_) for cell in present):
        return pa.array([None if cell is None else float(cell) for cell in present], pa.float64())
    return pa.array([None if cell is None else str(cell) for cell in present], pa.string())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return is_missing(cell)
    return True
