"""The command `mtgcn`: arguments only. Each command imports what it needs, so that `--help` stays fast."""

from __future__ import annotations

import errno
import inspect
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

import mtgcn
from mtgcn.cli import data, experiments, own_graph, reproduction, studio
from mtgcn.cli.collecting import collect_seldom
from mtgcn.cli.examples import epilogue
from mtgcn.cli.streams import discard_output, flushed_output, prepare_streams
from mtgcn.errors import InputError
from mtgcn.memory import keep_freed_blocks

BAD_INPUT = 2  # the exit status of everything a person can mend
INTERRUPTED = 130  # as shells count it
# What a system answers to writing into an open file; files of ours are told of where they are written.
UNWRITABLE = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC)}

app = typer.Typer(
    name="mtgcn",
    help="Classify the nodes of a graph from a handful of labels.",
    epilog="mtgcn COMMAND -h tells what a command takes, with examples.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 2 after one line about bad input. Anything else is a traceback."""
    if arguments is None:  # so this process is the command
        collect_seldom()
    keep_freed_blocks()
    prepare_streams()
    typed = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # What was typed is the context's object, for pages that say how they were made.
        status = app(args=typed, prog_name="mtgcn", standalone_mode=False, obj=shlex.join(["mtgcn", *typed]))
    except typer.TyperException as error:
        return _complain(error.format_message())
    except InputError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(_system_complaint(error))
    if (refused := flushed_output()) is not None:
        return _complain(_system_complaint(refused))
    if status == INTERRUPTED:
        print("mtgcn: interrupted", file=sys.stderr)
    return status or 0


def _system_complaint(error: OSError) -> str:
    """What the system says against a path or, where there is none, against what was printed; all else is a fault."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; check path and permissions"
    if error.errno not in UNWRITABLE:
        raise error
    discard_output()
    return f"cannot write to standard output: {error.strerror}; make room there, or send it elsewhere"


def _complain(message: str) -> int:
    print("mtgcn: error:", " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.", metavar="")] = False,
) -> None:
    if version:
        print(f"mtgcn {mtgcn.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def paragraphs(command: Callable[..., None]) -> str:
    """What a command says of itself, to be wrapped by whoever shows it and not where the source is."""
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(command.__doc__ or "").split("\n\n"))


COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Your own graph": (own_graph.fit, own_graph.predict, own_graph.suggest, own_graph.label, studio.studio),
    "Experiments": (experiments.run, experiments.compare, experiments.demo, data.datasets, data.methods),
    "The paper's tables": (reproduction.reproduce, reproduction.report),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel, help=paragraphs(command), epilog=epilogue(command.__name__))(command)
