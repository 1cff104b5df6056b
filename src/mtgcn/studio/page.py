"""The web application: the page with a bar and four views for each browser window, tables, pictures and downloads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from nicegui import Client, app, ui

from mtgcn.report import fit_page
from mtgcn.report.pages import class_variables, colour_variables
from mtgcn.studio.data_view import DataView
from mtgcn.studio.elements import Keys, Tag, View, button, tag
from mtgcn.studio.fitting import FitWorker
from mtgcn.studio.label_view import LabelView
from mtgcn.studio.map_view import colour_bytes, place_bytes
from mtgcn.studio.model_view import ModelView
from mtgcn.studio.nodes import Query
from mtgcn.studio.nodes_view import NodesView
from mtgcn.studio.project import Project
from mtgcn.studio.state import POLL_SECONDS, Action, Studio, Window, class_keys, error_line, fit_status, plural

FRESH = {"Cache-Control": "no-store"}
NODE_MAP = Path(fit_page.__file__).parent / "templates" / "node_map.js"
STYLES = Path(__file__).parent / "static" / "studio.css"
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M8 23 16 8l9 12" fill="none" '
    'stroke="#9aa0a8" stroke-width="2.5"/><circle cx="8" cy="23" r="5" fill="#1f77b4"/>'
    '<circle cx="16" cy="8" r="5" fill="#e07b00"/><circle cx="25" cy="20" r="5" fill="#1d8a5b"/></svg>'
)


def studio_application(project: Project, worker: FitWorker) -> FastAPI:
    """The application without the guard."""
    studio = Studio(project, worker)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with contextlib.suppress(Exception):  # the loop reports the error
            await studio.poll()
        running = asyncio.create_task(studio.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    application = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)

    @application.get("/export/{name}")
    def export(name: str, excel: bool = False) -> Response:
        if studio.nodes is None:
            return PlainTextResponse("No graph is loaded; load one under Data.", 409)
        try:
            content = studio.nodes.export(name, excel=excel)
        except Exception as error:
            return PlainTextResponse(error_line(error), 409)
        return Response(content, headers=FRESH | {"Content-Disposition": f'attachment; filename="{name}"'})

    @application.get("/nodes")
    def rows(query: Annotated[Query, Depends()], which: str = "", start: int = 0, end: int = 100) -> Response:
        """A page of the nodes of a query, for the view of nodes."""
        nodes = studio.nodes
        if nodes is None:
            return PlainTextResponse("No graph is loaded; load one under Data.", 409)
        places = nodes.find(query, studio.listed(which))
        found = nodes.rows(places[start:end].tolist())
        numbers = {name: number for number, name in enumerate(studio.snapshot.classes)}
        why = nodes.doubted if which == "doubted" else {}
        for row in found:
            row |= {"number": numbers.get(row["class"], -1), "why": why.get(row["id"], "")}
        return JSONResponse({"total": len(places), "rows": found}, headers=FRESH)

    @application.get("/map/{part}")
    def map_part(part: str) -> Response:
        """The coordinates or colours of the nodes on the map as bytes, or the text about one node, by its number."""
        nodes, points = studio.nodes, studio.points
        if nodes is None or points is None:
            return PlainTextResponse("There is no map yet.", 409)
        if part == "places":
            content = place_bytes(points.places)
        elif part == "colours":
            content = colour_bytes(studio)
        elif part.isdecimal() and int(part) < len(points.nodes):
            node = nodes.node(nodes.loaded.ids[points.nodes[int(part)]])
            return JSONResponse({"title": node.title, "text": node.class_text, "picture": node.picture}, headers=FRESH)
        else:
            return PlainTextResponse("There is no such node.", 404)
        return Response(content, headers=FRESH, media_type="application/octet-stream")

    @application.get("/picture/{load}/{node}/{column}")
    def picture(load: int, node: int, column: int) -> Response:
        """The picture named by a cell, if it is a file inside the picture folder."""
        nodes = studio.nodes
        if nodes is not None and nodes.load == load and 0 <= node < len(nodes.loaded.ids):
            cells = list(nodes.loaded.graph.node_cells(node).items())
            path = nodes.loaded.picture(*cells[column]) if 0 <= column < len(cells) else None
            if isinstance(path, Path):
                return FileResponse(path, headers={"Cache-Control": "private, max-age=3600"})
        return PlainTextResponse("There is no such picture.", 404)

    for file in (STYLES, NODE_MAP):
        app.add_static_file(local_file=file, url_path=f"/{file.name}", max_cache_age=0)  # a new version may follow
    ui.add_head_html('<link rel="stylesheet" href="/studio.css">', shared=True)
    ui.page("/", title="mtgcn studio", favicon=FAVICON)(lambda: Page(studio))
    app.on_exception(show_error)
    app.on_page_exception(lambda error: tag("p", error_line(error), "note"))
    ui.run_with(
        application,
        title="mtgcn studio",
        language="en-US",
        tailwind=False,
        dark=None,  # as the system prefers
        show_welcome_message=False,
        reconnect_timeout=30,
        binding_refresh_interval=None,
    )
    return application


def show_error(error: Exception) -> None:
    """Show an unexpected error of an event or a timer on every open page."""
    line = error_line(error)
    for client in list(Client.instances.values()):
        notify(client, line, True)


def notify(client: Client, text: str, error: bool) -> None:
    with client:
        ui.notify(text, type="negative" if error else None, timeout=10_000 if error else 5_000)


def within(client: Client, function: Callable[..., None], *values: object) -> None:
    with client:
        function(*values)


class Page(View):
    """The content of one browser window."""

    def __init__(self, studio: Studio) -> None:
        client = ui.context.client
        window = Window(studio, partial(notify, client), lambda: client.tab_id or client.id)
        super().__init__(window)
        ui.add_css(str(colour_variables()))
        Keys(self._press)
        with tag("div", classes="studio"):
            with tag("header", classes="bar"):
                with tag("h1", "mtgcn ", "brand"):
                    tag("span", "studio")
                tabs = tag("nav", classes="tabs", aria_label="Views")
                with tag("div", classes="state"):
                    self._project = tag("span", "", "project soft small")
                    self._labels = tag("span", "", "small number", id="labels")
                    self._pill = tag("span", "", "pill", role="status", id="pill")
            with tag("main", classes="view"):
                views: dict[str, View] = {
                    "Label": LabelView(window),
                    "Nodes": NodesView(window),
                    "Model": ModelView(window),
                    "Data": DataView(window),
                }
        self._panes = {title: view.pane for title, view in views.items()}
        with tabs:
            self._tabs: dict[str, Tag] = {
                title: button(title, partial(self.go, title), data_view=title.lower()) for title in views
            }
        # Uses the page's context, because the element that fired the event may have been removed by a redraw.
        window.updates = [partial(within, client, view.update) for view in (self, *views.values())]
        window.go = partial(within, client, self._go_and_focus)
        self.go("Label" if studio.snapshot.load else "Data")
        ui.timer(POLL_SECONDS, window.poll)

    def go(self, title: str) -> None:
        """Show one of the views."""
        for name, pane in self._panes.items():
            pane.show(name == title)
            self._tabs[name].attributes(aria_current="page" if name == title else None)
        self.window.draw()

    def _go_and_focus(self, title: str) -> None:
        """Show a view after an action and move the focus there, unless it is shown already."""
        if "hidden" in self._panes[title].classes:
            self.go(title)
            self._tabs[title].run_method("focus")

    def update(self) -> None:
        """Redraw the bar if something changed."""
        studio, snapshot = self.studio, self.studio.snapshot
        if self.changed("error", studio.error) and studio.error:
            self.window.notify(studio.error, True)
        if self.changed("colours", len(snapshot.classes)):
            ui.add_css(str(class_variables(max(1, len(snapshot.classes)))))
        status = fit_status(studio)
        if self.changed("bar", snapshot, status):
            self._project.text = snapshot.title
            self._labels.text = plural(len(snapshot.labels), "label") if snapshot.load else ""
            self._pill.text = status.title
            self._pill.classes(add=status.kind, remove="busy ready failed")

    async def _press(self, key: str, node: str) -> None:
        window = self.window
        actions: dict[str, Action] = {"ArrowRight": window.next, "ArrowLeft": window.previous, "u": window.undo}
        actions["s"] = partial(window.skip, node)
        keys = class_keys(self.studio.snapshot.classes)
        actions |= {own: partial(window.label, node, name) for name, own in keys.items()}
        if key in actions:
            await window.act(actions[key])
