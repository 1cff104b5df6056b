"""The view of the data: load a graph, its summary, and its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.elements import FileField, Tag, View, button, cleared, figures, note, plural, swatch, tag
from mtgcn.studio.project import UPLOADS
from mtgcn.studio.session import Session
from mtgcn.studio.storage import GRAPH_SUFFIXES, TABLE_SUFFIXES

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
    "edges": "two ids per line, optionally a weight",
    "nodes": "one id per line, its attributes, optionally a label",
    "labels": "optional: an id and a class per line",
    "graph": "or one file for all: GraphML, GML or npz",
}
DEFAULT_NEIGHBOURS = 10
THIS_VALUE = "event.target.value"  # JavaScript


class DataView(View):
    """Summary and classes of the graph, and a form to load another."""

    def __init__(self, session: Session, after_load: Callable[[], None]) -> None:
        super().__init__(session)
        self._after_load = after_load
        self._loading = False
        self._fields: dict[str, FileField] = {}
        self.pane = tag("div", classes="page", id="data")
        with self.pane:
            self._summary = tag("section", classes="stack", aria_label="The graph")
            self._classes = tag("section", classes="stack", aria_label="Classes")
            self._busy = tag("p", "", "pill busy hidden", role="status")
            with tag("section", classes="columns", aria_label="Load a graph"):
                self._draw_form()

    def update(self) -> None:
        snapshot = self.workspace.snapshot
        if self.changed("summary", snapshot.load, len(snapshot.labels)):
            with cleared(self._summary):
                self._draw_summary()
        counts = snapshot.label_counts
        if self.changed("classes", snapshot.load, list(counts.items())):
            with cleared(self._classes):
                if snapshot.is_loaded:
                    self._draw_classes(counts)

    def _draw_summary(self) -> None:
        snapshot = self.workspace.snapshot
        if not snapshot.is_loaded:
            tag("h2", "Label a few nodes, and the model predicts the rest")
            text = (
                "Load your own graph or a built-in dataset. The studio offers the most useful nodes to label first; "
                "after a few labels it fits a model that predicts all other nodes."
            )
            tag("p", text, "soft")
            return
        try:
            loaded = self.workspace.project.loaded
        except InputError as error:
            tag("p", str(error), "note")
            return
        graph = loaded.graph
        isolated = int((graph.adjacency.sum(axis=1) == 0).sum())
        shown = [(graph.num_nodes, "nodes"), (graph.num_edges, "edges"), (graph.num_features, "features")]
        shown += [(isolated, "nodes without an edge")] if isolated else []
        shown.append((len(snapshot.labels), f"labels of {len(set(snapshot.labels.values()))} classes"))
        tag("h2", snapshot.title)
        figures((f"{count:,}", meaning) for count, meaning in shown)
        note(loaded.notes)
        columns = [] if graph.preprocessing is None else graph.preprocessing.lines()
        if columns:
            with tag("details"):
                tag("summary", "How the columns are used")
                with tag("ul", classes="small soft"):
                    for line in columns:
                        tag("li", line)

    # Classes

    def _draw_classes(self, counts: dict[str, int]) -> None:
        project = self.workspace.project
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
            field = tag("input", type="text", placeholder="new class", aria_label="Name of a new class", id="new-class")
            tag("button", "Add", type="submit")
        self._change_on(form, "submit.prevent", _value_of(field), project.add_class)

    def _change_on(self, element: Tag, event: str, value: str, method: Callable[..., object], *first: str) -> None:
        """Call a method of the project with the value of a field when an event occurs."""

        async def change(event: Any) -> None:
            async def action() -> None:
                try:
                    await self.session.change(method, *first, str(event.args))
                finally:
                    self.drawn.pop("classes", None)  # resets the fields to the stored names

            await self.session.act(action)

        element.on(event, change, js_handler=f"(event) => emit({value})")

    # Loading

    def _draw_form(self) -> None:
        with tag("section", classes="stack"):
            tag("h3", "Your files")
            with tag("div", classes="files"):
                for role, hint in FIELDS.items():
                    suffixes = GRAPH_SUFFIXES if role == "graph" else TABLE_SUFFIXES
                    self._fields[role] = FileField(role.capitalize(), hint, suffixes)
            with tag("label", classes="row small"):
                tag("span", "Without edges, link each node to its")
                number = tag("input", type="number", value=str(DEFAULT_NEIGHBOURS), min="1", max="100", id="knn")
                tag("span", "nearest neighbours")
            load = tag("button", "Load these files", "main", type="button")
            load.on("click", self._load_files, js_handler=f"() => emit({_value_of(number)})")
            tag("p", "They are copied into the project and never leave this machine.", "soft small")
        with tag("section", classes="stack"):
            tag("h3", "Datasets")
            with tag("div", classes="datasets"):
                for name in datasets.NAMES:
                    read = partial(self.workspace.project.load_dataset, name)
                    with button("", partial(self._load, f"Reading {name}", read), data_dataset=name):
                        tag("b", name)
                        tag("span", DATASETS.get(name, ""), "soft small")

    async def _load_files(self, event: Any) -> None:
        project = self.workspace.project
        uploaded = {role: field.uploaded for role, field in self._fields.items() if field.uploaded is not None}

        def load() -> None:
            paths: dict[str, Any] = {role: project.files.path(UPLOADS, *where) for role, where in uploaded.items()}
            if not paths.keys() & {"edges", "nodes", "graph"}:
                raise InputError("No file is chosen; choose edges, nodes or a graph.")
            if "nodes" in paths and "edges" not in paths:
                neighbours = str(event.args).strip()
                if not neighbours.isdecimal() or int(neighbours) < 1:
                    raise InputError(f"{neighbours!r} nearest neighbours; give a number of at least 1")
                paths["knn"] = int(neighbours)
            project.load_files(TableOptions(**paths))

        await self._load("Reading your files", load)

    async def _load(self, title: str, load: Callable[[], None]) -> None:
        if self._loading:
            return
        self._loading = True
        self._busy.text = title
        self._busy.show(True)
        loaded = False

        async def action() -> None:
            nonlocal loaded
            await self.workspace.cancel()
            await self.workspace.change(load)
            loaded = True

        try:
            await self.session.act(action)
        finally:
            self._loading = False
            self._busy.show(False)
        if loaded:
            self._after_load()


def _value_of(field: Tag) -> str:
    """JavaScript for the value of a field."""
    return f"document.getElementById({field.props['id']!r}).value"
