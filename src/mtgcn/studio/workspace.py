"""State shared by all windows of a studio: the project, the queue, the predictions and the map.

One loop polls the project and the fit worker and computes in other threads. Windows compare `revision` and redraw what
changed. So the page never blocks, and changes by another window, another process or an editor appear everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from mtgcn.errors import InputError
from mtgcn.shapes import Bool, Float, Int
from mtgcn.studio.fitting import MapPoints, map_points
from mtgcn.studio.nodes import QueueItem, next_nodes
from mtgcn.studio.predictions import ProjectPredictions, count_differences
from mtgcn.studio.project import Project
from mtgcn.studio.worker import FitWorker, Progress

POLL_SECONDS = 0.25
QUEUE_LENGTH = 12
MIN_QUEUE_LENGTH = 3  # below this the queue is refilled
LABELS_BEFORE_FIT = 5  # new labels that start a fit
LOG = logging.getLogger("mtgcn")

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """The project at one poll."""

    load: int = 0  # number of loads; 0: no graph
    title: str = ""
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    new_labels: int = 0  # since the fit

    @property
    def is_loaded(self) -> bool:
        return self.load > 0

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of labels per class."""
        counts = dict.fromkeys(self.classes, 0)
        for name in self.labels.values():
            counts[name] = counts.get(name, 0) + 1
        return counts


