"""`Preprocessor`: the learned transform of each column, from a table to a feature matrix."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, reason, shown
from mtgcn.io.preprocessing import values as formats
from mtgcn.io.preprocessing.column_table import MISSING, ColumnTable, Texts
from mtgcn.shapes import Float

OTHER = "other"  # the name of pooled rare values
MAX_ALIKE_NAMED = 4  # columns with the same transform that are listed by name


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: as given, standardised, or standardised after a logarithm for heavy tails.

    x -> (clip(sign(x) log(1 + |x| / unit), low, high) - centre) / spread, without the logarithm if `unit` is None.
    """

    name: str
    format: str  # of `values`
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
        if not formats.is_format(self.format):
            raise ValueError(f"format is {shown(self.format)}")
        numbers = (self.unit, self.low, self.high, self.centre, self.spread, self.fill)
        if any(number is not None and not abs(number) <= formats.LARGEST for number in numbers):
            raise ValueError(f"column {shown(self.name)} has a number that is not finite")
        if self.spread <= 0 or (self.unit is not None and self.unit <= 0):
            raise ValueError(f"column {shown(self.name)} has spread {self.spread} and unit {self.unit}")

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.name, *((f"{self.name} missing",) if self.marks_missing else ()))

    def numbers(self, values: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        known = compressed(values, self.unit)
        if self.low is not None and self.high is not None:
            known = np.clip(known, self.low, self.high)
        return np.where(np.isnan(values), self.fill, (known - self.centre) / self.spread)

    @property
    def treatment(self) -> str:
        """One line for the user."""
        missing = ", missing values filled and marked" if self.marks_missing else ""
        if self.format == formats.BOOLEAN:
            return f"yes or no{missing}"
        if self.format.startswith(formats.DATE):
            order = "" if self.format == formats.DATE + "iso" else " (written day, month, year)"
            return f"days{order}, standardised{missing}"
        commas = " (decimal commas)" if self.format == formats.COMMA else ""
        if self.as_is:
            return f"as given{commas}{missing}"
        return f"{'logarithm, ' if self.unit is not None else ''}standardised{commas}{missing}"


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
        pooled = f", {rare} rare ones pooled" if self.pools_others and rare else ""
        values = "one value" if self.different == 1 else f"{self.different} values"
        return f"{values}, one-hot{pooled}{', missing values marked' if self.marks_missing else ''}"


@dataclass(frozen=True)
class DroppedColumn:
    """A column without a feature."""

    name: str
    why: str
    kind: Literal["left out"] = "left out"

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def treatment(self) -> str:
        return f"left out, {self.why}"


Column = NumberColumn | CategoryColumn | DroppedColumn


@dataclass(frozen=True)
class Preprocessor:
    """The transform of each column, in order; learned once and applied to every later table."""

    columns: tuple[Column, ...]
    named: bool = True  # False: columns of an array, identified by their order

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names."""
        return tuple(name for column in self._in_order() for name in column.outputs)

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that a table must have."""
        return tuple(column.name for column in self.columns if column.outputs)

    @property
    def read_as_text(self) -> frozenset[str]:
        """Columns to be read as text; a category of digits is not a number."""
        return frozenset(
            column.name
            for column in self._in_order()
            if isinstance(column, CategoryColumn) or column.format != formats.POINT
        )

    @property
    def changes_nothing(self) -> bool:
        return all(map(_is_untouched, self.columns))

    def matrix(self, table: ColumnTable) -> sp.csr_array | Float[np.ndarray, "rows outputs"]:
        """The features of a table with these columns, in any order, and possibly others."""
        place = {name: column for column, name in enumerate(table.names)}
        missing = [name for name in self.needed if name not in place]
        if missing:
            named = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            raise InputError(
                f"the model was fitted with the column{'s' * (len(missing) > 1)} {named}, which {table.title} lacks; "
                "add what is missing (cells may be empty)"
            )
        untouched = [column for column in self._in_order() if _is_untouched(column)]
        others = [column for column in self._in_order() if not _is_untouched(column)]
        blocks: list[Any] = [_untouched(table, untouched, place)] if untouched else []
        blocks += [_outputs(table, column, place[column.name]) for column in others]
        if not blocks:
            return np.zeros((table.rows, 0), np.float32)
        if any(sp.issparse(block) for block in blocks):
            return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def _in_order(self) -> Iterator[NumberColumn | CategoryColumn]:
        """Columns with outputs: first the untouched ones, which may be many and sparse."""
        kept = [column for column in self.columns if isinstance(column, NumberColumn | CategoryColumn)]
        yield from sorted(kept, key=lambda column: not _is_untouched(column))

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
        """As JSON."""
        return asdict(self)

    @staticmethod
    def of(content: Mapping[str, Any]) -> Preprocessor:
        """The preprocessor that `plain` wrote; a ValueError for anything else."""
        from pydantic import TypeAdapter, ValidationError

        try:
            return TypeAdapter(Preprocessor).validate_json(json.dumps(content))
        except ValidationError as problem:
            raise ValueError(reason(problem)) from None


for _class in (NumberColumn, CategoryColumn, DroppedColumn, Preprocessor):
    _class.__pydantic_config__ = {"strict": True, "extra": "forbid"}  # type: ignore[union-attr]


def compressed(values: np.ndarray, unit: float | None) -> np.ndarray:
    """sign(x) log(1 + |x| / unit); x itself without a unit."""
    return values if unit is None else np.sign(values) * np.log1p(np.abs(values) / unit)


def parsed_column(table: ColumnTable, column: int, form: str, *, lenient: bool) -> Float[np.ndarray, "rows"]:
    """A column as numbers, NaN where missing; values that cannot be parsed are missing if `lenient`, else an error."""
    if column not in table.texts:
        return table.number(column)
    texts = table.text(column)
    numbers = formats.parse(texts.values, form)
    bad = np.isnan(numbers)
    if bad.any() and not lenient:
        raise unparsable(table, column, texts, bad, form, "fit with")
    return np.append(numbers, np.nan)[texts.codes]


def unparsable(table: ColumnTable, column: int, texts: Texts, bad: np.ndarray, form: str, how: str) -> InputError:
    """The error for cells that do not fit the type of their column; `how` to choose another type."""
    name = table.names[column]
    rows = np.append(bad, False)[texts.codes]
    values = [texts.values[texts.codes[row]] for row in np.flatnonzero(rows)]
    noun, kind = ("dates", "date") if form.startswith(formats.DATE) else ("numbers", "number")
    if form == formats.BOOLEAN:
        noun = "yes or no"
    return InputError(
        f"{table.title}, column {shown(name)}: {np.count_nonzero(rows)} of {table.rows} values are not {noun} "
        f"({table.places(rows, values)}); correct them, or {how} --column {kind}={name} to count them as missing, "
        f"or --column category={name}"
    )


def _is_untouched(column: Column) -> bool:
    return isinstance(column, NumberColumn) and column.as_is and not column.marks_missing


def _untouched(table: ColumnTable, columns: Sequence[Column], place: Mapping[str, int]) -> Any:
    """Columns as given, missing values as 0, sparse if the table is sparse."""
    wanted = [place[column.name] for column in columns]
    if not all(column in table.number_place for column in wanted):
        return np.hstack([_outputs(table, column, place[column.name]) for column in columns])
    where = [table.number_place[column] for column in wanted]
    same = where == list(range(table.numbers.shape[1]))
    block = table.numbers if same else table.numbers[:, where]
    if np.isnan(block.data if sp.issparse(block) else block).any():
        block = block.copy()
        values = block.data if sp.issparse(block) else block
        values[np.isnan(values)] = 0
    if table.absent and sp.issparse(block):
        block = sp.vstack([block, sp.csr_array((table.absent, len(wanted)), dtype=np.float32)], format="csr")
    elif table.absent:
        block = np.pad(block, ((0, table.absent), (0, 0)))
    return block.astype(np.float32, copy=False)


def _outputs(table: ColumnTable, column: Column, place: int) -> Float[np.ndarray, "rows outputs"]:
    result = np.zeros((table.rows, len(column.outputs)), dtype=np.float32)
    if isinstance(column, NumberColumn):
        values = parsed_column(table, place, column.format, lenient=column.lenient)
        result[:, 0] = column.numbers(values)
        if column.marks_missing:
            result[:, -1] = np.isnan(values)
    elif isinstance(column, CategoryColumn):
        texts = table.text(place)
        output = {value: number for number, value in enumerate(column.values)}
        unseen = len(column.values) if column.pools_others else MISSING
        codes = [*(output.get(value, unseen) for value in texts.values), MISSING]
        target = np.array(codes, dtype=np.int64)[texts.codes]
        rows = np.flatnonzero(target != MISSING)
        result[rows, target[rows]] = 1
        if column.marks_missing:
            result[texts.codes == MISSING, -1] = 1
    return result
