"""Options that several commands share, their shell completion, and how commands print."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from mtgcn.errors import InputError, printable

QUIET: ContextVar[bool] = ContextVar("quiet", default=False)

Seed = Annotated[int, typer.Option(help="Seed of the splits and of all randomness in the methods.", metavar="N")]
Device = Annotated[str, typer.Option(help="auto uses a GPU if there is one.", metavar="auto|cpu|cuda")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", metavar="")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no notes, no summary of written files.", metavar="")
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the method; may be repeated.", metavar="KEY=VALUE")
]

Edges = Annotated[
    Path | None,
    typer.Option(help="Edges, one per line: two node ids and optionally a weight. CSV or Parquet.", metavar="FILE"),
]
Nodes = Annotated[
    Path | None, typer.Option(help="Nodes: id, features and optionally the label. CSV or Parquet.", metavar="FILE")
]
Labels = Annotated[
    Path | None, typer.Option(help="Labels of some nodes: id and class. CSV or Parquet.", metavar="FILE")
]
GraphFile = Annotated[
    Path | None,
    typer.Option("--graph", help="Everything in one file: GraphML, GML, npz, or pt with a PyG Data.", metavar="FILE"),
]
Knn = Annotated[
    int | None,
    typer.Option(help="Instead of edges: connect each node of --nodes to its N nearest neighbours.", metavar="N"),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="The column that is source, target, weight, id or label, if its name differs; or the kind of a column: "
        "number, category, date, text (not used) or ignore. May be repeated.",
        metavar="ROLE|KIND=NAME",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(help="Use only these columns as features.", show_default="all others", metavar="NAME,NAME…"),
]
Exclude = Annotated[
    str | None, typer.Option(help="Columns that are not features.", show_default="none", metavar="NAME,NAME…")
]
UnknownNodes = Annotated[
    str,
    typer.Option(
        help="Edges and labels with ids that --nodes does not list: refuse them, drop them, or add the ids as nodes.",
        metavar="error|drop|add",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line of a table names the columns.", show_default="detected"
    ),
]
Metric = Annotated[str, typer.Option(help="Distance for --knn.", metavar="euclidean|cosine|…")]

# Names for shell completion, written out because importing the registries takes longer than a key press may. A test
# compares them with the registries.
DATASETS = (
    *("cora", "citeseer", "pubmed", "digits", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp"),
    "chameleon",
)
METHODS = (
    *("appnp", "chebyshev", "co-training", "correct-and-smooth", "deepwalk", "gcn", "gcn+v", "ica", "intersection"),
    *("logistic", "lp", "m3s", "mani-reg", "mt-gcn", "mt-plus", "multi-stage", "planetoid", "ppr", "self-training"),
    *("semi-emb", "sgc", "union"),
)


def dataset_names(incomplete: str) -> list[str]:
    return [name for name in DATASETS if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def method_lists(incomplete: str) -> list[str]:
    """Completions of the last name in a comma-separated list.

    >>> method_lists("gcn,mt-")
    ['gcn,mt-gcn', 'gcn,mt-plus']
    """
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in method_names(last) if name not in taken]


def show(*lines: object) -> None:
    """Print lines on standard output."""
    for line in lines:
        print(printable(str(line)))


def remark(message: str) -> None:
    """Print a message on standard error."""
    print("mtgcn:", printable(" ".join(message.split())), file=sys.stderr, flush=True)


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, allow_nan=False, default=str))  # str: paths


def print_result(
    content: dict[str, Any], lines: Iterable[object], as_json: bool, remarks: Iterable[str] = (), written: object = None
) -> None:
    """Print the result of a command as JSON, or as lines of text with remarks on standard error; with --quiet no text
    about what is `written`."""
    try:
        if as_json:
            print_json(content)
        else:
            for message in remarks:
                remark(message)
            if written is None or not QUIET.get():
                show(*lines)
        sys.stdout.flush()
    except OSError as error:
        if written is None or isinstance(error, BrokenPipeError):
            raise
        raise OSError(error.errno, f"{error.strerror}, but {written} is written") from error


def listed(text: str, option: str) -> list[str]:
    """The parts of a comma-separated list; each must occur once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} is {text!r}, where a name is empty; put one between any two commas")
    for part in parts:
        if parts.count(part) > 1:
            raise InputError(f"{option} names {part!r} twice; name it once")
    return parts
