"""The map of the nodes, with a legend that filters by class. Its arrays are fetched as bytes (`page.py`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from nicegui.element import Element

from mtgcn.report import fit_page
from mtgcn.shapes import Bool, Float, Int
from mtgcn.studio.elements import View, button, swatch, tag
from mtgcn.studio.fitting import MapPoints
from mtgcn.studio.state import Studio, Window

NO_CLASS = 65535  # as in node_map.js


class NodeMap(Element, component="static/map.js"):
    """Nodes in the plane. The methods `place` and `colour` fetch the arrays; `select` and `showOnly` mark nodes."""

    def __init__(self, on_node: Callable[[int], Any], on_lasso: Callable[[str], Any]) -> None:
        super().__init__()
        self.props["levels"] = [fit_page.SURE, fit_page.UNSURE]
        self.on("node", lambda event: on_node(int(event.args)))
        self.on("lasso", lambda event: on_lasso(str(event.args)))


class MapPane(View):
    """The map of the nodes by class and confidence, with a legend."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._map: NodeMap | None = None
        self._points: MapPoints | None = None
        self._only: str | None = None
        with tag("section", classes="pane map-pane", aria_label="Map", id="map"):
            self._holder = tag("div", classes="map-holder")
            self._legend = tag("div", classes="legend", role="group", aria_label="Show one class only")

    def update(self) -> None:
        studio, view = self.studio, self.window.view
        if self.changed("points", studio.points):
            self._place()
        if self._map is None or studio.points is None or studio.nodes is None:
            return
        self.redraw(self._legend, self._draw_legend, studio.snapshot, self._only, studio.points, studio.nodes)
        if self.changed("node", view, studio.points):
            index = studio.nodes.loaded.index
            ids = [] if view is None else [view.node.id, *(one.id for one in view.neighbours)]
            numbers = studio.points.numbers(np.array([index.get(one, -1) for one in ids], dtype=np.int64))
            node, *around = numbers or [-1]
            self._map.run_method("select", node, [one for one in around if one >= 0])

    def _place(self) -> None:
        points, before = self.studio.points, self._points
        self._points = points
        if points is None or before is None or not np.array_equal(points.nodes, before.nodes):
            self._holder.clear()
            self._legend.clear()
            self._map = None
            with self._holder:
                if points is None:
                    tag("p", "Computing the map.", "pane soft")
                else:
                    self._map = NodeMap(self._show, self._choose)
        if self._map is not None and self.studio.nodes is not None:
            self._map.run_method("place", "/map/places", len(self.studio.nodes.loaded.ids))

    def _ids(self, numbers: list[int]) -> list[str]:
        assert self._points is not None
        return [self.studio.project.loaded.ids[node] for node in self._points.nodes[numbers]]

    async def _show(self, number: int) -> None:
        await self.show_node(*self._ids([number]))

    async def _choose(self, bits: str) -> None:
        """List the nodes inside the lasso."""
        inside = np.unpackbits(np.frombuffer(bytes.fromhex(bits), np.uint8), bitorder="little")
        if inside.any():
            self.studio.chosen = self._ids(np.flatnonzero(inside).tolist())
            await self.window.act(self.window.list_nodes, "chosen")

    def _draw_legend(self) -> None:
        assert self._map is not None
        names, only = self.studio.snapshot.classes, self.class_number(self._only)
        self._map.run_method("colour", "/map/colours", names)
        self._map.run_method("showOnly", -1 if only is None else only)
        classes = colours(self.studio)[0]
        counts = np.bincount(classes[classes >= 0], minlength=len(names)).tolist()
        for number, name in enumerate(names):
            pressed = "true" if name == self._only else "false"
            with button("", partial(self._filter, name), aria_pressed=pressed):
                swatch(number)
                tag("span", name)
                tag("span", f"{counts[number]:,}", "count")

    def _filter(self, name: str) -> None:
        self._only = None if self._only == name else name
        self.update()


def colours(
    studio: Studio,
) -> tuple[Int[np.ndarray, "nodes"], Float[np.ndarray, "nodes"], Bool[np.ndarray, "nodes"]]:
    """Class (-1: none), confidence and current label status of each node."""
    nodes, snapshot = studio.nodes, studio.snapshot
    assert nodes is not None
    number, index = {name: code for code, name in enumerate(snapshot.classes)}, nodes.loaded.index
    labels, classes, confidence = np.full(len(index), -1), np.full(len(index), -1), np.zeros(len(index))
    for node in snapshot.labels.keys() & index.keys():
        labels[index[node]] = number.get(snapshot.labels[node], -1)
    if nodes.model is not None:
        codes = np.array([number.get(name, -1) for name in nodes.class_names])
        classes, confidence = codes[nodes.predicted], nodes.confidence
    return np.where(labels >= 0, labels, classes), np.where(labels >= 0, 1.0, confidence), labels >= 0


def colour_bytes(studio: Studio) -> bytes:
    """Arrays of the nodes on the map: class (two bytes), confidence from 0 to 255, and whether they are labelled."""
    assert studio.points is not None
    classes, confidence, labelled = (values[studio.points.nodes] for values in colours(studio))
    arrays = np.where(classes < 0, NO_CLASS, classes).astype("<u2"), (255 * confidence).round().astype("u1"), labelled
    return b"".join(values.tobytes() for values in arrays)


def place_bytes(places: Float[np.ndarray, "nodes 2"]) -> bytes:
    """All x, then all y, as floats scaled to the middle of a square from 0 to 1."""
    extent = np.ptp(places, axis=0)
    span = max(float(extent.max()), 1e-9)
    return ((places - places.min(axis=0)) / span + 0.5 - extent / span / 2).T.astype("<f4").tobytes()
