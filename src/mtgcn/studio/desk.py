"""What all windows of a studio look at: the project as it is now, whom to label next, the model and its map.

One loop watches the project and the teacher and works things out in other threads; windows compare `revision` and draw
what is new. So the page never waits, and what another window, another process or an editor changed is seen in all.
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
from mtgcn.studio.answers import ProjectAnswers
from mtgcn.studio.map import MapPoints, project_map
from mtgcn.studio.project import Project
from mtgcn.studio.queue import QueueItem, next_nodes
from mtgcn.studio.teaching import Progress, Teaching

SECONDS_BETWEEN_LOOKS = 0.25
QUEUE_LENGTH = 12
QUEUE_LEAST = 3  # left before more are looked for
LABELS_BEFORE_TEACHING = 5  # new ones
RUNNING = "running"
LOG = logging.getLogger("mtgcn")

T = TypeVar("T")


@dataclass(frozen=True)
class Seen:
    """The project at one look."""

    load: int = 0  # how often something was loaded; 0: never
    title: str = ""
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    new_labels: int = 0  # that the model has not seen

    @property
    def is_loaded(self) -> bool:
        return self.load > 0


@dataclass(frozen=True, eq=False)
class Colours:
    """Of every node on the map: its class, how sure that is, and whether a person said so."""

    predicted: Int[np.ndarray, "shown"]  # place in the project's classes; -1 for none
    confidence: Float[np.ndarray, "shown"]
    given: Bool[np.ndarray, "shown"]


class Desk:
    """The shared state; all of it is changed by the event loop's thread alone."""

    def __init__(self, project: Project, teaching: Teaching) -> None:
        self.project, self.teaching = project, teaching
        self.seen = Seen()
        self.answers: ProjectAnswers | None = None
        self.points: MapPoints | None = None
        self.queue: list[QueueItem] = []
        self.teaches_itself = True
        self.revision = 0  # of everything but the teacher's progress
        self.points_revision = 0
        self._tried_labels: Mapping[str, str] = {}  # with which teaching began last
        self._queue_for: object = None
        self._model_stale = self._names_stale = True
        self._prepared = False
        self._look_soon = asyncio.Event()
        self._reading_trouble = self._working_trouble = ""
        self._failed_on: object = None

    @property
    def progress(self) -> Progress:
        return self.teaching.progress

    @property
    def trouble(self) -> str:
        """Why the project cannot be read, or nothing be made of it, just now; empty where all is well."""
        return self._reading_trouble or self._working_trouble

    # What windows ask for

    async def change(self, step: Callable[[], T]) -> T:
        """Change the project in a thread of its own, and see at once what came of it."""
        result = await asyncio.to_thread(step)
        await self.look()
        return result

    async def teach(self) -> None:
        """Begin teaching with the labels of now; an InputError says why not."""
        self._tried_labels = self.seen.labels
        await asyncio.to_thread(self.teaching.start)
        self._model_stale = True
        self.revision += 1

    async def cancel(self) -> None:
        await asyncio.to_thread(self.teaching.cancel)
        self.revision += 1

    def colours(self) -> Colours:
        """Of the nodes on the map, with the labels of now."""
        assert self.points is not None, "asked for when there is a map"
        points, number = self.points, {name: place for place, name in enumerate(self.seen.classes)}
        translate = np.array([number.get(name, -1) for name in points.classes] + [-1])
        predicted = translate[points.predicted]
        given = np.array([number.get(self.seen.labels.get(node, ""), -1) for node in points.nodes])
        return Colours(
            predicted=np.where(given >= 0, given, predicted),
            confidence=np.where(given >= 0, 1.0, points.confidence),
            given=given >= 0,
        )

    # The loop

    async def watch(self) -> None:
        """Until it is cancelled."""
        while True:
            await self.step()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look_soon.wait(), SECONDS_BETWEEN_LOOKS)
            self._look_soon.clear()

    async def step(self) -> None:
        """Look once, and do what follows from what is seen. What failed is tried again when things have changed."""
        await self.look()
        if self.seen.is_loaded and not self._reading_trouble and self._failed_on != self._situation():
            await self._work()

    async def look(self) -> None:
        """See what the project is now."""
        try:
            seen, trouble = await asyncio.to_thread(self._observed), ""
        except InputError as error:
            seen, trouble = self.seen, str(error)
        except Exception as error:
            LOG.exception("the studio could not read its project")
            seen, trouble = self.seen, fault(error)
        if seen.load != self.seen.load:
            self.answers, self.points, self.queue = None, None, []
            self._queue_for, self._tried_labels, self._model_stale = None, {}, True
        elif seen.classes != self.seen.classes:
            self._names_stale = True
        if (seen, trouble) != (self.seen, self._reading_trouble):
            self.seen, self._reading_trouble = seen, trouble
            self.revision += 1
            self._look_soon.set()

    def _observed(self) -> Seen:
        state, answers = self.project.state, self.answers
        if state.source is None:
            return Seen()
        labels = self.project.labels()
        return Seen(
            load=state.load,
            title=state.source.title,
            classes=self.project.classes,
            labels=labels,
            skipped=self.project.skipped,
            new_labels=len(labels) if answers is None else ProjectAnswers(self.project, answers.model).labels_since,
        )

    async def _work(self) -> None:
        """What follows from what was seen, one thing after the other."""
        situation, trouble = self._situation(), ""
        try:
            if not self._prepared:
                self._prepared = True
                await asyncio.to_thread(self.teaching.prepare)  # the process takes seconds to start
            if self._model_stale and self.progress.state != RUNNING:
                await self._take_model()
            elif self._names_stale and self.answers is not None:
                await self._take_answers(ProjectAnswers(self.project, self.answers.model))
            if self._queue_is_due():
                await self._fill_queue()
            if self.points is None:
                await self._draw_map()
            await self._teach_by_itself()
        except InputError as error:
            trouble = str(error)
        except Exception as error:
            LOG.exception("the studio could not go on")
            trouble = fault(error)
        self._failed_on = situation if trouble else None
        if trouble != self._working_trouble:
            self._working_trouble = trouble
            self.revision += 1

    def _situation(self) -> object:
        return self.seen, self.progress.state, id(self.answers)

    async def _take_model(self) -> None:
        self._model_stale = False
        load = self.seen.load
        answers = await asyncio.to_thread(ProjectAnswers.read, self.project)
        if load != self.seen.load:
            return
        await self._take_answers(answers)
        if not self._tried_labels and answers is not None and not self.seen.new_labels:
            self._tried_labels = self.seen.labels

    async def _take_answers(self, answers: ProjectAnswers | None) -> None:
        self._names_stale = False
        self.answers = answers
        self._queue_for = None
        await self.look()  # what is new to this model
        await self._draw_map()

    async def _draw_map(self) -> None:
        load = self.seen.load
        points = await asyncio.to_thread(project_map, self.project, self.answers)
        if load == self.seen.load:
            self.points = points
            self.points_revision += 1
            self.revision += 1

    def _queue_is_due(self) -> bool:
        done = {*self.seen.labels, *self.seen.skipped}
        left = sum(item.node not in done for item in self.queue)
        now = self.seen.load, id(self.answers)
        return self._queue_for is None or (left < QUEUE_LEAST and self._queue_for != (*now, len(done)))

    async def _fill_queue(self) -> None:
        done = {*self.seen.labels, *self.seen.skipped}
        load, asked = self.seen.load, (self.seen.load, id(self.answers), len(done))
        model = None if self.answers is None else self.answers.model
        queue = await asyncio.to_thread(next_nodes, self.project, model, QUEUE_LENGTH)
        if load == self.seen.load:
            self.queue, self._queue_for = queue, asked
            self.revision += 1

    async def _teach_by_itself(self) -> None:
        """After a few new labels, once every class of theirs can be told from another."""
        labels = self.seen.labels
        new = min(self.seen.new_labels, differing(self._tried_labels, labels))
        enough = new >= LABELS_BEFORE_TEACHING and len(set(labels.values())) > 1
        every_class = self.answers is not None or set(labels.values()) >= set(self.seen.classes)
        if self.teaches_itself and enough and every_class and self.progress.state != RUNNING:
            await self.teach()


def fault(error: Exception) -> str:
    """What a person is told of an error of ours, which must not stop the page for good."""
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    return f"Something went wrong ({cause}); your labels are safe on disk. Go on, or reload the page; the log has more."


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """How many nodes have a label that is new, changed or gone.

    >>> differing({"a": "x", "b": "x"}, {"a": "y", "c": "x"})
    3
    """
    return sum(before.get(node) != now.get(node) for node in {*before, *now})
