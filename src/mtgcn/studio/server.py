"""From the command to the served page: opens the project, loads the graph, and serves the application."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import warnings
import webbrowser
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from mtgcn.errors import InputError
from mtgcn.storage.cache import cache_folder
from mtgcn.studio.guard import Application, Guard, Served, check_host

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

CACHE = "cache"  # folder in the project
REDIRECT_PAGE = "open.html"  # in the project, while it is served
MAX_MESSAGE_BYTES = 1 << 20  # of a websocket message
SHUTDOWN_SECONDS = 1


def start(
    folder: Path,
    *,
    model: Path | None,
    dataset: str | None,
    files: TableOptions | None,
    host: str,
    port: int,
    open_browser: bool,
    device: str,
) -> None:
    """Open the project, load the given graph, and serve the page until interrupted."""
    if importlib.util.find_spec("nicegui") is None:
        raise InputError("mtgcn studio needs NiceGUI, which is not installed; pip install 'mtgcn[studio]'")
    with listen(host, port) as listener:  # fails before time is spent on loading
        from mtgcn.studio.fitting import FitOptions
        from mtgcn.studio.project import Project
        from mtgcn.studio.source import MAX_UPLOAD_BYTES
        from mtgcn.studio.worker import FitWorker

        project = Project.open(folder)
        _keep_caches_in(project.folder / CACHE)
        from mtgcn.studio.application import studio_application  # imports NiceGUI, which reads the environment

        if model is not None:
            project.load_model(model)
        if dataset is not None:
            project.load_dataset(dataset)
        if files is not None:
            project.load_files(files)
        worker = FitWorker(project, FitOptions(device=device))
        try:
            serve(
                studio_application(project, worker),
                listener,
                Served(host, listener.getsockname()[1]),
                max_upload_bytes=MAX_UPLOAD_BYTES,
                page=project.folder / REDIRECT_PAGE if open_browser else None,
            )
        finally:
            worker.close()


def _keep_caches_in(folder: Path) -> None:
    """Write caches into the project. Datasets are still found in the user's cache."""
    os.environ.setdefault("MTGCN_DATA", str(cache_folder()))
    os.environ["MTGCN_CACHE"] = str(folder)
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder)  # read when NiceGUI is imported


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, so that the address is known before the server starts."""
    check_host(host)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, UnicodeError, OverflowError) as error:
        cause = getattr(error, "strerror", None) or error
        raise InputError(f"cannot serve at {host}, port {port}: {cause}; give another --host or --port") from error


def serve(
    guarded: Application, listener: socket.socket, served: Served, *, max_upload_bytes: int, page: Path | None = None
) -> None:
    """Print the address and serve until interrupted. `page` is where the redirect page for the browser is written; None
    opens no browser."""
    import uvicorn

    config = uvicorn.Config(
        Guard(guarded, served, max_upload_bytes),
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
