"""How a benchmark tells how far it is: through callbacks, so that it works without a terminal too."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

# Entered around a fit, with its title.
FittingProgress = Callable[[str], AbstractContextManager[object]]
# Called after each unit, with its title and the seconds that those after it are guessed to take; None: nobody knows.
Advance = Callable[[str, float | None], None]
# Entered around a sweep, with its units, how many of them are stored, and the seconds that the others may take.
SweepProgress = Callable[[int, int, float | None], AbstractContextManager[Advance]]


def silent_fitting(_title: str) -> AbstractContextManager[None]:
    return nullcontext()


def silent_sweep(_total: int, _done: int, _seconds_left: float | None) -> AbstractContextManager[Advance]:
    return nullcontext(lambda _title, _seconds_left: None)
