"""The studio's server: one address, one line that tells it, and nothing that answers without the guard."""

from __future__ import annotations

import contextlib
import os
import socket
import warnings
import webbrowser
from collections.abc import Callable
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
    open_browser: bool,
) -> None:
    """Serve until interrupted. `tell` is given the address once, when it can be opened."""
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
    if open_browser:
        webbrowser.open(served.address)
    with contextlib.suppress(KeyboardInterrupt):  # which is how one ends it
        uvicorn.Server(config).run(sockets=[listener])


def keep_package_files_in(folder: Path) -> None:
    """NiceGUI keeps what pages store in a folder where it is started; before it is imported, it can be told another.
    The studio's pages store nothing that way."""
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder)
