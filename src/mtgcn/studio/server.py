"""Serves an application at an address with a token, until interrupted.

All pages, static files and websockets pass through `Guard`: requests need the token, and the Host and Origin of the
served address. A foreign page can make a browser send requests to this machine, or point its own domain name at it (DNS
rebinding). Such requests have another Host or Origin and are refused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketClose

from mtgcn.errors import InputError
from mtgcn.storage.files import read_plain

if TYPE_CHECKING:
    from mtgcn.studio.project import Project

ANY_ADDRESS = ("", "0.0.0.0", "::", "*")  # hosts that browsers never send as Host
MAX_MESSAGE_BYTES = 1 << 20  # size limit of a websocket message
SHUTDOWN_SECONDS = 1
SESSION = ".session"  # file with the port and the key of the cookie
TOKEN = "token"
UPLOAD_PATH = "/_nicegui/client/"  # the only path that accepts large bodies
MAX_BODY_BYTES = 1 << 20  # size limit of requests other than uploads
REDIRECT = '<!doctype html><title>mtgcn studio</title><script>location.replace("/")</script>'
# Nothing is loaded from other hosts, even if a package tries. Vue compiles templates in the page (unsafe-eval).
CONTENT_POLICY = "Content-Security-Policy"
HEADERS = {
    CONTENT_POLICY: "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def listen(host: str, port: int, last_port: int = 0) -> socket.socket:
    """A listening socket, so that the address is known before the server starts. Without a port, the last port is used
    if it is free."""
    if host in ANY_ADDRESS:
        raise InputError(
            f"--host {host} stands for every address of this machine; give the one address that others use, "
            "or omit --host and use a tunnel such as ssh -L"
        )
    if last_port and not port:
        with contextlib.suppress(InputError):
            return listen(host, last_port)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(f"cannot serve at {host}, port {port}: {cause}; give another --host or --port") from error


def last_start(folder: Path) -> tuple[int, str]:
    """The port of the last start in a project folder (0 if none), and the key of its cookie or a new key."""
    try:
        port, key = read_plain(folder / SESSION).decode().split()
        return int(port), key
    except (OSError, ValueError):
        return 0, secrets.token_urlsafe(24)


def serve(application: ASGIApp, listener: socket.socket, host: str, project: Project, *, browser: bool) -> None:
    """Print the address and serve a project until interrupted."""
    from mtgcn.studio.storage import MAX_UPLOAD_BYTES

    def picture_origins() -> Sequence[str]:
        return () if project.state.source is None else project.loaded.picture_origins

    served = Served(host, listener.getsockname()[1], key=last_start(project.folder)[1])
    write_private(project.folder / SESSION, f"{served.port} {served.key}")
    print(served.address, flush=True)
    # NiceGUI searches all objects for its server, and one of torch's warns when it is inspected.
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
    with contextlib.ExitStack() as stack:
        if browser:
            page = stack.enter_context(redirect_page(served.address, project.folder / "open.html"))
            webbrowser.open(page.as_uri())
        run(Guard(application, served, MAX_UPLOAD_BYTES, picture_origins), listener, SHUTDOWN_SECONDS)


def run(guard: Guard, listener: socket.socket, shutdown_seconds: int) -> None:
    """Serve until interrupted."""
    import uvicorn

    config = uvicorn.Config(
        guard,
        log_config=None,  # the address is the only output
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=shutdown_seconds,
    )
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])


@contextlib.contextmanager
def redirect_page(address: str, page: Path) -> Iterator[Path]:
    """Create a page, readable by its owner only, that redirects to the address. The browser opens this page, because
    every user of the machine can see the arguments of a command, which would include the token."""
    write_private(page, f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
    try:
        yield page
    finally:
        page.unlink(missing_ok=True)


def write_private(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


@dataclass(frozen=True)
class Served:
    """The address of the studio and its token."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    key: str = ""  # value of the cookie; kept across starts, so that open pages reconnect

    @property
    def authority(self) -> str:
        """Host and port, as in the Host header of browsers."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == 80 else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.authority}"

    @property
    def address(self) -> str:
        """The address with the token."""
        return f"{self.origin}/?{urlencode({TOKEN: self.token})}"

    @property
    def cookie(self) -> str:
        """The name of the cookie. Browsers keep cookies per host, not per port, so each studio needs its own name."""
        return f"mtgcn-studio-{self.port}"


class Guard:
    """Forwards requests to an application if host, origin and token are right."""

    def __init__(
        self,
        application: ASGIApp,
        served: Served,
        max_upload_bytes: int = 0,
        picture_origins: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self.application, self.served, self.max_upload_bytes = application, served, max_upload_bytes
        self.picture_origins = picture_origins  # the page may load pictures from these servers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        response = self._response(HTTPConnection(scope))
        if scope["type"] == "websocket":
            # A websocket that is closed before it is accepted gets status 403.
            await (self.application if response is None else WebSocketClose(1008))(scope, receive, send)
        elif response is not None:
            await response(scope, receive, send)
        else:
            await self._forward(scope, receive, send)

    def refusal_of_source(self, request: HTTPConnection) -> Response | None:
        """The refusal of a request with another Host or Origin."""
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        if [host.lower() for host in hosts] != [self.served.authority.lower()]:
            return _refusal(403, f"The Host is not {self.served.authority}; open the address that was printed.")
        if any(origin.lower() != self.served.origin.lower() for origin in origins):
            return _refusal(403, "Requests of other pages are refused.")
        return None

    def _response(self, request: HTTPConnection) -> Response | None:
        """The response to a request that is not forwarded: a refusal, or the token as a cookie."""
        if (refusal := self.refusal_of_source(request)) is not None:
            return refusal
        cookie = request.cookies.get(self.served.cookie, "")
        given = [(one, self.served.token) for one in (*request.query_params.getlist(TOKEN), cookie)]
        given += [(cookie, self.served.key)] if self.served.key else []
        if not any(secrets.compare_digest(one.encode(), wanted.encode()) for one, wanted in given):
            return _refusal(401, "The address ends with a token; open it as it was printed, or start the server again.")
        if TOKEN not in request.query_params or request.scope["type"] == "websocket":
            return None
        # Move the token from the address into a cookie that no script reads and no other site sends. The response is a
        # page that reloads, not a redirect: after a link on another site, browsers would not send the cookie with a
        # redirect.
        cookie = f"{self.served.cookie}={self.served.key or self.served.token}; HttpOnly; SameSite=Strict; Path=/"
        return HTMLResponse(REDIRECT, headers=HEADERS | {"Set-Cookie": cookie, "Cache-Control": "no-store"})

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Limit the size of the body and add the security headers to the response."""
        allowed = self.max_upload_bytes if scope["path"].startswith(UPLOAD_PATH) else MAX_BODY_BYTES
        too_large = _refusal(413, f"At most {allowed:,} bytes are accepted.")
        announced = HTTPConnection(scope).headers.getlist("content-length")
        if any(not one.isdecimal() or int(one) > allowed for one in announced):
            await too_large(scope, receive, send)
            return
        read, started = 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > allowed:
                raise BodyTooLarge
            return message

        async def with_headers(message: Message) -> None:
            nonlocal started
            if read > allowed and not started:
                return  # the response to an interrupted request is sent below
            if message["type"] == "http.response.start":
                started = True
                headers = HEADERS
                if scope["path"] == "/" and (origins := self.picture_origins()):
                    policy = HEADERS[CONTENT_POLICY].replace("data: blob:", f"data: blob: {' '.join(origins)}")
                    headers = HEADERS | {CONTENT_POLICY: policy}
                own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
                message = {**message, "headers": [*message.get("headers", []), *own]}
            await send(message)

        with contextlib.suppress(BodyTooLarge):
            await self.application(scope, counted, with_headers)
        if read > allowed and not started:
            await too_large(scope, receive, send)


class BodyTooLarge(Exception):
    """A body larger than allowed."""


def _refusal(status: int, text: str) -> Response:
    return PlainTextResponse(text, status, HEADERS)
