"""Tables of the documentation match the stored rows."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))  # whose program makes the tables

import docs_figures  # noqa: E402
import docs_tables  # noqa: E402
import measuring  # noqa: E402

# Pages whose tables of accuracies are made from rows, or marked as not made from rows.
PAGES_OF_ACCURACIES = ("README.md", "docs/results.md", "docs/uncertainty.md")
PAGE_OF_TIMES = ROOT / "docs" / "benchmarks.md"
TIMES_NOT_KEPT = "Numbers: not kept."
# An accuracy as these pages write it: one digit behind the point.
ACCURACY = re.compile(r"\b\d\d\.\d\b")
NOT_MADE = "<!-- not made from rows: "


@pytest.mark.long
def test_tables_and_sentences_match_the_rows():
    assert list(docs_tables.differences()) == []


@pytest.mark.slow
def test_wrong_number_is_found_and_corrected(tmp_path, monkeypatch):
    monkeypatch.setattr(docs_tables, "summaries", dict)
    monkeypatch.setattr(docs_tables, "sentences", list)
    page = tmp_path / "page.md"
    right = docs_tables.made("honest", "reproduction/final", None)
    assert "\n".join(right) in (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    wrong = [line.replace("65.4", "65.5") for line in right]
    assert wrong != right
    monkeypatch.setattr(docs_tables, "PAGES", (page,))
    for lines, found in ((right, 0), (wrong, 1), (right[:-1], 1), ([], 1)):
        page.write_text("<!-- table: honest reproduction/final -->\n\n" + "".join(f"{line}\n" for line in lines))
        assert len(list(docs_tables.differences())) == found
    page.write_text("Before.\n<!-- table: honest reproduction/final -->\n\n| wrong |\n\nAfter.\n")
    monkeypatch.setattr(docs_tables, "write_beside_rows", lambda: None)
    docs_tables.rewrite()
    assert page.read_text().splitlines()[3:-2] == right
    assert page.read_text().endswith("|\n\nAfter.\n")


@pytest.mark.parametrize("name", PAGES_OF_ACCURACIES)
def test_tables_of_accuracies_name_their_source(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    for table in re.finditer(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        if len(ACCURACY.findall(table[0])) >= 3:
            before = text[: table.start()].rstrip().rpartition("\n")[2]
            assert before.startswith(("<!-- table: ", NOT_MADE)), f"{name}: {table[0].splitlines()[0]}"


def times_without_source(page):
    """The tables of a page that name neither a JSON, with a command that the page gives too, nor that none was kept."""
    text = page.read_text(encoding="utf-8")
    for table in re.finditer(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        before = text[: table.start()].rstrip().rpartition("\n")[2]
        named = re.fullmatch(r"Numbers: \[(measurements/[\w-]+\.json)\]\(\1\)\.", before)
        if named:
            command = json.loads((page.parent / named[1]).read_text(encoding="utf-8"))["command"]
            if f"`{command}`" not in text:
                yield f"{named[1]} was made by {command}"
        elif before != TIMES_NOT_KEPT:
            yield table[0].splitlines()[0]


def test_tables_of_times_name_their_numbers():
    assert list(times_without_source(PAGE_OF_TIMES)) == []


def test_times_of_another_command_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks/explain.py", "--timed", "--json", "x.json"])
    measuring.write_json(tmp_path / "measurements" / "x.json", {"rows": [1]})
    page = tmp_path / "page.md"
    text = "`python benchmarks/explain.py{}`:\n\n{}\n\n| a |\n| --- |\n| 1 s |\n"
    right = "Numbers: [measurements/x.json](measurements/x.json)."
    for options, mark, found in ((" --timed", right, 0), ("", right, 1), ("", TIMES_NOT_KEPT, 0), ("", "Words.", 1)):
        page.write_text(text.format(options, mark), encoding="utf-8")
        assert len(list(times_without_source(page))) == found


def test_every_recipe_is_used():
    used = {mark["recipe"] for page in docs_tables.PAGES for mark in docs_tables.MARK.finditer(page.read_text("utf-8"))}
    assert used == set(docs_figures.RECIPES)
