"""Serves the application at an address with a token, until interrupted."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import warnings
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from starlette.types import ASGIApp

from mtgcn.errors import InputError
from mtgcn.storage.files import read_plain
from mtgcn.studio.guard import Guard, Served

ANY_ADDRESS = ("", "0.0.0.0", "::", "*")  # hosts that browsers never send as Host
MAX_MESSAGE_BYTES = 1 << 20  # size limit of a websocket message
SHUTDOWN_SECONDS = 1
SESSION = ".session"  # file with the port and the key of the cookie


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


def serve(
    application: ASGIApp,
    listener: socket.socket,
    host: str,
    folder: Path,
    max_upload_bytes: int,
    picture_origins: Callable[[], Sequence[str]],
    *,
    browser: bool,
) -> None:
    """Print the address and serve a project folder until interrupted."""
    served = Served(host, listener.getsockname()[1], key=last_start(folder)[1])
    write_private(folder / SESSION, f"{served.port} {served.key}")
    # NiceGUI searches all objects for its server, and one of torch's warns when it is inspected.
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
    with contextlib.ExitStack() as stack:
        if browser:
            webbrowser.open(stack.enter_context(redirect_page(served.address, folder / "open.html")).as_uri())
        guard = Guard(application, served, max_upload_bytes, picture_origins)
        run(guard, listener, served.address, SHUTDOWN_SECONDS)


def run(guard: Guard, listener: socket.socket, address: str, shutdown_seconds: int) -> None:
    """Print the address and serve until interrupted."""
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
    print(address, flush=True)
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
