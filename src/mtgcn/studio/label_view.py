"""The view for labelling: the node with its classes, the map, and the neighbourhood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
from nicegui.events import GenericEventArguments

from mtgcn.shapes import Bool, Float, Int
from mtgcn.studio.elements import NodeMap, Tag, View, button, centred, key, plural, swatch, tag
from mtgcn.studio.nodes import Node, NodeView
from mtgcn.studio.state import Studio, Window

KEYS = "1234567890"  # of the classes, in their order
MIN_CLASSES_FOR_COLUMNS = 8
MAX_POINT_NAME = 12  # characters beside a point
MAX_NAMED_POINTS = 13
MAX_ON_ONE_RING = 16
PLOT_WIDTH, PLOT_HEIGHT = 320, 250
# The node that was shown when the button was pressed, whatever is shown when the server handles the event.
WITH_SHOWN_NODE = "() => emit(document.querySelector('[data-node]').dataset.node)"


class LabelView(View):
    """Left the node to label, its classes and the buttons to move on; then the map; right its neighbourhood."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._shares: list[Tag] = []
        self._buttons: list[Tag] = []
        with tag("div", classes="label-view", id="label") as self.pane:
            with tag("section", classes="pane", aria_label="The node to label", id="queue") as self._card:
                self._head = tag("div", classes="stack", aria_live="polite")
                self._classes = tag("div", classes="classes", role="group", aria_label="Classes")
                self._moves = tag("div", classes="moves")
                self._attributes = tag("div", classes="stack")
                self._upcoming = tag("div", classes="stack upcoming")
            self._map = MapPane(window)
            self._around = tag("section", classes="pane", aria_label="Neighbourhood", id="around")
        with self._moves:
            for title, shortcut, action in (
                ("Previous", "←", lambda node: window.previous()),
                ("Skip", "S", window.skip),
                ("Undo", "U", lambda node: window.undo()),
                ("Next", "→", lambda node: window.next()),
                ("Remove the label", "", partial(window.label, class_number=None)),
            ):
                with self._node_button(action) as self._unlabel:
                    tag("span", title)
                    if shortcut:
                        key(shortcut)

    def update(self) -> None:
        view, snapshot = self.window.view, self.studio.snapshot
        self.redraw(self._classes, self._draw_classes, snapshot.classes)
        if self.changed("node", view, snapshot.classes):
            self._card.attributes(data_node=None if view is None else view.node.id)
            for part in (self._classes, self._moves):
                part.show(view is not None)
            node = Node("") if view is None else view.node
            self._unlabel.show(node.label is not None)
            for name, made, share in zip(snapshot.classes, self._buttons, self._shares, strict=True):
                made.attributes(aria_pressed="true" if name == node.label else "false")
                share.text = f"{100 * node.probabilities[name]:.0f} %" if name in node.probabilities else ""
        self.redraw(self._head, self._draw_head, view, self.studio.queue)
        self.redraw(self._attributes, self._draw_attributes, view)
        self.redraw(self._upcoming, self._draw_upcoming, self.window.upcoming)
        self.redraw(self._around, self._draw_around, view, snapshot.classes)
        self._map.update()

    def _node_button(self, action: Callable[[str], Awaitable[None]], **attributes: str) -> Tag:
        """A button that acts on the shown node."""

        async def act(event: GenericEventArguments) -> None:
            await self.window.act(lambda: action(str(event.args)))

        made = tag("button", type="button", **attributes)
        made.on("click", act, js_handler=WITH_SHOWN_NODE)
        return made

    def _draw_classes(self) -> None:
        classes = self.studio.snapshot.classes
        self._shares, self._buttons = [], []
        self._classes.classes(add="many" if len(classes) >= MIN_CLASSES_FOR_COLUMNS else "", remove="many")
        for number, name in enumerate(classes):
            label = partial(self.window.label, class_number=number)
            with self._node_button(label, aria_pressed="false", data_class=name) as made:
                if number < len(KEYS):
                    key(KEYS[number])
                swatch(number)
                tag("span", name, "name")
                self._shares.append(tag("span", "", "share"))
            self._buttons.append(made)
        if not classes:
            tag("p", "There is no class yet. Add the first under Data.", "soft small")

    def _draw_head(self) -> None:
        if self.window.view is None:
            waiting = not self.studio.queue
            tag("h2", "Choosing nodes to label" if waiting else "No node left")
            text = "This takes a moment on a large graph." if waiting else "Every node is labelled or skipped."
            tag("p", text, "soft")
            return
        node = self.window.view.node
        with tag("div", classes="node-head"):
            if node.picture is not None:
                tag("img", classes="picture", src=node.picture, alt=f"Picture of {node.id}")
            with tag("div", classes="stack"):
                tag("span", "Node", "soft small")
                tag("h2", node.id)
                with tag("p", classes="verdict"):
                    swatch(self.class_number(node.class_name))
                    tag("span", node.class_text)
        if self.window.reason:
            tag("p", f"Why this node: {self.window.reason}", "why")

    def _draw_attributes(self) -> None:
        view = self.window.view
        if view is not None and view.attributes:
            tag("h3", "Attributes")
            with tag("dl", classes="facts", tabindex="0", aria_label="Attributes"):
                for name, value in view.attributes:
                    tag("dt", name)
                    tag("dd", value)
            if view.attributes_left_out:
                tag("p", f"and {view.attributes_left_out} more", "soft small")

    def _draw_upcoming(self) -> None:
        if self.window.upcoming:
            tag("h3", "Next in the queue")
            self.draw_nodes((node, f"{node.predicted}?" if node.predicted else "") for node in self.window.upcoming)

    # Neighbourhood

    def _draw_around(self) -> None:
        view = self.window.view
        if view is None:
            return
        count = len(view.neighbours) + view.neighbours_left_out
        tag("h3", plural(count, "neighbour") if count else "No neighbours")
        if count:
            self._draw_plot(view)
        if view.node.predicted is not None:
            self._draw_explanation(view)
        if count:
            self.draw_nodes((node, node.class_text) for node in view.neighbours)
            if view.neighbours_left_out:
                tag("p", f"and {view.neighbours_left_out} more", "soft small")

    def _draw_explanation(self, view: NodeView) -> None:
        with tag("div", classes="stack"):
            tag("h3", "How it was predicted")
            for line in explanation(view.node):
                tag("p", line, "small")
            others = {peer: name for peer, name in view.node.peers.items() if name != view.node.predicted}
            if others:
                with tag("dl", classes="facts"):
                    for peer, name in others.items():
                        tag("dt", peer)
                        tag("dd", name)
            pseudo = sorted((one.pseudo_label_since, one.id) for one in view.neighbours if one.pseudo_label_since)
            if pseudo:
                text = (
                    f"{plural(len(pseudo), 'neighbour')} became pseudo-labels, {pseudo[0][1]} first, in epoch "
                    f"{pseudo[0][0]}; they have a dashed ring above."
                )
                tag("p", text, "small soft")

    def _draw_plot(self, view: NodeView) -> None:
        """The node, its neighbours around it, those of one class side by side, and the edges among them."""
        number = {one.id: self.class_number(one.class_name) for one in (view.node, *view.neighbours)}
        ordered = sorted(view.neighbours, key=lambda one: (number[one.id] is None, number[one.id]))
        turns = 2 * np.pi * np.arange(len(ordered)) / len(ordered) - np.pi / 2
        far = np.where((np.arange(len(ordered)) % 2 == 0) | (len(ordered) <= MAX_ON_ONE_RING), 1, 0.62)
        x = np.append(PLOT_WIDTH / 2 + 128 * far * np.cos(turns), PLOT_WIDTH / 2).round(1).tolist()
        y = np.append(PLOT_HEIGHT / 2 + 94 * far * np.sin(turns), PLOT_HEIGHT / 2).round(1).tolist()
        points = [*ordered, view.node]
        place = {one.id: f"{left} {top}" for one, left, top in zip(points, x, y, strict=True)}
        title = f"{view.node.id} and its neighbours"
        with tag("svg", "", "neighbourhood", viewBox=f"0 0 {PLOT_WIDTH} {PLOT_HEIGHT}", role="img", aria_label=title):
            for kind, own in (("edge aside", False), ("edge", True)):
                edges = [ends for ends in view.edges if (view.node.id in ends) == own]
                tag("path", classes=kind, d="".join(f"M{place[one]}L{place[other]}" for one, other in edges))
            for one, left, top in zip(points, x, y, strict=True):
                radius, colour = 13 if one is view.node else 8, number[one.id]
                with tag("g", classes="point", style=None if colour is None else f"--own: var(--k{colour})") as point:
                    tag("title", f"{one.id}: {one.class_text}")
                    if one.pseudo_label_since:
                        tag("circle", classes="pseudo", cx=left, cy=top, r=radius + 4)
                    tag("circle", "", "disc" if one.label is None else "disc labelled", cx=left, cy=top, r=radius)
                    if one is not view.node and len(points) <= MAX_NAMED_POINTS:
                        short = one.id if len(one.id) <= MAX_POINT_NAME else one.id[: MAX_POINT_NAME - 1] + "…"
                        tag("text", short, "name", x=left, y=top - 13 if top < PLOT_HEIGHT / 2 else top + 20)
                point.on("click", partial(self.show_node, one.id), [])


