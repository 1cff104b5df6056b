"""`shard` and `fit` for graphs that outgrow one machine: arguments only, and how a job of many ranks ends."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mtgcn.cli.file_options import takes_graph_files
from mtgcn.cli.options import AsJson, Columns, Device, Header, Seed, Settings, print_json, remark
from mtgcn.errors import InputError, unknown_name
from mtgcn.io.options import TableOptions

if TYPE_CHECKING:
    from mtgcn.distributed.ranks import Ranks

BAD_INPUT = 2  # the exit status of everything a person can mend
LOST, STOPPED = 1, 143

app = typer.Typer(
    name="python -m mtgcn.distributed",
    help="Graphs that outgrow one machine: cut into parts, and fitted by many processes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class Stopped(Exception):
    """This process was told to end: torchrun does so when another one has failed."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number  # of the signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status is 0, or 2 after one line about bad input."""
    try:
        return app(args=arguments, prog_name="python -m mtgcn.distributed", standalone_mode=False) or 0
    except typer.TyperException as error:
        return _complain(error.format_message())
    except InputError as error:
        return _complain(str(error))


def _complain(message: str, status: int = BAD_INPUT) -> int:
    if os.environ.get("RANK", "0") == "0":
        _print(message)
    return status


def _print(message: str) -> None:
    print("mtgcn: error:", " ".join(message.split()), file=sys.stderr, flush=True)


@app.command()
@takes_graph_files("edges", "nodes", "columns", "features", "exclude", "unknown_nodes", "header")
def shard(
    *,
    files: TableOptions,
    parts: Annotated[int, typer.Option(help="How many parts; as many ranks may share them.", metavar="N")],
    out: Annotated[Path, typer.Option(help="Folder for the parts; older ones there are replaced.", metavar="SHARDS")],
    as_json: AsJson = False,
) -> None:
    """Cut a graph into parts, piece by piece: it never has to fit into memory."""
    from mtgcn.distributed.sharding import cut
    from mtgcn.workflows.output import collected_notes

    if files.edges is None or files.nodes is None:
        raise InputError("shards are cut of an edge list and a node table; give --edges and --nodes")
    options = _checked(files)
    with collected_notes() as notes:
        summary = cut(Path(files.edges), Path(files.nodes), out, parts, options)
    if as_json:
        print_json({**asdict(summary), "notes": notes})
        return
    for note in notes:
        remark(f"note: {note}")
    print(f"{summary.nodes} nodes, {summary.edges} edges and {summary.features} features in {summary.parts} parts")
    print(*summary.columns, sep="\n")
    print(f"order: {summary.order}; {summary.boundary:.1%} of the edges lead from one part to another")
    print(summary.shards)


@app.command()
def fit(
    shards: Annotated[Path, typer.Argument(help="Where `shard` put the parts.", metavar="SHARDS")],
    labels: Annotated[Path, typer.Option(help="Labels of some nodes: id and class. CSV or Parquet.", metavar="FILE")],
    out: Annotated[Path, typer.Option(help="Folder for the results; older ones there are replaced.", metavar="DIR")],
    method: Annotated[
        str | None, typer.Option(help="What to fit.", show_default="mt-plus", metavar="mt-plus|mt-gcn")
    ] = None,
    settings: Settings = None,
    seed: Seed = 0,
    columns: Columns = None,
    unknown_nodes: Annotated[
        str, typer.Option(help="Labels of ids that no node has: refuse or drop them.", metavar="error|drop")
    ] = "error",
    header: Header = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Folder, reached by all ranks, to keep the state of training in.", metavar="DIR")
    ] = None,
    every: Annotated[int, typer.Option(help="Epochs between two checkpoints.", metavar="N")] = 50,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    model: Annotated[
        Path | None,
        typer.Option(help="Also write a model as mtgcn fit does, for which rank 0 holds the graph.", metavar="DIR"),
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Learn the classes of all nodes from the labels of a few; started by torchrun, or alone."""
    from mtgcn.distributed.fitting import DEFAULT_METHOD, FitOptions
    from mtgcn.io.options import parsed_roles

    options = FitOptions(
        shards,
        labels,
        out,
        method or DEFAULT_METHOD,
        settings or (),
        seed,
        checkpoint,
        every,
        resume,
        model,
        _checked(TableOptions(columns=parsed_roles(columns or ()), unknown_nodes=unknown_nodes, header=header)),  # type: ignore[arg-type]
    )
    status = _on_all_ranks(options, device, as_json)
    if status:
        raise typer.Exit(status)


def _checked(files: TableOptions) -> TableOptions:
    """The options, for shards, which cannot add nodes."""
    if files.unknown_nodes not in ("error", "drop"):
        raise unknown_name("choice of --unknown-nodes", files.unknown_nodes, ("error", "drop"))
    return replace(files, may_add_nodes=False)


def _on_all_ranks(options: Any, device: str, as_json: bool) -> int:
    """Fit, and end as all ranks should: whatever happens, one of them tells it, in one line."""
    from mtgcn.distributed.fitting import fit_shards
    from mtgcn.distributed.ranks import Ranks
    from mtgcn.memory import return_freed_blocks
    from mtgcn.report.progress import fitting_progress

    return_freed_blocks()
    ranks = Ranks()
    try:
        with _stopped_by_signals():
            ranks = Ranks.started(device)
            with fitting_progress(f"fitting {options.method}") if ranks.rank == 0 else nullcontext():
                card = fit_shards(options, ranks)
            if ranks.rank == 0:
                _tell(card, options, as_json)
            ranks.end()
        return 0
    except InputError as error:
        return _told(ranks, str(error), BAD_INPUT)
    except Stopped as stopped:
        why = "interrupted" if stopped.number == signal.SIGINT else "told to stop, probably as another rank has failed"
        return _told(ranks, f"{why}; {_how_to_go_on(options)}", STOPPED)
    except RuntimeError as error:
        if ranks.count > 1 and _is_about_others(error):
            return _told(ranks, f"another rank has ended or cannot be reached; {_how_to_go_on(options)}", LOST)
        if ranks.first_to_tell():
            traceback.print_exc()
        return LOST


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """While this lasts, whoever tells this process to end makes it raise `Stopped`."""

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_about_others(error: RuntimeError) -> bool:
    """Whether torch says that a rank does not answer: it has no class of its own for that on every backend."""
    said = str(error).lower()
    return any(word in said for word in ("connection", "gloo", "nccl", "timed out", "peer", "socket", "store"))


def _how_to_go_on(options: Any) -> str:
    if options.checkpoint is None:
        return "start the job again (with --checkpoint DIR it could go on from there)"
    return f"start the job again with --resume to go on from {options.checkpoint}"


def _told(ranks: Ranks, message: str, status: int) -> int:
    if ranks.first_to_tell():
        _print(message)
    return status


def _tell(card: dict[str, Any], options: Any, as_json: bool) -> None:
    if as_json:
        print_json({**{key: value for key, value in card.items() if key != "history"}, "out": options.out})
        return
    found = ", ".join(f"{name} {count}" for name, count in card["predicted"].items())
    print(f"{card['nodes']} nodes, {card['labelled']} of them labelled: {found}")
    print(f"{card['method']['name']} on {card['ranks']} ranks, {card['seconds']:.1f} seconds of training")
    print(options.out)
