"""Progress of training, reported to callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

ProgressCallback = Callable[[int, int], None]  # called with units done and units in total
StageCallback = Callable[[str], None]

EPOCHS_BETWEEN_REPORTS = 10

_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage_changed: ContextVar[StageCallback | None] = ContextVar("stage_changed", default=None)
_stage: ContextVar[tuple[str, str]] = ContextVar("stage", default=("", "epoch"))
Value = TypeVar("Value")


@contextmanager
def assigned(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Assign a value to a context variable within this context."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


@contextmanager
def progress_callbacks(callback: ProgressCallback, stage_changed: StageCallback | None = None) -> Iterator[None]:
    """Register callbacks within this context. Training calls `callback(done, total)` regularly, and
    `stage_changed(title)` when a stage begins or ends."""
    with assigned(_progress, callback), assigned(_stage_changed, stage_changed):
        yield


def report_progress(done: int, total: int) -> None:
    """Call the callback."""
    if callback := _progress.get():
        callback(done, total)


@contextmanager
def stage(title: str, unit: str = "epoch") -> Iterator[None]:
    """Set the title of the current stage and the unit of `report_progress` within this context."""
    changed = _stage_changed.get() or (lambda _: None)
    try:
        with assigned(_stage, (title, unit)):
            changed(title)
            yield
    finally:
        changed(current_stage())


def current_stage() -> str:
    """The title of the current stage, or an empty string."""
    return _stage.get()[0]


def current_unit() -> str:
    """The unit that the current stage counts: epoch, round or step."""
    return _stage.get()[1]
