"""Serves the application at an address with a token, until interrupted."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
import webbrowser
from collections.abc import Iterator
from html import escape
from pathlib import Path

from starlette.types import ASGIApp

from mtgcn.errors import InputError
from mtgcn.studio.guard import Guard, Served

ANY_ADDRESS = ("", "0.0.0.0", "::", "*")  # no Host that a browser sends
MAX_MESSAGE_BYTES = 1 << 20  # of a websocket message
SHUTDOWN_SECONDS = 1


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that the address is known before the server starts."""
    if host in ANY_ADDRESS:
        raise InputError(
            f"--host {host} is every address of this machine, and the studio is served under one; give the "
            "address that others use, or omit --host and use a tunnel such as ssh -L"
        )
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(f"cannot serve at {host}, port {port}: {cause}; give another --host or --port") from error


def serve(application: ASGIApp, listener: socket.socket, host: str, max_upload_bytes: int, page: Path | None) -> None:
    """Print the address and serve until interrupted. `page` is where the redirect page for the browser is written; None
    opens no browser."""
    import uvicorn

    served = Served(host, listener.getsockname()[1])
    config = uvicorn.Config(
        Guard(application, served, max_upload_bytes),
        log_config=None,  # the address is the only output
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=MAX_MESSAGE_BYTES,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    # NiceGUI searches all objects for its server, and one of torch's warns when it is inspected.
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
    print(served.address, flush=True)
    with contextlib.ExitStack() as stack:
        if page is not None:
            webbrowser.open(stack.enter_context(redirect_page(served.address, page)).as_uri())
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))
        uvicorn.Server(config).run(sockets=[listener])


@contextlib.contextmanager
def redirect_page(address: str, page: Path) -> Iterator[Path]:
    """A page, readable by its owner only, that redirects to the address. The browser opens the page, because every user
    of the machine can see the arguments of a command, and so would see the token."""
    page.unlink(missing_ok=True)
    with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
    try:
        yield page
    finally:
        page.unlink(missing_ok=True)
