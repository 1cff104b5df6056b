"""A case, and whether the program holds against it."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sklearn.exceptions import DataConversionWarning

from mtgcn import FitWarning
from mtgcn.errors import GraphNote, InputError

LONGEST_COMPLAINT = 2000  # characters that a person may be asked to read


class Unsound(Exception):
    """An answer that nobody should be given."""


@dataclass(frozen=True)
class Trial:
    """Something to try in an empty folder. It returns if all is well, or raises what the program raised."""

    told: str  # what is tried, in a line
    attempt: Callable[[Path], None]


ANSWERED, REFUSED = "answered", "refused"


def outcome_of(trial: Trial, folder: Path) -> str:
    """`ANSWERED`, `REFUSED` in one line or, if the program did not hold, what went wrong, at length."""
    try:
        with _strict_warnings():
            trial.attempt(folder)
    except InputError as refusal:
        return _fault_of_refusal(str(refusal)) or REFUSED
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException:  # SystemExit, or that a limit was reached, are breaks as well
        return traceback.format_exc(limit=-12)
    return ANSWERED


def require(sound: object, what: str) -> None:
    """The answer is unsound unless this holds."""
    if not sound:
        raise Unsound(what)


@contextmanager
def _strict_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Remarks for a person, which belong to the answer; the last is scikit-learn's, of labels in a column.
        for meant in (FitWarning, GraphNote, DataConversionWarning):
            warnings.simplefilter("ignore", meant)
        yield


def _fault_of_refusal(message: str) -> str | None:
    if not message.strip():
        return "refused without a word"
    if len(message) > LONGEST_COMPLAINT:
        return f"refused in {len(message)} characters: {message[:200]} …"
    return None
