"""Serves a fitted model over HTTP: class probabilities of new nodes and explanations of nodes of the fit.

Nothing is stored, so a restarted server returns the same predictions. As in the studio (`Guard`), requests need the
token, and the Host and Origin of the served address.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from time import perf_counter, time
from typing import Annotated, Any

import torch
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from threadpoolctl import threadpool_limits

from mtgcn import __version__
from mtgcn.errors import InputError
from mtgcn.estimator.persistence import load_model
from mtgcn.studio.server import HEADERS, TOKEN, Guard, Served, run

MAX_EDGES = 10_000  # edges of a new node
MAX_FEATURES = 100_000
TOKEN_VARIABLE = "MTGCN_TOKEN"  # variable with a token that outlives the process
SHUTDOWN_SECONDS = 5
THREADS = 2  # threads that compute, so that explanations do not delay predictions; more would wait for Python's lock

Id = Annotated[str, Field(max_length=1000)] | int


class NewNode(BaseModel):
    """A node that is not in the fit."""

    model_config = ConfigDict(extra="forbid")
    features: (
        Annotated[list[float | None], Field(max_length=MAX_FEATURES)]
        | Annotated[dict[str, float | str | bool | None], Field(max_length=MAX_FEATURES)]
    ) = Field(description="A number for each column of the fit, or a value by column name.")
    edges: Annotated[list[Id | tuple[Id, float]], Field(max_length=MAX_EDGES)] | None = Field(
        None, description="Ids of its neighbours, or pairs of an id and a weight. Without it: the nearest nodes."
    )


class KnownNode(BaseModel):
    """A node of the fit."""

    model_config = ConfigDict(extra="forbid")
    node: Id
    versus: str | None = Field(None, description="The class to compare with; by default the second most probable.")


class Answer(BaseModel):
    predicted: str
    probability: float
    probabilities: dict[str, float]


def application(folder: Path) -> FastAPI:
    """The endpoints for the model in a folder."""
    model = load_model(folder)
    scorer = model.scorer()
    torch.set_num_threads(1)  # for a few rows, more threads wait for each other
    threadpool_limits(1)
    names, nodes = [str(name) for name in model.classes_], model.graph_.num_nodes

    @asynccontextmanager
    async def few_threads(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = THREADS
        yield

    app = FastAPI(title="mtgcn", version=__version__, docs_url=None, redoc_url=None, lifespan=few_threads)

    @app.post("/predict")
    def predict(new: NewNode) -> Answer:
        """Class probabilities of a new node."""
        found = scorer(new.features, new.edges).tolist()
        best = max(range(len(found)), key=found.__getitem__)
        return Answer(
            predicted=names[best], probability=found[best], probabilities=dict(zip(names, found, strict=True))
        )

    @app.post("/explain")
    def explain(known: KnownNode) -> dict[str, Any]:
        """Explanation of the class of a node of the fit."""
        return model.explain(known.node, known.versus).to_dict()

    @app.get("/health")
    async def health() -> dict[str, Any]:
        """Whether the server responds, and for which model."""
        return {"status": "ok", "version": __version__, "model": folder.name, "nodes": nodes, "classes": names}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    async def page() -> str:
        """The OpenAPI description as a page without scripts, since nothing is loaded from other hosts."""
        description = app.openapi()
        parts = [
            f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(one.get('description', ''))}</p>"
            for path, methods in description["paths"].items()
            for method, one in methods.items()
        ]
        schemas = escape(json.dumps(description["components"]["schemas"], indent=2))
        link = "<p><a href='/openapi.json'>openapi.json</a></p>"
        return (
            f"<!doctype html><title>mtgcn</title><h1>mtgcn {__version__}</h1>{link}{''.join(parts)}<pre>{schemas}</pre>"
        )

    @app.exception_handler(InputError)
    def refused(_: Request, error: InputError) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 422)

    return app


class ApiGuard(Guard):
    """The studio's guard with a bearer token for programs, or without a token; logs a line of JSON per request."""

    def __init__(self, app: FastAPI, served: Served, *, needs_token: bool) -> None:
        super().__init__(app, served)
        self.needs_token = needs_token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        started, status = perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await super().__call__(scope, receive, noted)
        finally:
            entry = {"time": round(time(), 3), "method": scope["method"], "path": scope["path"], "status": status}
            print(json.dumps(entry | {"ms": round(1000 * (perf_counter() - started), 2)}), file=sys.stderr, flush=True)

    def _response(self, request: HTTPConnection) -> Response | None:
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self.needs_token or secrets.compare_digest(given.encode(), self.served.token.encode()):
            return self.refusal_of_source(request)
        response = super()._response(request)  # token in the address or in a cookie, for browsers
        if response is not None and response.status_code == 401:
            detail = "the token is missing or wrong; send Authorization: Bearer TOKEN, or open the printed address"
            return JSONResponse({"detail": detail}, 401, HEADERS | {"WWW-Authenticate": "Bearer"})
        return response


def serve_model(folder: Path, listener: socket.socket, host: str, *, needs_token: bool) -> None:
    """Print the address and serve until interrupted."""
    app = application(folder)
    token = {TOKEN: os.environ[TOKEN_VARIABLE]} if os.environ.get(TOKEN_VARIABLE) else {}
    served = Served(host, listener.getsockname()[1], **token)
    print(served.address if needs_token else served.origin, flush=True)
    run(ApiGuard(app, served, needs_token=needs_token), listener, SHUTDOWN_SECONDS)
