"""The command `mtgcn`. Each command imports what it needs when it runs, so that `--help` stays fast."""

from __future__ import annotations

import errno
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr
from typing import Any

import typer

import mtgcn
from mtgcn.cli import data, experiments, fit
from mtgcn.cli.options import QUIET, flag, remark, with_option_groups, with_signature
from mtgcn.cli.process import collect_rarely, discard_output, flush_output, prepare_streams
from mtgcn.errors import InputError
from mtgcn.memory import is_out_of_memory, keep_freed_blocks, use_few_threads_if_limited

BAD_INPUT = 2  # exit status of every error that the user can fix
INTERRUPTED = 130  # exit status after Ctrl-C, as in shells
MAX_MESSAGE = 1900  # characters of a usage error; typer quotes arguments of any length
# Errors while writing to an open stream. Errors of files are reported where the files are written.
UNWRITABLE = {errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EBADF, getattr(errno, "EDQUOT", errno.ENOSPC)}

COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Your own graph": (fit.fit, fit.predict, fit.explain, fit.suggest, fit.label, fit.doubt, fit.serve, fit.studio),
    "Experiments": (experiments.run, experiments.compare, experiments.demo, data.datasets, data.methods, data.cache),
    "Whole tables": (experiments.reproduce, experiments.arena, experiments.report),
}
EXAMPLES = (
    "mtgcn datasets",
    "mtgcn datasets cora",
    "mtgcn methods",
    "mtgcn methods mt-plus",
    "mtgcn methods mine:Shares",
    "mtgcn cache",
    "mtgcn cache --clear",
    "mtgcn run --dataset cora --labels-per-class 2",
    "mtgcn run --dataset pubmed --labels-per-class 3 --method mt-gcn --set peers=4",
    "mtgcn run --edges e.csv --labels l.csv --labels-per-class 3 --out rows/",
    "mtgcn run --graph graph.npz --split splits.json --method mine:Shares --json",
    "mtgcn compare --dataset citeseer --labels-per-class 3 --methods lp,gcn,mt-plus",
    "mtgcn compare table.csv --target species --labels-per-class 5",
    "mtgcn compare --edges edges.csv --nodes nodes.csv --labels-per-class 3",
    "mtgcn compare --graph data.pt --labels-per-class 5 --latex table.tex",
    "mtgcn compare --dataset cora --split public --report page.html --out rows/",
    "mtgcn compare --dataset digits --labels-per-class 2 --methods gcn,mine:Shares",
    "mtgcn reproduce",
    "mtgcn reproduce --table 2 --methods gcn,mt-gcn --runs 10",
    "mtgcn reproduce --suite world --datasets dblp,chameleon",
    "mtgcn reproduce --suite world --ray head:6379",
    "mtgcn arena --out arena/",
    "mtgcn arena --graphs cora --methods lp,mine:Shares --labels 1,5 --out rows/",
    "mtgcn arena --check theirs/ --methods mine:Shares",
    "mtgcn report model/",
    "mtgcn report model/ --out page.html",
    "mtgcn report reproduction/",
    "mtgcn demo",
    "mtgcn fit customers.csv --target segment --out model/",
    "mtgcn fit --edges edges.csv --labels labels.csv --out model/",
    "mtgcn fit --edges e.csv --nodes n.csv --column label=topic --out model/",
    "mtgcn fit table.csv --knn 5 --column id=none --out model/ --report page.html",
    "mtgcn predict model/ --out predictions.csv",
    "mtgcn predict model/ new.csv --out predictions.csv",
    "mtgcn explain model/ 17",
    "mtgcn explain model/ 17 --versus politician --json",
    "mtgcn suggest model/",
    "mtgcn suggest model/ --count 3 --json",
    "mtgcn suggest model/ --out to-label.csv",
    "mtgcn label model/ to-label.csv",
    "mtgcn doubt model/",
    "mtgcn doubt model/ --count 20 --out to-correct.csv",
    "mtgcn serve model/ --port 8000",
    "mtgcn serve model/ --no-token",
    "mtgcn studio",
    "mtgcn studio table.csv",
    "mtgcn studio --dataset digits --project digits/",
    "mtgcn studio --edges edges.csv --nodes nodes.csv --port 8080 --no-browser",
)

app = typer.Typer(
    name="mtgcn",
    help="Classify the rows of a table or the nodes of a graph from a handful of labels.",
    epilog="mtgcn COMMAND -h shows the options of a command, with examples.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit status: 0, or 2 after one line about bad input. Other errors are raised."""
    if arguments is None:  # this process runs one command
        collect_rarely()
        use_few_threads_if_limited()
    keep_freed_blocks()
    prepare_streams()
    typed = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # The context's object is the command line, which pages of results quote.
        status = app(args=typed, prog_name="mtgcn", standalone_mode=False, obj=shlex.join(["mtgcn", *typed]))
        flush_output()
    except SystemExit as ended:  # by which typer answers a closed pipe
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        discard_output()
        return 0
    except typer.TyperException as error:
        return _complain(error.format_message()[:MAX_MESSAGE])
    except InputError as error:
        return _complain(str(error))
    except Exception as error:
        if is_out_of_memory(error):
            _complain("out of memory; raise the limit of this process (ulimit -v), or free some memory")
            if arguments is None:
                os._exit(BAD_INPUT)  # a partly loaded library may crash at exit
            return BAD_INPUT
        if not isinstance(error, OSError):
            raise
        return _complain(_system_error(error))
    if status == INTERRUPTED:
        remark("interrupted")
    return status or 0


def _system_error(error: OSError) -> str:
    """The message for an error with a path, or while writing to standard output. Other errors are raised again."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; check path and permissions"
    if error.errno not in UNWRITABLE:
        raise error
    discard_output()
    return f"cannot write to standard output: {error.strerror}; free some space, or redirect it"


def _complain(message: str) -> int:
    remark(f"error: {message}")
    return BAD_INPUT


@app.callback(invoke_without_command=True)
def _root(context: typer.Context, version: bool = flag("Print the version and exit.", "--version")) -> None:
    if version:
        print(f"mtgcn {mtgcn.__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def with_quiet(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option --quiet to a command."""

    def run(*, quiet: bool, **given: Any) -> None:
        QUIET.set(quiet)
        with open(os.devnull, "w", encoding="utf-8") as null, redirect_stderr(null) if quiet else nullcontext():
            command(**given)

    quiet_option = flag("No progress, no notes, no summary of written files.", "--quiet", "-q")
    added = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=quiet_option, annotation=bool)
    return with_signature(run, command, [*inspect.signature(command).parameters.values(), added])


for panel, commands in COMMANDS.items():
    for command in commands:
        # One line per paragraph, so that the terminal wraps it.
        paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(command.__doc__ or "").split("\n\n")]
        examples = [line for line in EXAMPLES if line.split()[1] == command.__name__]
        app.command(rich_help_panel=panel, help="\n\n".join(paragraphs), epilog="\n  ".join(["Examples:", *examples]))(
            with_quiet(with_option_groups(command))
        )
