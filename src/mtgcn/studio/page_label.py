"""The node that is asked about, and what can be said of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from nicegui.events import GenericEventArguments

from mtgcn.studio.elements import Tag, button, emptied, key, swatch, tag
from mtgcn.studio.picture import picture_address
from mtgcn.studio.window import NodeFacts, Step, Window

KEYS = "1234567890"  # of the classes, in their order
MANY_CLASSES = 8  # from which they stand in two columns
NodeStep = Callable[[str], Awaitable[None]]
# The node that was shown when the button was pressed, whatever is shown when the server hears of it.
WITH_SHOWN_NODE = "() => emit(document.querySelector('[data-node]').dataset.node)"


class LabelPane:
    """Left: a node, why it is worth a label, the classes and the ways on."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._drawn_node: object = None
        self._drawn_classes: object = None
        self._shares: list[Tag] = []
        self._buttons: list[Tag] = []
        self.card = tag("section", classes="pane", aria_label="The node to label", id="queue")
        with self.card:
            self._node = tag("div", classes="stack", aria_live="polite")
            self._classes = tag("div", classes="classes", role="group", aria_label="Classes")
            self._moves = tag("div", classes="moves")
            self._facts = tag("div", classes="stack")
            self._waiting = tag("div", classes="stack waiting")
        with self._moves:
            self._move("Previous", "←", window.previous)
            self._move_of_node("Skip", "S", window.skip)
            self._move("Undo", "U", window.undo)
            self._move("Next", "→", window.next)
            self._forget = self._move_of_node("Take the label away", "", window.unlabel)

    def update(self) -> None:
        facts, seen = self.window.facts, self.window.desk.seen
        if self._drawn_classes != seen.classes:
            self._drawn_classes = seen.classes
            self._draw_classes()
            self._drawn_node = None
        given = None if facts is None else seen.labels.get(facts.node)
        now = (facts, given, bool(self.window.desk.queue), self.window.desk.points is None)
        if self._drawn_node != now:
            self._drawn_node = now
            self._draw_node(facts, given)

    def _move(self, title: str, shortcut: str, action: Step) -> None:
        with button("", partial(self.window.step, action)):
            tag("span", title)
            key(shortcut)

    def _move_of_node(self, title: str, shortcut: str, action: NodeStep) -> Tag:
        made = tag("button", "", type="button")
        made.on("click", partial(self._on_node, action), js_handler=WITH_SHOWN_NODE)
        with made:
            tag("span", title)
            if shortcut:
                key(shortcut)
        return made

    async def _on_node(self, action: NodeStep, event: GenericEventArguments) -> None:
        node = str(event.args)
        await self.window.step(lambda: action(node))

    def _draw_classes(self) -> None:
        classes = self.window.desk.seen.classes
        self._shares, self._buttons = [], []
        self._classes.classes(add="many" if len(classes) >= MANY_CLASSES else "", remove="many")
        with emptied(self._classes):
            for number, name in enumerate(classes):
                made = tag("button", type="button", aria_pressed="false", data_class=name)
                made.on("click", partial(self._say, number), js_handler=WITH_SHOWN_NODE)
                with made:
                    if number < len(KEYS):
                        key(KEYS[number])
                    swatch(number)
                    tag("span", name, "name")
                    self._shares.append(tag("span", "", "share"))
                self._buttons.append(made)
            if not classes:
                tag("p", "There is no class yet. Add the first under Data.", "soft small")

    async def _say(self, number: int, event: GenericEventArguments) -> None:
        node = str(event.args)
        await self.window.step(lambda: self.window.label(node, number))

    def _draw_node(self, facts: NodeFacts | None, given: str | None) -> None:
        self.card.attributes(data_node=None if facts is None else facts.node)
        shown = facts is not None
        for part in (self._classes, self._moves):
            part.classes(add="" if shown else "hidden", remove="hidden")
        self._forget.classes(add="" if given is not None else "hidden", remove="hidden")
        self._mark_classes(facts, given)
        with emptied(self._node):
            if facts is None:
                self._draw_nobody()
            else:
                self._draw_head(facts, given)
        with emptied(self._facts):
            if facts is not None:
                self._draw_attributes(facts)
        with emptied(self._waiting):
            if facts is not None and facts.waiting:
                self._draw_waiting(facts)

    def _mark_classes(self, facts: NodeFacts | None, given: str | None) -> None:
        shares = {} if facts is None or facts.answer is None else facts.answer.probabilities
        for name, made, share in zip(self.window.desk.seen.classes, self._buttons, self._shares, strict=True):
            made.attributes(aria_pressed="true" if name == given else "false")
            share.text = f"{100 * shares[name]:.0f} %" if name in shares else ""

    def _draw_nobody(self) -> None:
        desk = self.window.desk
        tag("h2", "Looking for nodes worth a label" if desk.points is None or not desk.queue else "Nobody is waiting")
        told = "This takes a moment on a large graph." if not desk.queue else "Every node has a label, or was skipped."
        tag("p", told, "soft")

    def _draw_head(self, facts: NodeFacts, given: str | None) -> None:
        with tag("div", classes="node-head"):
            if facts.details is not None and facts.details.picture is not None:
                address = picture_address(facts.details.picture)
                tag("img", classes="picture", src=address, alt=f"Picture of {facts.node}")
            with tag("div", classes="stack"):
                tag("span", "Node", "soft small")
                tag("h2", facts.node)
                self._draw_verdict(facts, given)
        if facts.reason:
            tag("p", f"Why this one: {facts.reason}", "why")

    def _draw_verdict(self, facts: NodeFacts, given: str | None) -> None:
        classes = self.window.desk.seen.classes
        with tag("p", classes="verdict"):
            if given is not None:
                swatch(classes.index(given) if given in classes else None)
                tag("span", f"{given}, as you said")
            elif facts.answer is None:
                swatch(None)
                tag("span", "Not predicted yet", "soft")
            else:
                predicted = facts.answer.predicted
                swatch(classes.index(predicted) if predicted in classes else None)
                tag("span", f"{predicted}, {100 * facts.answer.confidence:.0f} % sure")

    def _draw_attributes(self, facts: NodeFacts) -> None:
        details = facts.details
        if details is None or not details.attributes:
            return
        tag("h3", "What is known of it")
        with tag("dl", classes="facts", tabindex="0", aria_label="Attributes"):
            for name, value in details.attributes:
                tag("dt", name)
                tag("dd", value)
        if details.attributes_left_out:
            tag("p", f"and {details.attributes_left_out} more", "soft small")

    def _draw_waiting(self, facts: NodeFacts) -> None:
        tag("h3", "Next in the queue")
        with tag("ul", classes="neighbours"):
            for item in facts.waiting:
                with tag("li"), button("", partial(self._show, item.node)):
                    if item.node in facts.pictures:
                        tag("img", classes="small-picture", src=facts.pictures[item.node], alt="")
                    tag("span", item.node, "name")
                    tag("span", "" if item.predicted is None else f"{item.predicted}?", "said")

    async def _show(self, node: str) -> None:
        await self.window.step(lambda: self.window.show(node))
