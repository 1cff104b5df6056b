"""Groups of options: declared once, listed in the help of every command, passed on as one object."""

import re
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from mtgcn.cli.app import app
from mtgcn.cli.options import FileOptions, with_option_groups
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions

OF_TABLES = ["--edges", "--nodes", "--graph", "--column", "--unknown-nodes", "--header"]
ALL = [*OF_TABLES, "--labels", "--knn", "--metric", "--features", "--exclude"]


def run(command, *arguments):
    application = typer.Typer()
    application.command()(with_option_groups(command))
    return CliRunner().invoke(application, list(arguments), catch_exceptions=False)


def test_group_is_passed_as_one_object():
    received = []

    def keep(*, seed: int = 0, files: FileOptions, title: Annotated[str, typer.Option("--name")] = "none"):
        """Keep everything."""
        received.append((seed, files.table_options(), title))

    expanded = with_option_groups(keep)
    assert list(signature(expanded).parameters) == ["seed", *(field.name for field in fields(FileOptions)), "title"]
    assert (expanded.__name__, expanded.__doc__) == ("keep", "Keep everything.")
    run(keep)
    run(keep, "--edges", "e.csv", "--column", "label=topic", "--features", "a, b", "--seed", "3", "--name", "x")
    kinds = ["--column", "number=a", "--column", "number=b", "--column", "ignore=c", "--column", "id=d"]
    run(keep, "--nodes", "n.csv", *kinds, "--exclude", "e,f", "--unknown-nodes", "drop", "--header", "no")
    tables = TableOptions(edges=Path("e.csv"), columns={"label": "topic"}, features=["a", "b"])
    assert received[:2] == [(0, TableOptions(), "none"), (3, tables, "x")]
    [_, _, (_, files, _)] = received
    assert files.kinds == {"a": "number", "b": "number", "c": "ignore"}
    assert (files.columns, files.exclude) == ({"id": "d"}, ["e", "f"])
    assert (files.unknown_nodes, files.header) == ("drop", False)


def test_selected_options_of_a_group():
    received = []

    def keep(files: Annotated[FileOptions, "edges", "columns"]):
        received.append(files)

    assert list(signature(with_option_groups(keep)).parameters) == ["edges", "columns"]
    assert run(keep, "--nodes", "n.csv").exit_code == 2
    run(keep, "--edges", "e.csv")
    assert received == [FileOptions(edges=Path("e.csv"))]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"columns": ["label"]}, "column 'label'; write role=column"),
        ({"features": "a,,b"}, "features 'a,,b' has an empty name"),
        ({"columns": ["date=a", "number=a"]}, "column 'a' is given as date and number; keep one"),
        ({"features": "a", "exclude": "b"}, "--features and --exclude exclude each other"),
        ({"graph": Path("g.gml"), "exclude": "b"}, "--exclude and column kinds are for tables"),
        ({"graph": Path("g.gml"), "edges": Path("e.csv")}, "--graph already holds edges and features"),
    ],
)
def test_invalid_options(options, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        FileOptions(**options).table_options()


@pytest.mark.parametrize(("name", "options"), [("fit", ALL), ("compare", ALL), ("predict", OF_TABLES)])
def test_help(name, options):
    listed = " ".join(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output.split())
    for option in ALL:
        assert bool(re.search(rf"{option}\b", listed)) == (option in options), option
    assert "Edges, one per line: two node ids and optionally a weight. CSV, Parquet, JSON or mtx." in listed
    assert (
        "The role of a column (id, label or name of rows; source, target or weight of edges; id=none numbers the rows)"
        in listed
    )
