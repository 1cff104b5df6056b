"""Every command's help ends with examples, and the command would take them."""

import shlex

import pytest
import typer
from typer.testing import CliRunner

from mtgcn.cli.app import EXAMPLES, app

COMMANDS = typer.main.get_command(app).commands
WIDTH = 80


def test_every_command_has_examples_and_no_other_has():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("example", [example for examples in EXAMPLES.values() for example in examples])
def test_an_example_is_what_the_command_takes(example):
    program, name, *arguments = shlex.split(example)
    assert program == "mtgcn"
    COMMANDS[name].make_context(name, arguments)  # refuses an option it does not know, and one that is missing
    assert len(example) <= WIDTH - 2


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", list(COMMANDS))
def test_help_shows_the_examples_as_they_are_to_be_typed(name, option):
    done = CliRunner().invoke(app, [name, option], env={"COLUMNS": str(WIDTH)})
    assert done.exit_code == 0
    lines = [line.strip() for line in done.output.splitlines()]
    assert lines[lines.index("Examples:") + 1 :][: len(EXAMPLES[name])] == list(EXAMPLES[name])


def test_required_options_are_marked():
    shown = CliRunner().invoke(app, ["predict", "-h"], env={"COLUMNS": "200"}).output
    [out] = [line for line in shown.splitlines() if "--out" in line and "mtgcn predict" not in line]
    assert out.strip("│ ").startswith("*")
    assert "[required]" in out
    [device] = [line for line in shown.splitlines() if "--device" in line]
    assert "*" not in device


def test_the_list_of_commands_is_sorted_by_what_one_wants():
    shown = CliRunner().invoke(app, ["-h"], env={"COLUMNS": "120"}).output
    places = [shown.index(text) for text in ("Your own graph", " fit ", "Experiments", " compare ", " reproduce ")]
    assert places == sorted(places)
    assert "--install-completion" in shown
