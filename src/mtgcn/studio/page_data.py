"""Load: a graph of one's own or a built-in one, what was read of it, and its classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.studio.components import FileField
from mtgcn.studio.elements import Tag, button, emptied, swatch, tag
from mtgcn.studio.source import GRAPH_SUFFIXES, TABLE_SUFFIXES
from mtgcn.studio.stored_project import UPLOADS, ProjectSummary
from mtgcn.studio.window import Window

ABOUT = {
    "cora": "2708 papers on machine learning, and who cites whom",
    "citeseer": "3327 papers on computer science, and who cites whom",
    "pubmed": "19717 papers on diabetes, and who cites whom",
    "digits": "1797 pictures of written digits, joined with those most alike",
    "amazon-photo": "7650 goods for photographers, bought together",
    "blogcatalog": "5196 bloggers and whom they follow",
    "coauthor-cs": "18333 authors of computer science, writing together",
    "dblp": "17716 papers, and who cites whom",
    "chameleon": "2277 pages of an encyclopaedia on chameleons, linked",
}
FIELDS = {
    "edges": "two ids in each line, perhaps a weight",
    "nodes": "an id in each line, its attributes, perhaps a label",
    "labels": "an id and a class in each line, if you have some",
    "graph": "or everything in one file: GraphML, GML or npz",
}
NEIGHBOURS = 10


class DataPane:
    """A page of its own: what is loaded, its classes, and the ways to load something."""

    def __init__(self, window: Window, after_load: Callable[[], None]) -> None:
        self.window, self._after_load = window, after_load
        self._drawn_summary: object = None
        self._drawn_classes: object = None
        self._loading = False
        self._fields: dict[str, FileField] = {}
        self.pane = tag("div", classes="page", id="data")
        with self.pane:
            self._summary = tag("section", classes="stack", aria_label="What is loaded")
            self._classes = tag("section", classes="stack", aria_label="Classes")
            self._busy = tag("p", "", "pill busy hidden", role="status")
            self._form = tag("section", classes="columns", aria_label="Load a graph")
        self._draw_form()

    def update(self) -> None:
        seen = self.window.desk.seen
        if self._drawn_summary != (seen.load, len(seen.labels)):
            self._drawn_summary = (seen.load, len(seen.labels))
            with emptied(self._summary):
                self._draw_summary()
        counts = tuple((name, sum(label == name for label in seen.labels.values())) for name in seen.classes)
        if self._drawn_classes != (seen.load, counts):
            self._drawn_classes = (seen.load, counts)
            with emptied(self._classes):
                if seen.is_loaded:
                    self._draw_classes(dict(counts))

    # What is loaded

    def _draw_summary(self) -> None:
        if not self.window.desk.seen.is_loaded:
            tag("h2", "Label a few nodes, watch the rest follow")
            tag(
                "p",
                "Bring a graph of your own or take one that is built in. You are then asked about the nodes that teach "
                "most; after a few answers a model learns from them and predicts all the others.",
                "soft",
            )
            return
        try:
            summary = self.window.desk.project.summary()
        except InputError as error:
            tag("p", str(error), "note")
            return
        tag("h2", summary.title)
        with tag("div", classes="figures"):
            for figure, meaning in figures_of(summary):
                with tag("div"):
                    tag("strong", figure)
                    tag("span", meaning)
        notes = [*summary.notes]
        if notes:
            with tag("ul", classes="note"):
                for note in notes:
                    tag("li", note)
        if summary.columns:
            with tag("details"):
                tag("summary", "What became of the columns")
                with tag("ul", classes="small soft"):
                    for line in summary.columns:
                        tag("li", line)

    # Classes

    def _draw_classes(self, counts: dict[str, int]) -> None:
        tag("h3", "Classes")
        tag("p", "The first ten have the keys 1 to 9 and 0. Every change here can be taken back by Undo.", "soft small")
        with tag("div", classes="class-rows"):
            for number, (name, count) in enumerate(counts.items()):
                self._draw_class(number, name, count, [other for other in counts if other != name])
        with tag("form", classes="class-row") as form:
            field = tag(
                "input", type="text", placeholder="another class", aria_label="Name of another class", id="new-class"
            )
            tag("button", "Add", type="submit")
        form.on("submit.prevent", self._add, js_handler=f"() => emit({_value_of(field)})")

    def _draw_class(self, number: int, name: str, count: int, others: list[str]) -> None:
        with tag("div", classes="class-row"):
            swatch(number)
            field = tag("input", type="text", value=name, aria_label=f"Name of class {name}", data_class=name)
            field.on("change", partial(self._rename, name), js_handler="(event) => emit(event.target.value)")
            tag("span", f"{count} label{'' if count == 1 else 's'}", "soft small number")
            if others:
                choice = tag("select", aria_label=f"Merge class {name} into another")
                with choice:
                    tag("option", "merge into …", value="")
                    for other in others:
                        tag("option", other, value=other)
                choice.on("change", partial(self._merge, name), js_handler="(event) => emit(event.target.value)")

    async def _add(self, event: Any) -> None:
        await self._change(lambda: self.window.desk.project.add_class(str(event.args), window=self.window.name()))

    async def _rename(self, name: str, event: Any) -> None:
        await self._change(
            lambda: self.window.desk.project.rename_class(name, str(event.args), window=self.window.name())
        )

    async def _merge(self, name: str, event: Any) -> None:
        if event.args:
            await self._change(
                lambda: self.window.desk.project.merge_classes(name, str(event.args), window=self.window.name())
            )

    async def _change(self, step: Callable[[], object]) -> None:
        async def action() -> None:
            try:
                await self.window.desk.change(step)
            finally:
                self._drawn_classes = None  # what was typed gives way to what is so

        await self.window.step(action)

    # Loading

    def _draw_form(self) -> None:
        with self._form:
            with tag("section", classes="stack"):
                tag("h3", "Files of your own")
                with tag("div", classes="files"):
                    for role, hint in FIELDS.items():
                        suffixes = GRAPH_SUFFIXES if role == "graph" else TABLE_SUFFIXES
                        self._fields[role] = FileField(role.capitalize(), hint, suffixes)
                with tag("label", classes="row small"):
                    tag("span", "Without edges, join each node with its")
                    self._neighbours = tag("input", type="number", value=str(NEIGHBOURS), min="1", max="100", id="knn")
                    tag("span", "nearest ones")
                made = tag("button", "Load these files", "main", type="button")
                made.on("click", self._load_files, js_handler=f"() => emit({_value_of(self._neighbours)})")
                tag("p", "They are copied into the project and go nowhere else.", "soft small")
            with tag("section", classes="stack"):
                tag("h3", "Built in")
                with tag("div", classes="datasets"):
                    for name in datasets.NAMES:
                        with button("", partial(self._load_dataset, name), data_dataset=name):
                            tag("b", name)
                            tag("span", ABOUT.get(name, ""), "soft small")

    async def _load_dataset(self, name: str) -> None:
        await self._load(f"Reading {name}", lambda: self.window.desk.project.load_dataset(name))

    async def _load_files(self, event: Any) -> None:
        taken = {role: field.taken for role, field in self._fields.items() if field.taken is not None}
        place = self.window.desk.project.files.place

        def load() -> object:
            given = {role: place(UPLOADS, *where) for role, where in taken.items()}
            if not given.keys() & {"edges", "nodes", "graph"}:
                raise InputError("No file is chosen yet; choose edges, nodes or a graph.")
            joined = {"knn": neighbours(event.args)} if "nodes" in given and "edges" not in given else {}
            return self.window.desk.project.load_files(TableOptions(**given, **joined))  # type: ignore[arg-type]

        await self._load("Reading your files", load)

    async def _load(self, title: str, step: Callable[[], object]) -> None:
        if self._loading:
            return
        self._loading = True
        self._busy.text = title
        self._busy.classes(remove="hidden")
        loaded = False

        async def action() -> None:
            nonlocal loaded
            if self.window.desk.progress.state == "running":
                await self.window.desk.cancel()
            await self.window.desk.change(step)
            loaded = True

        try:
            await self.window.step(action)
        finally:
            self._loading = False
            self._busy.classes(add="hidden")
        if loaded:
            self._after_load()


def figures_of(summary: ProjectSummary) -> list[tuple[str, str]]:
    shown = [(f"{summary.nodes:,}", "nodes"), (f"{summary.edges:,}", "edges"), (f"{summary.features:,}", "features")]
    if summary.isolated_nodes:
        shown.append((f"{summary.isolated_nodes:,}", "nodes without an edge"))
    return [*shown, (str(summary.labelled), f"labels of {sum(map(bool, summary.labels.values()))} classes")]


def neighbours(typed: object) -> int:
    """How many neighbours were asked for."""
    text = str(typed).strip()
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{text!r} nearest nodes; give a number, at least 1")
    return int(text)


def _value_of(field: Tag) -> str:
    """What stands in a field, in the words of the page's scripts."""
    return f"document.getElementById({field.props['id']!r}).value"
