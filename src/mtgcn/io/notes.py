"""What was done to a graph that its owner should hear of once, though nothing is wrong with it."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


class GraphNote(UserWarning):
    """Something a reader decided, such as to drop the direction of edges: one line, fit to be printed as it is."""


def say(message: str) -> None:
    """Note something, in the name of whoever called into this package."""
    warn_caller(GraphNote(message))


def warn_caller(warning: Warning) -> None:
    """Warn, in the name of whoever called into this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)
