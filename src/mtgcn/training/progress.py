"""Telling whoever asks how far a training has got, and what is done just now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ProgressCallback = Callable[[int, int], None]  # epochs done, epochs in all
StageCallback = Callable[[str], None]
_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage_changed: ContextVar[StageCallback | None] = ContextVar("stage_changed", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="")
EPOCHS_BETWEEN_REPORTS = 10


@contextmanager
def reporting_progress(callback: ProgressCallback, stage_changed: StageCallback | None = None) -> Iterator[None]:
    """While this lasts, training calls `callback(epochs_done, epochs_total)` from time to time, and
    `stage_changed(title)` whenever another stage begins or ends, also where nobody counts epochs."""
    epochs, stages = _progress.set(callback), _stage_changed.set(stage_changed)
    try:
        yield
    finally:
        _progress.reset(epochs)
        _stage_changed.reset(stages)


@contextmanager
def stage(title: str) -> Iterator[None]:
    """While this lasts, whoever shows progress can say what is done."""
    token = _stage.set(title)
    try:
        _tell_stage()
        yield
    finally:
        _stage.reset(token)
        _tell_stage()


def current_stage() -> str:
    """What is done just now; empty if nobody said."""
    return _stage.get()


def _tell_stage() -> None:
    if told := _stage_changed.get():
        told(current_stage())
