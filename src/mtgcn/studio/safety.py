"""Who may speak to the studio: whoever was given its address with the token, from that address and from no other.

A page of somebody else's can make a browser send requests here, or have its own name lead to this machine (DNS
rebinding). Such requests carry another Host or Origin and are refused, whatever they ask for: pages, static files and
websockets pass through the one `Guard`.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mtgcn.errors import InputError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

TOKEN = "token"
UPLOAD_PATH = "/upload/"  # under which alone more than an ordinary body is taken
ORDINARY_BODY = 1 << 20  # bytes of any request that is no upload
ONWARD = '<!doctype html><title>mtgcn studio</title><script>location.replace("/")</script>'
EVERYWHERE = ("", "0.0.0.0", "::", "*")
# Nothing is taken from elsewhere, also if a package should try; Vue compiles its templates in the page.
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
    """The one address the studio is served under, and the token that opens it."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def authority(self) -> str:
        """What browsers send as Host."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == 80 else f"{name}:{self.port}"

    @property
    def origin(self) -> str:
        return f"http://{self.authority}"

    @property
    def address(self) -> str:
        """For the one person: with the token."""
        return f"{self.origin}/?{urlencode({TOKEN: self.token})}"

    @property
    def cookie(self) -> str:
        """Browsers keep cookies by host alone, so that two studios need two names."""
        return f"mtgcn-studio-{self.port}"


def check_host(host: str) -> None:
    """Refuse an address under which nobody can be told to come."""
    if host in EVERYWHERE:
        raise InputError(
            f"--host {host} is every address of this machine, and the studio answers to one alone; give the one others "
            "reach it by, or leave --host out and use a tunnel such as ssh -L"
        )


class Guard:
    """Lets through to an application what is asked of the served address with its token."""

    def __init__(self, application: Application, served: Served, largest_upload: int) -> None:
        self.application, self.served, self.largest_upload = application, served, largest_upload

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.application(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if scope["type"] == "websocket":
            if refusal is None:
                await self.application(scope, receive, send)
            else:
                await receive()
                await send({"type": "websocket.close", "code": 1008})  # before it was accepted: a plain 403
            return
        if refusal is not None:
            await _answer(send, *refusal)
        elif _token_typed(scope) is not None:
            await self._welcome(send)
        else:
            await self._pass_on(scope, receive, send)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """Why a request is refused, as status and words."""
        hosts, origins = _headers(scope, b"host"), _headers(scope, b"origin")
        if [host.lower() for host in hosts] != [self.served.authority.lower()]:
            return 403, "This is not the address the studio is served under; open the one it printed."
        if any(origin.lower() != self.served.origin.lower() for origin in origins):
            return 403, "The studio answers to its own page alone."
        given = [_token_typed(scope), *_cookies(scope, self.served.cookie)]
        if not any(one is not None and _same(one, self.served.token) for one in given):
            return 401, "The studio's address ends with a token; open it as it was printed, or start the studio again."
        return None

    async def _welcome(self, send: Send) -> None:
        """Keep the token where no script reads it and no other site sends it, and take it out of the address.

        A page that goes on by itself rather than a redirection, in which browsers would withhold the cookie if it was
        another site whose link led here.
        """
        kept = f"{self.served.cookie}={self.served.token}; HttpOnly; SameSite=Strict; Path=/"
        headers = {"Content-Type": "text/html; charset=utf-8", "Set-Cookie": kept, "Cache-Control": "no-store"}
        await _answer(send, 200, ONWARD, headers)

    async def _pass_on(self, scope: Message, receive: Receive, send: Send) -> None:
        """With every answer's headers set and no more of its body read than is allowed."""
        allowed = self.largest_upload if scope["path"].startswith(UPLOAD_PATH) else ORDINARY_BODY
        announced = _headers(scope, b"content-length")
        if any(not one.isdecimal() or int(one) > allowed for one in announced):
            await _answer(send, 413, f"At most {allowed:,} bytes are taken.")
            return
        read, started = 0, False

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > allowed:
                raise TooLarge
            return message

        async def with_headers(message: Message) -> None:
            nonlocal started
            if read > allowed and not started:
                return  # whatever the application makes of being interrupted, the answer is ours
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message.get("headers", []), *_encoded(HEADERS)]}
            await send(message)

        with suppress(TooLarge):
            await self.application(scope, counted, with_headers)
        if read > allowed and not started:
            await _answer(send, 413, f"At most {allowed:,} bytes are taken.")


class TooLarge(Exception):
    """A body that goes on beyond what is taken."""


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _token_typed(scope: Message) -> str | None:
    return dict(_query(scope)).get(TOKEN)


def _query(scope: Message) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _headers(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _cookies(scope: Message, name: str) -> list[str]:
    values = []
    for header in _headers(scope, b"cookie"):
        for part in header.split(";"):  # one by one: what another program has kept for this host may be no cookie
            try:
                found = SimpleCookie(part.strip()).get(name)
            except CookieError:
                continue
            if found is not None:
                values.append(found.value)
    return values


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    body = text.encode()
    told = {"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body))} | HEADERS | (headers or {})
    await send({"type": "http.response.start", "status": status, "headers": _encoded(told)})
    await send({"type": "http.response.body", "body": body})
