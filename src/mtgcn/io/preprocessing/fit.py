"""Column type inference and fitting of a `Preprocessor`.

Counts, words and pixels stay as given: their rows are compared by the proportions of their parts, and standardising
would give the rarest word the largest weight. Other numbers are standardised, after a logarithm if their tail is heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from mtgcn.errors import InputError, shown, unknown_name
from mtgcn.io.preprocessing import values as formats
from mtgcn.io.preprocessing.column_table import MISSING, ColumnTable, Texts
from mtgcn.io.preprocessing.preprocessor import (
    CategoryColumn,
    Column,
    DroppedColumn,
    NumberColumn,
    Preprocessor,
    compressed,
    parsed_column,
    unparsable,
)
from mtgcn.shapes import Float

Kind = Literal["number", "category", "date", "text"]
KINDS = get_args(Kind)
IGNORE = "ignore"  # the kind of a column that is not read

MAX_ERRORS = 0.1  # share of values, or one: the most that are typing errors rather than another column type
MIN_FREQUENCY = 0.005  # share of rows: rarer values of a category are pooled
MIN_COVERED = 0.2  # share of rows with a frequent value; else a column is free text or ids
MAX_VALUES = 50  # outputs of a category
IDS = "ids, all different"
MIN_ROWS_OF_IDS = 20  # with fewer rows, numbers may all differ by chance
MIN_WORDS = 20  # columns that are mostly zero, in a table of words
MOSTLY_ZERO = 0.5
SIMILAR_SIZE = 10.0  # ratio of sizes up to which columns count as similar
HEAVY_TAIL = 10.0  # excess kurtosis; a normal distribution has 0, an exponential one 6
SMALL_QUANTILE = 0.05  # the unit of the logarithm of amounts
CLIP = 3.0  # robust standard deviations from the median, for heavy tails
NORMAL_QUARTILES = 1.349  # interquartile range of the standard normal distribution
MIN_SPREAD = 1e-9  # relative to the values; less is rounding
_ID_NAME = re.compile(r"(.*[^a-z])?(id|nr|no|num|number|key|index|idx|uuid|guid)|.*(nr|nummer)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID|No)")


@dataclass(frozen=True)
class ColumnType:
    """The inferred type of a column: a number `format`, a category (no format), or `dropped` for a reason."""

    name: str
    column: int  # position in the table
    format: str | None = None
    lenient: bool = False  # the user chose the type; values that do not fit are missing
    dropped: str | None = None

    @property
    def is_date(self) -> bool:
        return self.format is not None and self.format.startswith(formats.DATE)


@dataclass(frozen=True)
class Size:
    """Statistics of a numeric column that distinguish amounts from measurements."""

    zeros: float  # share
    smallest: float
    largest: float
    root_mean_square: float
    whole: bool  # only whole numbers

    @staticmethod
    def of(values: Float[np.ndarray, "rows"]) -> Size:
        values = values[~np.isnan(values)]
        if not len(values):
            return Size(0.0, 0.0, 0.0, 0.0, False)
        return Size(
            zeros=float(np.mean(values == 0)),
            smallest=float(values.min()),
            largest=float(values.max()),
            root_mean_square=float(np.sqrt(np.mean(values**2))),
            whole=bool((values == np.floor(values)).all()),
        )

    @property
    def varies(self) -> bool:
        return self.smallest < self.largest

    @property
    def is_word(self) -> bool:
        return self.smallest >= 0 and self.zeros >= MOSTLY_ZERO

    @property
    def is_boolean(self) -> bool:
        return self.whole and self.smallest >= 0 and self.largest <= 1


def are_amounts(sizes: Sequence[Size]) -> list[bool]:
    """For each column, whether it is an amount: a word count, a pixel, or another count.

    Many columns that are mostly zero are words or pixels, and so are non-negative columns of similar size beside them.
    Few columns are counts if all of them are whole numbers from zero, of similar size.

    >>> income, age, children = (Size.of(np.array(some)) for some in ([41e3, 52e3], [30.0, 61.0], [0.0, 2.0]))
    >>> are_amounts([income, age, children])
    [False, False, False]
    >>> are_amounts([children, Size.of(np.array([3.0, 0.0]))])
    [True, True]
    """
    varying = [size for size in sizes if size.varies]
    words = [size for size in sizes if size.is_word]
    if len(words) >= MIN_WORDS:
        limit = SIMILAR_SIZE * max(size.root_mean_square for size in words)
        return [size.is_word or (size.smallest >= 0 and size.root_mean_square <= limit) for size in sizes]
    if len(varying) < 2 or not all(size.whole and size.smallest == 0 for size in varying):
        return [False] * len(sizes)
    counts = [size.root_mean_square for size in varying]
    return [max(counts) <= SIMILAR_SIZE * min(counts)] * len(sizes)


def fit_columns(
    table: ColumnTable, kinds: Mapping[str, str] | None = None, *, scale: bool = True, named: bool = True
) -> Preprocessor:
    """Learn the transform of each column. `kinds` sets the type of some columns; `scale=False` keeps numbers as given.
    Columns of an array (`named=False`) are numbers, whatever they look like."""
    for name, kind in (kinds or {}).items():
        if kind not in KINDS:
            raise unknown_name("kind of column", kind, KINDS)
        if name not in table.names:
            raise InputError(f"{table.title}: {unknown_name('column', name, [some for some in table.names if some])}")
    types = infer_types(table, kinds, named=named)
    sizes = {
        one.name: Size.of(parsed_column(table, one.column, one.format, lenient=True))
        for one in types
        if one.format is not None and not one.is_date
    }
    amounts = dict(zip(sizes, are_amounts(list(sizes.values())), strict=True))
    whole_table = len(amounts) == len(table.names) and all(amounts.values())
    columns: list[Column] = []
    for one in types:
        if one.dropped is not None:
            columns.append(DroppedColumn(one.name, one.dropped))
        elif one.format is None:
            columns.append(_category(table, one))
        elif amounts.get(one.name) and (whole_table or sizes[one.name].varies):
            columns.append(NumberColumn(one.name, one.format, lenient=one.lenient, as_is=True))
        else:
            columns.append(_number(table, one, scale=scale))
    if not any(column.outputs for column in columns) and not named:  # an array of constants
        columns = [NumberColumn(one.name, one.format or formats.POINT, as_is=True) for one in types]
    return Preprocessor(tuple(columns), named)


def infer_types(table: ColumnTable, kinds: Mapping[str, str] | None = None, *, named: bool = True) -> list[ColumnType]:
    """The type of each column, as chosen in `kinds` or inferred."""
    kinds = kinds or {}
    styles = {
        column: _number_styles(texts.without_missing_words, chosen=table.names[column] in kinds)
        for column, texts in table.texts.items()
        if column not in table.categories and kinds.get(table.names[column]) in (None, "number")
    }
    decimal_commas = any(
        style == [formats.COMMA] and not formats.may_be_thousands(table.texts[column].values, formats.COMMA)
        for column, style in styles.items()
    )
    found = []
    for column, name in enumerate(table.names):
        kind = kinds.get(name)
        if kind == "text":
            dropped = f"free text, {_distinct(table.text(column))}"
            found.append(ColumnType(name, column, lenient=True, dropped=dropped))
        elif kind == "category":
            found.append(ColumnType(name, column, lenient=True))
        elif column in table.texts:
            found.append(_text_type(table, column, kind, styles.get(column, []), decimal_commas))
        elif kind == "date" and column not in table.days:
            raise InputError(f"{table.title}, column {shown(name)} holds numbers, not dates; choose number")
        else:
            found.append(_number_type(table, column, kind, named))
    return found


def _number_type(table: ColumnTable, column: int, kind: str | None, named: bool) -> ColumnType:
    name = table.names[column]
    given = table.number(column)[: table.rows - table.absent]
    if named and kind is None and column not in table.days and _are_ids(name, given):
        return ColumnType(name, column, dropped=IDS)
    form = formats.DATE + "iso" if column in table.days else formats.POINT
    return ColumnType(name, column, form, lenient=kind is not None)


def _are_ids(name: str, values: Float[np.ndarray, "rows"]) -> bool:
    """Whole numbers that all differ, and count the rows or are named like an id."""
    if len(set(values[:MIN_ROWS_OF_IDS].tolist())) < MIN_ROWS_OF_IDS:
        return False
    if np.isnan(values).any() or (values != np.floor(values)).any():
        return False
    if len(np.unique(values)) < len(values):
        return False
    return values.max() - values.min() == len(values) - 1 or bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


def _text_type(
    table: ColumnTable, column: int, kind: str | None, styles: list[str], decimal_commas: bool
) -> ColumnType:
    name, texts = table.names[column], table.texts[column].without_missing_words
    if not texts.values:
        return ColumnType(name, column, dropped="empty")
    form: str | None = None
    if kind == "number":
        form = styles[0]
    elif kind == "date":
        form = formats.date_format(texts.values, least_share=0.01)
        if form is None:
            raise InputError(
                f"{table.title}, column {shown(name)}: {shown(texts.values[0])} is not a known date format; write "
                "dates as 2024-01-31 or 31.01.2024"
            )
    elif column not in table.categories:
        if formats.is_boolean(texts.values):
            form = formats.BOOLEAN
        elif styles and not any(map(formats.is_code, texts.values)):
            form = styles[0]
        else:
            form = formats.date_format(texts.values, 1 - MAX_ERRORS)
        # A comma is ambiguous in a table without decimal commas, and a point in a table with them.
        ambiguous = formats.POINT if decimal_commas else formats.COMMA
        if form == ambiguous and formats.may_be_thousands(texts.values, form):
            number = next(value for value in texts.values if not value.strip("+-").isdigit())
            raise InputError(
                f"{table.title}, column {shown(name)}: {shown(number)} may have a thousands or a decimal separator; "
                f"write numbers without thousands separators, or use --column number={name} for decimals"
            )
    if form is not None:
        if kind is None:
            bad = np.isnan(formats.parse(texts.values, form))
            if bad.any():
                raise unparsable(table, column, texts, bad, form, "use")
            if form in (formats.POINT, formats.COMMA):
                numbers = np.append(formats.parse(texts.values, form), np.nan)[texts.codes]
                if _are_ids(name, numbers[: table.rows - table.absent]):
                    return ColumnType(name, column, dropped=IDS)
        return ColumnType(name, column, form, lenient=kind is not None)
    if column not in table.categories and _covered_by_frequent(texts) < MIN_COVERED:
        return ColumnType(name, column, dropped=_distinct(texts))
    return ColumnType(name, column)


def _number_styles(texts: Texts, *, chosen: bool) -> list[str]:
    """The number formats that fit most rows, if the other values are few enough to be typing errors."""
    counts, styles = texts.counts, (formats.POINT, formats.COMMA)
    rows = int(counts.sum())
    parsed = [int(counts[~np.isnan(formats.parse(texts.values, style))].sum()) for style in styles]
    most = max(parsed)
    errors = rows - most
    if not chosen and (errors > max(1, MAX_ERRORS * rows) or errors >= most):
        return []
    return [style for style, number in zip(styles, parsed, strict=True) if number == most]


def _min_frequency(rows: int) -> int:
    return max(2, int(np.ceil(MIN_FREQUENCY * rows)))


def _covered_by_frequent(texts: Texts) -> float:
    """The share of non-missing rows with a frequent value."""
    counts = np.sort(texts.counts)[::-1]
    frequent = counts[:MAX_VALUES][counts[:MAX_VALUES] >= _min_frequency(len(texts.codes))]
    return float(frequent.sum() / max(1, counts.sum()))


def _distinct(texts: Texts) -> str:
    return f"{len(texts.values)} different values" if len(texts.values) > 1 else "one value"


def _number(table: ColumnTable, one: ColumnType, *, scale: bool) -> Column:
    form = one.format or formats.POINT
    values = parsed_column(table, one.column, form, lenient=one.lenient)
    present = values[~np.isnan(values)]
    if not len(present):
        return DroppedColumn(one.name, "empty")
    marks_missing = len(present) < len(values)
    size = Size.of(present)
    if size.largest - size.smallest <= MIN_SPREAD * max(abs(size.largest), abs(size.smallest)):
        if not marks_missing:
            return DroppedColumn(one.name, f"always {present[0]:g}")
        return NumberColumn(one.name, form, centre=float(present[0]), marks_missing=True, lenient=one.lenient)
    if size.is_boolean:  # another file may write true and false for 1 and 0
        form = formats.BOOLEAN
    if size.is_boolean or (not scale and not one.is_date):
        fill = float(present.mean()) if size.is_boolean else float(np.median(present))
        return NumberColumn(one.name, form, fill=fill, marks_missing=marks_missing, lenient=one.lenient, as_is=True)
    unit = _log_unit(present) if not one.is_date else None
    known = compressed(present, unit)
    low, high = _clip_limits(known) if unit is not None else (None, None)
    if low is not None:
        known = np.clip(known, low, high)
    centre, spread = float(known.mean()), float(known.std()) or 1.0
    fill = float((np.median(known) - centre) / spread)
    return NumberColumn(one.name, form, unit, low, high, centre, spread, fill, marks_missing, one.lenient)


def _log_unit(values: Float[np.ndarray, "present"]) -> float | None:
    """The unit of the logarithm for a heavy tail, None without one."""
    if np.mean(((values - values.mean()) / values.std()) ** 4) - 3 <= HEAVY_TAIL:
        return None
    sizes = np.abs(values[values != 0])
    return float(np.quantile(sizes, SMALL_QUANTILE if values.min() >= 0 else 0.5))


def _clip_limits(values: Float[np.ndarray, "present"]) -> tuple[float | None, float | None]:
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75])
    reach = CLIP * (upper - lower) / NORMAL_QUARTILES
    return (float(median - reach), float(median + reach)) if reach > 0 else (None, None)


def _category(table: ColumnTable, one: ColumnType) -> Column:
    texts = table.text(one.column)
    counts = texts.counts
    marks_missing = bool((texts.codes == MISSING).any())
    if not texts.values:
        return DroppedColumn(one.name, "empty")
    if len(texts.values) == 1 and not marks_missing:
        return DroppedColumn(one.name, f"always {shown(texts.values[0])}")
    order = np.argsort(-counts, kind="stable")[:MAX_VALUES]
    frequent = order[counts[order] >= _min_frequency(table.rows)]
    if not len(frequent):  # a category by choice whose values hardly repeat
        frequent = order
    return CategoryColumn(
        one.name,
        values=tuple(sorted(texts.values[place] for place in frequent)),
        pools_others=bool(counts.sum() - counts[frequent].sum()),
        marks_missing=marks_missing,
        different=len(texts.values),
    )
