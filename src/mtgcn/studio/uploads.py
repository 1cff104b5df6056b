"""Files that a page brings: streamed into the project, under a name that cannot leave it, and looked into only by the
readers that check everything."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from mtgcn.errors import InputError
from mtgcn.studio.folder import checked_name
from mtgcn.studio.project import Project
from mtgcn.studio.safety import UPLOAD_PATH
from mtgcn.studio.stored_project import UPLOADS

if TYPE_CHECKING:
    from pathlib import Path


def take_uploads(application: FastAPI, project: Project) -> None:
    """Let an application take files for a project. How large they may be is the guard's to say."""

    @application.put(UPLOAD_PATH + "{name:path}")
    async def upload(name: str, request: Request) -> Response:
        try:
            checked_name(name)
            folder = secrets.token_hex(8)  # two windows may bring files of one name
            place = project.files.place(UPLOADS, folder, name)
        except InputError as error:
            return PlainTextResponse(str(error), 400)
        try:
            await _written(request, place)
        except BaseException as error:
            await asyncio.to_thread(shutil.rmtree, place.parent, ignore_errors=True)
            if isinstance(error, OSError) and not isinstance(error, ConnectionError):
                return PlainTextResponse(f"cannot keep the file: {error.strerror}; make room for it", 507)
            raise
        return JSONResponse({"folder": folder, "name": name})


async def _written(request: Request, place: Path) -> None:
    place.parent.mkdir(parents=True)
    with place.open("xb") as file:
        async for part in request.stream():
            await asyncio.to_thread(file.write, part)
