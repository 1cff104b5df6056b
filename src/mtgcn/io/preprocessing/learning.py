"""A preparation, learned from a table: which columns are kept as they are, standardised, tamed or made one-hot."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mtgcn.errors import shown
from mtgcn.io.preprocessing import written
from mtgcn.io.preprocessing.amounts import Size, are_amounts
from mtgcn.io.preprocessing.columns import CategoryColumn, Column, LeftOut, NumberColumn, tamed
from mtgcn.io.preprocessing.kinds import MOST_VALUES, Found, check_kinds, find_kinds, frequencies, least_frequent
from mtgcn.io.preprocessing.prepared import Preparation, values_of
from mtgcn.io.preprocessing.table import NOTHING, ColumnTable
from mtgcn.shapes import Float

# Beyond this excess kurtosis (a normal distribution has 0, an exponential one 6) few values decide the spread.
HEAVY_TAIL = 10.0
SMALL_QUANTILE = 0.05  # of amounts: what is small among them, and the unit of their logarithm
HELD_WITHIN = 3.0  # robust standard deviations from the median, where a tail is heavy
NORMAL_QUARTILES = 1.349  # how far apart they lie, in standard deviations
LEAST_SPREAD = 1e-9  # of the size of the values; less is rounding


def learn(
    table: ColumnTable, told: Mapping[str, str] | None = None, *, scale: bool = True, named: bool = True
) -> Preparation:
    """How to make numbers of a table such as this one. `told` names the kind of some columns; `scale=False` leaves
    numbers in the size they have."""
    check_kinds(told or {}, table.names, table.title)
    found = find_kinds(table, told, named=named)
    # Numbers are read once, column after column, for their size; and once more where they are standardised.
    sizes = {one.name: _size(table, one) for one in found if one.reading is not None and not one.is_date}
    amounts = dict(zip(sizes, are_amounts(list(sizes.values())), strict=True))
    whole_table = len(amounts) == len(table.names) and all(amounts.values())
    columns: list[Column] = []
    for one in found:
        if one.why_not is not None:
            columns.append(LeftOut(one.name, one.why_not))
        elif one.reading is None:
            columns.append(_category(table, one))
        elif amounts.get(one.name) and (whole_table or sizes[one.name].varies):
            columns.append(NumberColumn(one.name, one.reading, told=one.told, as_is=True))
        else:
            columns.append(_number(table, one, scale=scale))
    if not any(column.outputs for column in columns) and not named:  # an array of constants is better than nothing
        columns = [NumberColumn(one.name, one.reading or written.POINT, as_is=True) for one in found]
    return Preparation(tuple(columns), named)


def _size(table: ColumnTable, one: Found) -> Size:
    values = values_of(table, one.column, one.reading or "", lenient=True)
    return Size.of(values[~np.isnan(values)])


def _number(table: ColumnTable, one: Found, *, scale: bool) -> Column:
    reading = one.reading or written.POINT
    values = values_of(table, one.column, reading, lenient=one.told)
    present = values[~np.isnan(values)]
    if not len(present):
        return LeftOut(one.name, "empty")
    marks_missing = len(present) < len(values)
    size = Size.of(present)
    if size.largest - size.smallest <= LEAST_SPREAD * max(abs(size.largest), abs(size.smallest)):
        if not marks_missing:
            return LeftOut(one.name, f"always {present[0]:g}")
        return NumberColumn(one.name, reading, centre=float(present[0]), marks_missing=True, told=one.told)
    if size.is_truth:  # another file may write true and false for 1 and 0
        reading = written.TRUTH
    if size.is_truth or (not scale and not one.is_date):
        fill = float(present.mean()) if size.is_truth else float(np.median(present))
        return NumberColumn(one.name, reading, fill=fill, marks_missing=marks_missing, told=one.told, as_is=True)
    unit = _unit(present) if not one.is_date else None
    known = tamed(present, unit)
    low, high = _limits(known) if unit is not None else (None, None)
    if low is not None:
        known = np.clip(known, low, high)
    centre, spread = float(known.mean()), float(known.std()) or 1.0
    return NumberColumn(
        one.name,
        reading,
        unit=unit,
        low=low,
        high=high,
        centre=centre,
        spread=spread,
        fill=float((np.median(known) - centre) / spread),
        marks_missing=marks_missing,
        told=one.told,
    )


def _unit(values: Float[np.ndarray, "present"]) -> float | None:
    """What a logarithm should count as small, where a few values are so large that they decide the spread."""
    spread = values.std()
    if np.mean(((values - values.mean()) / spread) ** 4) - 3 <= HEAVY_TAIL:
        return None
    sizes = np.abs(values[values != 0])
    return float(np.quantile(sizes, SMALL_QUANTILE if values.min() >= 0 else 0.5))


def _limits(values: Float[np.ndarray, "present"]) -> tuple[float | None, float | None]:
    """How far from the median a value may count, where quartiles tell it."""
    lower, median, upper = np.quantile(values, [0.25, 0.5, 0.75])
    reach = HELD_WITHIN * (upper - lower) / NORMAL_QUARTILES
    return (float(median - reach), float(median + reach)) if reach > 0 else (None, None)


def _category(table: ColumnTable, one: Found) -> Column:
    texts = table.text(one.column)
    counts = frequencies(texts)
    marks_missing = bool((texts.codes == NOTHING).any())
    if not texts.values:
        return LeftOut(one.name, "empty")
    if len(texts.values) == 1 and not marks_missing:
        return LeftOut(one.name, f"always {shown(texts.values[0])}")
    order = np.argsort(-counts, kind="stable")[:MOST_VALUES]
    frequent = order[counts[order] >= least_frequent(table.rows)]
    if not len(frequent):  # told to be a category, though no value repeats often
        frequent = order
    rare = counts.sum() - counts[frequent].sum()
    return CategoryColumn(
        one.name,
        values=tuple(sorted(texts.values[place] for place in frequent)),
        pools_others=bool(rare),
        marks_missing=marks_missing,
        different=len(texts.values),
    )
