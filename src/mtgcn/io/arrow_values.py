"""Between arrow and numpy by the bytes alone. Where pyarrow converts values itself, be it a single number, it imports
pandas if there is one, and that takes longer than reading a small table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def text_values(texts: Sequence[str]) -> pa.StringArray:
    """
    >>> text_values(["é", ""]).to_pylist()
    ['é', '']
    """
    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def number_values(numbers: np.ndarray) -> pa.NumericArray:
    """
    >>> number_values(np.array([3, -1])).to_pylist()
    [3, -1]
    """
    content = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, content])


def text_value(text: str) -> pa.StringScalar:
    return text_values([text])[0]


def number_value(number: float) -> pa.NumericScalar:
    return number_values(np.array([number]))[0]


def no_value(kind: pa.DataType) -> pa.Scalar:
    """Nothing, where there would be a value of this type."""
    return pa.nulls(1, kind)[0]


def numbers_in(column: pa.NumericArray) -> np.ndarray:
    """The same numbers, NaN where one is missing among fractions; read-only, since they stay where they are."""
    if column.null_count:
        column = pc.fill_null(column, number_value(np.nan).cast(column.type))
    return np.from_dlpack(column)
