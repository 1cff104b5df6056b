"""The view of the data: loading a graph or an earlier one, roles of columns, summary, and classes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

from nicegui import ui
from nicegui.events import UploadEventArguments, ValueChangeEventArguments

from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions, UnknownNodes
from mtgcn.io.read import Preview, preview
from mtgcn.studio.elements import View, bullets, button, choice, figures, key, on_value, swatch, tag
from mtgcn.studio.project import UPLOADS
from mtgcn.studio.state import Action, Window, class_keys, page_text, plural
from mtgcn.studio.storage import MAX_UPLOAD_BYTES, SUFFIXES
from mtgcn.workflows.output import collected_notes

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
    "nodes": "Table: one row per node; id, classes, attributes",
    "edges": "Edges, optional: two ids per line, optionally a weight",
    "labels": "Labels, optional: an id and a class per line",
    "graph": "Or one file for all: GraphML, GML, JSON, npz, mat or mtx",
}
ROLES = {"": "choose …"} | {role: role for role in ("id", "label", "name", "feature", "text", "picture", "ignore")}
MORE_ROLES = {"number": "number", "category": "category"}  # roles of columns that cannot be read as they are


class DataView(View):
    """Summary and classes of the graph, and forms to load another."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._reset_import()
        with tag("div", classes="page", id="data") as self.pane:
            self._summary = tag("section", classes="stack", aria_label="The graph")
            self._classes = tag("section", classes="stack", aria_label="Classes", id="own-classes")
            self._busy = tag("p", "", "pill busy hidden", role="status")
            with tag("section", classes="columns", aria_label="Load a graph"):
                self._draw_files()
                self._draw_datasets()

    def _reset_import(self) -> None:
        """Clear the choice of files and roles."""
        self._uploaded: dict[str, Path] = {}  # files by role
        self._loaded, self._changed_load = TableOptions(), 0  # the files whose roles are changed, and their load
        self._preview: Preview | None = None  # preview of the node table
        self._roles: dict[str, str] = {}  # roles by column
        self._unknown_nodes: UnknownNodes = "error"
        self._neighbours, self._pictures = "10", ""

    def update(self) -> None:
        snapshot = self.studio.snapshot
        if self._loaded.given and self._changed_load != snapshot.load:  # another window loaded another graph
            self._reset_import()
        self.redraw(self._summary, self._draw_summary, snapshot.load, len(snapshot.labels), self.studio.nodes is None)
        self.redraw(self._classes, self._draw_classes, snapshot.load, list(snapshot.label_counts.items()))
        self.redraw(self._columns, self._draw_columns, self._preview)
        self._load_button.text = "Load with these roles" if self._loaded.given else "Load these files"
        self._cancel_button.show(self._preview is not None)
        roles = {*self._roles.values()} & {"id", "picture"}
        self.redraw(self._options, self._draw_options, self._preview, self._undecided, roles, "edges" in self._uploaded)

    def _draw_summary(self) -> None:
        snapshot, nodes = self.studio.snapshot, self.studio.nodes
        if not snapshot.load:
            tag("h2", "Label a few nodes, and the model predicts the rest")
            tag("p", "Load a table, a graph or a built-in dataset.", "soft")
            return
        tag("h2", snapshot.title)
        if nodes is None:
            return
        graph = nodes.loaded.graph
        isolated = int((graph.adjacency.sum(axis=1) == 0).sum())
        shown = [(graph.num_nodes, "nodes"), (graph.num_edges, "edges"), (graph.num_features, "features")]
        shown += [(isolated, "nodes without an edge")] if isolated else []
        shown.append((len(snapshot.labels), f"labels of {plural(len(set(snapshot.labels.values())), 'class', 'es')}"))
        figures((f"{count:,}", meaning) for count, meaning in shown)
        bullets([page_text(note) for note in nodes.loaded.notes])
        if graph.preprocessing is not None:
            with tag("details"):
                tag("summary", "How the columns are used")
                bullets(graph.preprocessing.lines(), "small soft")
        files = nodes.loaded.files
        if files is not None and files.nodes:
            change = partial(self.window.act, self._change_roles, files)
            button("Change the roles of the columns", change, id="change-roles")
        if kept := self.studio.project.kept():
            tag("h3", "Earlier graphs, with their labels")
            with tag("div", classes="row"):
                for load, title in kept.items():
                    read = partial(self.window.change, self.studio.project.open_kept, load)
                    button(f"Open {title}", partial(self._load, "Opening", read), data_kept=load)

    # Classes

    def _draw_classes(self) -> None:
        project, counts = self.studio.project, self.studio.snapshot.label_counts
        if not self.studio.snapshot.load:
            return
        tag("h3", "Classes")
        tag("p", "Undo on Label reverts every change.", "soft small")
        keys = class_keys(tuple(counts))
        with tag("div", classes="class-rows"):
            for number, (name, count) in enumerate(counts.items()):
                with tag("div", classes="class-row"):
                    key(keys.get(name, " "))
                    swatch(number)
                    field = tag("input", type="text", value=name, aria_label=f"Name of class {name}", data_class=name)
                    on_value(field, "change", partial(self._change, project.rename_class, name))
                    tag("span", plural(count, "label"), "soft small number")
                    up = button("↑", partial(self._change, project.move_class, name, -1))
                    up.attributes(aria_label=f"Move class {name} up", aria_disabled=None if number else "true")
                    others = {f"into {other}": f"merge into {other}" for other in counts if other != name}
                    options = {"": "more …"} | others | {"delete": f"delete, with {plural(count, 'label')}"}
                    choice(f"Merge or delete class {name}", options, "", partial(self._remove_class, name))
        with tag("form", classes="class-row") as form:
            tag("input", type="text", placeholder="new class", aria_label="Name of a new class", id="new-class")
            tag("button", "Add", type="submit")
        name = "document.getElementById('new-class').value"
        on_value(form, "submit.prevent", partial(self._change, project.add_class), name)
        self._draw_upload("import", "Add labels from a file: an id and a class per line", SUFFIXES["labels"])

    async def _remove_class(self, name: str, choice: str) -> None:
        into = None if choice == "delete" else choice.removeprefix("into ")
        await self._change(self.studio.project.remove_class, name, into)

    async def _change(self, method: Callable[..., object], *values: object) -> None:
        self.changed(self._classes)  # redraws, which resets the fields to the stored names
        await self.window.act(self.window.change, method, *values)

    # Loading

    def _draw_files(self) -> None:
        with tag("section", classes="stack"):
            tag("h3", "Your files")
            for role, title in FIELDS.items():
                self._draw_upload(role, title, SUFFIXES[role])
            with tag("div", classes="stack", id="import-step"):
                self._columns = tag("div", classes="stack")
                self._options = tag("div", classes="stack")
                with tag("div", classes="row"):
                    self._load_button = button("", self._load_files, "main")
                    self._cancel_button = button("Cancel", self._cancel)
            tag("p", "They are copied into the project and never leave this machine.", "soft small")

    def _cancel(self) -> None:
        self._reset_import()
        self.window.draw()

    def _draw_upload(self, role: str, title: str, suffixes: tuple[str, ...]) -> None:
        advice = f"Choose one of {', '.join(suffixes)} of at most {MAX_UPLOAD_BYTES >> 20} MiB."
        field = ui.upload(
            label=title,
            auto_upload=True,
            max_file_size=MAX_UPLOAD_BYTES,
            on_upload=lambda event: self.window.act(self._receive, role, event),
            on_rejected=partial(self.window.notify, advice, True),
        )
        field.props(f"accept={','.join(suffixes)},.gz flat bordered").classes(role)

    async def _receive(self, role: str, event: UploadEventArguments) -> None:
        path = self.studio.project.path(UPLOADS, token_hex(8), event.file.name)  # windows may upload the same name
        await event.file.save(path)
        event.sender.run_method("reset")  # another file may be chosen
        if role == "import":
            count = await self.window.change(self.studio.project.import_labels, path)
            self.window.notify(f"{plural(count, 'label')} changed. Undo on Label reverts it.", False)
            return
        if self._loaded.given and role in ("nodes", "graph"):  # of other nodes, to which labels do not belong
            self._reset_import()
        self._uploaded[role] = path
        event.sender.props["label"] = f"{role.capitalize()}: {path.name}, {event.file.size():,} bytes"
        if role in ("nodes", "edges") and "nodes" in self._uploaded:
            await self._guess_roles(TableOptions(edges=self._uploaded.get("edges")))

    async def _change_roles(self, files: TableOptions) -> None:
        """Show the import step for the loaded files with their current roles."""
        self._reset_import()
        self._loaded = replace(files, features=None, exclude=())  # replaced by roles
        self._changed_load = self.studio.snapshot.load
        self._uploaded = {role: Path(path) for role in FIELDS if (path := getattr(files, role))}
        self._unknown_nodes, self._neighbours = files.unknown_nodes, str(files.knn or 10)
        self._pictures = self.studio.project.source.pictures
        await self._guess_roles(files)

    async def _guess_roles(self, options: TableOptions) -> None:
        self._preview, self._roles = None, {}
        with collected_notes():  # loading shows them
            found = await asyncio.to_thread(preview, self._uploaded["nodes"], options)
        self._preview = found
        self._roles = {one.column: "" if one.column in found.targets else one.role for one in found.columns}

    def _draw_columns(self) -> None:
        """Ten rows of the node table, with the role of each column."""
        if self._preview is None:
            return
        found = self._preview
        tag("h3", f"Columns of {self._uploaded['nodes'].name}")
        with tag("div", classes="scroll preview", tabindex="0", aria_label="The first rows"), tag("table"):
            with tag("thead"):
                with tag("tr"):
                    for one in found.columns:
                        tag("th", one.column, scope="col")
                with tag("tr"):
                    for one in found.columns:
                        with tag("td"):
                            self._draw_role(one.column, bool(one.problem))
                            tag("span", page_text(one.problem) or one.reason, "soft small")
            with tag("tbody"):
                for row in found.rows:
                    with tag("tr"):
                        for cell in row:
                            tag("td", cell)
        if self._loaded.given:
            ui.run_javascript("document.querySelector('#import-step select').focus()")

    @property
    def _undecided(self) -> list[str]:
        return [column for column, role in self._roles.items() if not role]

    def _draw_options(self) -> None:
        if self._preview is None:
            return
        if self._undecided:
            text = "may hold the classes. Choose the role label for one of them, and another role for the rest."
            tag("p", f"{', '.join(self._undecided)} {text}", "note")
        ui.checkbox("Number the rows", value="id" not in self._roles.values(), on_change=self._number_rows)
        text = "Leave out unknown nodes, with their edges and labels"
        ui.checkbox(text, value=self._unknown_nodes == "drop", on_change=self._leave_out)
        if "edges" not in self._uploaded:
            self._field("Nearest neighbours that each row is linked to", "_neighbours", type="number", min=1, max=100)
        if "picture" in self._roles.values():
            self._field("Folder of the pictures on this machine", "_pictures", type="text", placeholder="/home/…")

    def _draw_role(self, column: str, has_problem: bool) -> None:
        def choose(role: str) -> None:
            self._roles[column] = role
            self.window.draw()

        roles = ROLES | (MORE_ROLES if has_problem else {})
        choice(f"Role of column {column}", roles, self._roles[column], choose, data_column=column)

    def _field(self, title: str, attribute: str, **attributes: Any) -> None:
        with tag("label", classes="stack"):
            tag("span", title, "small soft")
            field = tag("input", value=getattr(self, attribute), **attributes)
        on_value(field, "change", partial(setattr, self, attribute))

    def _number_rows(self) -> None:
        """Ignore the column of ids. To use ids, choose that role for a column."""
        self._roles |= {column: "ignore" for column, role in self._roles.items() if role == "id"}
        self.changed(self._columns)  # redraws it
        self.window.draw()

    def _leave_out(self, event: ValueChangeEventArguments) -> None:
        self._unknown_nodes = "drop" if event.value else "error"

    def _draw_datasets(self) -> None:
        with tag("section", classes="stack"):
            tag("h3", "Datasets")
            with tag("div", classes="datasets"):
                for name, content in DATASETS.items():
                    read = partial(self.window.change, self.studio.project.load_dataset, name)
                    with button("", partial(self._load, f"Reading {name}", read), data_dataset=name):
                        tag("b", name)
                        tag("span", content, "soft small")

    async def _load_files(self) -> None:
        async def read() -> None:
            options, pictures = self._table_options(), self._picture_folder()
            load = partial(self.studio.project.load_files, options, pictures=pictures, again=self._loaded.given)
            await self.window.change(load)
            self._reset_import()

        await self._load("Reading your files", read, keeps_labels=self._loaded.given)

    def _table_options(self) -> TableOptions:
        given: dict[str, Any] = dict(self._uploaded)
        if not given.keys() & {"edges", "nodes", "graph"}:
            raise InputError("No file is chosen; choose a table, edges or a graph.")
        if self._undecided:
            raise InputError(
                f"{', '.join(self._undecided)} may hold the classes; choose a role above each of these columns."
            )
        given["knn"] = None
        if "nodes" in given and "edges" not in given:
            if not self._neighbours.isdigit():
                raise InputError("Enter a number of nearest neighbours, at least 1.")
            given["knn"] = int(self._neighbours)
        options = replace(self._loaded, **given, unknown_nodes=self._unknown_nodes)
        return options.with_roles(self._roles) if self._roles else options

    def _picture_folder(self) -> Path | None:
        folder = Path(self._pictures).expanduser() if self._pictures else None
        if folder is not None and not folder.is_dir():
            raise InputError(f"{self._pictures} is not a folder; give the base folder of the picture paths.")
        return folder

    async def _load(self, title: str, read: Action, *, keeps_labels: bool = False) -> None:
        """Load another graph; ask first if labels of the current one are not kept."""

        async def action() -> None:
            await self.studio.cancel()
            load = self.studio.snapshot.load
            await read()
            if self.studio.snapshot.load != load:
                self.window.go("Label")
                if load:
                    kept = "Your labels are kept. " if keeps_labels else ""
                    self.window.notify(f"{kept}The previous graph is kept under Data; Undo returns to it.", False)
                if self.studio.project.loaded.picture_origins:
                    ui.navigate.reload()  # only a new page may load pictures from their servers

        if "hidden" not in self._busy.classes:
            return
        if self.studio.snapshot.load and not keeps_labels and not await self._ask(title):
            return
        self._busy.text = title
        self._busy.show(True)
        await self.window.act(action)
        self._busy.show(False)

    async def _ask(self, title: str) -> bool:
        snapshot = self.studio.snapshot
        with self.pane, ui.dialog() as dialog, tag("div", classes="studio dialog stack", role="alertdialog"):
            tag("h2", f"{title}?")
            labels = plural(len(snapshot.labels), "label")
            tag("p", f"{snapshot.title} is set aside with its {labels}. It stays under Data, and Undo returns to it.")
            with tag("div", classes="row"):
                button("Load", partial(dialog.submit, True), "main", id="confirm", autofocus=True)
                button("Cancel", partial(dialog.submit, False))
        answer = await dialog
        dialog.delete()
        return bool(answer)
