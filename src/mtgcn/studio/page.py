"""The web application: the page with a bar and four views for each browser window, uploads and downloads."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from nicegui import app, ui

from mtgcn.errors import InputError
from mtgcn.report.pages import class_variables, colour_variables
from mtgcn.studio.data_view import DataView
from mtgcn.studio.elements import Keys, Tag, View, button, plural, tag
from mtgcn.studio.guard import UPLOAD_PATH
from mtgcn.studio.label_view import KEYS, MapPane, NeighbourhoodPane, NodePane
from mtgcn.studio.model_view import DOWNLOADS, ResultsView, TeachingView
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.studio.project import UPLOADS, Project
from mtgcn.studio.session import Action, Session
from mtgcn.studio.worker import FitWorker
from mtgcn.studio.workspace import POLL_SECONDS, Workspace, error_line

STYLES = Path(__file__).parent / "static" / "studio.css"
VIEWS = {"label": "Label", "teaching": "Teaching", "results": "Results", "data": "Data"}
MESSAGE_SECONDS = 5.0
CSV = "text/csv; charset=utf-8"
FAVICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M8 23 16 8l9 12" fill="none" '
    'stroke="#9aa0a8" stroke-width="2.5"/><circle cx="8" cy="23" r="5" fill="#1f77b4"/>'
    '<circle cx="16" cy="8" r="5" fill="#e07b00"/><circle cx="25" cy="20" r="5" fill="#1d8a5b"/></svg>'
)


def studio_application(project: Project, worker: FitWorker) -> FastAPI:
    """The application, without the guard around it."""
    workspace = Workspace(project, worker)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await workspace.poll()
        running = asyncio.create_task(workspace.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running

    application = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    _add_upload(application, project)
    _add_downloads(application, workspace)
    app.add_static_file(local_file=STYLES, url_path="/studio.css")
    ui.add_head_html('<link rel="stylesheet" href="/studio.css">', shared=True)
    ui.page("/", title="mtgcn studio", favicon=FAVICON)(lambda: Page(workspace))
    app.on_exception(workspace.report)
    app.on_page_exception(lambda error: tag("p", error_line(error), "note"))
    ui.run_with(
        application,
        title="mtgcn studio",
        tailwind=False,
        dark=None,  # as the system prefers
        show_welcome_message=False,
        reconnect_timeout=30,
        binding_refresh_interval=None,
    )
    return application


def _add_upload(application: FastAPI, project: Project) -> None:
    """Stream uploaded files into the project. The guard limits their size."""

    @application.put(UPLOAD_PATH + "{name:path}")
    async def upload(name: str, request: Request) -> Response:
        folder = secrets.token_hex(8)  # two windows may upload files of the same name
        try:
            path = project.files.path(UPLOADS, folder, name)
        except InputError as error:
            return PlainTextResponse(str(error), 400)
        try:
            path.parent.mkdir(parents=True)
            with path.open("xb") as file:
                async for part in request.stream():
                    await asyncio.to_thread(file.write, part)
        except BaseException as error:
            await asyncio.to_thread(shutil.rmtree, path.parent, ignore_errors=True)
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                return PlainTextResponse(f"cannot write the file: {error.strerror}; free some disk space", 507)
            raise
        return JSONResponse({"folder": folder, "name": name})


def _add_downloads(application: FastAPI, workspace: Workspace) -> None:
    """Predictions as a table, the model as a zip file, and the labels."""

    async def download(make: Callable[[], bytes], media_type: str, name: str) -> Response:
        try:
            content = await asyncio.to_thread(make)
        except Exception as error:
            return PlainTextResponse(error_line(error), 409 if isinstance(error, InputError) else 500)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        return Response(content, media_type=media_type, headers=headers)

    def predictions() -> ProjectPredictions:
        if workspace.predictions is None:
            raise InputError("There is no model yet; label nodes of two classes and teach.")
        return workspace.predictions

    @application.get(DOWNLOADS["Predictions"])
    async def predictions_csv() -> Response:
        return await download(lambda: predictions().predictions_csv(), CSV, "predictions.csv")

    @application.get(DOWNLOADS["Model"])
    async def model() -> Response:
        return await download(lambda: predictions().model_archive(), "application/zip", "model.zip")

    @application.get(DOWNLOADS["Labels"])
    async def labels() -> Response:
        files = workspace.project.files
        return await download(lambda: files.read("labels.csv") or b"id,label\n", CSV, "labels.csv")


class Page(View):
    """The content of one browser window."""

    def __init__(self, workspace: Workspace) -> None:
        client = ui.context.client
        super().__init__(Session(workspace, self.notify, lambda: client.tab_id or client.id))
        session = self.session
        self._failures_before = workspace.failures
        ui.add_css(str(colour_variables()))
        Keys(self._press)
        with tag("div", classes="studio"):
            self._draw_bar()
            with tag("main", classes="view"):
                with tag("div", classes="label-view") as label:
                    panes: list[View] = [NodePane(session), MapPane(session), NeighbourhoodPane(session)]
                teaching = TeachingView(session)
                results = ResultsView(session, partial(self.go, "label"))
                data = DataView(session, partial(self.go, "label"))
            self._message = tag("div", "", "message hidden", role="status", aria_live="polite")
        self._views = {"label": label, "teaching": teaching.pane, "results": results.pane, "data": data.pane}
        session.updates = [view.update for view in (self, *panes, teaching, results, data)]
        self.go("label" if workspace.snapshot.is_loaded else "data")
        ui.timer(POLL_SECONDS, session.poll)

    def go(self, view: str) -> None:
        """Show one of the views."""
        for name, element in self._views.items():
            element.show(name == view)
            self._tabs[name].attributes(aria_current="page" if name == view else None)
        self.session.draw()

    def notify(self, text: str, error: bool) -> None:
        """Show a message for some seconds."""

        def hide() -> None:
            if self._message.text == text:
                self._message.show(False)

        self._message.text = text
        self._message.classes(add="bad" if error else "", remove="hidden bad")
        with self._message:
            ui.timer(MESSAGE_SECONDS * (2 if error else 1), hide, once=True)

    def _draw_bar(self) -> None:
        with tag("header", classes="bar"):
            with tag("div", "mtgcn ", "brand"):
                tag("span", "studio")
            with tag("nav", classes="tabs", aria_label="Views"):
                self._tabs: dict[str, Tag] = {
                    name: button(title, partial(self.go, name), data_view=name) for name, title in VIEWS.items()
                }
            with tag("div", classes="state"):
                self._project = tag("span", "", "project soft small")
                self._labels = tag("span", "", "small number", id="labels")
                self._pill = tag("span", "", "pill", role="status", id="pill")

    def update(self) -> None:
        """Redraw the bar if something changed."""
        workspace, snapshot = self.workspace, self.workspace.snapshot
        if self.changed("failure", workspace.failures) and workspace.failures > self._failures_before:
            self.notify(workspace.failure, True)
        if self.changed("colours", len(snapshot.classes)):
            ui.add_css(str(class_variables(max(1, len(snapshot.classes)))))
        text, kind = model_state(workspace)
        if self.changed("bar", snapshot, workspace.error, text, kind):
            self._project.text = snapshot.title
            self._labels.text = plural(len(snapshot.labels), "label") if snapshot.is_loaded else ""
            self._pill.text = text
            self._pill.classes(add=kind, remove="busy ready failed")
            if workspace.error:
                self.notify(workspace.error, True)

    async def _press(self, key: str, node: str) -> None:
        session = self.session
        actions: dict[str, Action] = {"ArrowRight": session.next, "ArrowLeft": session.previous, "u": session.undo}
        actions["s"] = partial(session.skip, node)
        actions |= {name: partial(session.label, node, number) for number, name in enumerate(KEYS)}
        if key in actions:
            await session.act(actions[key])


def model_state(workspace: Workspace) -> tuple[str, str]:
    """The state of the model in a word or two, and its CSS class."""
    progress, snapshot = workspace.progress, workspace.snapshot
    if not snapshot.is_loaded:
        return "No graph yet", ""
    if progress.state == "running":
        share = f" {100 * progress.done / progress.total:.0f} %" if progress.total else ""
        return f"Teaching{share}", "busy"
    if progress.state == "failed":
        return "Teaching failed", "failed"
    if snapshot.new_labels and snapshot.labels:
        return plural(snapshot.new_labels, "new label"), ""
    return ("Up to date", "ready") if workspace.predictions is not None else ("No model yet", "")
