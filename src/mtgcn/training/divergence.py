"""Where training went astray: remembered while a method is fitted, for whoever finds that its answer is not finite."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

_found: ContextVar[list[str] | None] = ContextVar("divergence", default=None)


@contextmanager
def watching_divergence() -> Iterator[list[str]]:
    """A list of what was not finite while this lasts, the first first, each in words that may follow "since"."""
    found: list[str] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)


def note_divergence(what: str, unit: str, values: np.ndarray | Sequence[bool], before: int = 0, total: int = 0) -> None:
    """Remember the first moment, if there is one, at which a value is not finite (or a truth is false). The first axis
    are moments, `unit` by name; `before` came earlier, and in all there are `total`, or as many as are given."""
    found = _found.get()
    array = np.asarray(values)
    if found is None or not len(array):
        return
    fine = array if array.dtype == bool else np.isfinite(array)
    moments = np.flatnonzero(~fine.reshape(len(fine), -1).all(axis=1))
    if len(moments):
        found.append(f"{what} was not finite from {unit} {before + moments[0] + 1} of {total or len(fine)} on")
