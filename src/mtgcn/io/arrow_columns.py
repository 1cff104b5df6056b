"""Columns as arrow holds them, from Parquet files and data frames: which are numbers, dates or text, and as arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.io.arrow_values import no_value, numbers_in

MILLISECONDS_A_DAY = 86_400_000


def numbers_of(column: pa.Array) -> np.ndarray | None:
    """Numbers in single precision, dates as days since 1970, NaN for nothing; None if the column is neither."""
    if is_day(column.type):
        # Seconds since 1970 in doubles, where milliseconds survive; dates outside what nanoseconds reach too.
        seconds = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).cast(pa.float64(), safe=False)
        return numbers_in(seconds) / MILLISECONDS_A_DAY
    if not is_numeric(column.type):
        return None
    return numbers_in(column.cast(pa.float32(), safe=False))


def as_texts(values: pa.Array) -> pa.Array:
    """Whole numbers, also those that pandas wrote with a point since some cells were empty; else text."""
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
