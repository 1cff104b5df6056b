"""The view for labelling: the node with its classes, the map, and the neighbourhood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import numpy as np
from nicegui.events import GenericEventArguments

from mtgcn.studio.elements import NeighbourhoodPlot, NodeMap, Tag, button, cleared, key, plural, swatch, tag
from mtgcn.studio.nodes import Neighbour, Neighbourhood
from mtgcn.studio.predictions import NodePrediction
from mtgcn.studio.session import Action, NodeView, Session

KEYS = "1234567890"  # of the classes, in their order
MIN_CLASSES_FOR_COLUMNS = 8
MAX_POINT_NAME = 12  # characters beside a point
NodeAction = Callable[[str], Awaitable[None]]
# The node that was shown when the button was pressed, whatever is shown when the server handles the event.
WITH_SHOWN_NODE = "() => emit(document.querySelector('[data-node]').dataset.node)"
UNSET = object()  # differs from None, which means that no node is shown


class NodePane:
    """Left: the node to label, its classes and the buttons to move on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._drawn_node: object = None
        self._drawn_classes: object = None
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
            self._add_move("Previous", "←", session.previous)
            self._add_node_move("Skip", "S", session.skip)
            self._add_move("Undo", "U", session.undo)
            self._add_move("Next", "→", session.next)
            self._unlabel = self._add_node_move("Remove the label", "", session.unlabel)

    def update(self) -> None:
        view, workspace = self.session.view, self.session.workspace
        if self._drawn_classes != workspace.snapshot.classes:
            self._drawn_classes = workspace.snapshot.classes
            self._draw_classes()
            self._drawn_node = None
        label = None if view is None else workspace.snapshot.labels.get(view.node)
        now = (view, label, bool(workspace.queue), workspace.points is None)
        if self._drawn_node != now:
            self._drawn_node = now
            self._draw_node(view, label)

    def _add_move(self, title: str, shortcut: str, action: Action) -> None:
        with button("", partial(self.session.act, action)):
            tag("span", title)
            key(shortcut)

    def _add_node_move(self, title: str, shortcut: str, action: NodeAction) -> Tag:
        made = tag("button", "", type="button")
        made.on("click", partial(self._act_on_node, action), js_handler=WITH_SHOWN_NODE)
        with made:
            tag("span", title)
            if shortcut:
                key(shortcut)
        return made

    async def _act_on_node(self, action: NodeAction, event: GenericEventArguments) -> None:
        node = str(event.args)
        await self.session.act(lambda: action(node))

    def _draw_classes(self) -> None:
        classes = self.session.workspace.snapshot.classes
        self._shares, self._buttons = [], []
        self._classes.classes(add="many" if len(classes) >= MIN_CLASSES_FOR_COLUMNS else "", remove="many")
        with cleared(self._classes):
            for number, name in enumerate(classes):
                made = tag("button", type="button", aria_pressed="false", data_class=name)
                label = partial(self.session.label, class_number=number)
                made.on("click", partial(self._act_on_node, label), js_handler=WITH_SHOWN_NODE)
                with made:
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
        self._mark_classes(view, label)
        with cleared(self._node):
            if view is None:
                self._draw_empty()
            else:
                self._draw_head(view, label)
        with cleared(self._attributes):
            if view is not None:
                self._draw_attributes(view)
        with cleared(self._upcoming):
            if view is not None and view.upcoming:
                self._draw_upcoming(view)

    def _mark_classes(self, view: NodeView | None, label: str | None) -> None:
        shares = {} if view is None or view.prediction is None else view.prediction.probabilities
        names = self.session.workspace.snapshot.classes
        for name, made, share in zip(names, self._buttons, self._shares, strict=True):
            made.attributes(aria_pressed="true" if name == label else "false")
            share.text = f"{100 * shares[name]:.0f} %" if name in shares else ""

    def _draw_empty(self) -> None:
        workspace = self.session.workspace
        if workspace.points is None or not workspace.queue:
            tag("h2", "Choosing nodes to label")
            tag("p", "This takes a moment on a large graph.", "soft")
        else:
            tag("h2", "No node left")
            tag("p", "Every node is labelled or skipped.", "soft")

    def _draw_head(self, view: NodeView, label: str | None) -> None:
        classes = self.session.workspace.snapshot.classes
        with tag("div", classes="node-head"):
            if view.details.picture is not None:
                tag("img", classes="picture", src=view.details.picture, alt=f"Picture of {view.node}")
            with tag("div", classes="stack"):
                tag("span", "Node", "soft small")
                tag("h2", view.node)
                with tag("p", classes="verdict"):
                    name = label if view.prediction is None else label or view.prediction.predicted
                    swatch(classes.index(name) if name in classes else None)
                    if label is not None:
                        tag("span", f"{label}, your label")
                    elif view.prediction is None:
                        tag("span", "No prediction yet", "soft")
                    else:
                        tag("span", f"{name}, probability {100 * view.prediction.confidence:.0f} %")
        if view.reason:
            tag("p", f"Why this node: {view.reason}", "why")

    def _draw_attributes(self, view: NodeView) -> None:
        if not view.details.attributes:
            return
        tag("h3", "Attributes")
        with tag("dl", classes="facts", tabindex="0", aria_label="Attributes"):
            for name, value in view.details.attributes:
                tag("dt", name)
                tag("dd", value)
        if view.details.left_out:
            tag("p", f"and {view.details.left_out} more", "soft small")

    def _draw_upcoming(self, view: NodeView) -> None:
        tag("h3", "Next in the queue")
        with tag("ul", classes="neighbours"):
            for item in view.upcoming:
                with tag("li"), button("", partial(show_node, self.session, item.node)):
                    if item.node in view.pictures:
                        tag("img", classes="small-picture", src=view.pictures[item.node], alt="")
                    tag("span", item.node, "name")
                    tag("span", "" if item.predicted is None else f"{item.predicted}?", "class")


