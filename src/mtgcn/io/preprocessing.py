"""Preprocessing of table columns: `fit_columns` infers column types and learns a `Preprocessor`, which turns any table
with these columns into a feature matrix and is stored as JSON.

Counts, words and pixels stay as given: their rows are compared by the proportions of their parts, and standardising
would give the rarest word the largest weight. Other numbers are standardised, after a logarithm if their tail is heavy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, note, reason, shown, unknown_name
from mtgcn.io import column_table as formats
from mtgcn.io.column_table import BOOLEAN, COMMA, DATE, MISSING, POINT, ColumnTable, Texts, parse
from mtgcn.io.encoder import EncodedColumn, encoded_column
from mtgcn.io.text import TextColumn, fit_text
from mtgcn.shapes import Float

Kind = Literal["number", "category", "date", "text", "picture"]
KINDS = get_args(Kind)
FEATURE, IGNORE = "feature", "ignore"  # a column of an inferred kind, and one that is not read

MAX_ERRORS = 0.1  # largest share of values (at least one value) that counts as typing errors
MIN_FREQUENCY = 0.005  # share of rows: rarer values of a category are pooled
MIN_COVERED = 0.2  # share of rows with a frequent value; else a column is free text or ids
MAX_VALUES = 50  # outputs of a category
IDS, COPY = "ids, all different", "it equals the labels"
PICTURES, LINKS = "pictures, for display", "links, for display"
MIN_ROWS_OF_IDS = 20  # with fewer rows, numbers may all differ by chance
MIN_WORDS = 20  # mostly zero columns in a table of words
MOSTLY_ZERO = 0.5
SIMILAR_SIZE = 10.0  # ratio of sizes up to which columns count as similar
HEAVY_TAIL = 10.0  # excess kurtosis; a normal distribution has 0, an exponential one 6
SMALL_QUANTILE = 0.05  # quantile that is the unit of the logarithm of amounts
CLIP = 3.0  # robust standard deviations from the median, for heavy tails
NORMAL_QUARTILES = 1.349  # interquartile range of the standard normal distribution
MIN_SPREAD = 1e-13  # smallest relative spread; smaller ones are rounding errors
WORDS_OF_NAMES = 2.0  # mean words of values that hardly repeat; fewer indicate codes
WORDS_OF_SENTENCES = 4.0  # mean words of values that may repeat and are not categories
TFIDF = "tfidf"  # default text encoder
TEXT_ARRAYS = ("idf", "components")
MIN_SHOWN = 0.9  # share of values that are pictures, or links
OTHER = "other"  # the name of pooled rare values
MAX_ALIKE_NAMED = 4  # columns with the same transform that are listed by name
_ID_NAME = re.compile(r"(.*[^a-z])?(id|nr|no|num|number|key|index|idx|uuid|guid)|.*(nr|nummer)", re.IGNORECASE)
_CAMEL_ID = re.compile(r".*[a-z](Id|ID|No)")
_LINK = re.compile(r"(https?|ftp)://|www\.", re.IGNORECASE)
_PICTURE = re.compile(r"\S.*\.(png|jpe?g|gif|webp|svg|bmp|tiff?|avif)([?#].*)?", re.IGNORECASE)


# ------------------------------------------------------------------------------------------------- fitted columns


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: as given, standardised, or standardised after a logarithm for heavy tails.

    x -> (clip(sign(x) log(1 + |x| / unit), low, high) - centre) / spread, without the logarithm if `unit` is None.
    """

    name: str
    format: str  # one of `column_table.FORMATS`
    unit: float | None = None
    low: float | None = None
    high: float | None = None
    centre: float = 0.0
    spread: float = 1.0
    fill: float = 0.0  # the output for a missing value
    marks_missing: bool = False  # whether a second output is an indicator of missing values
    lenient: bool = False  # whether values that cannot be parsed count as missing: the user chose the type
    as_is: bool = False
    kind: Literal["number"] = "number"

    def __post_init__(self) -> None:
        if self.format not in formats.FORMATS:
            raise ValueError(f"format is {shown(self.format)}")
        numbers = (self.unit, self.low, self.high, self.centre, self.spread, self.fill)
        if any(number is not None and not abs(number) <= formats.LARGEST for number in numbers):
            raise ValueError(f"column {shown(self.name)} has a number that is not finite")
        if self.spread <= 0 or (self.unit is not None and self.unit <= 0):
            raise ValueError(f"column {shown(self.name)} has spread {self.spread} and unit {self.unit}")

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.name, f"{self.name} missing") if self.marks_missing else (self.name,)

    @property
    def treatment(self) -> str:
        """One line for the user."""
        missing = ", missing values filled and marked" if self.marks_missing else ""
        if self.format == BOOLEAN:
            return f"yes or no{missing}"
        if self.format.startswith(DATE):
            order = "" if self.format == DATE + "iso" else " (written day, month, year)"
            return f"days{order}, standardised{missing}"
        commas = " (decimal commas)" if self.format == COMMA else ""
        if self.as_is:
            return f"as given{commas}{missing}"
        return f"{'logarithm, ' if self.unit is not None else ''}standardised{commas}{missing}"

    def features(self, table: ColumnTable, place: int) -> Float[np.ndarray, "rows outputs"]:
        values = _parsed_column(table, place, self.format, lenient=self.lenient)
        known = _compressed(values, self.unit)
        if self.low is not None and self.high is not None:
            known = np.clip(known, self.low, self.high)
        scaled = np.clip((known - self.centre) / self.spread, -formats.LARGEST, formats.LARGEST)
        features = [np.where(np.isnan(values), self.fill, scaled), np.isnan(values)]
        return np.column_stack(features[: len(self.outputs)]).astype(np.float32)


