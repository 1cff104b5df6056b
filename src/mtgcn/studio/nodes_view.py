"""The view of all nodes: searching, filtering, sorting, and labelling many at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from nicegui import ui

from mtgcn.errors import InputError
from mtgcn.studio.elements import View, button, choice, on_value, tag
from mtgcn.studio.nodes import CERTAINTIES, Nodes, Query
from mtgcn.studio.state import Window, plural

LISTS = {
    "": "all nodes",
    "mine": "my labels",
    "skipped": "skipped",
    "doubted": "my labels the model doubts",
    "changed": "changed by the last fit",
    "chosen": "chosen on the map",
}
# Scripts: the grid fetches the rows that it shows; the server filters and sorts.
GET_ROWS = """(grid) => {
    const [sorted] = grid.sortModel, sort = { sort: sorted?.colId ?? "", descending: sorted?.sort === "desc" };
    fetch("/nodes?" + new URLSearchParams({ ...QUERY, ...sort, start: grid.startRow, end: grid.endRow }))
        .then((answer) => answer.json())
        .then(({ rows, total }) => {
            grid.successCallback(rows, total);
            document.getElementById("found").textContent = `${total.toLocaleString("en")} of ALL`;
            const all = document.getElementById("label-found");
            if (all) all.textContent = `all ${total.toLocaleString("en")} found`;
        })
        .catch(() => grid.failCallback());
}"""
SHOW_TITLE = """({ data, value }) => {
    const cell = document.createElement("span");
    if (data?.picture)
        cell.append(Object.assign(new Image(), { src: data.picture, alt: "", className: "small-picture" }));
    cell.append(value ?? "");
    return cell;
}"""
SHOW_CLASS = """({ data, value }) => {
    const cell = document.createElement("span"), mark = document.createElement("span");
    mark.className = "swatch";
    mark.style = `--own: var(--k${data?.number}); clip-path: var(--s${data?.number}, none)`;
    if (data?.number >= 0) cell.append(mark);
    cell.append(value ?? "");
    return cell;
}"""
ENTER_IS_A_CLICK = """({ event, column }) => {
    if (event.key === "Enter" && column.getColId() === "title") event.target.click();
}"""
PERCENT = "({ value }) => value == null ? '' : `${Math.round(100 * value)} %`"


class NodesView(View):
    """A table of all nodes; drawn only while it is shown."""

    def __init__(self, window: Window) -> None:
        super().__init__(window)
        self._query: dict[str, str] = {}  # fields of `Query` without the sort, which the grid adds
        self._grid: ui.aggrid
        with tag("div", classes="page wide", id="nodes") as self.pane:
            with tag("div", classes="title-row"):
                tag("h2", "Nodes")
                tag("span", "", "soft number", role="status", id="found")
            with tag("div", classes="row", role="search"):
                text = tag("input", type="search", placeholder="search all columns", aria_label="Search all columns")
                on_value(text, "input", partial(self._filter, "text"), throttle=0.3)
                self._filters = tag("div", classes="row")
            self._bulk = tag("div", classes="row", id="bulk")
            self._holder = tag("div", classes="grid-holder")

    def update(self) -> None:
        if "hidden" in self.pane.classes or self.studio.nodes is None:
            return
        studio, nodes = self.studio, self.studio.nodes
        self.redraw(self._filters, self._draw_filters, studio.snapshot.classes, self.window.listed)
        self.redraw(self._bulk, self._draw_bulk, studio.snapshot.classes)
        self.redraw(self._holder, partial(self._draw_grid, nodes), studio.snapshot.load, studio.snapshot.classes)
        filters = self._query | {"which": self.window.listed}
        if self.changed("rows", nodes, studio.snapshot, filters):
            self._refresh(nodes, filters)

    def _draw_filters(self) -> None:
        classes = {"": "every class"} | {name: name for name in self.studio.snapshot.classes}
        certainties = {"": "any certainty"} | {name: name for name in CERTAINTIES}
        choice("Which nodes", LISTS, self.window.listed, partial(self.window.act, self._list))
        choice("Class", classes, self._query.get("class_name", ""), partial(self._filter, "class_name"))
        choice("Certainty", certainties, self._query.get("certainty", ""), partial(self._filter, "certainty"))

    def _draw_bulk(self) -> None:
        classes = self.studio.snapshot.classes
        self._class = classes[0] if classes else ""
        if classes:
            tag("span", "Label as", "soft small")
            names = {name: name for name in classes}
            choice("Class for the selected nodes", names, self._class, partial(setattr, self, "_class"))
            label = partial(self.window.act, self._label)
            button("the selected", partial(label, False, False), "main", data_keep="selected")
            button("all found", partial(label, True, False), id="label-found", data_keep="found")
            button("Remove labels of the selected", partial(label, False, True), data_keep="remove")
        button("Undo", partial(self.window.act, self.window.undo), data_keep="undo")

    def _draw_grid(self, nodes: Nodes) -> None:
        columns: list[dict[str, Any]] = [
            {"field": "title", "headerName": "node", ":cellRenderer": SHOW_TITLE, "cellClass": "grid-link"},
            {"field": "class", "headerName": "class", ":cellRenderer": SHOW_CLASS, "width": 150},
            {"field": "certainty", "headerName": "certainty", ":valueFormatter": PERCENT, "width": 115},
            {
                "field": "mine",
                "headerName": "my label",
                "editable": True,
                "singleClickEdit": True,
                "cellEditor": "agSelectCellEditor",
                "cellEditorParams": {"values": ["", *self.studio.snapshot.classes]},
                "cellClass": "grid-edit",
                "width": 140,
            },
            {"field": "why", "headerName": "why in doubt", "sortable": False, "width": 420, "hide": True},
        ]
        if nodes.loaded.graph.node_names is not None:
            columns.append({"field": "id", "headerName": "id", "width": 110})
        columns += [{"field": f"own {name}", "headerName": name, "width": 170} for name in nodes.columns]
        self._grid = ui.aggrid(
            {
                "columnDefs": columns,
                "defaultColDef": {"sortable": True, "resizable": True},
                "rowModelType": "infinite",
                "cacheBlockSize": 100,
                "suppressFieldDotNotation": True,
                "rowSelection": {"mode": "multiRow", "headerCheckbox": False, "enableClickSelection": False},
                "selectionColumnDef": {"width": 44, "pinned": "left"},
                ":onCellKeyDown": ENTER_IS_A_CLICK,
                ":getRowId": "({ data }) => data.id",
                "overlayNoRowsTemplate": "No node matches.",
            },
            auto_size_columns=False,
        ).classes("grid")
        self._grid.on("cellClicked", self._click)
        self._grid.on("cellValueChanged", self._edit)
        self.changed("filters")  # fetches the rows

    def _refresh(self, nodes: Nodes, filters: Mapping[str, str]) -> None:
        """Fetch the rows again, from the first row if the filters changed."""
        if self.changed("filters", filters):
            script = GET_ROWS.replace("ALL", f"{len(nodes.loaded.ids):,}").replace("QUERY", json.dumps(filters))
            self._grid.run_grid_method("setColumnsVisible", ["why"], filters["which"] == "doubted")
            self._grid.run_grid_method("setGridOption", "datasource", {":getRows": script})
        else:
            self._grid.run_grid_method("refreshInfiniteCache")

    # Events

    def _filter(self, name: str, value: str) -> None:
        self._query = self._query | {name: value}
        self.window.draw()

    async def _list(self, which: str) -> None:
        if which == "doubted":
            self.window.notify("Predicting each label from the others.", False)
            await asyncio.to_thread(self.studio.listed, which)
        self.window.listed = which

    async def _click(self, event: Any) -> None:
        if event.args.get("colId") == "title":
            await self.show_node(event.args["data"]["id"])

    async def _edit(self, event: Any) -> None:
        node, name = event.args["data"]["id"], event.args.get("newValue")
        await self.window.act(self.window.change, self.studio.project.label, node, name or None)

    async def _label(self, all_found: bool, remove: bool) -> None:
        nodes = self.studio.nodes
        if all_found and nodes is not None:
            query = Query(**self._query)  # type: ignore[arg-type]
            places = await asyncio.to_thread(nodes.find, query, self.studio.listed(self.window.listed))
            chosen = [nodes.loaded.ids[place] for place in places.tolist()]
        else:
            chosen = [row["id"] for row in await self._grid.get_selected_rows()]
        if not chosen:
            raise InputError("No node is selected; tick some in the first column.")
        name = None if remove else self._class
        await self.window.change(self.studio.project.label, chosen, name)
        self._grid.run_grid_method("deselectAll")
        what = "Removed the labels of" if remove else f"Labelled as {name}:"
        self.window.notify(f"{what} {plural(len(chosen), 'node')}. Undo reverts it.", False)
