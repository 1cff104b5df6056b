"""The web application: the page, uploads into the project, and downloads."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from nicegui import ui

from mtgcn.errors import InputError
from mtgcn.studio.guard import UPLOAD_PATH
from mtgcn.studio.model_view import DOWNLOADS
from mtgcn.studio.page import add_page
from mtgcn.studio.predictions import ProjectPredictions
from mtgcn.studio.project import UPLOADS, Project
from mtgcn.studio.worker import FitWorker
from mtgcn.studio.workspace import Workspace, error_line

CSV = "text/csv; charset=utf-8"


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
    add_page(workspace)
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

    @application.get(DOWNLOADS["Predictions"])
    async def predictions() -> Response:
        return await _prediction_file(workspace, ProjectPredictions.predictions_csv, CSV, "predictions.csv")

    @application.get(DOWNLOADS["Model"])
    async def model() -> Response:
        return await _prediction_file(workspace, ProjectPredictions.model_archive, "application/zip", "model.zip")

    @application.get(DOWNLOADS["Labels"])
    async def labels() -> Response:
        path = workspace.project.labels_path
        content = await asyncio.to_thread(lambda: path.read_bytes() if path.is_file() else b"id,label\n")
        return _download(content, CSV, "labels.csv")


async def _prediction_file(
    workspace: Workspace, make: Callable[[ProjectPredictions], bytes], media_type: str, name: str
) -> Response:
    predictions = workspace.predictions
    if predictions is None:
        return PlainTextResponse("There is no model yet; label nodes of two classes and teach.", 404)
    try:
        content = await asyncio.to_thread(make, predictions)
    except Exception as error:
        return PlainTextResponse(error_line(error), 409 if isinstance(error, InputError) else 500)
    return _download(content, media_type, name)


def _download(content: bytes, media_type: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=media_type, headers=headers)
