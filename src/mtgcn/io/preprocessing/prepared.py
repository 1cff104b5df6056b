"""`Preparation`: what turns a table with certain columns into numbers, the same way every time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError
from mtgcn.io.preprocessing import written
from mtgcn.io.preprocessing.columns import CategoryColumn, Column, NumberColumn, column_from, plain
from mtgcn.io.preprocessing.kinds import not_readable
from mtgcn.io.preprocessing.table import NOTHING, ColumnTable
from mtgcn.shapes import Float

MOST_ALIKE_NAMED = 4  # columns of the same treatment that are told by name


@dataclass(frozen=True)
class Preparation:
    """A treatment for each column, in their order; learned once, applied to every table that comes later."""

    columns: tuple[Column, ...]
    named: bool = True  # False: the columns are those of an array, known by their order alone

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the numbers that come out."""
        return tuple(name for column in self._in_order() for name in column.outputs)

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns that must be there."""
        return tuple(column.name for column in self.columns if column.outputs)

    @property
    def read_as_text(self) -> frozenset[str]:
        """The columns that are read as they are written: a category of digits is no number."""
        return frozenset(
            column.name
            for column in self.columns
            if isinstance(column, CategoryColumn)
            or (isinstance(column, NumberColumn) and column.reading != written.POINT)
        )

    @property
    def changes_nothing(self) -> bool:
        """Whether numbers come out as they go in."""
        return all(map(_is_untouched, self.columns))

    def matrix(self, table: ColumnTable) -> sp.csr_array | Float[np.ndarray, "rows outputs"]:
        """The numbers made of a table that has these columns, in any order, and perhaps others."""
        place = {name: column for column, name in enumerate(table.names)}
        missing = [name for name in self.needed if name not in place]
        if missing:
            named = ", ".join(map(repr, missing[:5])) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            raise InputError(
                f"the model was fitted with the column{'s' * (len(missing) > 1)} {named}, which {table.title} lacks; "
                "add what is missing (cells may be empty)"
            )
        as_they_are = [column for column in self._in_order() if _is_untouched(column)]
        others = [column for column in self._in_order() if not _is_untouched(column)]
        blocks: list[Any] = []
        if as_they_are:
            blocks.append(_untouched(table, as_they_are, place))
        blocks += [_outputs(table, column, place[column.name]) for column in others]
        if not blocks:
            return np.zeros((table.rows, 0), np.float32)
        if any(sp.issparse(block) for block in blocks):
            return sp.csr_array(sp.hstack(blocks, format="csr", dtype=np.float32))
        return blocks[0] if len(blocks) == 1 else np.hstack(blocks)

    def _in_order(self) -> Iterator[NumberColumn | CategoryColumn]:
        """The columns that something comes out of: first those that stay as they are, which may be many and sparse."""
        kept = [column for column in self.columns if isinstance(column, NumberColumn | CategoryColumn)]
        yield from sorted(kept, key=lambda column: not _is_untouched(column))

    def lines(self) -> list[str]:
        """What is done with each column, a line each; many that are treated alike share one."""
        alike: dict[str, list[str]] = {}
        for column in self.columns:
            alike.setdefault(column.treatment, []).append(column.name)
        lines = []
        for column in self.columns:
            names = alike[column.treatment]
            if len(names) <= MOST_ALIKE_NAMED:
                lines.append(f"{column.name}: {column.treatment}")
            elif column.name == names[0]:  # and the others are told with it
                lines.append(f"{names[0]}, {names[1]} and {len(names) - 2} more: {column.treatment}")
        return lines

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"named": self.named, "columns": [plain(column) for column in self.columns]}

    @staticmethod
    def of(card: Mapping[str, Any]) -> Preparation:
        """The preparation that `plain` wrote."""
        return Preparation(tuple(column_from(column) for column in card["columns"]), card["named"])


def _is_untouched(column: Column) -> bool:
    return isinstance(column, NumberColumn) and column.untouched


def values_of(table: ColumnTable, column: int, reading: str, *, lenient: bool) -> Float[np.ndarray, "rows"]:
    """A column as numbers by its reading, NaN where one is missing; what cannot be read is missing too if `lenient`."""
    if column not in table.texts:
        return table.number(column)
    texts = table.text(column)
    numbers = written.read(texts.values, reading)
    bad = np.isnan(numbers)
    if bad.any() and not lenient:
        raise not_readable(table, column, texts, bad, reading, "fit with")
    return np.append(numbers, np.nan)[texts.codes]


def _untouched(table: ColumnTable, columns: Sequence[Column], place: Mapping[str, int]) -> Any:
    """Columns that come out as they go in, a missing value as 0; in the form the table has."""
    wanted = [place[column.name] for column in columns]
    if all(column in table.number_place for column in wanted):
        where = [table.number_place[column] for column in wanted]
        same = where == list(range(table.numbers.shape[1]))
        block = table.numbers if same else table.numbers[:, where]
        values = block.data if sp.issparse(block) else block
        if np.isnan(values).any():
            block = block.copy()
            values = block.data if sp.issparse(block) else block
            values[np.isnan(values)] = 0
        if table.absent:
            nothing = sp.csr_array((table.absent, len(wanted)), dtype=np.float32)
            block = (
                sp.vstack([block, nothing], format="csr")
                if sp.issparse(block)
                else np.pad(block, ((0, table.absent), (0, 0)))
            )
        return block.astype(np.float32, copy=False)
    return np.hstack([_outputs(table, column, place[column.name]) for column in columns])


def _outputs(table: ColumnTable, column: Column, place: int) -> Float[np.ndarray, "rows outputs"]:
    result = np.zeros((table.rows, len(column.outputs)), dtype=np.float32)
    if isinstance(column, NumberColumn):
        values = values_of(table, place, column.reading, lenient=column.told)
        result[:, 0] = column.numbers(values)
        if column.marks_missing:
            result[:, -1] = np.isnan(values)
    elif isinstance(column, CategoryColumn):
        _write_category(result, table, column, place)
    return result


def _write_category(result: np.ndarray, table: ColumnTable, column: CategoryColumn, place: int) -> None:
    texts = table.text(place)
    output = {value: number for number, value in enumerate(column.values)}
    unseen = len(column.values) if column.pools_others else NOTHING
    target = np.array([*(output.get(value, unseen) for value in texts.values), NOTHING], dtype=np.int64)[texts.codes]
    rows = np.flatnonzero(target != NOTHING)
    result[rows, target[rows]] = 1
    if column.marks_missing:
        result[texts.codes == NOTHING, -1] = 1