@dataclass(frozen=True)
class CategoryColumn:
    """A one-hot encoded column: one output for each frequent value."""

    name: str
    values: tuple[str, ...]
    pools_others: bool  # one more output for rare and unseen values
    marks_missing: bool
    different: int  # distinct values, rare ones included
    kind: Literal["category"] = "category"

    @property
    def outputs(self) -> tuple[str, ...]:
        others = (OTHER,) if self.pools_others else ()
        marked = (f"{self.name} missing",) if self.marks_missing else ()
        return (*(f"{self.name}={value}" for value in (*self.values, *others)), *marked)

    @property
    def treatment(self) -> str:
        rare = self.different - len(self.values)
        pooled = f", {rare} rare one{'' if rare == 1 else 's'} pooled" if self.pools_others and rare else ""
        values = "one value" if self.different == 1 else f"{self.different} values"
        return f"{values}, one-hot{pooled}{', missing values marked' if self.marks_missing else ''}"

    def features(self, table: ColumnTable, place: int) -> Float[np.ndarray, "rows outputs"]:
        texts = table.text(place)
        output = {value: number for number, value in enumerate(self.values)}
        unseen = len(self.values) if self.pools_others else MISSING
        target = np.array([*(output.get(value, unseen) for value in texts.values), MISSING], np.int64)[texts.codes]
        features = np.zeros((table.rows, len(self.outputs)), dtype=np.float32)
        rows = np.flatnonzero(target != MISSING)
        features[rows, target[rows]] = 1
        if self.marks_missing:
            features[texts.codes == MISSING, -1] = 1
        return features


@dataclass(frozen=True)
class DroppedColumn:
    """A column that gives no features."""

    name: str
    why: str
    kind: Literal["left out"] = "left out"
    outputs = ()

    @property
    def treatment(self) -> str:
        return f"left out, {self.why}"


Column = NumberColumn | CategoryColumn | TextColumn | EncodedColumn | DroppedColumn


