"""The session of one browser window: the node it shows and what the person does. The views draw it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from mtgcn.studio.nodes import Neighbourhood, NodeDetails, QueueItem, neighbourhood, node_details, node_picture
from mtgcn.studio.predictions import NodePrediction
from mtgcn.studio.workspace import Workspace, error_line

MAX_NEIGHBOURS = 24
MAX_UPCOMING = 5
T = TypeVar("T")
Action = Callable[[], Awaitable[None]]
Notify = Callable[[str, bool], None]  # shows a message; whether it is an error


@dataclass(frozen=True)
class NodeView:
    """Everything the page shows of one node."""

    node: str
    details: NodeDetails = field(default_factory=NodeDetails)
    neighbourhood: Neighbourhood | None = None
    prediction: NodePrediction | None = None
    reason: str = ""  # why it is in the queue
    upcoming: tuple[QueueItem, ...] = ()  # the next in the queue
    pictures: Mapping[str, str] = field(default_factory=dict)  # data URLs of neighbours and upcoming nodes


class NodeHistory:
    """The nodes a window has shown, like the history of a browser, extended from the queue.

    >>> history = NodeHistory()
    >>> history.forward(["a", "b"]), history.forward(["a", "b"]), history.back()
    ('a', 'b', 'a')
    """

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._position = -1

    @property
    def node(self) -> str | None:
        """The shown node."""
        return self._nodes[self._position] if self._nodes else None

    def show(self, node: str) -> None:
        """Append a node and show it."""
        if node != self.node:
            self._nodes.append(node)
            self._position = len(self._nodes) - 1

    def back(self) -> str | None:
        self._position = max(self._position - 1, min(0, len(self._nodes) - 1))
        return self.node

    def forward(self, queue: Iterable[str], done: Container[str] = ()) -> str | None:
        """Go forward in the history; at its end, show the first node of the queue that is neither shown nor done.
        Returns None, without a step, if there is none."""
        if self._position < len(self._nodes) - 1:
            self._position += 1
            return self.node
        shown = set(self._nodes)
        node = next((node for node in queue if node not in shown and node not in done), None)
        if node is not None:
            self.show(node)
        return node

    def clear(self) -> None:
        self._nodes.clear()
        self._position = -1


class Session:
    """One window. Its actions run one after the other."""

    def __init__(self, workspace: Workspace, notify: Notify, window_name: Callable[[], str]) -> None:
        self.workspace, self.notify, self.window_name = workspace, notify, window_name
        self.history = NodeHistory()
        self.view: NodeView | None = None
        self.updates: list[Callable[[], None]] = []  # redraw the parts of the page whose data changed
        self._lock = asyncio.Lock()
        self._shown: object = None
        self._load = 0
        self._waiting = False  # for the queue to offer a node

    async def act(self, action: Action) -> None:
        """Run one action and redraw; an error becomes a message."""
        async with self._lock:
            try:
                await action()
            except Exception as error:
                self.notify(error_line(error), True)
            await self._refresh()
        self.draw()

    async def poll(self) -> None:
        """Redraw if the workspace changed."""
        if self._shown != (self.workspace.revision, self.history.node) and not self._lock.locked():
            async with self._lock:
                await self._refresh()
        self.draw()

    def draw(self) -> None:
        for update in self.updates:
            try:
                update()
            except Exception as error:
                self.notify(error_line(error), True)

    # Actions

    async def change(self, method: Callable[..., T], *values: str) -> T:
        """Call a method of the project that changes it, on behalf of this window."""
        return await self.workspace.change(partial(method, *values, window=self.window_name()))

    async def label(self, node: str, class_number: int) -> None:
        """Label a node; if it is the shown one, go on to the next."""
        classes = self.workspace.snapshot.classes
        if class_number < len(classes):
            await self.change(self.workspace.project.label, node, classes[class_number])
            self._leave(node)

    async def unlabel(self, node: str) -> None:
        await self.change(self.workspace.project.unlabel, node)

    async def skip(self, node: str) -> None:
        await self.change(self.workspace.project.skip, node)
        self._leave(node)

    async def undo(self) -> None:
        """Undo the last change of this window and show its node."""
        change = await self.change(self.workspace.project.undo)
        if change is None:
            self.notify("This window has no change to undo.", False)
            return
        self.notify(f"Undone: {change.title}.", False)
        nodes = [*change.labels, *([change.skipped] if change.skipped else [])]
        if len(nodes) == 1:
            self.history.show(nodes[0])

    async def next(self) -> None:
        self._waiting = False
        if not self._forward() and self.history.node is not None:
            self.notify("No other node is in the queue now.", False)

    async def previous(self) -> None:
        self._waiting = False
        self.history.back()

    async def show(self, node: str) -> None:
        self._waiting = False
        self.history.show(node)

    def _forward(self) -> bool:
        snapshot = self.workspace.snapshot
        queue = [item.node for item in self.workspace.queue]
        return self.history.forward(queue, {*snapshot.labels, *snapshot.skipped}) is not None

    def _leave(self, node: str) -> None:
        if self.history.node == node:
            self._waiting = not self._forward()

    async def _refresh(self) -> None:
        """Collect what the page shows of the node."""
        snapshot = self.workspace.snapshot
        if snapshot.load != self._load:
            self._load = snapshot.load
            self.history.clear()
        if self.history.node is None or self._waiting:
            self._waiting = not self._forward()
        revision, node = self.workspace.revision, self.history.node
        if node is None:
            self.view = None
        else:
            try:
                self.view = await asyncio.to_thread(self._view_of, node)
            except Exception as error:  # the node can still be labelled or left
                self.notify(error_line(error), True)
                self.view = NodeView(node)
        self._shown = revision, node

    def _view_of(self, node: str) -> NodeView:
        workspace, loaded = self.workspace, self.workspace.project.loaded
        done = {*workspace.snapshot.labels, *workspace.snapshot.skipped, node}
        upcoming = tuple(item for item in workspace.queue if item.node not in done)[:MAX_UPCOMING]
        around = neighbourhood(workspace.project, node, workspace.predictions, MAX_NEIGHBOURS)
        others = [*(one.node for one in around.neighbours), *(item.node for item in upcoming)]
        pictures = {other: node_picture(loaded, loaded.index[other]) for other in others}
        return NodeView(
            node=node,
            details=node_details(workspace.project, node),
            neighbourhood=around,
            prediction=None if workspace.predictions is None else workspace.predictions.of_node(node),
            reason=next((item.reason for item in workspace.queue if item.node == node), ""),
            upcoming=upcoming,
            pictures={other: picture for other, picture in pictures.items() if picture is not None},
        )
