"""A case, and what counts as a failure."""

from __future__ import annotations

import os
import resource
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sklearn.exceptions import DataConversionWarning

from mtgcn import FitWarning
from mtgcn.errors import GraphNote, InputError

LONGEST_COMPLAINT = 2000  # characters of an error message
MEMORY = 3 << 30  # bytes that a case may allocate
CPU_SECONDS = 60  # that a case may take


class Unsound(Exception):
    """A result that violates an invariant."""


@dataclass(frozen=True)
class Trial:
    """Something to try in an empty folder; it raises what the program raises."""

    told: str  # one line that describes the case
    attempt: Callable[[Path], None]


def succeeds(trial: Trial, folder: Path) -> bool:
    """True if the program gives a sound result, False if it refuses in one line. Everything else is raised: other
    exceptions, warnings, unsound results, too much memory or time."""
    folder.mkdir()
    before = os.getcwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings(), _limits():
            warnings.simplefilter("error")
            for meant in (FitWarning, GraphNote, DataConversionWarning):
                warnings.simplefilter("ignore", meant)
            trial.attempt(folder)
    except InputError as refusal:
        message = str(refusal).strip()
        require(0 < len(message) <= LONGEST_COMPLAINT, f"an error message of {len(message)} characters")
        return False
    finally:
        os.chdir(before)
    return True


def require(sound: object, what: str) -> None:
    """Raise `Unsound` unless the condition holds."""
    if not sound:
        raise Unsound(what)


class TooLong(BaseException):
    """Not an `Exception`, so that nothing catches it by mistake."""


@contextmanager
def _limits() -> Iterator[None]:
    """Bound memory and CPU time."""

    def too_long(*_: object) -> None:
        raise TooLong

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    handler = signal.signal(signal.SIGPROF, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, handler)
