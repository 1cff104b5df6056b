"""Parsing of cells: numbers, dates and booleans. A format is a name that is stored; `parse` applies it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from mtgcn.shapes import Float

POINT, COMMA = "number", "number with decimal comma"
BOOLEAN = "yes or no"
DATE = "date "  # followed by the date format

LARGEST = float(np.finfo(np.float32).max)
SECONDS_A_DAY = 86400
_NUMBER = {
    POINT: re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"),
    COMMA: re.compile(r"[+-]?(?:[0-9]+,?[0-9]*|,[0-9]+)(?:[eE][+-]?[0-9]{1,3})?"),
}
_CODE = re.compile(r"[+-]?0[0-9]")  # 007 and 01067 are names
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
BOOLEANS = ({"yes": 1.0, "no": 0.0}, {"true": 1.0, "false": 0.0})
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?")
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y")
DATE_FORMATS = ("iso", *(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")))
SAMPLE = 50  # values on which a date format is tried first


def number_in(text: str, style: str) -> float | None:
    """The number in a text, or None if it is not a number or exceeds single precision.

    >>> number_in("1234.50", POINT), number_in("1234,50", COMMA), number_in("red", POINT)
    (1234.5, 1234.5, None)
    """
    text = text.strip()
    if not _NUMBER[style].fullmatch(text):
        return None
    number = float(text.replace(",", "."))
    return number if abs(number) <= LARGEST else None


def is_code(text: str) -> bool:
    """Whether digits are a name, not a number: numbers have no leading zeros."""
    return bool(_CODE.match(text.strip()))


def may_be_thousands(texts: Iterable[str], style: str) -> bool:
    """Whether every decimal separator may be a thousands separator.

    >>> may_be_thousands(["1,234", "7"], COMMA), may_be_thousands(["1,234", "0,5"], COMMA)
    (True, False)
    """
    separator = "," if style == COMMA else "."
    separated = [text.strip() for text in texts if separator in text]
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


def boolean_in(text: str) -> float | None:
    """1 for yes and true, 0 for no and false; numbers stay as they are.

    >>> boolean_in("Yes"), boolean_in("false"), boolean_in("1"), boolean_in("perhaps")
    (1.0, 0.0, 1.0, None)
    """
    word = text.strip().casefold()
    return next((words[word] for words in BOOLEANS if word in words), number_in(text, POINT))


def parse(texts: Iterable[str], form: str) -> Float[np.ndarray, "texts"]:
    """The number for each text in this format, NaN if there is none."""
    found: Iterable[float | None]
    if form in (POINT, COMMA):
        found = (number_in(text, form) for text in texts)
    elif form == BOOLEAN:
        found = map(boolean_in, texts)
    else:
        found = (days_in(text.strip(), form.removeprefix(DATE)) for text in texts)
    return np.array(list(found), dtype=np.float64)  # None becomes NaN


def is_format(form: str) -> bool:
    return form in (POINT, COMMA, BOOLEAN) or form.removeprefix(DATE) in DATE_FORMATS


def is_boolean(texts: Sequence[str]) -> bool:
    """Whether all texts are yes and no, or true and false, and both occur.

    >>> is_boolean(["yes", "No"]), is_boolean(["true", "no"]), is_boolean(["yes"])
    (True, False, False)
    """
    found = {text.strip().casefold() for text in texts}
    return any(found == words.keys() for words in BOOLEANS)


def date_format(texts: Sequence[str], least_share: float) -> str | None:
    """The format in which most texts are dates; None if it is fewer than `least_share`."""
    step = max(1, len(texts) // SAMPLE)
    best, most = None, 0.0
    for form in DATE_FORMATS:
        if _share([days_in(text, form) for text in texts[::step][: 2 * SAMPLE]]) < least_share:
            continue
        share = _share([days_in(text, form) for text in texts])
        if share > most and share >= least_share:
            best, most = DATE + form, share
        if most == 1:
            break
    return best


def _share(numbers: Sequence[float | None]) -> float:
    return sum(number is not None for number in numbers) / max(1, len(numbers))
