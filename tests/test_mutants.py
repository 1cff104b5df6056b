"""The program behind `make mutants`, on sources of a few lines."""

from pathlib import Path

import pytest

from mutants.named import NAMED, named_mutants
from mutants.operators import Mutant, mutants_of, replacement
from mutants.reach import Reach, own_tests
from mutants.trials import Chosen

ROOT = Path(__file__).parent.parent

SOURCE = b'''"""A module."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from somewhere import Thing

LIMIT = 0.5


class Settings:
    """It has one."""

    size: "Size[2]" = 3


@cached(maxsize=4)
def chosen(values: "Int[4]", least: int = 1, *, sure: bool = True) -> "Int[5]":
    """Those that are large enough."""
    found = []
    for one, other in zip(values, values, strict=True):
        if one is None:
            continue
        if other >= LIMIT and sure:
            found.append(-one)
    assert len(found) > 7
    text = f"{LIMIT * 8}" + "9"
    return [one * 2 for one in found if valid(one)] or \\
        None
'''


def changes(source):
    return {(one.operator, one.before, one.after) for one in mutants_of("a.py", source)}


def test_every_operator_and_nothing_that_only_people_and_type_checkers_read():
    assert changes(SOURCE) == {
        ("constant", "0.5", "1.0"),
        ("default value", "3", "4"),
        ("default value", "1", "2"),
        ("default value", "True", "False"),
        ("comparison", "one is None", "(one is not None)"),
        ("removed statement", "continue", "pass"),
        ("boolean", "other >= LIMIT and sure", "(other >= LIMIT or sure)"),
        ("comparison", "other >= LIMIT", "(other > LIMIT)"),
        ("removed statement", "found.append(-one)", "pass"),
        ("arithmetic", "-one", "(one)"),
        ("return value", "return [one * 2 for one in found if valid(one)] or \\\n        None", "return None"),
        ("boolean", "[one * 2 for one in found if valid(one)] or \\\n        None",
         "([one * 2 for one in found if valid(one)] and None)"),
        ("arithmetic", "one * 2", "(one / 2)"),
        ("constant", "2", "3"),
        ("boolean", "valid(one)", "(not valid(one))"),
    }  # fmt: skip


def test_a_mutant_changes_its_place_and_nothing_else():
    source = "GREETING = 'grüß', 1  # é\nNUMBER = 1\n".encode()
    found = [one.applied(source).decode() for one in mutants_of("a.py", source)]
    assert found == ["GREETING = 'grüß', 2  # é\nNUMBER = 1\n", "GREETING = 'grüß', 1  # é\nNUMBER = 2\n"]


@pytest.mark.parametrize("path", ["src/mtgcn/uncertainty/suggestions.py", "src/mtgcn/experiments/executors.py"])
def test_mutants_of_our_own_files_can_be_compiled_and_differ(path):
    source = (ROOT / path).read_bytes()
    mutants = mutants_of(path, source)
    assert len({one.applied(source) for one in mutants}) == len({one.id for one in mutants}) == len(mutants)
    for one in mutants:
        compile(one.applied(source), path, "exec")


def test_where_a_mutant_is_and_when_it_runs():
    by_change = {(one.before, one.after): one for one in mutants_of("a.py", SOURCE)}
    assert by_change["0.5", "1.0"].at_import
    assert by_change["1", "2"].at_import  # the default is read when the function is made
    inside = by_change["one * 2", "(one / 2)"]
    assert not inside.at_import
    assert inside.lines == (27, 28)
    assert by_change["other >= LIMIT", "(other > LIMIT)"].lines == (23, 23)  # not what is done if it is so


def test_named_mutants_still_have_their_place():
    assert len(named_mutants(ROOT)) == len(NAMED)


def test_a_named_mutant_without_its_place_is_an_error():
    with pytest.raises(ValueError, match="'c' 0 times"):
        replacement("a.py", b"a = b\n", "c", "d")
    with pytest.raises(ValueError, match="'a' 2 times"):
        replacement("a.py", b"a = a\n", "a", "d")


def a_mutant(path="src/mtgcn/uncertainty/calibration.py", lines=(5, 6), at_import=False):
    return Mutant(path, "constant", lines[0], lines, at_import, (0, 1), "1", "2", "")


def test_a_mutant_is_shown_to_tests_that_run_its_lines_those_of_its_module_first():
    path = "src/mtgcn/uncertainty/calibration.py"
    lines = {
        "tests/a/test_b.py::of much else": {path: [6], "src/mtgcn/task.py": [7, 8]},
        "tests/a/test_c.py::of little else": {path: [1, 5]},
        "tests/uncertainty/test_calibration.py::its own": {path: [4, 6]},
        "tests/uncertainty/test_calibration.py::of other lines": {path: [7]},
        "tests/a/test_c.py::of another file": {"src/mtgcn/task.py": [5]},
    }
    seconds = dict(zip(lines, (2.0, 1.0, 50.0, 0.1, 0.1), strict=True))
    own, others = Reach(seconds, lines).tests_for(a_mutant(), ROOT)
    assert own == ["tests/uncertainty/test_calibration.py::its own"]
    assert others == ["tests/a/test_c.py::of little else", "tests/a/test_b.py::of much else"]
    seconds["tests/a/test_b.py::of much else"] = 10.0  # more than others may take in all
    assert Reach(seconds, lines).tests_for(a_mutant(), ROOT) == (own, others[:1])


def test_what_runs_at_import_is_shown_to_tests_of_the_module_and_of_those_that_import_it():
    lines = {
        "tests/a/test_b.py::of the module": {"src/mtgcn/experiments/scoring.py": [1]},
        "tests/a/test_b.py::of an importer": {"src/mtgcn/experiments/run.py": [1]},
        "tests/benchmark/test_scoring.py::of a constant": {},
        "tests/a/test_b.py::of neither": {"src/mtgcn/uncertainty/calibration.py": [1]},
    }
    expected = ["tests/benchmark/test_scoring.py::of a constant"], list(lines)[:2]
    mutant = a_mutant("src/mtgcn/experiments/scoring.py", at_import=True)
    assert Reach(dict.fromkeys(lines, 1.0), lines).tests_for(mutant, ROOT) == expected


def test_the_tests_of_a_module_are_those_that_mirror_it_and_its_doctests():
    own = ("tests/uncertainty/test_calibration.py", "src/mtgcn/uncertainty/calibration.py")
    assert own_tests("src/mtgcn/uncertainty/calibration.py") == own
    assert (ROOT / own[0]).exists()


def test_cases_that_only_a_mutant_has_are_run():
    class Item:
        def __init__(self, nodeid):
            self.nodeid = nodeid

    known = {"a.py::one", "a.py::two[1]", "a.py::two[2]", "a.py::three"}
    items = [Item(name) for name in ("a.py::one", "a.py::two[1]", "a.py::two[7]", "a.py::three", "a.py::new")]
    Chosen(["a.py::three", "a.py::two[1]"], known).pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == ["a.py::three", "a.py::two[1]", "a.py::two[7]"]
