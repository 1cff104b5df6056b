"""What was learned of each column: how it becomes numbers, what stands for a missing value, and how that is told."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mtgcn.io.json_form import Number, Text, Truth, Whole, check_form
from mtgcn.io.preprocessing import written
from mtgcn.io.texts import LONGEST_TEXT
from mtgcn.shapes import Float

SMALLEST = 1e-300  # that numbers are divided by
OTHER = "other"  # what pooled values of a category are called
_DATE_WORDS = {"%Y": "year", "%y": "year", "%m": "month", "%d": "day", "%b": "month", "%B": "month"}


@dataclass(frozen=True)
class NumberColumn:
    """A column that becomes one number: as it is, standardised, or standardised after a logarithm that tames its tail.

    Of a value x: sign(x) log(1 + |x| / unit) where there is a unit, held between `low` and `high`, less `centre`,
    divided by `spread`.
    """

    name: str
    reading: str  # of `written`
    unit: float | None = None
    low: float | None = None
    high: float | None = None
    centre: float = 0.0
    spread: float = 1.0
    fill: float = 0.0  # what a missing value becomes
    marks_missing: bool = False  # a second number says where one was missing
    told: bool = False  # by a person; then what cannot be read is missing
    as_is: bool = False

    @property
    def untouched(self) -> bool:
        return self.as_is and not self.marks_missing

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.name, *((f"{self.name} missing",) if self.marks_missing else ()))

    def numbers(self, values: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
        """The values, in the size that is learned from; `fill` for NaN."""
        known = tamed(values, self.unit)
        if self.low is not None and self.high is not None:
            known = np.clip(known, self.low, self.high)
        return np.where(np.isnan(values), self.fill, (known - self.centre) / self.spread)

    @property
    def treatment(self) -> str:
        """How a person is told what was done."""
        missing = ", missing values filled and marked" if self.marks_missing else ""
        if self.reading == written.TRUTH:
            return f"yes or no{missing}"
        if self.reading.startswith(written.DATE):
            return f"days{_written_as(self.reading)}, standardised{missing}"
        commas = " (decimal commas)" if self.reading == written.COMMA else ""
        if self.as_is:
            return f"as given{commas}{missing}"
        return f"{'logarithm, ' if self.unit is not None else ''}standardised{commas}{missing}"


@dataclass(frozen=True)
class CategoryColumn:
    """A column that becomes one number for each of its frequent values: 1 in rows that have it, 0 in others."""

    name: str
    values: tuple[str, ...]
    pools_others: bool  # one more for all the rare values, and for those that were not there in the fit
    marks_missing: bool
    different: int  # values there were, the rare ones too

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
class LeftOut:
    """A column that nothing is learned from."""

    name: str
    why: str

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    @property
    def treatment(self) -> str:
        return f"left out, {self.why}"


Column = NumberColumn | CategoryColumn | LeftOut
_CLASSES: dict[str, Any] = {
    "number": NumberColumn,
    "category": CategoryColumn,
    "left out": LeftOut,
}


def plain(column: Column) -> dict[str, Any]:
    """The column as JSON holds it."""
    kind = next(name for name, some in _CLASSES.items() if type(column) is some)
    return {"kind": kind, **asdict(column)}


_NUMBER, _SIZE = Number(-written.LARGEST, written.LARGEST), Number(SMALLEST, written.LARGEST)
_FORMS: dict[str, Any] = {
    "number": {
        "name": Text(),
        "reading": Text(),
        "unit": (_SIZE, None),
        **dict.fromkeys(("low", "high"), (_NUMBER, None)),
        **dict.fromkeys(("centre", "fill"), _NUMBER),
        "spread": _SIZE,
        **dict.fromkeys(("marks_missing", "told", "as_is"), Truth()),
    },
    "category": {
        "name": Text(),
        "values": [Text(LONGEST_TEXT)],
        **dict.fromkeys(("pools_others", "marks_missing"), Truth()),
        "different": Whole(),
    },
    "left out": {"name": Text(), "why": Text()},
}


def column_from(card: dict[str, Any]) -> Column:
    """The column that `plain` wrote."""
    check_form(card, {"kind": Text()}, "column")
    check_form(card, _FORMS[card["kind"]], "column")
    if card["kind"] == "number" and not written.is_reading(card["reading"]):
        raise ValueError(f"reading is {card['reading']!r}")
    parts = {key: tuple(value) if isinstance(value, list) else value for key, value in card.items() if key != "kind"}
    made: Column = _CLASSES[card["kind"]](**parts)
    return made


def tamed(values: np.ndarray, unit: float | None) -> np.ndarray:
    """sign(x) log(1 + |x| / unit); x itself without a unit."""
    return values if unit is None else np.sign(values) * np.log1p(np.abs(values) / unit)


def _written_as(reading: str) -> str:
    form = reading.removeprefix(written.DATE)
    if form == "iso":
        return ""
    return f" (written {_order(form)})"


def _order(form: str) -> str:
    """`%d.%m.%Y` as day, month, year."""
    return ", ".join(_DATE_WORDS[part] for part in re.findall("%[A-Za-z]", form) if part in _DATE_WORDS)