class MapPane:
    """Middle: every node by class and confidence, and a legend that filters by class."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._map: NodeMap | None = None
        self._index: dict[str, int] = {}
        self._only: str | None = None
        self._drawn_points: object = None
        self._drawn_colours: object = None
        self._drawn_node: object = UNSET
        with tag("section", classes="pane map-pane", aria_label="Map", id="map"):
            self._holder = tag("div", classes="map-holder")
            self._legend = tag("div", classes="legend", role="group", aria_label="Show one class only")

    def update(self) -> None:
        workspace, view = self.session.workspace, self.session.view
        if self._drawn_points != (workspace.points_revision, workspace.snapshot.load):
            self._drawn_points = (workspace.points_revision, workspace.snapshot.load)
            self._draw_map()
            self._drawn_colours, self._drawn_node = None, UNSET
        if self._map is None:
            return
        if self._drawn_colours != (workspace.snapshot, self._only):
            self._drawn_colours = (workspace.snapshot, self._only)
            self._draw_colours(self._map)
        if self._drawn_node != view:
            self._drawn_node = view
            self._select(self._map, view)

    def _draw_map(self) -> None:
        points = self.session.workspace.points
        if points is None:
            self._map = None
            with cleared(self._holder):
                tag("p", "Computing the map.", "pane soft")
            self._legend.clear()
            return
        self._index = {node: number for number, node in enumerate(points.nodes)}
        if self._map is not None and list(points.nodes) == self._map.ids:
            self._map.move_nodes(points.places)
            return
        with cleared(self._holder):
            self._map = NodeMap(points.places, points.nodes, self._show)

    async def _show(self, number: int) -> None:
        points = self.session.workspace.points
        if points is not None and 0 <= number < len(points.nodes):
            await show_node(self.session, points.nodes[number])

    def _draw_colours(self, node_map: NodeMap) -> None:
        colours, names = self.session.workspace.colours(), self.session.workspace.snapshot.classes
        node_map.colour(colours.classes, colours.confidence, colours.labelled, names)
        if self._only not in names:
            self._only = None
        node_map.show_only(None if self._only is None else names.index(self._only))
        counts = np.bincount(colours.classes[colours.classes >= 0], minlength=len(names)).tolist()
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

    def _select(self, node_map: NodeMap, view: NodeView | None) -> None:
        number = -1 if view is None else self._index.get(view.node, -1)
        around = [] if view is None or view.neighbourhood is None else view.neighbourhood.neighbours
        numbers = [self._index[one.node] for one in around if one.node in self._index]
        node_map.select(number, numbers if number >= 0 else [])


class NeighbourhoodPane:
    """Right: the neighbours of the node, and where its prediction comes from."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._drawn: object = None
        self.pane = tag("section", classes="pane", aria_label="Neighbourhood", id="around")

    def update(self) -> None:
        view = self.session.view
        now = (view, self.session.workspace.snapshot)
        if self._drawn != now:
            self._drawn = now
            with cleared(self.pane):
                if view is not None and view.neighbourhood is not None:
                    self._draw(view, view.neighbourhood)

    def _draw(self, view: NodeView, around: Neighbourhood) -> None:
        count = len(around.neighbours) + around.left_out
        tag("h3", plural(count, "neighbour") if count else "No neighbours")
        if count:
            self._draw_plot(view.node, around)
        if view.prediction is not None:
            self._draw_explanation(view.prediction, around)
        if count:
            with tag("ul", classes="neighbours"):
                for one in around.neighbours:
                    with tag("li"), button("", partial(show_node, self.session, one.node)):
                        if one.node in view.pictures:
                            tag("img", classes="small-picture", src=view.pictures[one.node], alt="")
                        swatch(self._class_number(one))
                        tag("span", one.node, "name")
                        tag("span", class_text(one), "class")
            if around.left_out:
                tag("p", f"and {around.left_out} more", "soft small")

    def _draw_explanation(self, prediction: NodePrediction, around: Neighbourhood) -> None:
        with tag("div", classes="stack"):
            tag("h3", "How it was predicted")
            for line in explanation(prediction, self.session.workspace.snapshot.labels.get(prediction.node)):
                tag("p", line, "small")
            others = {peer: name for peer, name in prediction.peers.items() if name != prediction.predicted}
            if others:
                with tag("dl", classes="facts"):
                    for peer, name in others.items():
                        tag("dt", peer)
                        tag("dd", name)
            pseudo = [one for one in around.neighbours if one.pseudo_label_since is not None and one.label is None]
            if pseudo:
                first = min(pseudo, key=lambda one: one.pseudo_label_since or 0)
                text = (
                    f"{plural(len(pseudo), 'neighbour')} became pseudo-labels, {first.node} first, in epoch "
                    f"{first.pseudo_label_since}; they have a dashed ring above."
                )
                tag("p", text, "small soft")

    def _class_number(self, one: Neighbour) -> int | None:
        name, classes = one.label or one.predicted, self.session.workspace.snapshot.classes
        return classes.index(name) if name in classes else None

    def _draw_plot(self, node: str, around: Neighbourhood) -> None:
        """Neighbours of one class stand side by side."""
        ordered = sorted(around.neighbours, key=lambda one: (self._class_number(one) is None, self._class_number(one)))
        nodes = [around.centre, *ordered]
        position = {one.node: number for number, one in enumerate(nodes)}
        index = self.session.workspace.project.loaded.index
        points = [
            {
                "node": index[one.node],
                "class": self._class_number(one),
                "labelled": one.label is not None,
                "pseudo": one.pseudo_label_since is not None and one.label is None,
                "short": one.node if len(one.node) <= MAX_POINT_NAME else one.node[: MAX_POINT_NAME - 1] + "…",
                "title": f"{one.node}: {class_text(one)}",
            }
            for one in nodes
        ]
        edges = [(position[first], position[second]) for first, second, _ in around.edges if first != second]
        NeighbourhoodPlot(f"{node} and its neighbours", points, edges, self._show)

    async def _show(self, index: int) -> None:
        ids = self.session.workspace.project.loaded.ids
        if 0 <= index < len(ids):
            await show_node(self.session, ids[index])


