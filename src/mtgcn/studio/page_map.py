"""The map of all nodes, and below it the classes, of which one can be looked at alone."""

from __future__ import annotations

from functools import partial

import numpy as np

from mtgcn.studio.components import NodeMap
from mtgcn.studio.elements import Tag, emptied, swatch, tag
from mtgcn.studio.window import Window

NOTHING = object()  # where no node, which is None, has been drawn either


class MapPane:
    """Middle: every node by class and certainty, the shown one with its edges."""

    def __init__(self, window: Window) -> None:
        self.window = window
        self._map: NodeMap | None = None
        self._places: dict[str, int] = {}
        self._only: str | None = None
        self._drawn_points: object = None
        self._drawn_colours: object = None
        self._drawn_node: object = NOTHING
        with tag("section", classes="pane map-pane", aria_label="Map", id="map"):
            self._holder = tag("div", classes="map-holder")
            self._legend = tag("div", classes="legend", role="group", aria_label="Show one class alone")

    def update(self) -> None:
        desk, facts = self.window.desk, self.window.facts
        if self._drawn_points != (desk.points_revision, desk.seen.load):
            self._drawn_points = (desk.points_revision, desk.seen.load)
            self._draw_map()
            self._drawn_colours, self._drawn_node = None, NOTHING
        if self._map is None:
            return
        colours = (desk.seen, self._only)
        if self._drawn_colours != colours:
            self._drawn_colours = colours
            self._draw_colours()
        if self._drawn_node != facts:
            self._drawn_node = facts
            self._draw_node()

    def _draw_map(self) -> None:
        points = self.window.desk.points
        if points is None:
            self._map = None
            with emptied(self._holder):
                tag("p", "The map is being drawn.", "pane soft")
            self._legend.clear()
            return
        self._places = {node: place for place, node in enumerate(points.nodes)}
        if self._map is not None and list(points.nodes) == self._map.ids:
            self._map.wander(points.places)
            return
        with emptied(self._holder):
            self._map = NodeMap(points.places, points.nodes, self._pressed)

    async def _pressed(self, place: int) -> None:
        points = self.window.desk.points
        if points is not None and 0 <= place < len(points.nodes):
            node = points.nodes[place]
            await self.window.step(lambda: self.window.show(node))

    def _draw_colours(self) -> None:
        assert self._map is not None, "drawn before it is coloured"
        colours, classes = self.window.desk.colours(), self.window.desk.seen.classes
        self._map.colour(colours.predicted, colours.confidence, colours.given, classes)
        if self._only not in classes:
            self._only = None
        self._map.show_only(None if self._only is None else classes.index(self._only))
        counts = np.bincount(colours.predicted[colours.predicted >= 0], minlength=len(classes)).tolist()
        with emptied(self._legend):
            for number, name in enumerate(classes):
                made: Tag = tag("button", type="button", aria_pressed="true" if name == self._only else "false")
                made.on("click", partial(self._alone, name), [])
                with made:
                    swatch(number)
                    tag("span", name)
                    tag("span", counts[number], "count")

    def _alone(self, name: str) -> None:
        self._only = None if self._only == name else name
        self.update()

    def _draw_node(self) -> None:
        assert self._map is not None, "drawn before a node is shown on it"
        facts = self.window.facts
        place = -1 if facts is None else self._places.get(facts.node, -1)
        neighbours = () if facts is None or facts.around is None else facts.around.neighbours
        around = [self._places.get(one.node, -1) for one in neighbours]
        self._map.select(place, [one for one in around if one >= 0] if place >= 0 else [])
