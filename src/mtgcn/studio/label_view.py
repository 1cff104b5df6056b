"""The view for labelling: the node with its classes, the map, and the neighbourhood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
from nicegui.events import GenericEventArguments

from mtgcn.studio.elements import NodeMap, Tag, View, button, centred, cleared, key, plural, swatch, tag
from mtgcn.studio.nodes import Neighbour, Neighbourhood
from mtgcn.studio.predictions import NodePrediction
from mtgcn.studio.session import NodeView, Session

KEYS = "1234567890"  # of the classes, in their order
MIN_CLASSES_FOR_COLUMNS = 8
MAX_POINT_NAME = 12  # characters beside a point
MAX_NAMED_POINTS = 13
MAX_ON_ONE_RING = 16
PLOT_WIDTH, PLOT_HEIGHT = 320, 250
# The node that was shown when the button was pressed, whatever is shown when the server handles the event.
WITH_SHOWN_NODE = "() => emit(document.querySelector('[data-node]').dataset.node)"


class NodePane(View):
    """Left: the node to label, its classes and the buttons to move on."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._shares: list[Tag] = []
        self._buttons: list[Tag] = []
        self.card = tag("section", classes="pane", aria_label="The node to label", id="queue")
        with self.card:
            self._node = tag("div", classes="stack", aria_live="polite")
            self._classes = tag("div", classes="classes", role="group", aria_label="Classes")
            self._moves = tag("div", classes="moves")
            self._attributes = tag("div", classes="stack")
            self._upcoming = tag("div", classes="stack upcoming")
        with self._moves:
            for title, shortcut, action in (
                ("Previous", "←", lambda node: session.previous()),
                ("Skip", "S", session.skip),
                ("Undo", "U", lambda node: session.undo()),
                ("Next", "→", lambda node: session.next()),
                ("Remove the label", "", session.unlabel),
            ):
                with self._node_button(action) as self._unlabel:
                    tag("span", title)
                    if shortcut:
                        key(shortcut)

    def update(self) -> None:
        view, snapshot = self.session.view, self.workspace.snapshot
        if self.changed("classes", snapshot.classes):
            self._draw_classes(snapshot.classes)
            self.drawn.pop("node", None)
        label = None if view is None else snapshot.labels.get(view.node)
        if self.changed("node", view, label, bool(self.workspace.queue), self.workspace.points is None):
            self._draw_node(view, label)

    def _node_button(self, action: Callable[[str], Awaitable[None]], **attributes: str) -> Tag:
        """A button that acts on the shown node."""

        async def act(event: GenericEventArguments) -> None:
            await self.session.act(lambda: action(str(event.args)))

        made = tag("button", type="button", **attributes)
        made.on("click", act, js_handler=WITH_SHOWN_NODE)
        return made

    def _draw_classes(self, classes: tuple[str, ...]) -> None:
        self._shares, self._buttons = [], []
        self._classes.classes(add="many" if len(classes) >= MIN_CLASSES_FOR_COLUMNS else "", remove="many")
        with cleared(self._classes):
            for number, name in enumerate(classes):
                label = partial(self.session.label, class_number=number)
                with self._node_button(label, aria_pressed="false", data_class=name) as made:
                    if number < len(KEYS):
                        key(KEYS[number])
                    swatch(number)
                    tag("span", name, "name")
                    self._shares.append(tag("span", "", "share"))
                self._buttons.append(made)
            if not classes:
                tag("p", "There is no class yet. Add the first under Data.", "soft small")

    def _draw_node(self, view: NodeView | None, label: str | None) -> None:
        self.card.attributes(data_node=None if view is None else view.node)
        self._classes.show(view is not None)
        self._moves.show(view is not None)
        self._unlabel.show(label is not None)
        shares = {} if view is None or view.prediction is None else view.prediction.probabilities
        for name, made, share in zip(self.workspace.snapshot.classes, self._buttons, self._shares, strict=True):
            made.attributes(aria_pressed="true" if name == label else "false")
            share.text = f"{100 * shares[name]:.0f} %" if name in shares else ""
        for holder in (self._node, self._attributes, self._upcoming):
            holder.clear()
        if view is None:
            waiting = self.workspace.points is None or not self.workspace.queue
            with self._node:
                tag("h2", "Choosing nodes to label" if waiting else "No node left")
                text = "This takes a moment on a large graph." if waiting else "Every node is labelled or skipped."
                tag("p", text, "soft")
            return
        with self._node:
            self._draw_head(view, label)
        with self._attributes:
            if view.details.attributes:
                tag("h3", "Attributes")
                with tag("dl", classes="facts", tabindex="0", aria_label="Attributes"):
                    for name, value in view.details.attributes:
                        tag("dt", name)
                        tag("dd", value)
            if view.details.left_out:
                tag("p", f"and {view.details.left_out} more", "soft small")
        with self._upcoming:
            if view.upcoming:
                tag("h3", "Next in the queue")
                queue = [
                    (item.node, item.predicted, f"{item.predicted}?" if item.predicted else "")
                    for item in view.upcoming
                ]
                self.draw_nodes(queue, view.pictures)

    def _draw_head(self, view: NodeView, label: str | None) -> None:
        with tag("div", classes="node-head"):
            if view.details.picture is not None:
                tag("img", classes="picture", src=view.details.picture, alt=f"Picture of {view.node}")
            with tag("div", classes="stack"):
                tag("span", "Node", "soft small")
                tag("h2", view.node)
                with tag("p", classes="verdict"):
                    name = label if view.prediction is None else label or view.prediction.predicted
                    swatch(self.class_number(name))
                    if label is not None:
                        tag("span", f"{label}, your label")
                    elif view.prediction is None:
                        tag("span", "No prediction yet", "soft")
                    else:
                        tag("span", f"{name}, probability {100 * view.prediction.confidence:.0f} %")
        if view.reason:
            tag("p", f"Why this node: {view.reason}", "why")


