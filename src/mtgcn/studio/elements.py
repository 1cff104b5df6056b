"""Elements of the page: plain HTML, and components with scripts of their own (map, neighbourhood, curves, keys, files).

Texts are always set as text, so that names of nodes and classes are never parsed as HTML.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import numpy as np
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement
from nicegui.events import GenericEventArguments

Handler = Callable[[], Awaitable[None] | None]
NO_CLASS = 65535  # as in node_map.js


class Tag(TextElement):
    """An HTML element with a text that can be changed."""

    def __init__(self, name: str, text: str = "", classes: str = "", **attributes: Any) -> None:
        super().__init__(tag=name, text=text)
        if classes:
            self.classes(classes)
        self.attributes(**attributes)

    def attributes(self, **values: Any) -> Tag:
        """Set attributes (`aria_label` is aria-label); None removes one."""
        for name, value in values.items():
            self.props.set_optional(name.rstrip("_").replace("_", "-"), value)
        return self

    def show(self, visible: bool) -> None:
        self.classes(add="" if visible else "hidden", remove="hidden")


def tag(name: str, text: object = "", classes: str = "", **attributes: Any) -> Tag:
    return Tag(name, str(text), classes, **attributes)


def button(text: str, handler: Handler, classes: str = "", **attributes: Any) -> Tag:
    made = Tag("button", text, classes, type="button", **attributes)
    made.on("click", lambda: handler(), [])
    return made


def swatch(class_number: int | None) -> Tag:
    """The colour of a class; a ring for no class."""
    if class_number is None:
        return tag("span", classes="swatch none", aria_hidden="true")
    return tag("span", classes="swatch", aria_hidden="true", style=f"--own: var(--k{class_number})")


def key(name: str) -> Tag:
    return tag("kbd", name, aria_hidden="true")


def figures(pairs: Iterable[tuple[str, str]]) -> None:
    """Large numbers with their meaning."""
    with tag("div", classes="figures"):
        for figure, meaning in pairs:
            with tag("div"):
                tag("strong", figure)
                tag("span", meaning)


def note(lines: Sequence[str]) -> None:
    """A list of remarks, if there are any."""
    if lines:
        with tag("ul", classes="note"):
            for line in lines:
                tag("li", line)


def table_head(*columns: tuple[str, str]) -> None:
    """Titles and CSS classes of the columns of a table."""
    with tag("thead"), tag("tr"):
        for title, classes in columns:
            tag("th", title, classes)


def cleared(holder: Element) -> Element:
    """A container without its old content."""
    holder.clear()
    return holder


def plural(count: int, noun: str) -> str:
    """
    >>> plural(1, "label"), plural(2, "label")
    ('1 label', '2 labels')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


class NodeMap(Element, component="static/node_map.js"):
    """All nodes in the plane. Coordinates are sent once, colours when they change."""

    def __init__(self, places: np.ndarray, ids: Sequence[str], on_node: Callable[[int], Any]) -> None:
        super().__init__()
        self.ids = list(ids)
        self.props["x"], self.props["y"] = centred(places)
        self.props["ids"] = self.ids
        self.props["title"] = f"Map of {len(ids)} nodes; arrow keys move it, plus and minus zoom, Home shows all"
        self.on("node", lambda event: on_node(node_number(event)))

    def move_nodes(self, places: np.ndarray) -> None:
        """Move the nodes to new coordinates."""
        self.run_method("moveNodes", *centred(places))

    def colour(
        self, classes: np.ndarray, confidence: np.ndarray, labelled: np.ndarray, class_names: Sequence[str]
    ) -> None:
        """Set the class of each node (-1: none), its confidence from 0 to 1, and whether it is labelled."""
        levels = np.clip(np.nan_to_num(confidence) * 255, 0, 255).round()
        numbers = np.where(classes < 0, NO_CLASS, classes)
        self.run_method("colour", packed(numbers, "u2"), packed(levels, "u1"), packed(labelled, "u1"), [*class_names])

    def select(self, node: int, neighbours: Sequence[int]) -> None:
        self.run_method("select", node, list(neighbours))

    def show_only(self, class_number: int | None) -> None:
        self.run_method("showOnly", -1 if class_number is None else class_number)


def packed(values: np.ndarray, kind: str) -> str:
    """An array for the scripts: base64 of little-endian numbers."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def centred(places: np.ndarray) -> tuple[str, str]:
    """Coordinates scaled to a square from 0 to 1, packed."""
    extent = np.ptp(places, axis=0)
    span = max(float(extent.max()), 1e-9)
    x, y = ((places - places.min(axis=0)) / span + 0.5 - extent / span / 2).T
    return packed(x, "f4"), packed(y, "f4")


class NeighbourhoodPlot(Element, component="static/neighbourhood.js"):
    """A node and its neighbours around it. Edges are pairs of positions in `nodes`."""

    def __init__(
        self,
        title: str,
        nodes: Sequence[dict[str, Any]],
        edges: Sequence[tuple[int, int]],
        on_node: Callable[[int], Any],
    ) -> None:
        super().__init__()
        self.props.update(nodes=list(nodes), edges=list(edges), title=title)
        self.on("node", lambda event: on_node(node_number(event)))


class Curves(Element, component="static/curves.js"):
    """A line over the epochs or rounds of a training."""

    def __init__(self, title: str, unit: str) -> None:
        super().__init__()
        self.props.update(title=title, unit=unit)

    def show(self, colour: str, points: Sequence[Sequence[float]]) -> None:
        self.run_method("show", colour, list(points))


def node_number(event: GenericEventArguments) -> int:
    """The node of an event; -1 if a script sends anything else."""
    value = event.args[0] if isinstance(event.args, list) else event.args
    return value if isinstance(value, int) else -1


class Keys(Element, component="static/keys.js"):
    """Keys of the page, each with the node shown when it was pressed."""

    def __init__(self, on_key: Callable[[str, str], Any]) -> None:
        super().__init__()
        self.on("pressed", lambda event: on_key(*map(str, event.args)))


class FileField(Element, component="static/file_field.js"):
    """A file input that uploads at once. `uploaded` is its folder and name in the project."""

    def __init__(self, title: str, hint: str, suffixes: Sequence[str]) -> None:
        super().__init__()
        self.props.update(title=title, hint=hint, accept=",".join(suffixes))
        self.uploaded: tuple[str, str] | None = None
        self.on("uploaded", self._receive)

    def _receive(self, event: GenericEventArguments) -> None:
        value = event.args
        self.uploaded = (str(value["folder"]), str(value["name"])) if isinstance(value, dict) else None
