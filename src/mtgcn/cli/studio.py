"""`mtgcn studio`: the page on which a person labels nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtgcn.cli.file_options import takes_graph_files
from mtgcn.cli.options import Device, dataset_names
from mtgcn.errors import InputError

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions


@takes_graph_files()
def studio(
    model: Annotated[
        Path | None,
        typer.Argument(help="Begin with the graph and the labels of a model that mtgcn fit wrote.", metavar="[MODEL]"),
    ] = None,
    *,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="Begin with a graph that has a name, such as digits.", metavar="NAME", autocompletion=dataset_names
        ),
    ] = None,
    files: TableOptions,
    project: Annotated[
        Path, typer.Option(help="Folder of labels, files and model; nothing is written elsewhere.", metavar="DIR")
    ] = Path("mtgcn-studio"),
    host: Annotated[
        str, typer.Option(help="Address of this machine under which the page is served.", metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: one that is free.", min=0, max=65535, metavar="N")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", "--no-open", help="Print the address and open nothing.", metavar="")
    ] = False,
    device: Device = "auto",
) -> None:
    """Label a few nodes in the browser and watch the rest follow.

    The address that is printed opens the page; its token is needed, and whoever has it can label. A project that is
    there already goes on where it was.
    """
    from mtgcn.studio.starting import start

    named = {"a model": model is not None, f"--dataset {dataset}": dataset is not None, "files": files.given}
    if sum(named.values()) > 1:
        both = " and ".join(name for name, given in named.items() if given)
        raise InputError(f"{both} are different graphs; give one of them")
    start(
        project,
        model=model,
        dataset=dataset,
        files=files if files.given else None,
        host=host,
        port=port,
        open_browser=not no_browser,
        device=device,
    )
