"""`mtgcn studio`: label nodes in the browser."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtgcn.cli.file_options import takes_graph_files
from mtgcn.cli.options import Device, dataset_names
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

REDIRECT_PAGE = "open.html"  # in the project, while it is served


@takes_graph_files()
def studio(
    model: Annotated[
        Path | None,
        typer.Argument(help="Start with graph and labels of a model saved by mtgcn fit.", metavar="[MODEL]"),
    ] = None,
    *,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Start with a built-in dataset, such as digits.", metavar="NAME", autocompletion=dataset_names
        ),
    ] = None,
    files: TableOptions,
    project: Annotated[
        Path, typer.Option(help="Folder of the labels, files and model; nothing is written elsewhere.", metavar="DIR")
    ] = Path("mtgcn-studio"),
    host: Annotated[
        str, typer.Option(help="Address of this machine to serve the page at.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free port.", min=0, max=65535, metavar="N")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", "--no-open", help="Print the address without opening a browser.", metavar="")
    ] = False,
    device: Device = "auto",
) -> None:
    """Label nodes in the browser while a model predicts the rest.

    Prints the address of the page. Its token gives access to the project, so keep it private. An existing project is
    continued.
    """
    from mtgcn.storage.cache import cache_folder
    from mtgcn.studio.server import listen, serve

    named = {"a model": model is not None, f"--dataset {dataset}": dataset is not None, "files": files.given}
    if sum(named.values()) > 1:
        both = " and ".join(name for name, given in named.items() if given)
        raise InputError(f"{both} are different graphs; give one of them")
    if importlib.util.find_spec("nicegui") is None:
        raise InputError("mtgcn studio needs NiceGUI, which is not installed; pip install 'mtgcn[studio]'")
    with listen(host, port) as listener:  # fails before time is spent on loading
        from mtgcn.studio.fitting import FitOptions
        from mtgcn.studio.project import Project
        from mtgcn.studio.storage import MAX_UPLOAD_BYTES
        from mtgcn.studio.worker import CACHE, FitWorker

        opened = Project.open(project)
        os.environ.setdefault("MTGCN_DATA", str(cache_folder()))  # datasets are still found in the user's cache
        os.environ["MTGCN_CACHE"] = os.environ["NICEGUI_STORAGE_PATH"] = str(opened.folder / CACHE)
        from mtgcn.studio.page import studio_application  # imports NiceGUI, which reads the environment

        if model is not None:
            opened.load_model(model)
        if dataset is not None:
            opened.load_dataset(dataset)
        if files.given:
            opened.load_files(files)
        worker = FitWorker(opened, FitOptions(device=device))
        try:
            page = None if no_browser else opened.folder / REDIRECT_PAGE
            serve(studio_application(opened, worker), listener, host, MAX_UPLOAD_BYTES, page)
        finally:
            worker.close()
