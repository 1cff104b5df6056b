"""Plain HTML in NiceGUI's words. Texts are always texts: whatever a node or a class is called, nothing of it is read as
HTML."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

Handler = Callable[[], Awaitable[None] | None]


class Tag(TextElement):
    """An element of HTML, with a text that can be changed."""

    def __init__(self, name: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=name, text=text)
        if classes:
            self.classes(classes)
        self.attributes(**attributes)

    def attributes(self, **values: Any) -> Tag:
        """Set attributes (`aria_label` is aria-label); None takes one away."""
        for name, value in values.items():
            self.props.set_optional(name.rstrip("_").replace("_", "-"), value)
        return self

    def press(self, handler: Handler) -> Tag:
        self.on("click", lambda: handler(), [])
        return self


def tag(name: str, text: object = "", classes: str = "", **attributes: Any) -> Tag:
    return Tag(name, str(text), classes, **attributes)


def button(text: str, handler: Handler, classes: str = "", **attributes: Any) -> Tag:
    return Tag("button", text, classes, type="button", **attributes).press(handler)


def swatch(number: int | None) -> Tag:
    """The colour of a class; a ring where there is none."""
    if number is None:
        return tag("span", classes="swatch none", aria_hidden="true")
    return tag("span", classes="swatch", aria_hidden="true", style=f"--own: var(--k{number})")


def key(name: str) -> Tag:
    return tag("kbd", name, aria_hidden="true")


def emptied(holder: Element) -> Element:
    """The same, ready to be filled anew."""
    holder.clear()
    return holder
