"""Python's search for unreachable objects, in a process that is a command of ours and nothing else."""

from __future__ import annotations

import atexit
import gc

OBJECTS_BETWEEN = 100_000  # Python's own 700 (2000 in later versions) make it look a thousand times while torch loads


def collect_seldom() -> None:
    """Search seldom, and not once more through everything when the process ends: half a second less of a command that
    imports torch and scikit-learn. Whoever imports this package keeps the habits of their own process."""
    _, *older = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN, *older)
    atexit.register(gc.freeze)  # what is frozen is not searched
