"""The view of the data: load a graph, its summary, and its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.elements import FileField, Tag, button, cleared, figures, note, plural, swatch, tag
from mtgcn.studio.project import UPLOADS, ProjectSummary
from mtgcn.studio.session import Session
from mtgcn.studio.source import GRAPH_SUFFIXES, TABLE_SUFFIXES

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
}
FIELDS = {
    "edges": "two ids per line, optionally a weight",
    "nodes": "one id per line, its attributes, optionally a label",
    "labels": "optional: an id and a class per line",
    "graph": "or one file for all: GraphML, GML or npz",
}
DEFAULT_NEIGHBOURS = 10


class DataView:
    """Summary and classes of the graph, and a form to load another."""

    def __init__(self, session: Session, after_load: Callable[[], None]) -> None:
        self.session, self.workspace, self._after_load = session, session.workspace, after_load
        self._drawn_summary: object = None
        self._drawn_classes: object = None
        self._loading = False
        self._fields: dict[str, FileField] = {}
        self.pane = tag("div", classes="page", id="data")
        with self.pane:
            self._summary = tag("section", classes="stack", aria_label="The graph")
            self._classes = tag("section", classes="stack", aria_label="Classes")
            self._busy = tag("p", "", "pill busy hidden", role="status")
            self._form = tag("section", classes="columns", aria_label="Load a graph")
        self._draw_form()

    def update(self) -> None:
        snapshot = self.workspace.snapshot
        if self._drawn_summary != (snapshot.load, len(snapshot.labels)):
            self._drawn_summary = (snapshot.load, len(snapshot.labels))
            with cleared(self._summary):
                self._draw_summary()
        counts = snapshot.label_counts
        if self._drawn_classes != (snapshot.load, list(counts.items())):
            self._drawn_classes = (snapshot.load, list(counts.items()))
            with cleared(self._classes):
                if snapshot.is_loaded:
                    self._draw_classes(counts)

    def _draw_summary(self) -> None:
        if not self.workspace.snapshot.is_loaded:
            tag("h2", "Label a few nodes, and the model predicts the rest")
            text = (
                "Load your own graph or a built-in dataset. The studio offers the most useful nodes to label first; "
                "after a few labels it fits a model that predicts all other nodes."
            )
            tag("p", text, "soft")
            return
        try:
            summary = self.workspace.project.summary()
        except InputError as error:
            tag("p", str(error), "note")
            return
        tag("h2", summary.title)
        figures(summary_figures(summary))
        note(summary.notes)
        if summary.columns:
            with tag("details"):
                tag("summary", "How the columns are used")
                with tag("ul", classes="small soft"):
                    for line in summary.columns:
                        tag("li", line)

    # Classes

    def _draw_classes(self, counts: dict[str, int]) -> None:
        tag("h3", "Classes")
        tag("p", "The first ten have the keys 1 to 9 and 0. Undo reverts every change.", "soft small")
        with tag("div", classes="class-rows"):
            for number, (name, count) in enumerate(counts.items()):
                self._draw_class(number, name, count, [other for other in counts if other != name])
        with tag("form", classes="class-row") as form:
            field = tag("input", type="text", placeholder="new class", aria_label="Name of a new class", id="new-class")
            tag("button", "Add", type="submit")
        form.on("submit.prevent", self._add, js_handler=f"() => emit({_value_of(field)})")

    def _draw_class(self, number: int, name: str, count: int, others: list[str]) -> None:
        with tag("div", classes="class-row"):
            swatch(number)
            field = tag("input", type="text", value=name, aria_label=f"Name of class {name}", data_class=name)
            field.on("change", partial(self._rename, name), js_handler="(event) => emit(event.target.value)")
            tag("span", plural(count, "label"), "soft small number")
            if others:
                choice = tag("select", aria_label=f"Merge class {name} into another")
                with choice:
                    tag("option", "merge into …", value="")
                    for other in others:
                        tag("option", other, value=other)
                choice.on("change", partial(self._merge, name), js_handler="(event) => emit(event.target.value)")

    async def _add(self, event: Any) -> None:
        name, window = str(event.args), self.session.window_name()
        await self._change(lambda: self.workspace.project.add_class(name, window=window))

    async def _rename(self, before: str, event: Any) -> None:
        after, window = str(event.args), self.session.window_name()
        await self._change(lambda: self.workspace.project.rename_class(before, after, window=window))

    async def _merge(self, name: str, event: Any) -> None:
        into, window = str(event.args), self.session.window_name()
        if into:
            await self._change(lambda: self.workspace.project.merge_classes(name, into, window=window))

    async def _change(self, change: Callable[[], object]) -> None:
        async def action() -> None:
            try:
                await self.workspace.change(change)
            finally:
                self._drawn_classes = None  # resets the fields to the stored names

        await self.session.act(action)

    # Loading

    def _draw_form(self) -> None:
        with self._form:
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
                        with button("", partial(self._load_dataset, name), data_dataset=name):
                            tag("b", name)
                            tag("span", DATASETS.get(name, ""), "soft small")

    async def _load_dataset(self, name: str) -> None:
        await self._load(f"Reading {name}", lambda: self.workspace.project.load_dataset(name))

    async def _load_files(self, event: Any) -> None:
        project = self.workspace.project
        uploaded = {role: field.uploaded for role, field in self._fields.items() if field.uploaded is not None}

        def load() -> object:
            paths: dict[str, Any] = {role: project.files.path(UPLOADS, *where) for role, where in uploaded.items()}
            if not paths.keys() & {"edges", "nodes", "graph"}:
                raise InputError("No file is chosen; choose edges, nodes or a graph.")
            if "nodes" in paths and "edges" not in paths:
                paths["knn"] = number_of_neighbours(event.args)
            return project.load_files(TableOptions(**paths))

        await self._load("Reading your files", load)

    async def _load(self, title: str, load: Callable[[], object]) -> None:
        if self._loading:
            return
        self._loading = True
        self._busy.text = title
        self._busy.show(True)
        loaded = False

        async def action() -> None:
            nonlocal loaded
            if self.workspace.is_fitting:
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


def summary_figures(summary: ProjectSummary) -> list[tuple[str, str]]:
    shown = [(f"{summary.nodes:,}", "nodes"), (f"{summary.edges:,}", "edges"), (f"{summary.features:,}", "features")]
    if summary.isolated_nodes:
        shown.append((f"{summary.isolated_nodes:,}", "nodes without an edge"))
    return [*shown, (str(summary.labelled), f"labels of {sum(map(bool, summary.labels.values()))} classes")]


def number_of_neighbours(value: object) -> int:
    text = str(value).strip()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{text!r} nearest neighbours; give a number of at least 1")
    return int(text)


def _value_of(field: Tag) -> str:
    """JavaScript for the value of a field."""
    return f"document.getElementById({field.props['id']!r}).value"
