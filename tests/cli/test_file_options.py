"""The options about files: declared once, listed in every command's help, handed over ready to be read."""

from __future__ import annotations

import re
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest
import typer
from typer.testing import CliRunner

from mtgcn.cli.app import app
from mtgcn.cli.file_options import FileOptions, takes_graph_files
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions as Files

if TYPE_CHECKING:
    from mtgcn.io.options import TableOptions

OF_TABLES = ["--edges", "--nodes", "--graph", "--column", "--unknown-nodes", "--header"]
ALL = [*OF_TABLES, "--labels", "--knn", "--metric", "--features", "--exclude"]


@pytest.fixture
def received():
    return []


@pytest.fixture
def command(received):
    """A command that only keeps what it is given; `files` stands between options that have defaults."""

    @takes_graph_files()
    def keep(
        *, seed: int = 0, files: TableOptions, title: Annotated[str, typer.Option("--name", help="Of it.")] = "none"
    ) -> None:
        """Keep everything."""
        received.append((seed, files, title))

    return keep


def run(command, *arguments):
    application = typer.Typer()
    application.command()(command)
    return CliRunner().invoke(application, list(arguments), catch_exceptions=False)


def test_options_of_a_command(command, received):
    run(command, "--edges", "e.csv", "--column", "label=topic", "--features", "a, b", "--seed", "3", "--name", "x")
    expected = Files(edges=Path("e.csv"), columns={"label": "topic"}, features=["a", "b"])
    assert received == [(3, expected, "x")]


def test_column_kinds(command, received):
    kinds = ["--column", "number=a", "--column", "number=b", "--column", "ignore=c", "--column", "id=d"]
    run(command, "--nodes", "n.csv", *kinds, "--exclude", "e,f", "--unknown-nodes", "drop", "--header", "no")
    [(_, files, _)] = received
    assert files.kinds == {"a": "number", "b": "number", "c": "ignore"}
    assert (files.columns, files.exclude) == ({"id": "d"}, ["e", "f"])
    assert (files.unknown_nodes, files.header) == ("drop", False)


def test_no_options(command, received):
    run(command)
    [(_, files, _)] = received
    assert files == Files()
    assert not files.given


def test_call_from_python(command, received):
    command(seed=1, nodes=Path("n.csv"), knn=4)
    assert received == [(1, Files(nodes=Path("n.csv"), knn=4), "none")]


def test_signature(command):
    names = ["seed", *(field.name for field in fields(FileOptions)), "title"]
    assert list(signature(command).parameters) == names
    assert (command.__name__, command.__doc__) == ("keep", "Keep everything.")


def test_selected_options(received):
    @takes_graph_files("edges", "columns")
    def keep(files: TableOptions) -> None:
        received.append(files)

    assert list(signature(keep).parameters) == ["edges", "columns"]
    assert run(keep, "--nodes", "n.csv").exit_code == 2
    run(keep, "--edges", "e.csv")
    assert received == [Files(edges=Path("e.csv"))]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"columns": ["label"]}, "column 'label'; write role=column"),
        ({"columns": ["label=a", "label=b"]}, "column of 'label' is given twice"),
        ({"features": "a,,b"}, "features is 'a,,b', where a name is empty"),
        ({"columns": ["date=a", "number=a"]}, "column 'a' is given as date and number; keep one"),
        ({"columns": ["numbr=a"]}, "unknown role or kind of column 'numbr'; did you mean 'number'"),
        ({"features": "a", "exclude": "b"}, "--features names what to take and --exclude what to leave"),
        ({"unknown_nodes": "keep"}, "unknown choice of --unknown-nodes 'keep'"),
        ({"graph": Path("g.gml"), "exclude": "b"}, "kinds and --exclude are for tables"),
        ({"knn": 0}, "--knn is 0; give at least 1"),
        ({"graph": Path("g.gml"), "edges": Path("e.csv")}, "--graph already holds edges and features"),
    ],
)
def test_invalid_options(command, received, options, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        command(**options)
    assert received == []


@pytest.mark.parametrize(("name", "options"), [("fit", ALL), ("compare", ALL), ("predict", OF_TABLES)])
def test_help(name, options):
    listed = " ".join(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output.split())
    for option in ALL:
        assert bool(re.search(rf"{option}\b", listed)) == (option in options), option
    assert "Edges, one per line: two node ids and optionally a weight. CSV or Parquet." in listed
    assert "The column that is source, target, weight, id or label" in listed
