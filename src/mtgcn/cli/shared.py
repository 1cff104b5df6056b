"""Options that several commands have, and how they print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from mtgcn.errors import InputError

Seed = Annotated[int, typer.Option(help="Decides the splits and everything random in the methods.", metavar="N")]
Device = Annotated[str, typer.Option(help="auto takes the GPU where there is one.", metavar="auto|cpu|cuda")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.", metavar="")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="A setting of the method; may be repeated.", metavar="KEY=VALUE")
]

Edges = Annotated[
    Path | None,
    typer.Option(help="Edges, one per line: two node ids and perhaps a weight. CSV or Parquet.", metavar="FILE"),
]
Nodes = Annotated[
    Path | None,
    typer.Option(help="Nodes: id, features and perhaps the label. CSV or Parquet.", metavar="FILE"),
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
    typer.Option(help="No edges at hand: join each node of --nodes with so many nearest ones.", metavar="N"),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        help="Which column is the source, target, weight, id or label, where its name does not tell; or that a column "
        "is a number, category, date, text (left out) or one to ignore. May be repeated.",
        metavar="ROLE|KIND=NAME",
    ),
]
Features = Annotated[
    str | None,
    typer.Option(help="Only these columns are features.", show_default="all others", metavar="NAME,NAME…"),
]
Exclude = Annotated[
    str | None, typer.Option(help="These columns are no features.", show_default="none", metavar="NAME,NAME…")
]
UnknownNodes = Annotated[
    str,
    typer.Option(
        help="Edges and labels of ids that --nodes does not list: refuse them, drop them, or add the ids as nodes.",
        metavar="error|drop|add",
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line of tables names the columns.", show_default="found out"
    ),
]
Metric = Annotated[str, typer.Option(help="What near means for --knn.", metavar="euclidean|cosine|…")]


def remark(message: str) -> None:
    print("mtgcn:", message, file=sys.stderr)


def print_json(content: dict[str, Any]) -> None:
    print(json.dumps(content, allow_nan=False, default=str))  # a path has no JSON form of its own


def listed(text: str, option: str) -> list[str]:
    """The parts of a comma-separated list, each once."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InputError(f"{option} is {text!r}, where a name is empty; put one between any two commas")
    for part in parts:
        if parts.count(part) > 1:
            raise InputError(f"{option} names {part!r} twice; name it once")
    return parts