@dataclass(frozen=True)
class Preprocessor:
    """The transform of each column, in order; learned once and applied to every later table."""

    columns: tuple[Column, ...]
    named: bool = True  # False: columns of an array, identified by their order
    # Columns with these roles in later tables; None if there is none.
    id_column: str | None = None
    label_column: str | None = None
    name_column: str | None = None

    @cached_property
    def _in_order(self) -> list[NumberColumn | CategoryColumn | TextColumn | EncodedColumn]:
        """Columns with outputs: first the untouched ones, which may be many and sparse."""
        kept = [column for column in self.columns if not isinstance(column, DroppedColumn)]
        return sorted(kept, key=lambda column: not _is_untouched(column))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names."""
        return tuple(name for column in self._in_order for name in column.outputs)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that a table must have."""
        return tuple(column.name for column in self.columns if column.outputs)

    @property
    def read_as_text(self) -> frozenset[str]:
        """Columns to be read as text; a category of digits is not a number."""
        return frozenset(one.name for one in self._in_order if not isinstance(one, NumberColumn) or one.format != POINT)

    @property
    def changes_nothing(self) -> bool:
        return all(map(_is_untouched, self.columns))

    def matrix(self, table: ColumnTable) -> sp.csr_array | Float[np.ndarray, "rows outputs"]:
        """The features of a table with these columns, in any order, and possibly others."""
        place = {name: column for column, name in enumerate(table.names)}
        missing = [name for name in self.needed if name not in place]
        if missing:
            raise InputError(
                f"the model was fitted with the column{'s' * (len(missing) > 1)} {_listed(list(map(repr, missing)))}, "
                f"which {table.title} lacks; add what is missing (cells may be empty)"
            )
        untouched = [place[column.name] for column in self._in_order if _is_untouched(column)]
        blocks: list[Any] = []
        if untouched and all(column in table.number_place for column in untouched):
            blocks.append(_as_given(table, untouched))
        for column in self._in_order[len(untouched) if blocks else 0 :]:
            if isinstance(column, TextColumn | EncodedColumn):
                texts = table.text(place[column.name])
                rows = column.rows(texts.values) if texts.values else np.zeros((0, column.dimensions))
                blocks.append(np.vstack([rows, np.zeros((1, column.dimensions))])[texts.codes].astype(np.float32))
            else:
                blocks.append(column.features(table, place[column.name]))
        if not blocks:
            return np.zeros((table.rows, 0), np.float32)
        if any(sp.issparse(block) for block in blocks):
            return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def note_unfamiliar(self, table: ColumnTable) -> None:
        """Note columns of a later table that are empty, and rows that differ from all rows of the fit: an unknown
        category, a text of unknown words, or a number far beyond the limits to which it is clipped."""
        empty = []
        for column in self._in_order:
            place = table.names.index(column.name)
            is_number = place in table.number_place
            count, what = 0, ""
            if isinstance(column, NumberColumn) and column.low is not None and column.high is not None:
                values = _parsed_column(table, place, column.format, lenient=True)
                known, width = _compressed(values, column.unit), column.high - column.low
                count = int(((known < column.low - width) | (known > column.high + width)).sum())
                what = "are far outside the training range and were clipped"
            if is_number:
                is_empty = not sp.issparse(table.numbers) and bool(np.isnan(table.number(place)).all())
            else:
                texts = table.text(place)
                is_empty = bool((texts.codes == MISSING).all())
                unseen: list[int] = []
                if isinstance(column, CategoryColumn) and not column.pools_others:
                    unseen = [code for code, value in enumerate(texts.values) if value not in column.values]
                    named = ", ".join(shown(texts.values[code]) for code in unseen[:3]) + ", …" * (len(unseen) > 3)
                    what = f"are unknown to the fit ({named}) and were ignored"
                elif isinstance(column, TextColumn) and texts.values:
                    unseen = np.flatnonzero(~column.rows(texts.values).any(axis=1)).tolist()
                    what = "have no word known to the fit"
                count += int(np.isin(texts.codes, unseen).sum())
            if count:
                note(f"{count} of {table.rows} values of {column.name!r} {what}")
            empty += [column.name] if is_empty and table.rows > 1 else []
        if empty:
            named = _listed([shown(name) for name in empty])
            note(f"no row has a value in {named}, which the fit used; missing values are filled")

    def lines(self) -> list[str]:
        """A line for each column; many columns with the same transform share one."""
        alike: dict[str, list[str]] = {}
        for column in self.columns:
            alike.setdefault(column.treatment, []).append(column.name)
        lines = []
        for column in self.columns:
            names = alike[column.treatment]
            if len(names) <= MAX_ALIKE_NAMED:
                lines.append(f"{column.name}: {column.treatment}")
            elif column.name == names[0]:
                lines.append(f"{names[0]}, {names[1]} and {len(names) - 2} more: {column.treatment}")
        return lines

    def plain(self) -> dict[str, Any]:
        """The content for JSON, without the arrays."""
        bare = [replace(one, idf=None, components=None) if isinstance(one, TextColumn) else one for one in self.columns]
        return asdict(replace(self, columns=tuple(bare)))

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of text columns."""
        texts = [(place, one) for place, one in enumerate(self.columns) if isinstance(one, TextColumn)]
        return {f"text.{place}.{part}": getattr(one, part) for place, one in texts for part in TEXT_ARRAYS}

    @staticmethod
    def of(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> Preprocessor:
        """The preprocessor that `plain` and `arrays` wrote; raises ValueError for anything else."""
        from pydantic import TypeAdapter, ValidationError

        try:
            found = TypeAdapter(Preprocessor).validate_json(json.dumps(content))
        except ValidationError as problem:
            raise ValueError(reason(problem)) from None
        columns = list(found.columns)
        for place, one in enumerate(columns):
            if isinstance(one, TextColumn):
                columns[place] = one.with_arrays({part: (arrays or {})[f"text.{place}.{part}"] for part in TEXT_ARRAYS})
        return replace(found, columns=tuple(columns))


for _class in (NumberColumn, CategoryColumn, EncodedColumn, DroppedColumn, Preprocessor):
    _class.__pydantic_config__ = {"strict": True, "extra": "forbid"}  # type: ignore[union-attr]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _is_untouched(column: Column) -> bool:
    return isinstance(column, NumberColumn) and column.as_is and not column.marks_missing


def _compressed(values: np.ndarray, unit: float | None) -> np.ndarray:
    """sign(x) log(1 + |x| / unit); x itself without a unit."""
    return values if unit is None else np.sign(values) * np.log1p(np.abs(values) / unit)


def _as_given(table: ColumnTable, columns: Sequence[int]) -> Any:
    """Numeric columns with missing values as 0, sparse if the table is sparse."""
    where = [table.number_place[column] for column in columns]
    same = where == list(range(table.numbers.shape[1]))
    block = table.numbers if same else table.numbers[:, where]
    if np.isnan(block.data if sp.issparse(block) else block).any():
        block = block.copy()
        values = block.data if sp.issparse(block) else block
        values[np.isnan(values)] = 0
    if table.absent and sp.issparse(block):
        block = sp.vstack([block, sp.csr_array((table.absent, len(columns)), dtype=np.float32)], format="csr")
    elif table.absent:
        block = np.pad(block, ((0, table.absent), (0, 0)))
    return block.astype(np.float32, copy=False)


def _parsed_column(table: ColumnTable, column: int, form: str, *, lenient: bool) -> Float[np.ndarray, "rows"]:
    """A column as numbers, NaN where missing; values that cannot be parsed are missing if `lenient`, else an error."""
    if column not in table.texts:
        return table.number(column)
    texts = table.text(column)
    numbers = parse(texts.values, form)
    if not lenient:
        _check_parsed(table, column, texts, numbers, form, "fit with")
    return np.append(numbers, np.nan)[texts.codes]


def _check_parsed(
    table: ColumnTable, column: int, texts: Texts, numbers: Float[np.ndarray, "values"], form: str, how: str
) -> None:
    """Reject cells that do not fit the type of their column; `how` to choose another type."""
    bad = np.isnan(numbers)
    if not bad.any():
        return
    name = table.names[column]
    rows = np.append(bad, False)[texts.codes]
    values = [texts.values[texts.codes[row]] for row in np.flatnonzero(rows)]
    noun, kind = ("dates", "date") if form.startswith(DATE) else ("numbers", "number")
    if form == BOOLEAN:
        noun = "yes or no"
    raise InputError(
        f"{table.title}, column {shown(name)}: {np.count_nonzero(rows)} of {table.rows} values are not {noun} "
        f"({table.places(rows, values)}); correct them, or {how} --column {kind}={name} to count them as missing, "
        f"or --column category={name}"
    )


# ------------------------------------------------------------------------------------------------- column types


@dataclass(frozen=True)
class ColumnType:
    """The inferred type of a column: a number `format`, a category (no format), text, or `dropped` for a reason."""

    name: str
    column: int  # position in the table
    format: str | None = None
    lenient: bool = False  # the user chose the type; values that do not fit are missing
    dropped: str | None = None
    is_text: bool = False

    @property
    def is_date(self) -> bool:
        return self.format is not None and self.format.startswith(DATE)

    @property
    def role(self) -> tuple[str, str]:
        """The role of the column and the reason."""
        if self.dropped is not None:
            return "picture" if self.dropped == PICTURES else IGNORE, self.dropped
        if self.is_text:
            return "text", "free text"
        if self.format is None:
            return FEATURE, "categories"
        return FEATURE, "dates" if self.is_date else "yes or no" if self.format == BOOLEAN else "numbers"


def infer_types(
    table: ColumnTable,
    kinds: Mapping[str, str] | None = None,
    *,
    named: bool = True,
    problems: dict[str, str] | None = None,
) -> list[ColumnType]:
    """The type of each column, as chosen in `kinds` or inferred. Columns with errors are added to `problems` and taken
    as categories; by default the first error is raised."""
    kinds = kinds or {}
    styles = {
        column: _number_styles(texts.without_missing_words, chosen=table.names[column] in kinds)
        for column, texts in table.texts.items()
        if kinds.get(table.names[column], "" if column in table.categories else "number") == "number"
    }
    decimal_commas = any(
        style == [COMMA] and not formats.may_be_thousands(table.texts[column].values, COMMA)
        for column, style in styles.items()
    )
    found = []
    for column, name in enumerate(table.names):
        try:
            found.append(_type_of(table, column, kinds.get(name), styles.get(column, []), decimal_commas, named))
        except InputError as problem:
            if problems is None:
                raise
            problems[name] = str(problem)
            found.append(ColumnType(name, column))
    return found


def _type_of(
    table: ColumnTable, column: int, kind: str | None, styles: list[str], decimal_commas: bool, named: bool
) -> ColumnType:
    name, is_day = table.names[column], column in table.days
    if kind in (IGNORE, "picture"):
        return ColumnType(name, column, dropped=PICTURES if kind == "picture" else COPY)
    if kind == "text":
        return ColumnType(name, column, is_text=True)
    if kind == "category":
        return ColumnType(name, column, lenient=True)
    if column in table.texts:
        return _text_type(table, column, kind, styles, decimal_commas)
    if kind == "date" and not is_day:
        raise InputError(f"{table.title}, column {shown(name)} holds numbers, not dates; choose number")
    if named and kind is None and not is_day and _are_ids(table, name, table.number(column)):
        return ColumnType(name, column, dropped=IDS)
    return ColumnType(name, column, DATE + "iso" if is_day else POINT, lenient=kind is not None)


def _are_ids(table: ColumnTable, name: str, numbers: Float[np.ndarray, "rows"]) -> bool:
    """Whole numbers that all differ, and count the rows or are named like an id."""
    values = numbers[: table.rows - table.absent]
    if len(set(values[:MIN_ROWS_OF_IDS].tolist())) < MIN_ROWS_OF_IDS:
        return False
    if np.isnan(values).any() or (values != np.floor(values)).any() or len(np.unique(values)) < len(values):
        return False
    return values.max() - values.min() == len(values) - 1 or is_id_name(name)


def is_id_name(name: str) -> bool:
    """Whether a column is named like an id: `order_id`, `customerNo`."""
    return bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


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
            form = BOOLEAN
        elif styles and not any(map(formats.CODE.match, texts.values)):
            form = styles[0]
        else:
            form = formats.date_format(texts.values, 1 - MAX_ERRORS)
        # A comma is ambiguous in a table without decimal commas, and a point in a table with them.
        if form == (POINT if decimal_commas else COMMA) and formats.may_be_thousands(texts.values, form):
            number = next(value for value in texts.values if not value.strip("+-").isdigit())
            raise InputError(
                f"{table.title}, column {shown(name)}: {shown(number)} may have a thousands or a decimal separator; "
                f"write numbers without thousands separators, or use --column number={name} for decimals"
            )
    if form is not None:
        if kind is None:
            numbers = parse(texts.values, form)
            _check_parsed(table, column, texts, numbers, form, "use")
            if form in (POINT, COMMA) and _are_ids(table, name, np.append(numbers, np.nan)[texts.codes]):
                return ColumnType(name, column, dropped=IDS)
        return ColumnType(name, column, form, lenient=kind is not None)
    # The share of rows with a frequent value tells categories from free text.
    counts = np.sort(texts.counts)[::-1]
    covered = counts[:MAX_VALUES][counts[:MAX_VALUES] >= _min_frequency(len(texts.codes))].sum() / max(1, counts.sum())
    words = np.mean([len(value.split()) for value in texts.values])
    if column not in table.categories and words >= WORDS_OF_SENTENCES and len(texts.values) > MAX_VALUES:
        return ColumnType(name, column, is_text=True)
    if column not in table.categories and covered < MIN_COVERED:
        pictures = np.mean([bool(_PICTURE.fullmatch(value)) for value in texts.values])
        links = np.mean([bool(_LINK.match(value)) for value in texts.values])
        if max(pictures, links) >= MIN_SHOWN:
            return ColumnType(name, column, dropped=PICTURES if pictures >= MIN_SHOWN else LINKS)
        if words >= WORDS_OF_NAMES:
            return ColumnType(name, column, is_text=True)
        return ColumnType(name, column, dropped=_distinct(texts))
    return ColumnType(name, column)


def _number_styles(texts: Texts, *, chosen: bool) -> list[str]:
    """The number formats that fit most rows, if the other values are few enough to be typing errors."""
    counts, styles = texts.counts, (POINT, COMMA)
    rows = int(counts.sum())
    parsed = [int(counts[~np.isnan(parse(texts.values, style))].sum()) for style in styles]
    most = max(parsed)
    errors = rows - most
    if not chosen and (errors > max(1, MAX_ERRORS * rows) or errors >= most):
        return []
    return [style for style, number in zip(styles, parsed, strict=True) if number == most]


def _min_frequency(rows: int) -> int:
    return max(2, int(np.ceil(MIN_FREQUENCY * rows)))


def _distinct(texts: Texts) -> str:
    return f"{len(texts.values)} different values" if len(texts.values) > 1 else "one value"


# ------------------------------------------------------------------------------------------------- fitting


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


def are_amounts(sizes: Sequence[Size]) -> list[bool]:
    """For each column, whether it is an amount: a word count, a pixel, or another count.

    Many columns that are mostly zero are words or pixels, and so are other non-negative columns of similar size.
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
    table: ColumnTable,
    kinds: Mapping[str, str] | None = None,
    *,
    scale: bool = True,
    named: bool = True,
    use_text: bool = True,
    text_encoder: str = TFIDF,
) -> Preprocessor:
    """Learn the transform of each column. `kinds` sets the type of some columns; `scale=False` keeps numbers as given.
    Text becomes TF-IDF, or the rows of a `text_encoder` (`mtgcn.io.encoder`). Columns of an array (`named=False`) are
    numbers, whatever they look like."""
    for name, kind in (kinds or {}).items():
        if kind not in (*KINDS, IGNORE):
            raise unknown_name("kind of column", kind, KINDS)
        if name not in table.names:
            raise InputError(f"{table.title}: {unknown_name('column', name, [some for some in table.names if some])}")
    types = infer_types(table, kinds, named=named)
    sizes = {
        one.name: Size.of(_parsed_column(table, one.column, one.format, lenient=True))
        for one in types
        if one.format is not None and not one.is_date
    }
    amounts = dict(zip(sizes, are_amounts(list(sizes.values())), strict=True))
    whole_table = len(amounts) == len(table.names) and all(amounts.values())
    columns: list[Column] = []
    for one in types:
        if one.dropped is not None:
            columns.append(DroppedColumn(one.name, one.dropped))
        elif one.is_text and use_text:
            texts = table.text(one.column)
            fit = fit_text if text_encoder == TFIDF else partial(encoded_column, encoder=text_encoder)
            found = fit(one.name, texts.values)
            columns.append(found or DroppedColumn(one.name, f"{_distinct(texts)} without a common word"))
        elif one.is_text:
            columns.append(DroppedColumn(one.name, "text"))
        elif one.format is None:
            columns.append(_category(table, one))
        elif amounts.get(one.name) and (whole_table or sizes[one.name].varies):
            columns.append(NumberColumn(one.name, one.format, lenient=one.lenient, as_is=True))
        else:
            columns.append(_number(table, one, one.format, scale=scale))
    if not any(column.outputs for column in columns) and not named:  # an array of constants
        columns = [NumberColumn(one.name, one.format or POINT, as_is=True) for one in types]
    return Preprocessor(tuple(columns), named)