class MapPane(View):
    """Every node by class and confidence, and a legend that filters by class."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._map: NodeMap | None = None
        self._index: dict[str, int] = {}
        self._only: str | None = None
        with tag("section", classes="pane map-pane", aria_label="Map", id="map"):
            self._holder = tag("div", classes="map-holder")
            self._legend = tag("div", classes="legend", role="group", aria_label="Show one class only")

    def update(self) -> None:
        studio, view = self.studio, self.window.view
        if self.changed("points", studio.points):
            self._draw_map()
        if self._map is None:
            return
        self.redraw(self._legend, self._draw_colours, studio.snapshot, self._only, studio.points)
        if self.changed("node", view, studio.points):
            number = -1 if view is None else self._index.get(view.node.id, -1)
            around = () if view is None or number < 0 else view.neighbours
            self._map.run_method("select", number, [self._index[one.id] for one in around if one.id in self._index])

    def _draw_map(self) -> None:
        points = self.studio.points
        if points is not None and self._map is not None and list(points.ids) == self._map.ids:
            self._map.run_method("moveNodes", *centred(points.places))
            return
        self._holder.clear()
        self._legend.clear()
        self._map = None
        with self._holder:
            if points is None:
                tag("p", "Computing the map.", "pane soft")
            else:
                self._index = {node: number for number, node in enumerate(points.ids)}
                self._map = NodeMap(points.places, points.ids, lambda number: self.show_node(points.ids[number]))

    def _draw_colours(self) -> None:
        assert self._map is not None
        names, only = self.studio.snapshot.classes, self.class_number(self._only)
        classes, confidence, labelled = colours(self.studio)
        self._map.colour(classes, confidence, labelled, names)
        self._map.run_method("showOnly", -1 if only is None else only)
        counts = np.bincount(classes[classes >= 0], minlength=len(names)).tolist()
        for number, name in enumerate(names):
            pressed = "true" if name == self._only else "false"
            with button("", partial(self._filter, name), aria_pressed=pressed):
                swatch(number)
                tag("span", name)
                tag("span", counts[number], "count")

    def _filter(self, name: str) -> None:
        self._only = None if self._only == name else name
        self.update()


def colours(
    studio: Studio,
) -> tuple[Int[np.ndarray, "shown"], Float[np.ndarray, "shown"], Bool[np.ndarray, "shown"]]:
    """Class of each node on the map (-1: none), its confidence, and whether it is labelled now."""
    points, nodes, snapshot = studio.points, studio.nodes, studio.snapshot
    assert points is not None
    number = {name: code for code, name in enumerate(snapshot.classes)}
    labels = np.array([number.get(snapshot.labels.get(node, ""), -1) for node in points.ids])
    classes, confidence = np.full(len(labels), -1), np.zeros(len(labels))
    if nodes is not None and nodes.model is not None:
        codes = np.array([number.get(name, -1) for name in nodes.class_names])
        classes, confidence = codes[nodes.predicted[points.nodes]], nodes.confidence[points.nodes]
    return np.where(labels >= 0, labels, classes), np.where(labels >= 0, 1.0, confidence), labels >= 0


def explanation(node: Node) -> list[str]:
    """How the model reached its prediction."""
    lines = []
    if node.fitted:
        lines.append("You labelled it; all peers learn from it from the first epoch.")
    elif node.label is not None:
        lines.append("Your label is newer than the model; the next fit uses it.")
    elif node.pseudo_label_since is not None:
        lines.append(f"From epoch {node.pseudo_label_since} it is a pseudo-label, taught by confident peers.")
    else:
        lines.append("It is no pseudo-label; the peers predict it from its features and neighbours.")
    if len(node.peers) > 1:
        agreeing = sum(name == node.predicted for name in node.peers.values())
        lines.append(
            f"All {len(node.peers)} peers predict {node.predicted}."
            if agreeing == len(node.peers)
            else f"{agreeing} of {len(node.peers)} peers predict {node.predicted}; the others:"
        )
    return lines
