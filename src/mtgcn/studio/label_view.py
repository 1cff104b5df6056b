"""The view for labelling: the evidence for a node and its classes, the map, and its neighbours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from nicegui import ui

from mtgcn.estimator.explanation import COLUMNS, LABELS, NEAREST, NEIGHBOURS, Explanation, bars_html
from mtgcn.studio.elements import Tag, View, button, key, on_value, swatch, tag
from mtgcn.studio.map_view import MapPane
from mtgcn.studio.nodes import Node, Nodes, NodeView
from mtgcn.studio.state import Window, class_keys, fit_status, plural

MAX_REASONS = 5  # parts of an explanation per table
# The node that was shown when the button was pressed; another may be shown when the server handles the event.
SHOWN_NODE = "document.querySelector('[data-node]').dataset.node"


class LabelView(View):
    """From left to right: the node with its classes and buttons, the map, and the neighbours."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._buttons: dict[str, tuple[Tag, Tag]] = {}  # the button of each class, and the probability on it
        self._shows_practice = False
        self._explained: tuple[Nodes | None, str, Explanation] | None = None  # model, node and its explanation
        with tag("div", classes="label-view", id="label") as self.pane:
            with tag("section", classes="pane", aria_label="The node to label", id="queue") as self._card:
                self._line = tag("div", classes="teach-line", role="status", id="line")
                self._evidence = tag("div", classes="stack", aria_live="polite", id="evidence", tabindex="0")
                self._classes = tag("div", classes="classes", role="group", aria_label="Classes")
                with tag("form", classes="class-row") as self._add:
                    title = "another class"
                    tag("input", type="text", placeholder=title, aria_label=title, id="another-class")
                    tag("button", "Add and label", type="submit")
                with tag("div", classes="moves") as self._moves:
                    for title, shortcut, action in (
                        ("Previous", "←", lambda node: window.previous()),
                        ("Skip", "S", window.skip),
                        ("Undo", "U", lambda node: window.undo()),
                        ("Next", "→", lambda node: window.next()),
                        ("Remove the label", "", partial(window.label, name=None)),
                    ):
                        with self._node_button(action) as self._unlabel:
                            tag("span", title)
                            if shortcut:
                                key(shortcut)
            self._map = MapPane(window)
            with tag("section", classes="pane", aria_label="Neighbourhood"):
                self._around = tag("div", classes="stack", id="around")
        self._add.on(
            "submit.prevent",
            lambda event: window.act(window.label_as_new, *map(str, event.args)),
            js_handler=f"(event) => {{ const field = event.target.querySelector('input'), name = field.value; "
            f"field.value = ''; field.blur(); document.querySelector('#queue .classes button')?.focus(); "
            f"emit({SHOWN_NODE}, name); }}",  # so that the keys of the classes work again
        )

    def update(self) -> None:
        view, snapshot, studio = self.window.view, self.studio.snapshot, self.studio
        self.redraw(self._classes, self._draw_classes, snapshot.classes)
        if self.changed("node", view, snapshot.classes):
            self._card.attributes(data_node=None if view is None else view.node.id)
            for part in (self._classes, self._moves, self._add):
                part.show(view is not None)
            node = Node("") if view is None else view.node
            self._unlabel.show(node.label is not None)
            for name, (made, share) in self._buttons.items():
                made.attributes(aria_pressed="true" if name == node.label else "false")
                share.text = f"{100 * node.probabilities[name]:.0f} %" if name in node.probabilities else ""
        practice = self._shows_practice, studio.nodes, len(snapshot.labels)
        self.redraw(self._line, self._draw_line, fit_status(studio), studio.changed, *practice)
        self.redraw(self._evidence, self._draw_evidence, view, studio.queue)
        self.redraw(self._around, self._draw_around, view, snapshot.classes, self._explained)
        self._map.update()

    def _node_button(self, action: Callable[[str], Awaitable[None]], **attributes: str) -> Tag:
        """A button that acts on the shown node."""
        made = tag("button", type="button", **attributes)
        return on_value(made, "click", partial(self.window.act, action), SHOWN_NODE)

    def _draw_line(self) -> None:
        """Draw the status line: the state of the fit, or what it needs."""
        studio, status = self.studio, fit_status(self.studio)
        tag("span", status.text)
        if status.may_teach:
            button("Teach now", partial(self.window.act, studio.fit), "link", data_keep="teach")
        if studio.nodes is not None and studio.nodes.quick:
            tag("span", "A first answer is shown until then.", "soft")
        if studio.changed and studio.worker.progress.state != "running":
            tag("span", f"{plural(len(studio.changed), 'node')} changed.", "soft")
            button("Show", partial(self.window.act, self.window.list_nodes, "changed"), "link")
        if studio.nodes is not None and studio.nodes.loaded.truth:
            title = "Hide the score" if self._shows_practice else "Practice score"
            button(title, self._toggle_practice, "link", data_keep="practice")
            if self._shows_practice:
                labels, correct, accuracy = studio.nodes.practice()
                known = "no prediction yet" if accuracy is None else f"accuracy {100 * accuracy:.0f} %"
                tag("b", f"You labelled {labels}, {correct} as in the dataset; {known}.")

    def _toggle_practice(self) -> None:
        self._shows_practice = not self._shows_practice
        self.update()

    def _draw_classes(self) -> None:
        classes = self.studio.snapshot.classes
        keys = class_keys(classes)
        self._buttons = {}
        for number, name in enumerate(classes):
            label = partial(self.window.label, name=name)
            with self._node_button(label, aria_pressed="false", data_class=name) as made:
                if name in keys:
                    key(keys[name].upper())
                swatch(number)
                tag("span", name, "name")
                self._buttons[name] = made, tag("span", "", "share")
        if not classes:
            tag("p", "There is no class yet. Name the first one for this node:", "soft small")

    def _draw_evidence(self) -> None:
        view = self.window.view
        if view is None:
            waiting = not self.studio.queue
            tag("h2", "Choosing nodes to label" if waiting else "No node left")
            text = "This takes a moment on a large graph." if waiting else "Every node is labelled or skipped."
            tag("p", text, "soft")
            return
        node = view.node
        with tag("div", classes="node-head"):
            if node.picture is not None:
                tag("img", classes="picture", src=node.picture, alt=f"Picture of {node.title}")
            with tag("div", classes="stack"):
                tag("span", f"Node {node.id}" if node.name else "Node", "soft small")
                tag("h2", node.title)
                with tag("p", classes="verdict"):
                    swatch(self.class_number(node.class_name))
                    tag("span", node.class_text)
        by_kind = {kind: [cell for cell in view.attributes if cell.kind == kind] for kind in ("", "text", "link")}
        for cell in by_kind["text"]:
            with tag("div", classes="text"):
                tag("span", cell.column, "soft small")
                tag("p", cell.value, tabindex="0")
        for cell in by_kind["link"]:
            with tag("p", classes="small"):
                tag("span", f"{cell.column}: ", "soft")
                tag("a", cell.value, href=cell.value, target="_blank", rel="noopener noreferrer")
        if by_kind[""]:
            with tag("dl", classes="facts", tabindex="0", aria_label="Attributes"):
                for cell in by_kind[""]:
                    with tag("div"):
                        tag("dt", cell.column)
                        tag("dd", cell.value)
        if view.attributes_left_out:
            tag("p", f"and {view.attributes_left_out} more", "soft small")
        if self.window.reason:
            tag("p", f"Why this node: {self.window.reason}", "why")

    # Neighbourhood

    def _draw_around(self) -> None:
        view = self.window.view
        if view is None:
            return
        count = len(view.neighbours) + view.neighbours_left_out
        tag("h3", plural(count, "neighbour") if count else "No neighbours")
        if count:
            self._draw_neighbours(view)
            if view.neighbours_left_out:
                tag("p", f"and {view.neighbours_left_out} more", "soft small")
        if self._explained is not None and self._explained[:2] == (self.studio.nodes, view.node.id):
            found = self._explained[2]
            tag("p", found.sentence, "small", id="explanation")
            titles = [title for title in (COLUMNS, LABELS, NEIGHBOURS, NEAREST) if found.tables.get(title)]
            bars = bars_html({title: found.tables[title][:MAX_REASONS] for title in titles})
            ui.html(bars, sanitize=False).classes("scroll")  # names are escaped
        elif self.studio.has_model:
            explain = partial(self.window.act, self._explain, self.studio.nodes, view.node.id)
            button("Explain", explain, "link", data_keep="explain")

    async def _explain(self, nodes: Nodes, node: str) -> None:
        """Explain the class of a node; the first time takes longer."""
        model = nodes.fitted
        found = await asyncio.to_thread(model.explain, model.graph_.node_ids[nodes.loaded.index[node]])
        self._explained = nodes, node, found

    def _draw_neighbours(self, view: NodeView) -> None:
        """Draw the neighbours, with their columns next to those of the node, if any."""
        if not view.compared:
            with tag("ul", classes="neighbours"):
                for one in view.neighbours:
                    with tag("li"):
                        self.draw_node(one)
            return
        with tag("div", classes="scroll compared", tabindex="0", aria_label="Neighbours"), tag("table"):
            with tag("thead"), tag("tr"):
                for column in ("node", *view.compared):
                    tag("th", column, scope="col")
            with tag("tbody"):
                for one in (view.node, *view.neighbours):
                    cells = {cell.column: cell.value for cell in one.cells}
                    with tag("tr", classes="own" if one is view.node else ""):
                        with tag("th", scope="row"):
                            self.draw_node(one)
                        for column in view.compared:
                            tag("td", cells.get(column, ""))
