"""The view of the data: load a graph, its summary, and its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from nicegui import ui
from nicegui.events import UploadEventArguments

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.elements import Tag, View, bullets, button, figures, plural, swatch, tag
from mtgcn.studio.project import UPLOADS
from mtgcn.studio.source import MAX_UPLOAD_BYTES, SUFFIXES
from mtgcn.studio.state import Window

DATASETS = {
    "cora": "2708 machine learning papers and their citations",
    "citeseer": "3327 computer science papers and their citations",
    "pubmed": "19717 papers on diabetes and their citations",
    "digits": "1797 pictures of handwritten digits, linked to the most similar",
    "amazon-photo": "7650 photo products, often bought together",
    "blogcatalog": "5196 bloggers and their followers",
    "coauthor-cs": "18333 computer science authors and their co-authors",
    "dblp": "17716 papers and their citations",
    "chameleon": "2277 encyclopaedia pages on chameleons and their links",
    "minesweeper": "10000 cells of a minefield and their neighbours",
    "facebook-pages": "22470 Facebook pages that like each other",
    "twitch-de": "9498 German-speaking Twitch users and their friends",
    "airports-usa": "1190 airports and the flights between them",
}
FIELDS = {
    "edges": "Edges: two ids per line, optionally a weight",
    "nodes": "Nodes: one id per line, its attributes, optionally a label",
    "labels": "Labels, optional: an id and a class per line",
    "graph": "Or one file for all: GraphML, GML or npz",
}
THIS_VALUE = "event.target.value"  # JavaScript


class DataView(View):
    """Summary and classes of the graph, and a form to load another."""

    def __init__(self, window: Window, after_load: Callable[[], None]) -> None:
        super().__init__(window)
        self._after_load = after_load
        self._uploaded: dict[str, Path] = {}  # by role
        with tag("div", classes="page", id="data") as self.pane:
            self._summary = tag("section", classes="stack", aria_label="The graph")
            self._classes = tag("section", classes="stack", aria_label="Classes")
            self._busy = tag("p", "", "pill busy hidden", role="status")
            with tag("section", classes="columns", aria_label="Load a graph"):
                self._draw_files()
                self._draw_datasets()

    def update(self) -> None:
        snapshot = self.studio.snapshot
        self.redraw(self._summary, self._draw_summary, snapshot.load, len(snapshot.labels), self.studio.nodes)
        self.redraw(self._classes, self._draw_classes, snapshot.load, list(snapshot.label_counts.items()))

    def _draw_summary(self) -> None:
        snapshot, nodes = self.studio.snapshot, self.studio.nodes
        if not snapshot.load:
            tag("h2", "Label a few nodes, and the model predicts the rest")
            text = (
                "Load your own graph or a built-in dataset. The studio offers the most useful nodes to label first; "
                "after a few labels it fits a model that predicts all other nodes."
            )
            tag("p", text, "soft")
            return
        tag("h2", snapshot.title)
        if nodes is None:
            return
        graph = nodes.loaded.graph
        isolated = int((graph.adjacency.sum(axis=1) == 0).sum())
        shown = [(graph.num_nodes, "nodes"), (graph.num_edges, "edges"), (graph.num_features, "features")]
        shown += [(isolated, "nodes without an edge")] if isolated else []
        shown.append((len(snapshot.labels), f"labels of {len(set(snapshot.labels.values()))} classes"))
        figures((f"{count:,}", meaning) for count, meaning in shown)
        bullets(nodes.loaded.notes)
        if graph.preprocessing is not None:
            with tag("details"):
                tag("summary", "How the columns are used")
                bullets(graph.preprocessing.lines(), "small soft")

    # Classes

    def _draw_classes(self) -> None:
        project, counts = self.studio.project, self.studio.snapshot.label_counts
        if not self.studio.snapshot.load:
            return
        tag("h3", "Classes")
        tag("p", "The first ten have the keys 1 to 9 and 0. Undo reverts every change.", "soft small")
        with tag("div", classes="class-rows"):
            for number, (name, count) in enumerate(counts.items()):
                with tag("div", classes="class-row"):
                    swatch(number)
                    field = tag("input", type="text", value=name, aria_label=f"Name of class {name}", data_class=name)
                    self._change_on(field, "change", THIS_VALUE, project.rename_class, name)
                    tag("span", plural(count, "label"), "soft small number")
                    if len(counts) > 1:
                        with tag("select", aria_label=f"Merge class {name} into another") as choice:
                            tag("option", "merge into …", value="")
                            for other in counts:
                                if other != name:
                                    tag("option", other, value=other)
                        self._change_on(choice, "change", THIS_VALUE, project.merge_classes, name)
        with tag("form", classes="class-row") as form:
            tag("input", type="text", placeholder="new class", aria_label="Name of a new class", id="new-class")
            tag("button", "Add", type="submit")
        self._change_on(form, "submit.prevent", "document.getElementById('new-class').value", project.add_class)

    def _change_on(self, element: Tag, event: str, value: str, method: Callable[..., object], *first: str) -> None:
        """Call a method of the project with the value of a field when an event occurs."""

        async def change(event: Any) -> None:
            self.changed(self._classes)  # draws them again, which resets the fields to the stored names
            await self.window.act(lambda: self.window.change(method, *first, str(event.args)))

        element.on(event, change, js_handler=f"(event) => emit({value})")

    # Loading

    def _draw_files(self) -> None:
        with tag("section", classes="stack"):
            tag("h3", "Your files")
            for role, title in FIELDS.items():
                advice = f"Choose one of {', '.join(SUFFIXES[role])} of at most {MAX_UPLOAD_BYTES >> 20} MiB."
                field = ui.upload(
                    label=title,
                    auto_upload=True,
                    max_file_size=MAX_UPLOAD_BYTES,
                    on_upload=partial(self._receive, role),
                    on_rejected=partial(self.window.notify, advice, True),
                )
                field.props(f"accept={','.join(SUFFIXES[role])} flat bordered").classes(role)
            self._neighbours = ui.number("Nearest neighbours that are linked, without edges", value=10, min=1, max=100)
            button("Load these files", self._load_files, "main")
            tag("p", "They are copied into the project and never leave this machine.", "soft small")

    async def _receive(self, role: str, event: UploadEventArguments) -> None:
        async def action() -> None:
            path = self.studio.project.path(UPLOADS, token_hex(8), event.file.name)  # windows may upload the same name
            await event.file.save(path)
            self._uploaded[role] = path
            event.sender.props["label"] = f"{role.capitalize()}: {path.name}, {event.file.size():,} bytes"
            event.sender.run_method("reset")  # another file may be chosen

        await self.window.act(action)

    def _draw_datasets(self) -> None:
        with tag("section", classes="stack"):
            tag("h3", "Datasets")
            with tag("div", classes="datasets"):
                for name in datasets.NAMES:
                    read = partial(self.studio.project.load_dataset, name)
                    with button("", partial(self._load, f"Reading {name}", read), data_dataset=name):
                        tag("b", name)
                        tag("span", DATASETS.get(name, ""), "soft small")

    async def _load_files(self) -> None:
        def load() -> None:
            options: dict[str, Any] = dict(self._uploaded)
            if not options.keys() & {"edges", "nodes", "graph"}:
                raise InputError("No file is chosen; choose edges, nodes or a graph.")
            if "nodes" in options and "edges" not in options:
                if not self._neighbours.value:
                    raise InputError("No number of nearest neighbours; give at least 1.")
                options["knn"] = int(self._neighbours.value)
            self.studio.project.load_files(TableOptions(**options))

        await self._load("Reading your files", load)

    async def _load(self, title: str, load: Callable[[], None]) -> None:
        async def action() -> None:
            await self.studio.cancel()
            await self.studio.change(load)
            self._after_load()

        if "hidden" not in self._busy.classes:
            return
        self._busy.text = title
        self._busy.show(True)
        await self.window.act(action)
        self._busy.show(False)
