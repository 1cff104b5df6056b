"""What the page draws by scripts of its own: the map, the neighbourhood of a node, the curves of teaching."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from nicegui.element import Element
from nicegui.events import GenericEventArguments

NOBODY = 65535  # of which class a node is that has not been predicted; node_map.js knows it too


def packed(values: np.ndarray, kind: str) -> str:
    """An array as the scripts take it: base64 of little-endian numbers."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()).decode()


class NodeMap(Element, component="static/node_map.js"):
    """All nodes in the plane. Their places are sent once, with the page; colours whenever they change."""

    def __init__(self, places: np.ndarray, ids: Sequence[str], on_node: Callable[[int], Any]) -> None:
        super().__init__()
        self.ids = list(ids)
        self.props["x"], self.props["y"] = centred(places)
        self.props["ids"] = self.ids
        self.props["title"] = f"Map of all {len(ids)} nodes; arrow keys move it, plus and minus zoom, Home shows it all"
        self.on("node", lambda event: on_node(number_of(event)))

    def wander(self, places: np.ndarray) -> None:
        """Other places of the same nodes."""
        self.run_method("wander", *centred(places))

    def colour(
        self, predicted: np.ndarray, confidence: np.ndarray, given: np.ndarray, class_names: Sequence[str]
    ) -> None:
        """`predicted` has -1 where nothing is; `confidence` is between 0 and 1."""
        classes = np.where(predicted < 0, NOBODY, predicted)
        certainty = np.clip(np.nan_to_num(confidence) * 255, 0, 255).round()
        packs = packed(classes, "u2"), packed(certainty, "u1"), packed(given, "u1")
        self.run_method("colour", *packs, list(class_names))

    def select(self, node: int, neighbours: Sequence[int]) -> None:
        self.run_method("select", node, list(neighbours))

    def show_only(self, class_number: int | None) -> None:
        self.run_method("show_only", -1 if class_number is None else class_number)


def centred(places: np.ndarray) -> tuple[str, str]:
    """Places from 0 to 1, in the middle of a square."""
    extent = np.ptp(places, axis=0)
    span = max(float(extent.max()), 1e-9)
    across, down = ((places - places.min(axis=0)) / span + 0.5 - extent / span / 2).T
    return packed(across, "f4"), packed(down, "f4")


class Neighbourhood(Element, component="static/neighbourhood.js"):
    """A node in the middle and some of its neighbours around it."""

    def __init__(self, title: str, on_node: Callable[[int], Any]) -> None:
        super().__init__()
        self.props.update(nodes=[], edges=[], title=title)
        self.on("node", lambda event: on_node(number_of(event)))

    def show(self, nodes: Sequence[dict[str, Any]], edges: Sequence[tuple[int, int]]) -> None:
        with self.props.suspend_updates():
            self.props.update(nodes=list(nodes), edges=list(edges))
        self.update()


class Curves(Element, component="static/curves.js"):
    """Lines over the epochs of a training."""

    def __init__(self, title: str, *, percent: bool = False, across: str = "epochs") -> None:
        super().__init__()
        self.props.update(title=title, percent=percent, across=across)

    def show(self, lines: Sequence[dict[str, Any]], end: int | None = None) -> None:
        self.run_method("show", list(lines), end)


def number_of(event: GenericEventArguments) -> int:
    """The node that a script tells of; scripts may be made to tell anything."""
    told = event.args[0] if isinstance(event.args, list) else event.args
    return told if isinstance(told, int) else -1


class Keys(Element, component="static/keys.js"):
    """Keys of the whole page, each with the node that was shown when it was pressed."""

    def __init__(self, on_key: Callable[[str, str], Any]) -> None:
        super().__init__()
        self.on("pressed", lambda event: on_key(*map(str, event.args)))


class FileField(Element, component="static/file_field.js"):
    """A file of the person's, brought to the project when it is chosen. `taken` is where the project has it."""

    def __init__(self, title: str, hint: str, suffixes: Sequence[str]) -> None:
        super().__init__()
        self.props.update(title=title, hint=hint, accept=",".join(suffixes))
        self.taken: tuple[str, str] | None = None
        self.on("taken", self._take)

    def _take(self, event: GenericEventArguments) -> None:
        told = event.args
        self.taken = (str(told["folder"]), str(told["name"])) if isinstance(told, dict) else None
