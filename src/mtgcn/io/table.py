"""Tables in files, read batch after batch; CSV and Parquet implement `Table`.

Values go between arrow and NumPy by their bytes: where pyarrow converts values itself, it imports pandas, which takes
longer than reading a small table.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mtgcn.errors import InputError, check_names, shown
from mtgcn.shapes import Float, Int

MISSING = -1  # the code of an empty cell
MAX_COLUMNS = 100_000  # each takes half a millisecond to inspect
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
NO_FINITE_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
PLACES_SHOWN = 3


@dataclass(frozen=True)
class FaultKind:
    """Faults with the same message and remedy."""

    what: str  # for instance "values are not numbers"
    remedy: str


class Faults:
    """The faults found in a file. The error describes a single one, or counts several and shows the first places."""

    def __init__(self, title: str) -> None:
        self._title = title  # of the file
        self._counts: dict[FaultKind, int] = {}
        self._places: dict[FaultKind, list[str]] = {}
        self._alone: dict[FaultKind, str] = {}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def add(self, kind: FaultKind, alone: str, places: Sequence[str], count: int | None = None) -> None:
        """Add faults at these places (the first few, with `count`); `alone` is the message for a single one."""
        self._alone.setdefault(kind, alone)
        self._counts[kind] = self._counts.get(kind, 0) + (len(places) if count is None else count)
        known = self._places.setdefault(kind, [])
        known.extend(places[: PLACES_SHOWN - len(known)])

    def raise_first_kind(self) -> None:
        """Raise an error for the kind of fault found first, if there is any."""
        for kind, count in self._counts.items():
            if count == 1:
                raise InputError(self._alone[kind])
            more = ", …" if count > PLACES_SHOWN else ""
            places = ", ".join(self._places[kind])
            raise InputError(f"{self._title}: {count} {kind.what} ({places}{more}); {kind.remedy}")


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
    """A null of this type."""
    return pa.nulls(1, kind)[0]


def numbers_in(column: pa.NumericArray) -> np.ndarray:
    """A read-only view of an arrow column, NaN for nulls."""
    if column.null_count:
        column = pc.fill_null(column, number_value(np.nan).cast(column.type))
    return np.from_dlpack(column)


@dataclass(frozen=True, eq=False)
class Coded:
    """A dictionary-encoded column: distinct values, and the code of each row."""

    codes: Int[np.ndarray, "rows"]  # MISSING for an empty cell
    values: pa.Array  # distinct texts or 64-bit integers
    stays_text: bool = False  # whether the file declares text, also for digits

    @staticmethod
    def of(column: pa.Array, cleaned: Callable[[pa.Array], pa.Array], *, stays_text: bool = False) -> Coded:
        """Encode a column; `cleaned` is applied to the distinct values only."""
        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        codes, values = codes_of(encoded.indices), cleaned(encoded.dictionary)
        if values.null_count or not values.equals(encoded.dictionary):  # values may have become equal or empty
            codes, values = _encoded_again(codes, values)
        if pa.types.is_string(values.type):
            empty = text_value("")
            if pc.index(values, empty).as_py() != MISSING:
                present = pc.if_else(pc.equal(values, empty), no_value(values.type), values)
                codes, values = _encoded_again(codes, present)
        return Coded(codes, values, stays_text)

    def text(self, row: int) -> str:
        return str(self.values[int(self.codes[row])].as_py())


def _encoded_again(codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    again = values.dictionary_encode()
    code_of_value = np.append(codes_of(again.indices), MISSING)  # the last entry is for MISSING
    return code_of_value[codes], again.dictionary


def codes_of(indices: pa.Array) -> Int[np.ndarray, "rows"]:
    """Dictionary indices, MISSING for nulls."""
    return numbers_in(pc.fill_null(indices.cast(pa.int64()), number_value(MISSING)))


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows: the requested text and number columns; numbers are finite, or NaN if missing."""

    texts: list[Coded]
    numbers: Float[np.ndarray, "rows columns"]
    places: Int[np.ndarray, "rows"]  # line numbers, or row numbers in Parquet

    def __len__(self) -> int:
        return len(self.places)


class NotNumbers(Exception):
    """Columns requested as numbers that hold something else; they can be read as text."""

    def __init__(self, columns: Sequence[int]) -> None:
        super().__init__(columns)
        self.columns = tuple(columns)


class Table(ABC):
    """A table of which only the beginning has been read."""

    path: Path
    unit: str  # "line" or "row", for messages
    columns: tuple[str, ...]  # "" without a name
    has_header: bool
    first_place: int  # of the first row, or of the header
    sample: list[list[str]]  # the first rows without the header; [] if the file has column types

    @abstractmethod
    def batches(self, texts: Sequence[int], numbers: Sequence[int], *, gaps: bool = False) -> Iterator[Batch]:
        """All rows in order, with columns as text and as numbers.

        With `gaps`, numbers may be missing, and a column of other values raises `NotNumbers`; else both are faults.
        """

    @abstractmethod
    def numeric(self, columns: Sequence[int]) -> list[int]:
        """The columns that seem to be numbers, and those with a date type."""

    def days(self, columns: Sequence[int]) -> frozenset[int]:
        """The columns with a date type."""
        return frozenset()

    def categories(self, columns: Sequence[int]) -> frozenset[int]:
        """The columns with a category type."""
        return frozenset()

    def with_header(self) -> Table | None:
        """The same table with its first row as the header; None if it cannot be one."""
        return None

    def name_of(self, column: int) -> str:
        """A column, for messages."""
        return f"column {shown(self.columns[column])}" if self.columns[column] else f"column {column + 1}"

    def check_columns(self, names: Sequence[str]) -> None:
        """Reject repeated and invalid column names."""
        named = Counter(name for name in names if name)
        check_names(named, "column", str(self.path))
        [(most, times)] = named.most_common(1) or [("", 0)]
        if times > 1:
            place = self.at(self.first_place) if self.unit == "line" else str(self.path)
            raise InputError(f"{place} names column {shown(most)} twice; rename one")

    def check_width(self, columns: int) -> None:
        """Reject too many columns."""
        if columns > MAX_COLUMNS:
            raise InputError(
                f"{self.path} has {columns} columns, more than {MAX_COLUMNS}; check the delimiter, or give wide "
                "features as a sparse matrix in a .npz file (--graph)"
            )

    def at(self, place: int) -> str:
        """A line or row, for messages."""
        return f"{self.path} {self.unit} {place}"

    def add_not_a_number(self, faults: Faults, place: int, column: int, value: Any) -> None:
        """Add the fault of a cell that is not a finite number."""
        cell = f"{self.at(place)}, {self.name_of(column)}"
        text = "" if value is None else str(value).strip()
        if not text:
            fault = "is empty; write a number there, or leave the column out"
        elif NUMBER.fullmatch(text) or NO_FINITE_NUMBER.fullmatch(text):
            fault = f"is {shown(text)}; give a finite number that single precision can hold"
        else:
            fault = f"is {shown(text)}, not a number; correct it, or leave the column out"
        kind = FaultKind(
            f"cells of {self.name_of(column)} are not finite numbers",
            "correct them (numbers up to 3e38), or leave the column out",
        )
        faults.add(kind, f"{cell} {fault}", [f"{self.unit} {place} {shown(text)}"])


def is_finite_number(text: str) -> bool:
    """Whether a cell is a number that is finite in single precision."""
    if not NUMBER.fullmatch(text):
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(text)))
