"""What can be taken away: the predictions as a table, the model as a folder in a zip file, the labels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import FastAPI, Response
from fastapi.responses import PlainTextResponse

from mtgcn.errors import InputError
from mtgcn.studio.answers import ProjectAnswers
from mtgcn.studio.desk import Desk

PREDICTIONS, MODEL, LABELS = "/export/predictions.csv", "/export/model.zip", "/export/labels.csv"
NO_MODEL = "There is no model yet; label nodes of two classes and teach."


def offer_exports(application: FastAPI, desk: Desk) -> None:
    """Let an application hand out what the desk has."""

    @application.get(PREDICTIONS)
    async def predictions() -> Response:
        return await _of_answers(desk, ProjectAnswers.predictions_csv, "text/csv; charset=utf-8", "predictions.csv")

    @application.get(MODEL)
    async def model() -> Response:
        return await _of_answers(desk, ProjectAnswers.model_archive, "application/zip", "model.zip")

    @application.get(LABELS)
    async def labels() -> Response:
        path = desk.project.labels_path
        content = await asyncio.to_thread(lambda: path.read_bytes() if path.is_file() else b"id,label\n")
        return _file(content, "text/csv; charset=utf-8", "labels.csv")


async def _of_answers(desk: Desk, make: Callable[[ProjectAnswers], bytes], kind: str, name: str) -> Response:
    answers = desk.answers
    if answers is None:
        return PlainTextResponse(NO_MODEL, 404)
    try:
        content = await asyncio.to_thread(make, answers)
    except InputError as error:
        return PlainTextResponse(str(error), 409)
    return _file(content, kind, name)


def _file(content: bytes, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=kind, headers=headers)
