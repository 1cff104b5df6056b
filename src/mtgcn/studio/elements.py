"""Elements of the page: HTML tags, keyboard shortcuts, and the base class of views.

Texts are always set as text, so that names of nodes and classes are never parsed as HTML.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from mtgcn.studio.nodes import Node
from mtgcn.studio.state import Window

Handler = Callable[[], Awaitable[None] | None]


class Tag(TextElement):
    """An HTML or SVG element with a text that can be changed."""

    def __init__(self, name: str, text: object = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=name, text=str(text))
        self.classes(classes)
        self.attributes(**attributes)

    def attributes(self, **values: Any) -> Tag:
        """Set attributes (`aria_label` is aria-label); None removes one."""
        for name, value in values.items():
            self.props.set_optional(name.replace("_", "-"), value)
        return self

    def show(self, visible: bool) -> None:
        self.classes(add="" if visible else "hidden", remove="hidden")


tag = Tag


def button(text: str, handler: Handler, classes: str = "", **attributes: Any) -> Tag:
    made = Tag("button", text, classes, type="button", **attributes)
    made.on("click", lambda: handler(), [])
    return made


def on_value(
    element: Tag, event: str, handler: Callable[[Any], object], value: str = "event.target.value", throttle: float = 0
) -> Tag:
    """Call a handler with a value that JavaScript computes on an event, by default the value of the field."""
    script = f"(event) => emit({value})"
    return element.on(event, lambda happened: handler(happened.args), js_handler=script, throttle=throttle)


def choice(title: str, options: Mapping[str, str], chosen: str, handler: Callable[[str], object], **more: Any) -> Tag:
    """A select element."""
    with tag("select", aria_label=title, **more) as made:
        for value, text in options.items():
            tag("option", text, value=value, selected=True if value == chosen else None)
    return on_value(made, "change", handler)


def swatch(class_number: int | None) -> Tag:
    """The colour of a class; a ring for no class."""
    if class_number is None:
        return tag("span", classes="swatch none", aria_hidden="true")
    style = f"--own: var(--k{class_number}); clip-path: var(--s{class_number})"
    return tag("span", classes="swatch", aria_hidden="true", style=style)


def key(name: str) -> Tag:
    return tag("kbd", name, aria_hidden="true")


def figures(pairs: Iterable[tuple[str, str]]) -> None:
    """Key figures: large numbers with their meaning."""
    with tag("div", classes="figures"):
        for figure, meaning in pairs:
            with tag("div"):
                tag("strong", figure)
                tag("span", meaning)


def bullets(lines: Sequence[str], classes: str = "note") -> None:
    """A list of remarks, if there are any."""
    if lines:
        with tag("ul", classes=classes):
            for line in lines:
                tag("li", line)


class View(ABC):
    """A part of the page of one window; parts whose data changed are redrawn."""

    pane: Tag  # element of the view

    def __init__(self, window: Window) -> None:
        self.window, self.studio = window, window.studio
        self._drawn: dict[object, object] = {}  # the state of each part when it was drawn

    @abstractmethod
    def update(self) -> None:
        """Redraw the parts that changed."""

    def changed(self, part: object, *state: object) -> bool:
        """Whether a part was not drawn yet, or was drawn in another state."""
        changed = self._drawn.get(part) != state
        self._drawn[part] = state
        return changed

    def redraw(self, holder: Tag, draw: Callable[[], None], *state: object) -> None:
        """Redraw the content of a holder if its state changed."""
        if self.changed(holder, *state):
            holder.clear()
            with holder:
                draw()

    def class_number(self, name: str | None) -> int | None:
        classes = self.studio.snapshot.classes
        return classes.index(name) if name in classes else None

    async def show_node(self, node: str) -> None:
        """Show a node in the view for labelling."""
        await self.window.act(self.window.show, node)
        self.window.go("Label")

    def draw_node(self, node: Node) -> None:
        """Draw a button that shows a node, with its class."""
        with button("", partial(self.show_node, node.id), "node"):
            if node.picture is not None:
                tag("img", classes="small-picture", src=node.picture, alt="")
            swatch(self.class_number(node.class_name))
            tag("span", node.title, "name")
            tag("span", node.class_text, "class")


class Keys(Element, component="static/keys.js"):
    """Keyboard shortcuts; events carry the node that was shown when the key was pressed."""

    def __init__(self, on_key: Callable[[str, str], Any]) -> None:
        super().__init__()
        self.on("pressed", lambda event: on_key(*map(str, event.args)))
