"""Access control: requests need the token, and the Host and Origin of the served address.

A foreign page can make a browser send requests to this machine, or point its own name at it (DNS rebinding). Such
requests carry another Host or Origin and are refused. All pages, static files and websockets pass through `Guard`.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN = "token"
UPLOAD_PATH = "/upload/"  # only here are large bodies accepted
MAX_BODY_BYTES = 1 << 20  # of any request that is no upload
REDIRECT = '<!doctype html><title>mtgcn studio</title><script>location.replace("/")</script>'
# Nothing is loaded from other hosts, even if a package tries to. Vue compiles templates in the page (unsafe-eval).
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True)
class Served:
    """The address of the studio and its token."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def authority(self) -> str:
        """The Host header that browsers send."""
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
        """Browsers keep cookies per host, not per port, so that each studio needs its own name."""
        return f"mtgcn-studio-{self.port}"


class Guard:
    """Forwards requests to an application if host, origin and token are right."""

    def __init__(self, application: Application, served: Served, max_upload_bytes: int) -> None:
        self.application, self.served, self.max_upload_bytes = application, served, max_upload_bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        refusal = None if scope["type"] == "lifespan" else self._refusal(scope)
        if scope["type"] != "http":
            if refusal is None:
                await self.application(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})  # before acceptance this is a plain 403
        elif refusal is not None:
            await _respond(send, *refusal)
        elif _query_token(scope):
            # Move the token from the address into a cookie that no script reads and no other site sends. The response
            # is a page that reloads, not a redirect: after a link on another site, browsers would not send the cookie
            # with a redirect.
            cookie = f"{self.served.cookie}={self.served.token}; HttpOnly; SameSite=Strict; Path=/"
            headers = {"Content-Type": "text/html; charset=utf-8", "Set-Cookie": cookie, "Cache-Control": "no-store"}
            await _respond(send, 200, REDIRECT, headers)
        else:
            await self._forward(scope, receive, send)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """Status and reason of a refusal; None for a valid request."""
        hosts, origins = _headers(scope, b"host"), _headers(scope, b"origin")
        if [host.lower() for host in hosts] != [self.served.authority.lower()]:
            return 403, "This is not the address the studio is served under; open the one it printed."
        if any(origin.lower() != self.served.origin.lower() for origin in origins):
            return 403, "The studio accepts requests of its own page only."
        tokens = [*_query_token(scope), *_cookies(scope, self.served.cookie)]
        if not any(secrets.compare_digest(one.encode(), self.served.token.encode()) for one in tokens):
            return 401, "The studio's address ends with a token; open it as it was printed, or start the studio again."
        return None

    async def _forward(self, scope: Message, receive: Receive, send: Send) -> None:
        """Limit the size of the body and add the security headers to the response."""
        allowed = self.max_upload_bytes if scope["path"].startswith(UPLOAD_PATH) else MAX_BODY_BYTES
        announced = _headers(scope, b"content-length")
        if any(not one.isdecimal() or int(one) > allowed for one in announced):
            await _respond(send, 413, f"At most {allowed:,} bytes are accepted.")
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
                message = {**message, "headers": [*message.get("headers", []), *_encoded(HEADERS)]}
            await send(message)

        with suppress(BodyTooLarge):
            await self.application(scope, counted, with_headers)
        if read > allowed and not started:
            await _respond(send, 413, f"At most {allowed:,} bytes are accepted.")


class BodyTooLarge(Exception):
    """A body larger than allowed."""


def _query_token(scope: Message) -> list[str]:
    """The last token in the address, if there is one."""
    query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
    return [value for name, value in query if name == TOKEN][-1:]


def _headers(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _cookies(scope: Message, name: str) -> list[str]:
    values = []
    for header in _headers(scope, b"cookie"):
        for part in header.split(";"):  # one by one: other programs on this host may have set malformed cookies
            with suppress(CookieError):
                values += [cookie.value for key, cookie in SimpleCookie(part.strip()).items() if key == name]
    return values


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _respond(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = text.encode()
    sent = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))} | HEADERS | (headers or {})
    await send({"type": "http.response.start", "status": status, "headers": _encoded(sent)})
    await send({"type": "http.response.body", "body": body})
