"""`python -m mtgcn.distributed`: `shard` and `fit`, their options, and the exit status of a job with many ranks."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from mtgcn.cli import options as cli
from mtgcn.distributed.communicator import Ranks
from mtgcn.distributed.fitting import FitOptions, fit_shards, without_new_nodes
from mtgcn.distributed.sharding import shard_files
from mtgcn.errors import InputError
from mtgcn.memory import return_freed_blocks
from mtgcn.report.progress import fitting_progress
from mtgcn.workflows.output import collected_notes

BAD_INPUT, FAILED, STOPPED = 2, 1, 143  # exit statuses
# Parts of torch's messages about unreachable ranks; not every backend has an exception class for them.
LOST_RANK = ("connection", "gloo", "nccl", "timed out", "peer", "socket", "store")

app = typer.Typer(
    name="python -m mtgcn.distributed",
    help="Split graphs too large for one machine into parts, and fit them with many processes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit status, which is 2 after an error in the input."""
    try:
        return app(args=arguments, prog_name="python -m mtgcn.distributed", standalone_mode=False) or 0
    except (typer.TyperException, InputError) as error:
        if os.environ.get("RANK", "0") == "0":
            cli.remark(f"error: {error.format_message() if isinstance(error, typer.TyperException) else error}")
        return BAD_INPUT


@app.command()
@cli.with_option_groups
def shard(
    *,
    files: Annotated[cli.FileOptions, "edges", "nodes", "columns", "features", "exclude", "unknown_nodes", "header"],
    parts: int = cli.option("Number of parts, and the largest number of ranks.", "N", default=...),
    out: Path = cli.option("Folder for the parts; existing parts are replaced.", "SHARDS", default=...),
    as_json: bool = cli.AS_JSON,
) -> None:
    """Split a graph, which need not fit into memory, into parts."""
    if files.edges is None or files.nodes is None:
        raise InputError("shard requires an edge list and a node table; give --edges and --nodes")
    options = without_new_nodes(files.table_options())
    with collected_notes() as notes:
        summary = shard_files(files.edges, files.nodes, out, parts, options)
    lines = (
        "{nodes} nodes, {edges} edges and {features} features in {parts} parts".format(**summary),
        *summary["columns"],
        "order: {order}; {boundary:.1%} of the edges connect different parts".format(**summary),
        summary["shards"],
    )
    cli.print_result({**summary, "notes": notes}, lines, as_json, [f"note: {note}" for note in notes], written=out)


@app.command()
@cli.with_option_groups
def fit(
    *,
    shards: Path = typer.Argument(..., help="Folder written by `shard`.", metavar="SHARDS"),
    labels: Path = cli.option("Labels of some nodes: id and class. CSV or Parquet.", "FILE", default=...),
    out: Path = cli.option("Folder for the results; existing results are replaced.", "DIR", default=...),
    options: FitOptions,
    device: str = cli.DEVICE,
    as_json: bool = cli.AS_JSON,
) -> None:
    """Predict the classes of all nodes from the labels of a few. Start it with torchrun, or as a single process."""
    restart = "start the job again, with --checkpoint DIR to make it resumable"
    if options.checkpoint is not None:
        restart = f"start the job again with --resume to continue from {options.checkpoint}"
    return_freed_blocks()
    ranks = Ranks()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # torchrun sends it when another rank has failed
    try:
        ranks = Ranks.started(device)
        progress = fitting_progress(f"fitting {options.method}") if ranks.rank == 0 else nullcontext()
        with collected_notes() as notes, progress:
            card = fit_shards(shards, labels, out, options, ranks)
        if ranks.rank == 0:
            found = ", ".join(f"{name} {count}" for name, count in card["predicted"].items())
            lines = (
                f"{card['nodes']} nodes, {card['labelled']} of them labelled: {found}",
                f"{card['method']['name']} on {card['ranks']} ranks, {card['seconds']:.1f} seconds of training",
                str(out),
            )
            content = {key: value for key, value in card.items() if key != "history"}
            remarks = [f"note: {note}" for note in notes]
            cli.print_result({**content, "out": out, "notes": notes}, lines, as_json, remarks, written=out)
        ranks.end()
        return
    except InputError as error:
        message, status = str(error), BAD_INPUT
    except KeyboardInterrupt:
        why = "interrupted" if ranks.count == 1 else "stopped by a signal, perhaps because another rank failed"
        message, status = f"{why}; {restart}", STOPPED
    except RuntimeError as error:
        if ranks.count == 1 or not any(word in str(error).lower() for word in LOST_RANK):
            if ranks.first_to_report():
                traceback.print_exc()
            raise typer.Exit(FAILED) from error
        message, status = f"another rank has ended or cannot be reached; {restart}", FAILED
    finally:
        signal.signal(signal.SIGTERM, before)
    if ranks.first_to_report():
        cli.remark(f"error: {message}")
    raise typer.Exit(status)


if __name__ == "__main__":
    sys.exit(main())
