"""A table in a file, read batch after batch so that its size does not matter. CSV and Parquet are two kinds of it."""

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

from mtgcn.errors import InputError
from mtgcn.io.arrow_values import no_value, number_value, numbers_in, text_value
from mtgcn.io.faults import FaultKind, Faults
from mtgcn.io.paths import shown
from mtgcn.io.texts import check_names
from mtgcn.shapes import Float, Int

MISSING = -1  # the code of an empty cell
MOST_COLUMNS = 100_000  # each is looked at for itself, which takes half a millisecond
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
NO_FINITE_NUMBER = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of ids or labels: the different values, and for each row which of them it holds."""

    codes: Int[np.ndarray, "rows"]  # MISSING where the cell is empty
    values: pa.Array  # text or 64-bit whole numbers, no two alike
    stays_text: bool = False  # whether the file calls it text, also where it looks like a number

    @staticmethod
    def of(column: pa.Array, cleaned: Callable[[pa.Array], pa.Array], *, stays_text: bool = False) -> Coded:
        """`cleaned` is applied to the different values alone, of which there are fewer than rows."""
        encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
        codes, values = codes_of(encoded.indices), cleaned(encoded.dictionary)
        if values.null_count or not values.equals(encoded.dictionary):  # two may have become alike, or empty
            codes, values = _encoded_again(codes, values)
        if pa.types.is_string(values.type):
            nothing = text_value("")
            if pc.index(values, nothing).as_py() != MISSING:
                present = pc.if_else(pc.equal(values, nothing), no_value(values.type), values)
                codes, values = _encoded_again(codes, present)
        return Coded(codes, values, stays_text)

    def text(self, row: int) -> str:
        return str(self.values[int(self.codes[row])].as_py())


def _encoded_again(codes: np.ndarray, values: pa.Array) -> tuple[np.ndarray, pa.Array]:
    again = values.dictionary_encode()
    code_of_value = np.append(codes_of(again.indices), MISSING)  # the last answers for MISSING, as an index
    return code_of_value[codes], again.dictionary


def codes_of(indices: pa.Array) -> Int[np.ndarray, "rows"]:
    """Places in a list of values, MISSING where there is none."""
    return numbers_in(pc.fill_null(indices.cast(pa.int64()), number_value(MISSING)))


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows: the columns asked for as text, and those asked for as numbers, each finite, or NaN in a gap."""

    texts: list[Coded]
    numbers: Float[np.ndarray, "rows columns"]
    places: Int[np.ndarray, "rows"]  # the line of each row, or in Parquet its number

    def __len__(self) -> int:
        return len(self.places)


class NotNumbers(Exception):
    """Columns that were asked for as numbers, gaps allowed, and hold something else; they can be read as text."""

    def __init__(self, columns: Sequence[int]) -> None:
        super().__init__(columns)
        self.columns = tuple(columns)


class Table(ABC):
    """Columns and where they come from. Nothing but the beginning of the file has been read."""

    path: Path
    unit: str  # what messages count: lines or rows
    columns: tuple[str, ...]  # "" where a column has no name
    has_header: bool
    first_place: int  # of the first row, or of the header
    sample: list[list[str]]  # the first rows, header excluded; [] where a file tells its types itself

    @abstractmethod
    def batches(self, texts: Sequence[int], numbers: Sequence[int], *, gaps: bool = False) -> Iterator[Batch]:
        """Every row once, in order: these columns as text, those as numbers.

        With `gaps` a number may be missing, and a column that is no numbers after all raises `NotNumbers`; without,
        either is a fault of the file.
        """

    @abstractmethod
    def numeric(self, columns: Sequence[int]) -> list[int]:
        """Those of the columns that seem to be numbers, and dates where the file has a type for them."""

    def days(self, columns: Sequence[int]) -> frozenset[int]:
        """Those of the columns that the file says are dates."""
        return frozenset()

    def categories(self, columns: Sequence[int]) -> frozenset[int]:
        """Those of the columns that the file says are categories."""
        return frozenset()

    def with_header(self) -> Table | None:
        """The same table, if its first row may after all be a header; None if not."""
        return None

    def name_of(self, column: int) -> str:
        """How messages call a column."""
        return f"column {shown(self.columns[column])}" if self.columns[column] else f"column {column + 1}"

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a header that names a column twice, or not as a column can be called."""
        named = Counter(name for name in names if name)
        check_names(named, "column", str(self.path))
        [(most, times)] = named.most_common(1) or [("", 0)]
        if times > 1:
            place = self.at(self.first_place) if self.unit == "line" else str(self.path)
            raise InputError(f"{place} names column {shown(most)} twice; rename one")

    def check_width(self, columns: int) -> None:
        """Refuse more columns than can be read in reasonable time."""
        if columns > MOST_COLUMNS:
            raise InputError(
                f"{self.path} has {columns} columns and tables are read up to {MOST_COLUMNS}; is this the right "
                "delimiter? Wider features can be given as a sparse matrix in a .npz file (--graph)"
            )

    def at(self, place: int) -> str:
        """How messages call a place."""
        return f"{self.path} {self.unit} {place}"

    def add_not_a_number(self, faults: Faults, place: int, column: int, value: Any) -> None:
        """Note a cell where a number should be and is not, or none that can be reckoned with."""
        cell = f"{self.at(place)}, {self.name_of(column)}"
        text = "" if value is None else str(value).strip()
        if not text:
            fault = "is empty; write a number there, or leave the column out"
        elif NUMBER.fullmatch(text) or NO_FINITE_NUMBER.fullmatch(text):
            fault = f"is {shown(text)}; give a finite number that single precision can hold"
        else:
            fault = f"is {shown(text)}, not a number; mend it, or leave the column out"
        kind = FaultKind(
            f"cells of {self.name_of(column)} are no finite numbers",
            "mend them (numbers up to 3e38), or leave the column out",
        )
        faults.add(kind, f"{cell} {fault}", [f"{self.unit} {place} {shown(text)}"])


def is_finite_number(text: str) -> bool:
    """Whether a cell is a number as the readers take it: finite also in single precision."""
    if not NUMBER.fullmatch(text):
        return False
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.float32(text)))
