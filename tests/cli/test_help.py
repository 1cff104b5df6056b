"""Help texts with examples, shell completion, and groups of options, which are passed on as one object."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from mtgcn import datasets
from mtgcn.cli import options
from mtgcn.cli.app import EXAMPLES, app
from mtgcn.cli.options import FileOptions, with_option_groups
from mtgcn.errors import InputError
from mtgcn.io.options import TableOptions
from mtgcn.methods import METHODS

COMMANDS = typer.main.get_command(app).commands
WIDTH = 80


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_can_be_parsed(example):
    program, name, *arguments = shlex.split(example)
    assert program == "mtgcn"
    COMMANDS[name].make_context(name, arguments)  # raises for unknown and for missing options
    assert len(example) <= WIDTH - 2


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_the_examples(name, option):
    done = CliRunner().invoke(app, [name, option], env={"COLUMNS": str(WIDTH)})
    assert done.exit_code == 0
    lines = [line.strip() for line in done.output.splitlines()]
    shown = [line for line in lines[lines.index("Examples:") + 1 :] if line]
    assert shown == [example for example in EXAMPLES if example.startswith(f"mtgcn {name}")]
    assert shown


def test_help_marks_required_options():
    shown = CliRunner().invoke(app, ["predict", "-h"], env={"COLUMNS": "200"}).output
    [out] = [line for line in shown.splitlines() if "--out" in line and "mtgcn predict" not in line]
    assert out.strip("│ ").startswith("*")
    assert "[required]" in out
    [device] = [line for line in shown.splitlines() if "--device" in line]
    assert "*" not in device


def test_help_groups_the_commands():
    shown = CliRunner().invoke(app, ["-h"], env={"COLUMNS": "120"}).output
    places = [shown.index(text) for text in ("Your own graph", " fit ", "Experiments", " compare ", " reproduce ")]
    assert places == sorted(places)
    assert "--install-completion" in shown


def test_completion_knows_all_names():
    assert [*options.DATASETS, *datasets.catalogue.FINAL_TABLES] == list(datasets.NAMES)
    built_in = [name for name, method in METHODS.items() if method.__module__.startswith("mtgcn.")]
    assert sorted(built_in) == sorted(options.METHODS)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("mtgcn com", {"compare"}),
        ("mtgcn run --method mt", {"mt-gcn", "mt-plus"}),
        ("mtgcn compare --dataset ci", {"citeseer"}),
        ("mtgcn compare --methods mt-gcn,mt", {"mt-gcn,mt-plus"}),
        ("mtgcn methods mt", {"mt-gcn", "mt-plus"}),
        ("mtgcn compare --lab", {"--labels", "--labels-per-class"}),
    ],
)
def test_completion_in_bash(typed, offered):
    words = typed.split()
    request = {"_MTGCN_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    program = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr))\n"
        "from mtgcn.cli.app import main; main([])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | request, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == offered
    assert done.stderr == "False\n"  # torch is not imported


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
    ("given", "complaint"),
    [
        ({"columns": ["label"]}, "column 'label'; write role=column"),
        ({"features": "a,,b"}, "features 'a,,b' has an empty name"),
        ({"columns": ["date=a", "number=a"]}, "column 'a' is given as date and number; keep one"),
        ({"features": "a", "exclude": "b"}, "--features and --exclude exclude each other"),
        ({"graph": Path("g.gml"), "exclude": "b"}, "--exclude and column kinds are for tables"),
        ({"graph": Path("g.gml"), "edges": Path("e.csv")}, "--graph already holds edges and features"),
    ],
)
def test_invalid_options(given, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        FileOptions(**given).table_options()


@pytest.mark.parametrize(("name", "expected"), [("fit", ALL), ("compare", ALL), ("predict", OF_TABLES)])
def test_help_lists_groups(name, expected):
    listed = " ".join(CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output.split())
    for option in ALL:
        assert bool(re.search(rf"{option}\b", listed)) == (option in expected), option
    assert "Edges, one per line: two node ids and optionally a weight. CSV, Parquet, JSON or mtx." in listed
    assert (
        "The role of a column (id, label or name of rows; source, target or weight of edges; id=none numbers the rows)"
        in listed
    )
