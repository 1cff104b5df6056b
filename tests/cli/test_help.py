"""Help texts with examples, and shell completion."""

import os
import shlex
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from mtgcn import datasets
from mtgcn.cli import options
from mtgcn.cli.app import EXAMPLES, app
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
