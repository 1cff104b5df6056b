"""Table columns before preprocessing: numbers where the source has numbers, otherwise text, and how text is parsed.

A format such as `number with decimal comma` is a name that is stored; `parse` applies it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import shown
from mtgcn.labels import is_missing
from mtgcn.shapes import Bool, Float, Int

MISSING = -1  # the code of an empty cell
PLACES_SHOWN = 3  # places listed in a message
LARGEST = float(np.finfo(np.float32).max)

POINT, COMMA = "number", "number with decimal comma"
BOOLEAN = "yes or no"
DATE = "date "  # followed by the date format
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y")
DATE_FORMATS = ("iso", *(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")))
FORMATS = (POINT, COMMA, BOOLEAN, *(DATE + form for form in DATE_FORMATS))
BOOLEANS = ({"yes": 1.0, "no": 0.0}, {"true": 1.0, "false": 0.0})
_NUMBER = {
    POINT: re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"),
    COMMA: re.compile(r"[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"),
}
CODE = re.compile(r"\s*[+-]?0[0-9]")  # 007 and 01067 are names: numbers have no leading zeros
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?")
SECONDS_A_DAY = 86400
SAMPLE = 50  # values on which a date format is tried first


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
        kept = [place for place in np.unique(self.codes).tolist() if place >= 0 and not is_missing(self.values[place])]
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
    absent: int = 0  # empty rows after the last one
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
            return Texts(np.append(found.codes, np.full(self.absent, MISSING)), found.values)
        numbers = self.number(column)
        distinct, codes = np.unique(numbers, return_inverse=True)  # NaN is the last
        values = [str(int(value)) if value == int(value) else str(value) for value in distinct[distinct == distinct]]
        return Texts(np.where(np.isnan(numbers), MISSING, codes), values)

    def places(self, rows: Bool[np.ndarray, "rows"], values: Sequence[str]) -> str:
        """The first of these rows with their values, for a message."""
        some = np.flatnonzero(rows)[:PLACES_SHOWN]
        named = ", ".join(f"{self.place(int(row))} {shown(value)}" for row, value in zip(some, values, strict=False))
        return named + (", …" if np.count_nonzero(rows) > PLACES_SHOWN else "")


def table_of_array(array: np.ndarray | sp.csr_array, names: Sequence[str] = ()) -> ColumnTable:
    """A numeric matrix as a table; unnamed columns are counted from 1."""
    width = int(array.shape[1])
    names = tuple(names) or tuple(f"column {place}" for place in range(1, width + 1))
    return ColumnTable(names, array, tuple(range(width)))


def number_in(text: str, style: str = POINT) -> float | None:
    """The number in a text, or None if it is not a number or exceeds single precision.

    >>> number_in("1234.50"), number_in("1234,50", COMMA), number_in("red")
    (1234.5, 1234.5, None)
    """
    text = text.strip()
    if not _NUMBER[style].fullmatch(text):
        return None
    number = float(text.replace(",", "."))
    return number if abs(number) <= LARGEST else None


def may_be_thousands(texts: Iterable[str], style: str) -> bool:
    """Whether every decimal separator may be a thousands separator.

    >>> may_be_thousands(["1,234", "7"], COMMA), may_be_thousands(["1,234", "0,5"], COMMA)
    (True, False)
    """
    separated = [text.strip() for text in texts if ("," if style == COMMA else ".") in text]
    return bool(separated) and all(map(_THOUSANDS.fullmatch, separated))


def days_in(text: str, form: str) -> float | None:
    """Days since 1970 of a date in this format, or None.

    >>> days_in("1970-01-02", "iso"), days_in("3.1.1970", "%d.%m.%Y"), days_in("31.2.1970", "%d.%m.%Y")
    (1.0, 2.0, None)
    """
    if form == "iso" and not _ISO.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text) if form == "iso" else datetime.strptime(text, form)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / SECONDS_A_DAY


def parse(texts: Iterable[str], form: str) -> Float[np.ndarray, "texts"]:
    """Texts in this format as numbers, NaN for other texts: dates are days since 1970, yes and true are 1.

    >>> parse(["Yes", "false", "1", "perhaps"], BOOLEAN)
    array([ 1.,  0.,  1., nan])
    """
    found: Iterable[float | None]
    if form in (POINT, COMMA):
        found = (number_in(text, form) for text in texts)
    elif form == BOOLEAN:
        words = BOOLEANS[0] | BOOLEANS[1]
        found = (words.get(text.strip().casefold(), number_in(text)) for text in texts)
    else:
        found = (days_in(text.strip(), form.removeprefix(DATE)) for text in texts)
    return np.array(list(found), dtype=np.float64)  # None becomes NaN


def is_boolean(texts: Sequence[str]) -> bool:
    """Whether all texts are yes and no, or true and false, and both occur.

    >>> is_boolean(["yes", "No"]), is_boolean(["true", "no"]), is_boolean(["yes"])
    (True, False, False)
    """
    return {text.strip().casefold() for text in texts} in [words.keys() for words in BOOLEANS]


def date_format(texts: Sequence[str], least_share: float) -> str | None:
    """The date format that fits most texts; None if it fits a smaller share than `least_share`."""

    def share(some: Sequence[str]) -> float:
        return sum(days_in(text, form) is not None for text in some) / max(1, len(some))

    best, most = None, 0.0
    for form in DATE_FORMATS:
        if share(texts[:: max(1, len(texts) // SAMPLE)][: 2 * SAMPLE]) >= least_share:
            found = share(texts)
            if found > most and found >= least_share:
                best, most = DATE + form, found
        if most == 1:
            break
    return best
