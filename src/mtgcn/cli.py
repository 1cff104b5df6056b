"""The command `mtgcn`: arguments only. Each command imports what it needs, so that `--help` stays fast."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import mtgcn
from mtgcn.commands import data, experiments, own_graph, reproduction
from mtgcn.errors import InputError
from mtgcn.training.freed_blocks import keep_freed_blocks

BAD_INPUT = 2  # the exit status of everything a person can mend
INTERRUPTED = 130  # as shells count it

app = typer.Typer(
    name="mtgcn",
    help="Classify the nodes of a graph from a handful of labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 2 after one line about bad input. Anything else is a traceback."""
    keep_freed_blocks()
    try:
        status = app(args=arguments, prog_name="mtgcn", standalone_mode=False)
    except typer.TyperException as error:
        return _complain(error.format_message())
    except InputError as error:
        return _complain(str(error))
    if status == INTERRUPTED:
        print("mtgcn: interrupted", file=sys.stderr)
    return status or 0


def _complain(message: str) -> int:
    print("mtgcn: error:", " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"mtgcn {mtgcn.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


for command in (
    data.datasets,
    data.methods,
    experiments.run,
    experiments.compare,
    reproduction.reproduce,
    reproduction.report,
    reproduction.convert,
    experiments.demo,
    own_graph.fit,
    own_graph.predict,
    own_graph.suggest,
    own_graph.label,
):
    app.command()(command)
