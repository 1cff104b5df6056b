"""Errors and notes for the user, and the formatting of values in messages."""

from __future__ import annotations

import difflib
import logging
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_SHOWN = 60  # most characters of a value in a message
MOST_NAMES_SHOWN = 30
LONGEST_NAME = 1000  # characters; every entry of an array of names is as wide as the longest
LONGEST_TEXT = 1_000_000  # characters of a category, which is part of a feature name
PACKAGE = Path(__file__).parent
LOGGER = logging.getLogger("mtgcn")
# Control characters, line breaks included, and those that reverse the direction of text.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class InputError(ValueError):
    """Invalid input. The message gives the value, the limit and the remedy in one line."""


class GraphNote(UserWarning):
    """A decision made while reading a graph, such as dropping the direction of edges."""


def note(message: str) -> None:
    """Warn with a `GraphNote`, attributed to the code that called into this package."""
    warn_caller(GraphNote(message))


def log_file(path: Path, form: str, **counts: int) -> None:
    """Log the detected format of a file, and the counts of its content."""
    listed = ", ".join(f"{count:,} {what[: -(count == 1) or None]}".replace(",", " ") for what, count in counts.items())
    name = path.name.encode("utf-8", "backslashreplace").decode()  # the name may not be UTF-8
    LOGGER.info("%s: %s; %s", name, form, listed)


def warn_caller(warning: Warning) -> None:
    """Warn, attributed to the code that called into this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


def shown(value: object) -> str:
    """A value in a message: quoted, on one line and shortened."""
    text = str(value)
    if len(text) > LONGEST_SHOWN:
        text = text[: LONGEST_SHOWN - 1] + "…"
    return repr(text)


def printable(text: str) -> str:
    """A line of text with control characters escaped, so that ids and names in it cannot steer a terminal."""
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def reason(problem: Exception) -> str:
    """The message of an exception of another library, shortened and on one line."""
    message = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    message = " ".join(message.split()) or type(problem).__name__
    return message if len(message) <= 3 * LONGEST_SHOWN else message[: 3 * LONGEST_SHOWN - 1] + "…"


@contextmanager
def as_input_error(
    message: str, remedy: str, *problems: type[Exception], kept: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Turn these exceptions of other libraries, except those `kept`, into an `InputError`: message (reason); remedy."""
    try:
        yield
    except problems as problem:
        if isinstance(problem, (InputError, *kept)):
            raise
        raise InputError(f"{message} ({reason(problem)}); {remedy}") from None


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for an unknown name, with the closest known one."""
    known = list(known)
    given = shown(name) if isinstance(name, str) else f"{repr(name)[:LONGEST_SHOWN]} of type {type(name).__name__}"
    is_text = isinstance(name, str) and len(name) <= LONGEST_SHOWN
    text = str(name).lower() if is_text else ""
    begun = [one for one in known if len(text) > 2 and one.startswith(text)]
    nearest = begun[:1] or difflib.get_close_matches(text, known, n=1, cutoff=0.55)
    some = ", ".join(known[:MOST_NAMES_SHOWN]) + (", …" if len(known) > MOST_NAMES_SHOWN else "")
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose from {some}"
    return InputError(f"unknown {kind} {given}; {hint}")


def check_names(names: Iterable[str], what: str, where: str = "", longest: int = LONGEST_NAME) -> None:
    """Reject names of nodes, classes or columns (`what`) that are too long or cannot be written as UTF-8."""
    place = f"{where}: " if where else ""
    for name in names:
        if len(name) > longest:
            raise InputError(f"{place}{what} {shown(name)} has {len(name)} characters; give names of at most {longest}")
        try:
            name.encode()
        except UnicodeEncodeError:  # possible by escapes in JSON and GML
            raise InputError(f"{place}{what} {shown(name)} contains an unpaired surrogate; rename it") from None
