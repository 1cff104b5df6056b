"""The state of the application: `Studio`, shared by all windows, and `Window`, one browser window.

One loop polls the project and the fit worker and computes in other threads. Changed data are replaced by new objects,
and windows redraw what was replaced. So the page never blocks, and changes by another window, another process or an
editor appear everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import TypeVar

from mtgcn.errors import InputError
from mtgcn.storage.files import current_path
from mtgcn.studio.fitting import FitWorker, MapPoints, first_answer, fitted_model, map_points
from mtgcn.studio.nodes import Node, Nodes, NodeView
from mtgcn.studio.project import Project

POLL_SECONDS = 0.25
QUEUE_LENGTH = 12
MIN_QUEUE_LENGTH = 6  # shorter queues are refilled
LABELS_BEFORE_FIT = 5  # number of new labels that start a fit
KEYS = "1234567890abcdefghijklmnopqrtvwxyz"  # keys of classes; s skips and u undoes
MAX_NAMED_CLASSES = 3  # classes without a label that are named
LOG = logging.getLogger("mtgcn")

T = TypeVar("T")
Action = Callable[..., Awaitable[object]]
Notify = Callable[[str, bool], None]  # shows a message; the flag marks errors


@dataclass(frozen=True)
class Snapshot:
    """The project at one poll."""

    load: int = 0  # number of loads; 0: no graph
    title: str = ""
    classes: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    new_labels: int = 0  # labels that changed since the fit

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of labels per class."""
        return dict.fromkeys(self.classes, 0) | dict(Counter(self.labels.values()))

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
        self.changed: Sequence[str] = ()  # nodes whose predicted class the last fit changed
        self.chosen: Sequence[str] = ()  # nodes chosen on the map
        self.error = ""  # why the project cannot be read or updated
        self.map_patience = 0.2  # seconds for which a round of the loop waits for the map
        self._last_fit_labels: Mapping[str, str] = {}
        self._quick_labels: Mapping[str, str] = {}
        self._queue_for: tuple[object, int] = (None, 0)  # load and model; number of labelled and skipped nodes
        self._placing: tuple[object, Future[MapPoints]] = (None, Future())  # load and model; the map being computed
        self._failed_on: object = None

    @property
    def has_model(self) -> bool:
        """Whether there is a model other than a first answer."""
        return self.nodes is not None and self.nodes.model is not None and not self.nodes.quick

    def listed(self, which: str) -> Collection[str] | None:
        """The nodes of a list; None stands for all nodes."""
        if which == "doubted":
            return [] if self.nodes is None else self.nodes.doubted
        own = self.snapshot
        lists = {"mine": own.labels, "skipped": own.skipped, "changed": self.changed, "chosen": self.chosen}
        return lists.get(which)

    # Actions

    async def fit(self) -> None:
        """Start a fit to the current labels."""
        self._last_fit_labels = self.snapshot.labels
        await asyncio.to_thread(self.worker.start)

    async def cancel(self) -> None:
        await asyncio.to_thread(self.worker.cancel)

    # The loop

    async def run(self) -> None:
        """Poll and update until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(POLL_SECONDS)

    async def step(self) -> None:
        """Poll and update once. A failed update is retried after the next change."""
        polled: tuple[object, ...] | None = None
        try:
            await self.poll()
            polled = self.snapshot, self.worker.progress.state
            if self._failed_on == (*polled, self.nodes):
                return
            if self.snapshot.load:
                await self._update()
            self.error, self._failed_on = "", None
        except Exception as failure:
            self.error = error_line(failure, self.error)
            self._failed_on = polled and (*polled, self.nodes)

    async def poll(self) -> None:
        """Read the project."""
        snapshot = await asyncio.to_thread(self._read)
        if snapshot.load != self.snapshot.load:
            self.nodes, self.points, self.queue, self._last_fit_labels = None, None, {}, {}
            self.changed, self.chosen, self._quick_labels = (), (), {}
        if snapshot != self.snapshot:
            self.snapshot = snapshot

    def _read(self) -> Snapshot:
        project, state, nodes = self.project, self.project.state, self.nodes
        if state.source is None:
            return Snapshot()
        labels = project.labels()
        new = count_differences({} if nodes is None else nodes.fitted_labels, labels)
        return Snapshot(state.load, state.title, project.classes, labels, project.skipped, new)

    async def _update(self) -> None:
        if self.nodes is None:
            await asyncio.to_thread(self.worker.prepare)
        old, nodes = self.nodes, await asyncio.to_thread(self._read_nodes)
        if nodes is not old:
            self.nodes = nodes
            if old is not None and nodes.version != old.version and old.model is not None and nodes.model is not None:
                self.changed = nodes.changes(old)
            await self.poll()  # updates the number of new labels
        # While a thread is awaited, another graph may be loaded, which resets `nodes`.
        model = nodes.load, nodes.version
        wanted = model, len(self.snapshot.done)
        few = len(self.queue.keys() - self.snapshot.done) < MIN_QUEUE_LENGTH
        if self._queue_for[0] != model or (few and self._queue_for != wanted):
            queue = await asyncio.to_thread(nodes.queue, QUEUE_LENGTH)
            if self.nodes is nodes:
                self.queue, self._queue_for = queue, wanted
        if self._placing[0] != model:
            self._placing = model, in_background(map_points, self.project, None if nodes.quick else nodes.model)
        placing = asyncio.wrap_future(self._placing[1])  # the queue is updated while a large map is computed
        if (await asyncio.wait([placing], timeout=self.map_patience))[0] and self.nodes is nodes:
            self.points = placing.result()
        due = self.auto_fit and self.labels_since_fit >= LABELS_BEFORE_FIT and not self.missing_classes
        classes = {*self.snapshot.labels.values()}
        if self.nodes is nodes and due and len(classes) > 1 and self.worker.progress.state != "running":
            await self.fit()

    def _read_nodes(self) -> Nodes:
        """The nodes with the model on disk; during a fit, with the previous model or a first answer."""
        nodes, state, running = self.nodes, self.project.state, self.worker.progress.state == "running"
        version: object = None
        if nodes is not None and running:
            version = nodes.version
        else:
            with contextlib.suppress(FileNotFoundError):
                version = current_path(self.project.model_folder, "card.json").stat().st_mtime_ns
        if nodes is None or (nodes.load, nodes.version) != (state.load, version):
            nodes = Nodes(self.project, fitted_model(self.project), version)
        elif nodes.renamed != state.renamed:
            nodes = Nodes(self.project, nodes.model, version, quick=nodes.quick)
        labels = self.snapshot.labels
        known = labels == self._quick_labels or (running and nodes.quick)  # leaves the processor to a running fit
        if (nodes.model is None or nodes.quick) and len({*labels.values()}) > 1 and not known:
            self._quick_labels = labels
            with contextlib.suppress(InputError):
                nodes = Nodes(self.project, first_answer(self.project), version, quick=True)
        return nodes

    @property
    def labels_since_fit(self) -> int:
        """Number of labels that changed since the last fit, including failed fits."""
        return min(self.snapshot.new_labels, count_differences(self._last_fit_labels, self.snapshot.labels))

    @property
    def missing_classes(self) -> list[str]:
        """The classes without a label before the first fit."""
        return [] if self.has_model else [name for name, count in self.snapshot.label_counts.items() if not count]


class Window:
    """One browser window: the node that it shows, and the actions of the user, which run one after the other."""

    def __init__(self, studio: Studio, notify: Notify, window_name: Callable[[], str]) -> None:
        self.studio, self.notify, self.window_name = studio, notify, window_name
        self.view: NodeView | None = None
        self.reason = ""  # why the node is in the queue
        self.go: Callable[[str], None] = lambda view: None  # shows a view
        self.listed = ""  # the list in the view of nodes
        self.updates: list[Callable[[], None]] = []  # redraw the parts of the page whose data changed
        self._history: list[str] = []  # the nodes shown so far, as in the history of a browser
        self._position = -1
        self._lock = asyncio.Lock()
        self._shown: object = None
        self._draw_errors: list[str] = []  # errors of the last redraw; each is shown once
        self._load = 0
        self._waiting = False  # whether the window waits for a node from the queue

    @property
    def node(self) -> str | None:
        """The shown node."""
        return self._history[self._position] if self._history else None

    async def act(self, action: Action, *values: object) -> None:
        """Run an action and redraw; errors are shown as messages."""
        async with self._lock:
            try:
                await action(*values)
            except Exception as error:
                self.notify(error_line(error), True)
            await self._refresh()
        self.draw()

    async def poll(self) -> None:
        """Redraw if the studio changed."""
        if self._shown != self._sources and not self._lock.locked():
            async with self._lock:
                await self._refresh()
        self.draw()

    def draw(self) -> None:
        before, self._draw_errors = self._draw_errors, []
        for update in self.updates:
            try:
                update()
            except Exception as error:
                self._draw_errors.append(error_line(error, *before))
                if self._draw_errors[-1] not in before:
                    self.notify(self._draw_errors[-1], True)

    # Actions

    async def change(self, method: Callable[..., T], *values: object) -> T:
        """Call a method that changes the project, on behalf of this window."""
        result = await asyncio.to_thread(partial(method, *values, window=self.window_name()))
        await self.studio.poll()
        return result

    async def label(self, node: str, name: str | None) -> None:
        """Label a node and, if it is shown, go on to the next; None removes the label."""
        await self.change(self.studio.project.label, node, name)
        if name is not None:
            self._leave(node)

    async def label_as_new(self, node: str, name: str) -> None:
        """Add a class and label a node with it."""
        await self.change(partial(self.studio.project.add_class, name, node=node))
        self._leave(node)

    async def list_nodes(self, which: str) -> None:
        """Show some nodes in the view of nodes."""
        self.listed = which
        self.go("Nodes")

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
        node = change.skipped or next(iter(change.labels), None)
        if node is not None and len(change.labels) < 2:
            await self.show(node)

    async def next(self) -> None:
        self._waiting = False
        if not self._forward() and self.node is not None:
            self.notify("No other node is in the queue now.", False)

    async def previous(self) -> None:
        self._waiting = False
        if self._position > 0:
            self._position -= 1

    async def show(self, node: str) -> None:
        self._waiting = False
        if node != self.node:
            self._history.append(node)
            self._position = len(self._history) - 1

    def _forward(self) -> bool:
        """Go forward in the history; at its end, go to the first node of the queue that is neither shown nor done."""
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
        """Collect the data that the page shows about the node."""
        studio = self.studio
        if studio.snapshot.load != self._load:
            self._load, self._history, self._position = studio.snapshot.load, [], -1
        if self.node is None or self._waiting:
            self._waiting = not self._forward()
        sources, node, nodes = self._sources, self.node, studio.nodes
        view = None
        if node is not None and nodes is not None:
            try:
                view = await asyncio.to_thread(nodes.view, node)
            except Exception as error:  # the node can still be labelled or skipped
                self.notify(error_line(error), True)
                view = NodeView(Node(node))
        self.view, self.reason = view, studio.queue.get(node or "", "")
        self._shown = sources

    @property
    def _sources(self) -> tuple[object, ...]:
        """The data on which the view of the node depends."""
        return self.studio.snapshot, self.studio.nodes, self.studio.queue, self.node


def in_background(function: Callable[..., T], *arguments: object) -> Future[T]:
    """Call a function in a thread that does not keep the process alive."""
    future: Future[T] = Future()

    def call() -> None:
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


def count_differences(before: Mapping[str, str], now: Mapping[str, str]) -> int:
    """Number of nodes whose label is new, changed or removed.

    >>> count_differences({"a": "x", "b": "x"}, {"a": "y", "c": "x"})
    3
    """
    return sum(before.get(node) != now.get(node) for node in {*before, *now})


def error_line(error: Exception, *known: str) -> str:
    """An error as one line for the page. The traceback of an unexpected error is logged once."""
    if isinstance(error, InputError):
        return page_text(str(error))
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    line = f"Unexpected error ({cause}). Your labels are saved. Continue, or reload the page; details are in the log."
    if line not in known:
        LOG.error("unexpected error in the studio", exc_info=error)
    return line


ON_THE_PAGE = [  # remedies for the command line and for the page
    (r"\S*/(uploads|files)/[^/\s]+/", ""),
    (r"give --column source=NAME --column target=NAME", "name two columns of the file source and target"),
    (r"name (.*) id and label, or give their positions: .*", r"name \1 id and label in the file"),
    (r"give --column id=NAME --column label=NAME", "name two columns of the file id and label"),
    (r"; (--target |--column \w+=)NAME names another.*", "; its role can be changed when the file is loaded"),
    (r"; --column id=NAME names a column", "; choose the role id for a column when the file is loaded"),
    (r"; --column weight=.* uses it as edge weights", "; name it weight to use it as edge weights"),
    (r"use --unknown-nodes drop .*", 'choose "Leave out unknown nodes"'),
    (r"; use --header \w+ if .*", ""),
    (r"change it with --knn N", "the number can be changed with the roles of the columns"),
    (r"(choose one|name the (class |id )?column) with --\S+( NAME)?", "choose its role above the column"),
    (r"--column (category|number|date|text|label|id|name|ignore)=(\S+?)(?=[;,. ]|$)", r"the role \1 for \2"),
    (r"--exclude (\S+)", r"the role ignore for \1"),
    (r"give --labels|with --labels", "in a label file"),
    (r"--(edges|nodes|labels)", r"the file of \1"),
    (r"--graph", "one file for all"),
    (r"--knn", "the number of nearest neighbours"),
    (r"TABLE", "a table"),
    (r" ?--[a-z]+(-[a-z]+)*( [A-Z]+)?", " another choice"),
]


def page_text(text: str) -> str:
    """A message of the readers with remedies for the page.

    >>> page_text("n.csv has 2 columns that may be the target: a, b; choose one with --target NAME")
    'n.csv has 2 columns that may be the target: a, b; choose its role above the column'
    """
    for option, words in ON_THE_PAGE:
        text = re.sub(option, words, text)
    return text


@dataclass(frozen=True)
class FitStatus:
    """The state of the model and of the fit."""

    title: str  # a word or two
    text: str  # the current step, or what is needed next
    kind: str = ""  # CSS class
    may_teach: bool = False  # whether a fit can be started now


def fit_status(studio: Studio) -> FitStatus:
    progress, snapshot = studio.worker.progress, studio.snapshot
    if not snapshot.load:
        return FitStatus("No graph yet", "Load a graph under Data.")
    if progress.state == "running":
        share = f" {100 * progress.done / progress.total:.0f} %" if progress.total else ""
        count = f", {progress.unit} {progress.done} of {progress.total}" if progress.total else ""
        text = f"{(progress.stage or 'starting').capitalize()}{count}. You can go on labelling."
        return FitStatus(f"Teaching{share}", text, "busy")
    classes = {*snapshot.labels.values()}
    may_teach = len(classes) > 1 and snapshot.new_labels > 0
    if progress.state == "failed":
        return FitStatus("Teaching failed", f"Teaching failed: {page_text(progress.error or '')}", "failed", may_teach)
    kept = "Stopped; the previous model is kept. " if progress.state == "cancelled" and studio.has_model else ""
    if studio.has_model and not snapshot.new_labels:
        return FitStatus("Up to date", f"{kept}The model is up to date.", "ready")
    title = plural(snapshot.new_labels, "new label") if snapshot.new_labels else "No model yet"
    if not studio.auto_fit:
        return FitStatus(title, f"{kept}{title}; teaching starts when you ask for it.", "", may_teach)
    missing = studio.missing_classes
    needed = LABELS_BEFORE_FIT - studio.labels_since_fit
    parts = [plural(needed, "more label")] if needed > 0 else []
    if len(snapshot.classes) < 2:
        parts.append("a second class" if snapshot.classes else "two classes")
    elif missing:
        names = ", ".join(missing[:MAX_NAMED_CLASSES]) + (", …" if len(missing) > MAX_NAMED_CLASSES else "")
        parts.append(f"one {'of' if len(missing) == 1 else 'each of'} {names}")
    elif len(classes) < 2:
        parts.append("one of another class")
    text = f"{kept}{', and '.join(parts)}, then it learns."
    return FitStatus(title, text[0].upper() + text[1:], "", may_teach)


def plural(count: int, noun: str, ending: str = "s") -> str:
    """
    >>> plural(1, "label"), plural(2, "class", "es")
    ('1 label', '2 classes')
    """
    return f"{count} {noun}{'' if count == 1 else ending}"


def class_keys(classes: Sequence[str]) -> dict[str, str]:
    """The key of each class: a digit that is its name, otherwise the next free one.

    >>> class_keys(("7", "cat", "1"))
    {'7': '7', '1': '1', 'cat': '2'}
    """
    own = {name: name for name in classes if name in KEYS[:10]}
    others = (name for name in classes if name not in own)
    return own | dict(zip(others, (key for key in KEYS if key not in own), strict=False))
