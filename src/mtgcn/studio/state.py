"""The state of the application: `Studio`, shared by all windows, and `Window`, one browser window. The views draw it.

One loop polls the project and the fit worker and computes in other threads. Windows compare `revision` and redraw what
changed. So the page never blocks, and changes by another window, another process or an editor appear everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from mtgcn.errors import InputError
from mtgcn.storage.files import current_path
from mtgcn.studio.fitting import FitWorker, MapPoints, Progress, fitted_model, map_points
from mtgcn.studio.nodes import Node, Nodes, NodeView
from mtgcn.studio.project import Project

POLL_SECONDS = 0.25
QUEUE_LENGTH = 12
MIN_QUEUE_LENGTH = 3  # below this the queue is refilled
LABELS_BEFORE_FIT = 5  # new labels that start a fit
MAX_UPCOMING = 5
LOG = logging.getLogger("mtgcn")

T = TypeVar("T")
Action = Callable[[], Awaitable[object]]
Notify = Callable[[str, bool], None]  # shows a message; whether it is an error


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
    def label_counts(self) -> dict[str, int]:
        """Number of labels per class."""
        counts = dict.fromkeys(self.classes, 0)
        for name in self.labels.values():
            counts[name] = counts.get(name, 0) + 1
        return counts

    @property
    def done(self) -> set[str]:
        """Nodes that were labelled or skipped."""
        return {*self.labels, *self.skipped}


class Studio:
    """The state that all windows share. Only the thread of the event loop changes it."""

    def __init__(self, project: Project, worker: FitWorker) -> None:
        self.project, self.worker = project, worker
        self.snapshot = Snapshot()
        self.nodes: Nodes | None = None  # None until the graph is read
        self.points: MapPoints | None = None
        self.queue: Mapping[str, str] = {}  # nodes to label next, each with the reason
        self.auto_fit = True
        self.revision = 0  # of everything but the progress of a fit
        self._last_fit_labels: Mapping[str, str] = {}
        self._queue_for: tuple[Nodes | None, int] = (None, 0)  # nodes, and number of labelled and skipped ones
        self._points_for: Nodes | None = None
        self.error = ""  # why the project cannot be read or updated
        self._failed_on: object = None

    @property
    def progress(self) -> Progress:
        return self.worker.progress

    @property
    def has_model(self) -> bool:
        return self.nodes is not None and self.nodes.model is not None

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
        self.revision += 1

    async def cancel(self) -> None:
        await asyncio.to_thread(self.worker.cancel)
        self.revision += 1

    # The loop

    async def run(self) -> None:
        """Poll and update until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(POLL_SECONDS)

    async def step(self) -> None:
        """Poll and update once. A failed update is retried after the next change."""
        polled: tuple[object, ...] = ()
        try:
            await self.poll()
            polled = self.snapshot, self.progress.state
            if self._failed_on == (*polled, self.nodes):
                return
            if self.snapshot.load:
                await self._update()
            error, polled = "", ()
        except Exception as failure:
            error = error_line(failure, self.error)
        self._failed_on = (*polled, self.nodes) if polled else None
        if error != self.error:
            self.error = error
            self.revision += 1

    async def poll(self) -> None:
        """Read the project."""
        snapshot = await asyncio.to_thread(self._read)
        if snapshot.load != self.snapshot.load:
            self.nodes, self.points, self.queue, self._last_fit_labels = None, None, {}, {}
        if snapshot != self.snapshot:
            self.snapshot = snapshot
            self.revision += 1

    def _read(self) -> Snapshot:
        project, state, nodes = self.project, self.project.state, self.nodes
        if state.source is None:
            return Snapshot()
        labels = project.labels()
        new = count_differences({} if nodes is None else nodes.fitted_labels, labels)
        return Snapshot(state.load, state.source.title, project.classes, labels, project.skipped, new)

    async def _update(self) -> None:
        if self.nodes is None:
            await asyncio.to_thread(self.worker.prepare)
        nodes = await asyncio.to_thread(self._read_nodes)
        if nodes is not self.nodes:
            self.nodes = nodes
            self.revision += 1
            await self.poll()  # the number of new labels
        # Whenever a thread is awaited, another graph may be loaded, which removes the nodes.
        wanted = nodes, len(self.snapshot.done)
        few = len(self.queue.keys() - self.snapshot.done) < MIN_QUEUE_LENGTH
        if self._queue_for[0] is not nodes or (few and self._queue_for != wanted):
            queue = await asyncio.to_thread(nodes.queue, QUEUE_LENGTH)
            if self.nodes is nodes:
                self.queue, self._queue_for = queue, wanted
                self.revision += 1
        if self._points_for is not nodes:
            points = await asyncio.to_thread(map_points, self.project, nodes.model)
            if self.nodes is nodes:
                self.points, self._points_for = points, nodes
                self.revision += 1
        if self.nodes is nodes:
            await self._fit_if_due()

    def _read_nodes(self) -> Nodes:
        """The nodes with the model on disk; during a fit with the model before it."""
        old, state, version = self.nodes, self.project.state, None
        if old is not None and self.progress.state == "running":
            version = old.version
        else:
            with contextlib.suppress(FileNotFoundError):
                version = current_path(self.project.model_folder, "card.json").stat().st_mtime_ns
        if old is None or (old.load, old.version) != (state.load, version):
            return Nodes(self.project, fitted_model(self.project), version)
        return old if old.renamed == state.renamed else Nodes(self.project, old.model, version)

    async def _fit_if_due(self) -> None:
        """Fit after some new labels, the first time once every class has one."""
        labels = self.snapshot.labels
        classes = set(labels.values())
        new = min(self.snapshot.new_labels, count_differences(self._last_fit_labels, labels))
        complete = self.has_model or classes >= set(self.snapshot.classes)
        due = self.auto_fit and new >= LABELS_BEFORE_FIT and len(classes) > 1 and complete
        if due and self.progress.state != "running":
            await self.fit()


