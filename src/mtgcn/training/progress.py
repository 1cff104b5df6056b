"""Progress of a training, and where it diverged, reported to the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

ProgressCallback = Callable[[int, int], None]  # epochs done, epochs in all
StageCallback = Callable[[str], None]
ValuesCallback = Callable[[int, Mapping[str, float]], None]  # epochs done; losses and what else is told of the last one
_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage_changed: ContextVar[StageCallback | None] = ContextVar("stage_changed", default=None)
_values: ContextVar[ValuesCallback | None] = ContextVar("values", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="")
EPOCHS_BETWEEN_REPORTS = 10


@contextmanager
def progress_callbacks(
    callback: ProgressCallback,
    stage_changed: StageCallback | None = None,
    values: ValuesCallback | None = None,
) -> Iterator[None]:
    """While this lasts, training calls `callback(epochs_done, epochs_total)` from time to time, and
    `stage_changed(title)` whenever another stage begins or ends, also where nobody counts epochs. `values` is told
    with the epochs how the last of them went: by name, the mean over all models that are trained together."""
    tokens = _progress.set(callback), _stage_changed.set(stage_changed), _values.set(values)
    try:
        yield
    finally:
        for variable, token in zip((_progress, _stage_changed, _values), tokens, strict=True):
            variable.reset(token)  # type: ignore[attr-defined]


def report_progress(done: int, total: int, latest: Callable[[], Mapping[str, float]]) -> None:
    """So many epochs are done; `latest` is asked how the last one went if anybody wants to know."""
    if callback := _progress.get():
        callback(done, total)
    if (told := _values.get()) and (values := latest()):
        told(done, values)


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
