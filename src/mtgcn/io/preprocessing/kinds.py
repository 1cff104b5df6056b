"""What each column is, as told or found out: numbers, dates, yes or no, categories, or nothing to learn from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.io.preprocessing import written
from mtgcn.io.preprocessing.table import NOTHING, ColumnTable, Texts
from mtgcn.shapes import Float

Kind = Literal["number", "category", "date", "text"]
KINDS = get_args(Kind)
IGNORE = "ignore"  # a column that is told to be left alone is not even read

MOST_SLIPS = 0.1  # of the values, or one; more than that are no slips of the pen but another kind of column
LEAST_FREQUENT = 0.005  # of the rows: a value of a category that fewer have is pooled with others
LEAST_COVERED = 0.2  # of the rows, by frequent values; else a column is free text, or ids
MOST_VALUES = 50  # of a category, that get a column of their own
IDS = "ids, all different"  # why a column is left out
LEAST_ROWS_OF_IDS = 20  # in fewer rows numbers that all differ are nothing special
_ID_NAME = re.compile(r"(.*[^a-z])?(id|nr|no|num|number|key|index|idx|uuid|guid)|.*(nr|nummer)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID|No)")


@dataclass(frozen=True)
class Found:
    """What a column is: a reading (numbers in the end), a category, or left out for a reason."""

    name: str
    column: int  # its position in the table
    reading: str | None = None  # of `written`; None if the column is no number
    told: bool = False  # by a person; then what does not fit counts as missing
    why_not: str | None = None  # why it is left out

    @property
    def is_date(self) -> bool:
        return self.reading is not None and self.reading.startswith(written.DATE)


def check_kinds(kinds: Mapping[str, str], names: tuple[str, ...], where: str) -> None:
    """Complain of a kind or of a column that there is not."""
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise unknown_name("kind of column", kind, KINDS)
        if name not in names:
            raise InputError(f"{where}: {unknown_name('column', name, [some for some in names if some])}")


def find_kinds(table: ColumnTable, told: Mapping[str, str] | None = None, *, named: bool = True) -> list[Found]:
    """What each column is. Numbers without names (an array) are taken for numbers, whatever they look like."""
    told = told or {}
    styles = {
        column: _number_styles(texts.without_missing_words, told=table.names[column] in told)
        for column, texts in table.texts.items()
        if column not in table.categories and told.get(table.names[column]) in (None, "number")
    }
    # One way of writing numbers for the whole table: 1.234 is 1234 where other columns have decimal commas.
    decimal_comma = any(one == [written.COMMA] for one in styles.values()) and not any(
        one == [written.POINT] for one in styles.values()
    )
    found = []
    for column, name in enumerate(table.names):
        kind = told.get(name)
        if kind == "text":
            found.append(Found(name, column, told=True, why_not=_different(table.text(column), "free text")))
        elif kind == "category":
            found.append(Found(name, column, told=True))
        elif column in table.texts:
            found.append(_of_texts(table, column, kind, styles.get(column, []), decimal_comma))
        elif kind == "date" and column not in table.days:
            raise InputError(f"{table.title}, column {shown(name)} is told to be a date and holds numbers; tell number")
        else:
            found.append(_of_numbers(table, column, kind, named))
    return found


def _of_numbers(table: ColumnTable, column: int, kind: str | None, named: bool) -> Found:
    name = table.names[column]
    reading = written.DATE + "iso" if column in table.days else written.POINT
    if named and kind is None and column not in table.days and _are_ids(name, table.number(column)[: _given(table)]):
        return Found(name, column, why_not=IDS)
    return Found(name, column, reading, told=kind is not None)


def _given(table: ColumnTable) -> int:
    """How many rows something is known of."""
    return table.rows - table.absent


def _are_ids(name: str, values: Float[np.ndarray, "rows"]) -> bool:
    """Whole numbers that all differ, and are called an id or count the rows."""
    if len(set(values[:LEAST_ROWS_OF_IDS].tolist())) < LEAST_ROWS_OF_IDS:  # too few, or two alike among the first
        return False
    if np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    if len(np.unique(values)) < len(values):
        return False
    return values.max() - values.min() == len(values) - 1 or bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


def _of_texts(table: ColumnTable, column: int, kind: str | None, styles: list[str], decimal_comma: bool) -> Found:
    name, texts = table.names[column], table.texts[column].without_missing_words
    if not texts.values:
        return Found(name, column, why_not="empty")
    reading: str | None = None
    if kind == "number":
        reading = written.COMMA if styles == [written.COMMA] or (styles and decimal_comma) else written.POINT
    elif kind == "date":
        reading = written.date_reading(texts.values, least_share=0.01)
        if reading is None:
            raise InputError(
                f"{table.title}, column {shown(name)} is told to be a date and {shown(texts.values[0])} is none that "
                "is known; write dates as 2024-12-31"
            )
    elif column not in table.categories:
        reading = _reading(texts, styles, decimal_comma)
    if reading is not None:
        if kind is None:
            _refuse_slips(table, column, reading)
            if reading in (written.POINT, written.COMMA) and _are_ids(name, _read(texts, reading)[: _given(table)]):
                return Found(name, column, why_not=IDS)
        return Found(name, column, reading, told=kind is not None)
    if column not in table.categories and covered_by_frequent(texts) < LEAST_COVERED:
        return Found(name, column, why_not=_different(texts))
    return Found(name, column)


def _read(texts: Texts, style: str) -> Float[np.ndarray, "rows"]:
    """The numbers that are written in a column, NaN where there is none."""
    return np.append(written.read(texts.values, style), np.nan)[texts.codes]  # NOTHING is the last


def _reading(texts: Texts, styles: list[str], decimal_comma: bool) -> str | None:
    if written.is_truth(texts.values):
        return written.TRUTH
    if styles and not any(map(written.is_code, texts.values)):
        return written.COMMA if styles == [written.COMMA] or (decimal_comma and len(styles) > 1) else styles[0]
    return written.date_reading(texts.values, 1 - MOST_SLIPS)


def _number_styles(texts: Texts, *, told: bool) -> list[str]:
    """The ways of writing numbers by which the most rows are one, if so many are that the others are slips."""
    counts = frequencies(texts)
    rows = int(counts.sum())
    read = {
        style: int(counts[~np.isnan(written.read(texts.values, style))].sum())
        for style in (written.POINT, written.COMMA)
    }
    most = max(read.values())
    slips = rows - most
    if not told and (slips > max(1, MOST_SLIPS * rows) or slips >= most):
        return []
    return [style for style, number in read.items() if number == most]


def _refuse_slips(table: ColumnTable, column: int, reading: str) -> None:
    """Complain of the few cells that are not what all others of the column are."""
    texts = table.texts[column].without_missing_words
    bad = np.isnan(written.read(texts.values, reading))
    if bad.any():
        raise not_readable(table, column, texts, bad, reading, "say")


def not_readable(table: ColumnTable, column: int, texts: Texts, bad: np.ndarray, reading: str, how: str) -> InputError:
    """What to raise of cells that are not what their column is; `how` a person says what they are."""
    name = table.names[column]
    rows = np.append(bad, False)[texts.codes]
    values = [texts.values[texts.codes[row]] for row in np.flatnonzero(rows)]
    noun, kind = ("dates", "date") if reading.startswith(written.DATE) else ("numbers", "number")
    if reading == written.TRUTH:
        noun = "yes or no"
    return InputError(
        f"{table.title}, column {shown(name)}: {np.count_nonzero(rows)} of {table.rows} values are not {noun} "
        f"({table.places(rows, values)}); mend them, or {how} --column {kind}={name} to count them as missing, "
        f"or --column category={name}"
    )


def frequencies(texts: Texts) -> np.ndarray:
    """In how many rows each value stands."""
    return np.bincount(texts.codes[texts.codes != NOTHING], minlength=len(texts.values))


def least_frequent(rows: int) -> int:
    """How many rows must have a value of a category for it to get a column of its own."""
    return max(2, int(np.ceil(LEAST_FREQUENT * rows)))


def covered_by_frequent(texts: Texts) -> float:
    """The share of the rows with a value whose value is frequent."""
    counts = np.sort(frequencies(texts))[::-1]
    frequent = counts[:MOST_VALUES][counts[:MOST_VALUES] >= least_frequent(len(texts.codes))]
    return float(frequent.sum() / max(1, counts.sum()))


def _different(texts: Texts, otherwise: str = "") -> str:
    count = len(texts.values)
    told = f"{count} different values" if count > 1 else "one value"
    return f"{otherwise}, {told}" if otherwise else told
