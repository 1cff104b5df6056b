"""Table columns before preprocessing: numbers where the source has numbers, otherwise text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import shown
from mtgcn.labels import is_missing
from mtgcn.shapes import Bool, Float, Int

MISSING = -1  # the code of an empty cell
PLACES_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Texts:
    """A text column: distinct values, and the code of each row."""

    codes: Int[np.ndarray, "rows"]  # MISSING for an empty cell
    values: Sequence[str]

    @staticmethod
    def of(cells: Sequence[str | None]) -> Texts:
        """
        >>> Texts.of(["b", None, "a", "b"]).codes
        array([ 0, -1,  1,  0])
        """
        place: dict[str, int] = {}
        codes = [MISSING if cell is None else place.setdefault(cell.strip(), len(place)) for cell in cells]
        return Texts(np.array(codes, dtype=np.int64), list(place))

    @cached_property
    def without_missing_words(self) -> Texts:
        """The column with words such as NA as empty cells, and only values that occur."""
        occurring = np.zeros(len(self.values), dtype=bool)
        occurring[self.codes[self.codes != MISSING]] = True
        kept = [place for place, value in enumerate(self.values) if occurring[place] and not is_missing(value)]
        code = np.full(len(self.values) + 1, MISSING)  # the last entry is for MISSING
        code[kept] = np.arange(len(kept))
        return Texts(code[self.codes], [self.values[place] for place in kept])

    @property
    def counts(self) -> Int[np.ndarray, "values"]:
        """The number of rows with each value."""
        return np.bincount(self.codes[self.codes != MISSING], minlength=len(self.values))


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Rows of named columns. `numbers` holds the numeric columns, NaN where a value is missing."""

    names: tuple[str, ...]
    numbers: Any  # np.ndarray | sp.csr_array; scipy's arrays are untyped
    number_columns: tuple[int, ...]
    texts: Mapping[int, Texts] = field(default_factory=dict)
    days: frozenset[int] = frozenset()  # numeric columns that are dates, in days since 1970
    categories: frozenset[int] = frozenset()  # text columns that their source declares as categories
    absent: int = 0  # rows without any value, after the last
    # For messages: the name of the table, and of a row.
    title: str = "the table"
    place: Callable[[int], str] = "row {}".format

    @property
    def rows(self) -> int:
        return int(self.numbers.shape[0]) + self.absent

    @cached_property
    def number_place(self) -> dict[int, int]:
        return {column: place for place, column in enumerate(self.number_columns)}

    @cached_property
    def _by_column(self) -> Any:
        if not sp.issparse(self.numbers):
            return self.numbers
        matrix = self.numbers.tocsc(copy=True)
        matrix.sum_duplicates()
        return matrix

    def number(self, column: int) -> Float[np.ndarray, "rows"]:
        """A numeric column in double precision, NaN where a value is missing."""
        matrix, place = self._by_column, self.number_place[column]
        values = np.full(self.rows, np.nan)
        known = values[: self.rows - self.absent]
        if sp.issparse(matrix):  # scipy's own indexing is too slow for thousands of columns
            entries = slice(*matrix.indptr[place : place + 2])
            known[:] = 0
            known[matrix.indices[entries]] = matrix.data[entries]
        else:
            known[:] = matrix[:, place]
        return values

    def text(self, column: int) -> Texts:
        """A column as text without missing words; numbers as Python writes them, whole ones without a point."""
        if column in self.texts:
            found = self.texts[column].without_missing_words
        else:
            found = _number_texts(self.number(column)[: self.rows - self.absent])
        if not self.absent:
            return found
        return Texts(np.concatenate([found.codes, np.full(self.absent, MISSING)]), found.values)

    def places(self, rows: Bool[np.ndarray, "rows"], values: Sequence[str]) -> str:
        """The first of some rows with their values, for a message."""
        some = np.flatnonzero(rows)[:PLACES_SHOWN]
        named = ", ".join(f"{self.place(int(row))} {shown(value)}" for row, value in zip(some, values, strict=False))
        return named + (", …" if np.count_nonzero(rows) > PLACES_SHOWN else "")


def table_of_array(array: np.ndarray | sp.csr_array, names: Sequence[str] = ()) -> ColumnTable:
    """A numeric matrix as a table; unnamed columns are counted from 1."""
    width = int(array.shape[1])
    return ColumnTable(
        names=tuple(names) or tuple(f"column {place}" for place in range(1, width + 1)),
        numbers=array,
        number_columns=tuple(range(width)),
    )


def _number_texts(numbers: Float[np.ndarray, "rows"]) -> Texts:
    present = ~np.isnan(numbers)
    distinct, codes = np.unique(numbers[present], return_inverse=True)
    all_codes = np.full(len(numbers), MISSING)
    all_codes[present] = codes
    return Texts(all_codes, [str(int(value)) if value == int(value) else str(value) for value in distinct])
