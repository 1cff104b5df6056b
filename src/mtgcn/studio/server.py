"""The studio's server: one address, one line that tells it, and nothing that answers without the guard."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
import webbrowser
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from mtgcn.errors import InputError
from mtgcn.studio.safety import Application, Guard, Served, check_host

LARGEST_MESSAGE = 1 << 20  # bytes that a page may send at once through its websocket
SECONDS_TO_CLOSE = 1


def listening(host: str, port: int) -> socket.socket:
    """A socket that is listening already, so that the address can be told before the first request."""
    check_host(host)
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"cannot serve at {host}, port {port}: {why}; give another --host or --port") from error


def serve(
    application: Application,
    listener: socket.socket,
    served: Served,
    *,
    tell: Callable[[str], None],
    largest_upload: int,
    opening: Path | None = None,
) -> None:
    """Serve until interrupted. `tell` is given the address once, when it can be opened. `opening` is where a page may
    lie by which a browser is led there; None to open none."""
    import uvicorn

    config = uvicorn.Config(
        Guard(application, served, largest_upload),
        log_config=None,  # no greeting: the address is told once, and by us
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=LARGEST_MESSAGE,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
    )
    # NiceGUI looks through all objects for its server, and one of torch's complains when it is looked at.
    warnings.filterwarnings("ignore", "`torch.distributed.reduce_op` is deprecated", FutureWarning)
    tell(served.address)
    with contextlib.ExitStack() as stack:
        if opening is not None:
            webbrowser.open(stack.enter_context(leading_to(served.address, opening)).as_uri())
        stack.enter_context(contextlib.suppress(KeyboardInterrupt))  # which is how one ends it
        uvicorn.Server(config).run(sockets=[listener])


@contextlib.contextmanager
def leading_to(address: str, page: Path) -> Iterator[Path]:
    """While this lasts, a page that leads to the address, for its owner's eyes only. A browser is given the page: what
    stands in its command, and so would the token, is seen by everybody on this machine."""
    page.unlink(missing_ok=True)
    with open(os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
    try:
        yield page
    finally:
        page.unlink(missing_ok=True)


def keep_package_files_in(folder: Path) -> None:
    """NiceGUI keeps what pages store in a folder where it is started; before it is imported, it can be told another.
    The studio's pages store nothing that way."""
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder)