class MapPane(View):
    """Middle: every node by class and confidence, and a legend that filters by class."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._map: NodeMap | None = None
        self._index: dict[str, int] = {}
        self._only: str | None = None
        with tag("section", classes="pane map-pane", aria_label="Map", id="map"):
            self._holder = tag("div", classes="map-holder")
            self._legend = tag("div", classes="legend", role="group", aria_label="Show one class only")

    def update(self) -> None:
        snapshot, view = self.workspace.snapshot, self.session.view
        if self.changed("points", self.workspace.points):
            self._draw_map()
            self.drawn.pop("colours", None)
            self.drawn.pop("node", None)
        if self._map is None:
            return
        if self.changed("colours", snapshot, self._only):
            self._draw_colours(self._map)
        if self.changed("node", view):
            number = -1 if view is None else self._index.get(view.node, -1)
            around = [] if view is None or view.neighbourhood is None else view.neighbourhood.neighbours
            numbers = [self._index[one.node] for one in around if one.node in self._index]
            self._map.run_method("select", number, numbers if number >= 0 else [])

    def _draw_map(self) -> None:
        points = self.workspace.points
        if points is None:
            self._map = None
            with cleared(self._holder):
                tag("p", "Computing the map.", "pane soft")
            self._legend.clear()
            return
        self._index = {node: number for number, node in enumerate(points.ids)}
        if self._map is not None and list(points.ids) == self._map.ids:
            self._map.run_method("moveNodes", *centred(points.places))
            return
        with cleared(self._holder):
            self._map = NodeMap(points.places, points.ids, self._show)

    async def _show(self, number: int) -> None:
        points = self.workspace.points
        if points is not None and 0 <= number < len(points.ids):
            await self.show_node(points.ids[number])

    def _draw_colours(self, node_map: NodeMap) -> None:
        (classes, confidence, labelled), names = self.workspace.colours(), self.workspace.snapshot.classes
        node_map.colour(classes, confidence, labelled, names)
        only = self.class_number(self._only)
        node_map.run_method("showOnly", -1 if only is None else only)
        counts = np.bincount(classes[classes >= 0], minlength=len(names)).tolist()
        with cleared(self._legend):
            for number, name in enumerate(names):
                pressed = "true" if name == self._only else "false"
                with button("", partial(self._filter, name), aria_pressed=pressed):
                    swatch(number)
                    tag("span", name)
                    tag("span", counts[number], "count")

    def _filter(self, name: str) -> None:
        self._only = None if self._only == name else name
        self.update()


class NeighbourhoodPane(View):
    """Right: the neighbours of the node, and where its prediction comes from."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.pane = tag("section", classes="pane", aria_label="Neighbourhood", id="around")

    def update(self) -> None:
        view = self.session.view
        if self.changed("pane", view, self.workspace.snapshot):
            with cleared(self.pane):
                if view is not None and view.neighbourhood is not None:
                    self._draw(view, view.neighbourhood)

    def _draw(self, view: NodeView, around: Neighbourhood) -> None:
        count = len(around.neighbours) + around.left_out
        tag("h3", plural(count, "neighbour") if count else "No neighbours")
        if count:
            self._draw_plot(around)
        if view.prediction is not None:
            self._draw_explanation(view.prediction, around)
        if count:
            nodes = [(one.node, one.class_name, class_text(one)) for one in around.neighbours]
            self.draw_nodes(nodes, view.pictures)
            if around.left_out:
                tag("p", f"and {around.left_out} more", "soft small")

    def _draw_explanation(self, prediction: NodePrediction, around: Neighbourhood) -> None:
        with tag("div", classes="stack"):
            tag("h3", "How it was predicted")
            for line in explanation(prediction, self.workspace.snapshot.labels.get(prediction.node)):
                tag("p", line, "small")
            others = {peer: name for peer, name in prediction.peers.items() if name != prediction.predicted}
            if others:
                with tag("dl", classes="facts"):
                    for peer, name in others.items():
                        tag("dt", peer)
                        tag("dd", name)
            pseudo = [one for one in around.neighbours if one.pseudo_label_since is not None]
            if pseudo:
                first = min(pseudo, key=lambda one: one.pseudo_label_since or 0)
                text = (
                    f"{plural(len(pseudo), 'neighbour')} became pseudo-labels, {first.node} first, in epoch "
                    f"{first.pseudo_label_since}; they have a dashed ring above."
                )
                tag("p", text, "small soft")

    def _draw_plot(self, around: Neighbourhood) -> None:
        """The node, its neighbours around it, those of one class side by side, and the edges among them."""
        number = {one.node: self.class_number(one.class_name) for one in (around.centre, *around.neighbours)}
        ordered = sorted(around.neighbours, key=lambda one: (number[one.node] is None, number[one.node]))
        turns = 2 * np.pi * np.arange(len(ordered)) / len(ordered) - np.pi / 2
        far = np.where((np.arange(len(ordered)) % 2 == 0) | (len(ordered) <= MAX_ON_ONE_RING), 1, 0.62)
        x = np.append(PLOT_WIDTH / 2 + 128 * far * np.cos(turns), PLOT_WIDTH / 2).round(1).tolist()
        y = np.append(PLOT_HEIGHT / 2 + 94 * far * np.sin(turns), PLOT_HEIGHT / 2).round(1).tolist()
        points = [*ordered, around.centre]
        place = {one.node: f"{left} {top}" for one, left, top in zip(points, x, y, strict=True)}
        lines: dict[str, list[str]] = {"edge aside": [], "edge": []}
        for first, second, _ in around.edges:
            kind = "edge" if around.centre.node in (first, second) else "edge aside"
            lines[kind].append(f"M{place[first]}L{place[second]}")
        with tag(
            "svg",
            classes="neighbourhood",
            viewBox=f"0 0 {PLOT_WIDTH} {PLOT_HEIGHT}",
            role="img",
            aria_label=f"{around.centre.node} and its neighbours",
        ):
            for kind, moves in lines.items():
                tag("path", classes=kind, d="".join(moves))
            for one, left, top in zip(points, x, y, strict=True):
                radius = 13 if one is around.centre else 8
                colour = number[one.node]
                with tag("g", classes="point", style=None if colour is None else f"--own: var(--k{colour})") as point:
                    tag("title", f"{one.node}: {class_text(one)}")
                    if one.pseudo_label_since is not None:
                        tag("circle", classes="pseudo", cx=left, cy=top, r=radius + 4)
                    kind = "disc" if one.label is None else "disc labelled"
                    tag("circle", classes=kind, cx=left, cy=top, r=radius)
                    if one is not around.centre and len(points) <= MAX_NAMED_POINTS:
                        short = one.node if len(one.node) <= MAX_POINT_NAME else one.node[: MAX_POINT_NAME - 1] + "…"
                        tag("text", short, "name", x=left, y=top - 13 if top < PLOT_HEIGHT / 2 else top + 20)
                if one is not around.centre:
                    point.on("click", partial(self.show_node, one.node), [])


def class_text(one: Neighbour) -> str:
    """Label or prediction of a neighbour."""
    if one.label is not None:
        return f"{one.label}, your label"
    if one.prediction is None:
        return "no prediction yet"
    return f"{one.prediction.predicted}, {100 * one.prediction.confidence:.0f} %"


def explanation(prediction: NodePrediction, label: str | None) -> list[str]:
    """How the model reached its prediction."""
    lines = []
    if prediction.labelled:
        lines.append("You labelled it; all peers learn from it from the first epoch.")
    elif prediction.pseudo_label_since is not None:
        lines.append(f"From epoch {prediction.pseudo_label_since} it is a pseudo-label, taught by confident peers.")
    else:
        lines.append("It is no pseudo-label; the peers predict it from its features and neighbours.")
    if label is not None and not prediction.labelled:
        lines.append("Your label is newer than the model; the next fit uses it.")
    if len(prediction.peers) > 1:
        agreeing = sum(name == prediction.predicted for name in prediction.peers.values())
        lines.append(
            f"All {len(prediction.peers)} peers predict {prediction.predicted}."
            if agreeing == len(prediction.peers)
            else f"{agreeing} of {len(prediction.peers)} peers predict {prediction.predicted}; the others:"
        )
    return lines