async def show_node(session: Session, node: str) -> None:
    await session.act(lambda: session.show(node))


def class_text(one: Neighbour) -> str:
    """Label or prediction of a neighbour."""
    if one.label is not None:
        return f"{one.label}, your label"
    if one.predicted is None:
        return "no prediction yet"
    return f"{one.predicted}, {100 * (one.confidence or 0):.0f} %"


def explanation(prediction: NodePrediction, label: str | None) -> list[str]:
    """How the model reached its prediction."""
    lines = []
    if prediction.role == "labelled":
        lines.append("You labelled it; all peers learn from it from the first epoch.")
    elif prediction.pseudo_label_since is not None:
        lines.append(f"From epoch {prediction.pseudo_label_since} it is a pseudo-label, taught by confident peers.")
    else:
        lines.append("It is no pseudo-label; the peers predict it from its features and neighbours.")
    if label is not None and prediction.role != "labelled":
        lines.append("Your label is newer than the model; the next fit uses it.")
    if len(prediction.peers) > 1:
        agreeing = sum(name == prediction.predicted for name in prediction.peers.values())
        lines.append(
            f"All {len(prediction.peers)} peers predict {prediction.predicted}."
            if agreeing == len(prediction.peers)
            else f"{agreeing} of {len(prediction.peers)} peers predict {prediction.predicted}; the others:"
        )
    return lines
