"""Telling whoever asks how far a training has got, and what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


ProgressCallback = Callable[[int, int], None]
_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="")
EPOCHS_BETWEEN_REPORTS = 10


def reporting_progress(callback: ProgressCallback) -> AbstractContextManager[None]:
    """While this lasts, training calls `callback(epochs_done, epochs_total)` from time to time."""
    return _while_it_lasts(_progress, callback)


def stage(title: str) -> AbstractContextManager[None]:
    """While this lasts, whoever shows progress can say what is trained."""
    return _while_it_lasts(_stage, title)


@contextmanager
def _while_it_lasts(variable: ContextVar[Any], value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def current_stage() -> str:
    """What is trained just now; empty if nobody said."""
    return _stage.get()