def _number(table: ColumnTable, one: ColumnType, form: str, *, scale: bool) -> Column:
    values = _parsed_column(table, one.column, form, lenient=one.lenient)
    present = values[~np.isnan(values)]
    if not len(present):
        return DroppedColumn(one.name, "empty")
    marks_missing = len(present) < len(values)
    size = Size.of(present)
    if size.largest - size.smallest <= MIN_SPREAD * max(abs(size.largest), abs(size.smallest)):
        if not marks_missing:
            why = "values differ by rounding only" if size.varies else f"always {present[0]:.15g}"
            return DroppedColumn(one.name, why)
        return NumberColumn(one.name, form, centre=float(present[0]), marks_missing=True, lenient=one.lenient)
    is_boolean = size.whole and size.smallest >= 0 and size.largest <= 1
    if is_boolean or (not scale and not one.is_date):
        form = BOOLEAN if is_boolean else form  # another file may write true and false for 1 and 0
        fill = float(present.mean()) if is_boolean else float(np.median(present))
        return NumberColumn(one.name, form, fill=fill, marks_missing=marks_missing, lenient=one.lenient, as_is=True)
    unit, low, high, known = None, None, None, present
    if not one.is_date and np.mean(((present - present.mean()) / present.std()) ** 4) - 3 > HEAVY_TAIL:
        amounts = np.abs(present[present != 0])
        unit = float(np.quantile(amounts, SMALL_QUANTILE if size.smallest >= 0 else 0.5))
        known = _compressed(present, unit)
        lower, median, upper = np.quantile(known, [0.25, 0.5, 0.75])
        reach = CLIP * (upper - lower) / NORMAL_QUARTILES
        if reach > 0:
            low, high = float(median - reach), float(median + reach)
            known = np.clip(known, low, high)
    centre, spread = float(known.mean()), float(known.std()) or 1.0
    fill = float((np.median(known) - centre) / spread)
    return NumberColumn(one.name, form, unit, low, high, centre, spread, fill, marks_missing, one.lenient)


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