class Window:
    """One browser window: the node it shows, and what the person does. Its actions run one after the other."""

    def __init__(self, studio: Studio, notify: Notify, window_name: Callable[[], str]) -> None:
        self.studio, self.notify, self.window_name = studio, notify, window_name
        self.view: NodeView | None = None
        self.reason = ""  # why the node is in the queue
        self.upcoming: list[Node] = []  # the next in the queue
        self.updates: list[Callable[[], None]] = []  # redraw the parts of the page whose data changed
        self._history: list[str] = []  # the nodes shown so far, like the history of a browser
        self._position = -1
        self._lock = asyncio.Lock()
        self._shown: object = None
        self._load = 0
        self._waiting = False  # for the queue to offer a node

    @property
    def node(self) -> str | None:
        """The shown node."""
        return self._history[self._position] if self._history else None

    async def act(self, action: Action) -> None:
        """Run one action and redraw; an error becomes a message."""
        async with self._lock:
            try:
                await action()
            except Exception as error:
                self.show_error(error)
            await self._refresh()
        self.draw()

    async def poll(self) -> None:
        """Redraw if the studio changed."""
        if self._shown != (self.studio.revision, self.node) and not self._lock.locked():
            async with self._lock:
                await self._refresh()
        self.draw()

    def draw(self) -> None:
        for update in self.updates:
            try:
                update()
            except Exception as error:
                self.show_error(error)

    def show_error(self, error: Exception) -> None:
        self.notify(error_line(error), True)

    # Actions

    async def change(self, method: Callable[..., T], *values: object) -> T:
        """Call a method of the project that changes it, on behalf of this window."""
        return await self.studio.change(partial(method, *values, window=self.window_name()))

    async def label(self, node: str, class_number: int | None) -> None:
        """Label a node and, if it is the shown one, go on to the next; None removes the label."""
        classes = self.studio.snapshot.classes
        if class_number is None:
            await self.change(self.studio.project.label, node, None)
        elif class_number < len(classes):
            await self.change(self.studio.project.label, node, classes[class_number])
            self._leave(node)

    async def skip(self, node: str) -> None:
        await self.change(self.studio.project.skip, node)
        self._leave(node)

    async def undo(self) -> None:
        """Undo the last change of this window and show its node."""
        change = await self.change(self.studio.project.undo)
        if change is None:
            self.notify("This window has no change to undo.", False)
            return
        self.notify(f"Undone: {change.title}.", False)
        nodes = [*change.labels, *([change.skipped] if change.skipped else [])]
        if len(nodes) == 1:
            await self.show(nodes[0])

    async def next(self) -> None:
        self._waiting = False
        if not self._forward() and self.node is not None:
            self.notify("No other node is in the queue now.", False)

    async def previous(self) -> None:
        self._waiting = False
        self._position = max(self._position - 1, min(0, self._position))

    async def show(self, node: str) -> None:
        self._waiting = False
        if node != self.node:
            self._history.append(node)
            self._position = len(self._history) - 1

    def _forward(self) -> bool:
        """Go forward in the history; at its end, show the first node of the queue that is neither shown nor done."""
        if self._position == len(self._history) - 1:
            seen = {*self._history, *self.studio.snapshot.done}
            node = next((node for node in self.studio.queue if node not in seen), None)
            if node is None:
                return False
            self._history.append(node)
        self._position += 1
        return True

    def _leave(self, node: str) -> None:
        if self.node == node:
            self._waiting = not self._forward()

    async def _refresh(self) -> None:
        """Collect what the page shows of the node."""
        studio = self.studio
        if studio.snapshot.load != self._load:
            self._load, self._history, self._position = studio.snapshot.load, [], -1
        if self.node is None or self._waiting:
            self._waiting = not self._forward()
        revision, node, nodes = studio.revision, self.node, studio.nodes
        view, upcoming = None, []
        if node is not None and nodes is not None:
            following = [one for one in studio.queue if one not in studio.snapshot.done and one != node][:MAX_UPCOMING]
            try:
                view = await asyncio.to_thread(nodes.view, node)
                upcoming = await asyncio.to_thread(nodes.listed, following)
            except Exception as error:  # the node can still be labelled or left
                self.show_error(error)
                view = NodeView(Node(node))
        self.view, self.upcoming, self.reason = view, upcoming, studio.queue.get(node or "", "")
        self._shown = revision, node


def count_differences(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """Number of nodes whose label is new, changed or removed.

    >>> count_differences({"a": "x", "b": "x"}, {"a": "y", "c": "x"})
    3
    """
    return sum(before.get(node) != now.get(node) for node in {*before, *now})


def error_line(error: Exception, previous: str = "") -> str:
    """An error as one line for the page. The traceback of an unexpected error is logged once."""
    if isinstance(error, InputError):
        return str(error)
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    line = f"Unexpected error ({cause}). Your labels are saved. Continue, or reload the page; details are in the log."
    if line != previous:
        LOG.error("unexpected error in the studio", exc_info=error)
    return line