class Workspace:
    """The shared state. Only the thread of the event loop changes it."""

    def __init__(self, project: Project, worker: FitWorker) -> None:
        self.project, self.worker = project, worker
        self.snapshot = Snapshot()
        self.predictions: ProjectPredictions | None = None
        self.points: MapPoints | None = None
        self.queue: list[QueueItem] = []
        self.auto_fit = True
        self.revision = 0  # of everything but the progress of a fit
        self._last_fit_labels: Mapping[str, str] = {}
        self._queue_for: object = None
        self._model_stale = self._names_stale = True
        self._prepared = False
        self._poll_soon = asyncio.Event()
        self._read_error = self._update_error = ""
        self.failure, self.failures = "", 0  # the last error of an event of a page, and how many there were
        self._failed_on: object = None

    @property
    def progress(self) -> Progress:
        return self.worker.progress

    @property
    def error(self) -> str:
        """Why the project cannot be read or updated; empty without an error."""
        return self._read_error or self._update_error

    # Actions

    async def change(self, action: Callable[[], T]) -> T:
        """Change the project in a thread, and read it again at once."""
        result = await asyncio.to_thread(action)
        await self.poll()
        return result

    async def fit(self) -> None:
        """Start a fit on the present labels."""
        self._last_fit_labels = self.snapshot.labels
        await asyncio.to_thread(self.worker.start)
        self._model_stale = True
        self.revision += 1

    async def cancel(self) -> None:
        await asyncio.to_thread(self.worker.cancel)
        self.revision += 1

    def colours(
        self,
    ) -> tuple[Int[np.ndarray, "shown"], Float[np.ndarray, "shown"], Bool[np.ndarray, "shown"]]:
        """Class of each node on the map (-1: none), its confidence, and whether it is labelled now."""
        assert self.points is not None, "called when there is a map"
        number = {name: code for code, name in enumerate(self.snapshot.classes)}
        labels = np.array([number.get(self.snapshot.labels.get(node, ""), -1) for node in self.points.ids])
        classes, confidence = np.full(len(labels), -1), np.zeros(len(labels))
        if self.predictions is not None:
            codes = np.array([number.get(name, -1) for name in self.predictions.class_names])
            classes = codes[self.predictions.predicted[self.points.nodes]]
            confidence = self.predictions.confidence[self.points.nodes]
        return np.where(labels >= 0, labels, classes), np.where(labels >= 0, 1.0, confidence), labels >= 0

    def report(self, error: Exception) -> None:
        """Show an unexpected error of an event on the pages."""
        self.failure, self.failures = error_line(error), self.failures + 1

    # The loop

    async def run(self) -> None:
        """Poll and update until cancelled."""
        while True:
            await self.poll()
            await self.update()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poll_soon.wait(), POLL_SECONDS)
            self._poll_soon.clear()

    async def poll(self) -> None:
        """Read the project."""
        try:
            snapshot, error = await asyncio.to_thread(self._read), ""
        except Exception as failure:
            snapshot, error = self.snapshot, error_line(failure, self._read_error)
        if snapshot.load != self.snapshot.load:
            self.predictions, self.points, self.queue = None, None, []
            self._queue_for, self._last_fit_labels, self._model_stale = None, {}, True
        elif snapshot.classes != self.snapshot.classes:
            self._names_stale = True
        if (snapshot, error) != (self.snapshot, self._read_error):
            self.snapshot, self._read_error = snapshot, error
            self.revision += 1
            self._poll_soon.set()

    def _read(self) -> Snapshot:
        project, state, predictions = self.project, self.project.state, self.predictions
        if state.source is None:
            return Snapshot()
        labels = project.labels()
        new = len(labels) if predictions is None else ProjectPredictions(project, predictions.model).new_labels()
        return Snapshot(state.load, state.source.title, project.classes, labels, project.skipped, new)

    async def update(self) -> None:
        """Update what depends on the project. A failed update is retried after the next change."""
        inputs = self.snapshot, self.progress.state, id(self.predictions)
        if not self.snapshot.is_loaded or self._read_error or self._failed_on == inputs:
            return
        error = ""
        try:
            if not self._prepared:
                self._prepared = True
                await asyncio.to_thread(self.worker.prepare)
            if self._model_stale and self.progress.state != "running":
                await self._read_model()
            elif self._names_stale and self.predictions is not None:
                await self._set_predictions(ProjectPredictions(self.project, self.predictions.model))
            await self._fill_queue()
            if self.points is None:
                await self._draw_map()
            await self._fit_if_due()
        except Exception as failure:
            error = error_line(failure)
        self._failed_on = inputs if error else None
        if error != self._update_error:
            self._update_error = error
            self.revision += 1

    async def _read_model(self) -> None:
        self._model_stale = False
        load = self.snapshot.load
        predictions = await asyncio.to_thread(ProjectPredictions.read, self.project)
        if load != self.snapshot.load:
            return
        await self._set_predictions(predictions)
        if not self._last_fit_labels and predictions is not None and not self.snapshot.new_labels:
            self._last_fit_labels = self.snapshot.labels

    async def _set_predictions(self, predictions: ProjectPredictions | None) -> None:
        self._names_stale = False
        self.predictions = predictions
        self._queue_for = None
        await self.poll()  # the number of new labels
        await self._draw_map()

    async def _draw_map(self) -> None:
        load, model = self.snapshot.load, None if self.predictions is None else self.predictions.model
        points = await asyncio.to_thread(map_points, self.project, model)
        if load == self.snapshot.load:
            self.points = points
            self.revision += 1

    async def _fill_queue(self) -> None:
        """Choose nodes to label if few are left in the queue."""
        done = {*self.snapshot.labels, *self.snapshot.skipped}
        left = sum(item.node not in done for item in self.queue)
        load, asked = self.snapshot.load, (self.snapshot.load, id(self.predictions), len(done))
        if self._queue_for == asked or (self._queue_for is not None and left >= MIN_QUEUE_LENGTH):
            return
        model = None if self.predictions is None else self.predictions.model
        queue = await asyncio.to_thread(next_nodes, self.project, model, QUEUE_LENGTH)
        if load == self.snapshot.load:
            self.queue, self._queue_for = queue, asked
            self.revision += 1

    async def _fit_if_due(self) -> None:
        """Fit after some new labels, the first time once every class has one."""
        labels = self.snapshot.labels
        classes = set(labels.values())
        new = min(self.snapshot.new_labels, count_differences(self._last_fit_labels, labels))
        complete = self.predictions is not None or classes >= set(self.snapshot.classes)
        due = self.auto_fit and new >= LABELS_BEFORE_FIT and len(classes) > 1 and complete
        if due and self.progress.state != "running":
            await self.fit()


def error_line(error: Exception, previous: str = "") -> str:
    """An error as one line for the page. The traceback of an unexpected error is logged once."""
    if isinstance(error, InputError):
        return str(error)
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    line = f"Unexpected error ({cause}). Your labels are saved. Continue, or reload the page; details are in the log."
    if line != previous:
        LOG.error("unexpected error in the studio", exc_info=error)
    return line
