"""A person's columns before anything was made of them: numbers where a file or a frame has numbers, else texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import shown
from mtgcn.io.preprocessing.missing import is_missing
from mtgcn.shapes import Bool, Float, Int

NOTHING = -1  # the code of a cell that is empty
PLACES_NAMED = 3


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of text: the different values, and for each row which of them it holds."""

    codes: Int[np.ndarray, "rows"]  # NOTHING where the cell is empty
    values: Sequence[str]

    @staticmethod
    def of(cells: Sequence[str | None]) -> Texts:
        """The column with these cells.

        >>> Texts.of(["b", None, "a", "b"]).codes
        array([ 0, -1,  1,  0])
        """
        place: dict[str, int] = {}
        codes = [NOTHING if cell is None else place.setdefault(cell.strip(), len(place)) for cell in cells]
        return Texts(np.array(codes, dtype=np.int64), list(place))

    @cached_property
    def without_missing_words(self) -> Texts:
        """The same column, where a word such as NA is an empty cell, and every value that is left occurs."""
        occurring = np.zeros(len(self.values), dtype=bool)
        occurring[self.codes[self.codes != NOTHING]] = True
        kept = [place for place, value in enumerate(self.values) if occurring[place] and not is_missing(value)]
        code = np.full(len(self.values) + 1, NOTHING)  # the last answers for NOTHING, as an index
        code[kept] = np.arange(len(kept))
        return Texts(code[self.codes], [self.values[place] for place in kept])


@dataclass(frozen=True, eq=False)
class ColumnTable:
    """Rows of named columns. `numbers` holds those columns that are numbers already, NaN where one is missing."""

    names: tuple[str, ...]
    numbers: Any  # np.ndarray | sp.csr_array; scipy's arrays are untyped
    number_columns: tuple[int, ...]
    texts: Mapping[int, Texts] = field(default_factory=dict)
    days: frozenset[int] = frozenset()  # the number columns that are dates, as days since 1970
    categories: frozenset[int] = frozenset()  # the text columns that their source calls categories
    absent: int = 0  # rows after the last, of which nothing is known
    # How messages call the table and a row of it.
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
        """A column that is numbers already, in doubles; NaN where one is missing."""
        matrix, place = self._by_column, self.number_place[column]
        values = np.full(self.rows, np.nan)
        known = values[: self.rows - self.absent]
        if sp.issparse(matrix):  # by its parts: an index of scipy takes longer than all the rest, a thousand times over
            entries = slice(*matrix.indptr[place : place + 2])
            known[:] = 0
            known[matrix.indices[entries]] = matrix.data[entries]
        else:
            known[:] = matrix[:, place]
        return values

    def text(self, column: int) -> Texts:
        """A column as text without missing words; numbers as Python would write them, whole ones without a point."""
        if column in self.texts:
            found = self.texts[column].without_missing_words
        else:
            found = _written(self.number(column)[: self.rows - self.absent])
        if not self.absent:
            return found
        return Texts(np.concatenate([found.codes, np.full(self.absent, NOTHING)]), found.values)

    def places(self, rows: Bool[np.ndarray, "rows"], values: Sequence[str]) -> str:
        """The first of some rows, each with what stands there, for a message."""
        some = np.flatnonzero(rows)[:PLACES_NAMED]
        named = ", ".join(f"{self.place(int(row))} {shown(value)}" for row, value in zip(some, values, strict=False))
        return named + (", …" if np.count_nonzero(rows) > PLACES_NAMED else "")


def table_of_array(array: np.ndarray | sp.csr_array, names: Sequence[str] = ()) -> ColumnTable:
    """A matrix of numbers as a table, its columns counted from 1 where they have no names."""
    width = int(array.shape[1])
    return ColumnTable(
        names=tuple(names) or tuple(f"column {place}" for place in range(1, width + 1)),
        numbers=array,
        number_columns=tuple(range(width)),
    )


def _written(numbers: Float[np.ndarray, "rows"]) -> Texts:
    present = ~np.isnan(numbers)
    different, codes = np.unique(numbers[present], return_inverse=True)
    all_codes = np.full(len(numbers), NOTHING)
    all_codes[present] = codes
    return Texts(all_codes, [str(int(value)) if value == int(value) else str(value) for value in different])
