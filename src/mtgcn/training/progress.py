"""Progress of a training, reported to callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

ProgressCallback = Callable[[int, int], None]  # units done, units in total
StageCallback = Callable[[str], None]

EPOCHS_BETWEEN_REPORTS = 10

_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage_changed: ContextVar[StageCallback | None] = ContextVar("stage_changed", default=None)
_stage: ContextVar[tuple[str, str]] = ContextVar("stage", default=("", "epoch"))
Value = TypeVar("Value")


@contextmanager
def assigned(variable: ContextVar[Any], value: Value) -> Iterator[Value]:
    """Within this context the variable has that value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


@contextmanager
def progress_callbacks(callback: ProgressCallback, stage_changed: StageCallback | None = None) -> Iterator[None]:
    """Within this context, training calls `callback(done, total)` from time to time, and `stage_changed(title)` when a
    stage begins or ends."""
    with assigned(_progress, callback), assigned(_stage_changed, stage_changed):
        yield


def report_progress(done: int, total: int) -> None:
    """Call the callback."""
    if callback := _progress.get():
        callback(done, total)


@contextmanager
def stage(title: str, unit: str = "epoch") -> Iterator[None]:
    """Names what is computed within this context, and the unit that `report_progress` counts there."""
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
    """What the current stage counts: epoch, round or step."""
    return _stage.get()[1]
