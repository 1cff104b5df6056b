"""From the command to the open page: what must be there, the project, the application, the server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mtgcn.errors import InputError
from mtgcn.storage.cache import cache_folder
from mtgcn.studio.safety import Served
from mtgcn.studio.server import keep_package_files_in, listening, serve

if TYPE_CHECKING:
    from fastapi import FastAPI

    from mtgcn.io.options import TableOptions
    from mtgcn.studio.desk import Desk
    from mtgcn.studio.project import Project
    from mtgcn.studio.teaching import Teaching

CACHE = "cache"  # in the project: what is costly to make again
OPENING = "open.html"  # there too, while it is served


def start(
    folder: Path,
    *,
    model: Path | None,
    dataset: str | None,
    files: TableOptions | None,
    host: str,
    port: int,
    open_browser: bool,
    device: str,
) -> None:
    """Open the project, load what was asked for, and serve its page until interrupted."""
    check_installed()
    with listening(host, port) as listener:  # before time is spent on what could not be served
        from mtgcn.studio.project import Project
        from mtgcn.studio.source import MOST_UPLOAD_BYTES
        from mtgcn.studio.teaching import Teaching

        project = Project.open(folder)
        keep_everything_in(project.folder)
        if model is not None:
            project.load_model(model)
        if dataset is not None:
            project.load_dataset(dataset)
        if files is not None:
            project.load_files(files)
        teaching = Teaching(project, device=device)
        try:
            serve(
                application_of(project, teaching),
                listener,
                Served(host, listener.getsockname()[1]),
                tell=lambda address: print(address, flush=True),
                largest_upload=MOST_UPLOAD_BYTES,
                opening=project.folder / OPENING if open_browser else None,
            )
        finally:
            teaching.close()


def check_installed() -> None:
    """Refuse, in one line, where the web package is missing."""
    if importlib.util.find_spec("nicegui") is None:
        raise InputError("mtgcn studio needs NiceGUI, which is not installed; pip install 'mtgcn[studio]'")


def keep_everything_in(folder: Path) -> None:
    """Have what is kept for later kept in the project too. What was fetched before is found where it is."""
    os.environ.setdefault("MTGCN_DATA", str(cache_folder()))
    os.environ["MTGCN_CACHE"] = str(folder / CACHE)
    keep_package_files_in(folder / CACHE)


def application_of(project: Project, teaching: Teaching) -> FastAPI:
    """The whole application, without the guard around it."""
    from fastapi import FastAPI
    from nicegui import ui

    from mtgcn.studio.desk import Desk
    from mtgcn.studio.exports import offer_exports
    from mtgcn.studio.page import offer_page
    from mtgcn.studio.uploads import take_uploads

    desk = Desk(project, teaching)
    application = FastAPI(lifespan=_watching(desk), docs_url=None, redoc_url=None, openapi_url=None)
    take_uploads(application, project)
    offer_exports(application, desk)
    offer_page(desk)
    ui.run_with(
        application,
        title="mtgcn studio",
        tailwind=False,
        dark=None,  # as the system likes it
        show_welcome_message=False,
        reconnect_timeout=30,
        binding_refresh_interval=None,
    )
    return application


def _watching(desk: Desk) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await desk.look()
        watching = asyncio.create_task(desk.watch())
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching

    return lifespan
