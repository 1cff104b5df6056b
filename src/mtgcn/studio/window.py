"""One window on the desk: which node it shows, and what a person does there. Drawing is the panes' part."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mtgcn.errors import InputError
from mtgcn.studio.answers import NodeAnswer
from mtgcn.studio.desk import LOG, Desk, fault
from mtgcn.studio.details import NodeDetails, node_details
from mtgcn.studio.neighbourhood import Neighbourhood, neighbourhood
from mtgcn.studio.picture import picture_address
from mtgcn.studio.queue import QueueItem
from mtgcn.studio.trail import Trail

MOST_NEIGHBOURS = 24
MOST_WAITING = 5
Step = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class NodeFacts:
    """All that is shown of one node."""

    node: str
    details: NodeDetails | None = None
    around: Neighbourhood | None = None
    answer: NodeAnswer | None = None
    reason: str = ""
    waiting: tuple[QueueItem, ...] = ()  # the next few after it
    pictures: Mapping[str, str] = field(default_factory=dict)  # addresses, of nodes around it and waiting


class Telling(Protocol):
    """Says something to a person, of something that went badly or just so."""

    def __call__(self, text: str, *, bad: bool = False) -> None: ...


class Pane(Protocol):
    """A part of the page, which knows when it has to be drawn anew."""

    def update(self) -> None: ...


class Window:
    """What one person looks at. Steps are taken one after the other, in the order in which they were asked for."""

    def __init__(self, desk: Desk, tell: Telling, name: Callable[[], str]) -> None:
        self.desk, self.tell, self.name = desk, tell, name
        self.trail = Trail()
        self.facts: NodeFacts | None = None
        self.panes: list[Pane] = []
        self._one_step = asyncio.Lock()
        self._drawn: object = None
        self._load = 0
        self._waiting = False  # for whom to label next, with nobody known yet

    async def step(self, action: Step) -> None:
        """Take one step and draw what came of it; what a person can mend is told."""
        async with self._one_step:
            try:
                await action()
            except Exception as error:
                self._report(error)
            await self._settle()
        self.draw()

    async def look(self) -> None:
        """See whether there is anything new; called now and then."""
        if self._drawn != self._now() and not self._one_step.locked():
            async with self._one_step:
                await self._settle()
        self.draw()

    def draw(self) -> None:
        for pane in self.panes:
            try:
                pane.update()
            except Exception as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        """One line on the page; for an unexpected error also the traceback in the log."""
        if isinstance(error, InputError):
            self.tell(str(error), bad=True)
        else:
            LOG.error("unexpected error in the studio", exc_info=error)
            self.tell(fault(error), bad=True)

    # What a person does

    async def label(self, node: str, number: int) -> None:
        """Say of which class the shown node is, and go on to the next."""
        classes = self.desk.seen.classes
        if number < len(classes):
            name = classes[number]
            await self.desk.change(lambda: self.desk.project.label(node, name, window=self.name()))
            self._go_on_from(node)

    async def unlabel(self, node: str) -> None:
        await self.desk.change(lambda: self.desk.project.unlabel(node, window=self.name()))

    async def skip(self, node: str) -> None:
        await self.desk.change(lambda: self.desk.project.skip(node, window=self.name()))
        self._go_on_from(node)

    async def undo(self) -> None:
        """Take back what was done last in this window, and show the node it was about."""
        change = await self.desk.change(lambda: self.desk.project.undo(window=self.name()))
        if change is None:
            self.tell("Nothing that was done in this window is left to take back.")
            return
        self.tell(f"Taken back: {change.title}.")
        about = [*change.labels, *([change.skipped] if change.skipped else [])]
        if len(about) == 1:
            self.trail.go(about[0])

    async def next(self) -> None:
        self._waiting = False
        if not self._forward() and self.trail.node is not None:
            self.tell("Nobody else is waiting for a label just now.")

    async def previous(self) -> None:
        self._waiting = False
        self.trail.back()

    async def show(self, node: str) -> None:
        self._waiting = False
        self.trail.go(node)

    # How it is done

    def _forward(self) -> bool:
        done = {*self.desk.seen.labels, *self.desk.seen.skipped}
        return self.trail.forward([item.node for item in self.desk.queue], done) is not None

    def _go_on_from(self, node: str) -> None:
        if self.trail.node == node:
            self._waiting = not self._forward()

    def _now(self) -> object:
        return self.desk.revision, self.trail.node

    async def _settle(self) -> None:
        """Find out what there is to show of the node."""
        seen = self.desk.seen
        if seen.load != self._load:
            self._load = seen.load
            self.trail.forget()
        if self.trail.node is None or self._waiting:
            self._waiting = not self._forward()
        now, node = self._now(), self.trail.node
        if node is None:
            self.facts = None
        else:
            try:
                self.facts = await asyncio.to_thread(self._facts_of, node)
            except Exception as error:  # the node can still be labelled or left; the next change tries again
                self._report(error)
                self.facts = NodeFacts(node)
        self._drawn = now

    def _facts_of(self, node: str) -> NodeFacts:
        desk, project = self.desk, self.desk.project
        reason = next((item.reason for item in desk.queue if item.node == node), "")
        done = {*desk.seen.labels, *desk.seen.skipped, node}
        waiting = tuple(item for item in desk.queue if item.node not in done)[:MOST_WAITING]
        around = neighbourhood(project, node, desk.answers, MOST_NEIGHBOURS)
        others = [*(one.node for one in around.neighbours), *(item.node for item in waiting)]
        return NodeFacts(
            node=node,
            details=node_details(project, node),
            around=around,
            answer=None if desk.answers is None else desk.answers.answer(node),
            reason=reason,
            waiting=waiting,
            pictures=self._pictures_of(others) if project.source.picture else {},
        )

    def _pictures_of(self, nodes: Sequence[str]) -> dict[str, str]:
        pictures = {node: node_details(self.desk.project, node).picture for node in nodes}
        return {node: picture_address(picture) for node, picture in pictures.items() if picture is not None}
