"""Numbers, dates and yes or no as people write them. A reading is a name that can be kept; `read` follows it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

import numpy as np

from mtgcn.shapes import Float

POINT, COMMA = "number", "number with decimal comma"
TRUTH = "yes or no"
DATE = "date "  # followed by how it is written

LARGEST = float(np.finfo(np.float32).max)
SECONDS_A_DAY = 86400
_SIGNS = " \t\u00a0\u202f€$£%"  # what may stand before or after a number
_THOUSANDS = "'’ \u00a0\u202f"
_NUMBER = {
    style: re.compile(
        rf"[+-]?(?:(?P<groups>[0-9]{{1,3}}(?:[{thousands}{_THOUSANDS}][0-9]{{3}})+)|(?P<digits>[0-9]*))"
        rf"(?:[{point}](?P<fraction>[0-9]*))?(?P<exponent>[eE][+-]?[0-9]{{1,3}})?"
    )
    for style, point, thousands in ((POINT, ".", ","), (COMMA, ",", "."))
}
_CODE = re.compile(r"[+-]?0[0-9]")  # 007 and 01067 are names that consist of digits
TRUTHS = (
    {"yes": 1.0, "no": 0.0, "y": 1.0, "n": 0.0},
    {"true": 1.0, "false": 0.0, "t": 1.0, "f": 0.0},
    {"ja": 1.0, "nein": 0.0, "j": 1.0, "n": 0.0},
    {"wahr": 1.0, "falsch": 0.0},
    {"oui": 1.0, "non": 0.0},
    {"sí": 1.0, "si": 1.0, "no": 0.0},
    {"on": 1.0, "off": 0.0},
)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?")
_DAYS = (
    *("%Y/%m/%d", "%Y.%m.%d", "%Y-%m", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y"),
    *("%d-%m-%Y", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y"),
)
DATE_FORMATS = ("iso", *(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")))
SAMPLE = 50  # values that a reading is tried on before it is tried on all


def number_in(text: str, style: str) -> float | None:
    """The number that a text is, in this style; None if it is none, or one that single precision cannot hold.

    >>> number_in("1,234.50", POINT), number_in("1.234,50 €", COMMA), number_in("12 %", POINT), number_in("red", POINT)
    (1234.5, 1234.5, 12.0, None)
    """
    found = _NUMBER[style].fullmatch(text.strip(_SIGNS))
    if not found:
        return None
    whole = "".join(filter(str.isdigit, found["groups"] or found["digits"] or ""))
    fraction = found["fraction"] or ""
    if not whole and not fraction:
        return None
    number = float(f"{whole or '0'}.{fraction or '0'}{found['exponent'] or ''}")
    if number > LARGEST:
        return None
    return -number if text.strip(_SIGNS).startswith("-") else number


def is_code(text: str) -> bool:
    """Whether digits are a name and no number, since a number has no zeros in front."""
    return bool(_CODE.match(text.strip()))


def days_in(text: str, form: str) -> float | None:
    """Days since 1970 of a date in this form; None if it is none.

    >>> days_in("1970-01-02", "iso"), days_in("3.1.1970", "%d.%m.%Y"), days_in("31.2.1970", "%d.%m.%Y")
    (1.0, 2.0, None)
    """
    try:
        if form == "iso":
            moment = datetime.fromisoformat(text) if _ISO.fullmatch(text) else None
        else:
            moment = datetime.strptime(text, form)
    except ValueError:
        return None
    if moment is None:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / SECONDS_A_DAY


def truth_in(text: str) -> float | None:
    """1 for yes, 0 for no, in the languages of `TRUTHS`; numbers are what they are, as 0 and 1 mean the same.

    >>> truth_in("Ja"), truth_in("false"), truth_in("1"), truth_in("perhaps")
    (1.0, 0.0, 1.0, None)
    """
    word = text.strip().casefold()
    return next((truths[word] for truths in TRUTHS if word in truths), number_in(text, POINT))


def read(texts: Iterable[str], reading: str) -> Float[np.ndarray, "texts"]:
    """The number behind each text by this reading, NaN where there is none."""
    one = _reader(reading)
    found = (one(text) for text in texts)
    return np.array([np.nan if number is None else number for number in found], dtype=np.float64)


def is_reading(reading: str) -> bool:
    """Whether this names a way of reading that there is."""
    return reading in (POINT, COMMA, TRUTH) or reading.removeprefix(DATE) in DATE_FORMATS


def is_truth(texts: Sequence[str]) -> bool:
    """Whether all are words for yes and no, of one language.

    >>> is_truth(["ja", "Nein"]), is_truth(["ja", "no"]), is_truth(["ja"])
    (True, False, False)
    """
    words = {text.strip().casefold() for text in texts}
    return any(words <= truths.keys() and {truths[word] for word in words} == {0.0, 1.0} for truths in TRUTHS)


def date_reading(texts: Sequence[str], least_share: float) -> str | None:
    """The way of writing dates by which the most of these texts are one; None if it is fewer than that share."""
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


def _reader(reading: str) -> Callable[[str], float | None]:
    if reading in (POINT, COMMA):
        return lambda text: number_in(text, reading)
    if reading == TRUTH:
        return truth_in
    form = reading.removeprefix(DATE)
    return lambda text: days_in(text.strip(), form)
