"""The pages read well, and what they say of the program is so."""

import ast
import importlib
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest

from mtgcn.cli.app import main
from mtgcn.methods import METHODS

ROOT = Path(__file__).parent.parent
WIDTH = 120
# Beside them in docs/reproduction lie summaries that the program writes.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "docs" / "reproduction" / "README.md",
]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page):
    return page.read_text(encoding="utf-8")


def outside_code(page):
    """Lines that are not in a fenced block, with their numbers."""
    fenced = False
    for number, line in enumerate(text_of(page).splitlines(), start=1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", text_of(page), flags=re.MULTILINE | re.DOTALL)


def inline_code(page):
    return [code for _, line in outside_code(page) for code in re.findall(r"`([^`]+)`", line)]


@each_page
def test_prose_is_wrapped(page):
    prose = [(number, line) for number, line in outside_code(page) if not line.lstrip().startswith("|")]
    without_addresses = [(number, re.sub(r"https?://\S+", "", line)) for number, line in prose]
    assert [number for number, line in without_addresses if len(line) > WIDTH] == []


@each_page
def test_no_cell_of_a_table_is_a_paragraph(page):
    rows = [(number, line.strip(" |")) for number, line in outside_code(page) if line.lstrip().startswith("|")]
    # What is code, or where a link leads, cannot be said more briefly.
    cells = [(number, re.sub(r"`[^`]+`|\]\([^)]*\)", "", cell)) for number, row in rows for cell in row.split(" | ")]
    assert [number for number, cell in cells if len(cell) > WIDTH] == []


@each_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text_of(page)):
        assert target.startswith("http") or (page.parent / target).exists(), f"{page.name} links to {target}"


@each_page
def test_files_that_are_named_exist(page):
    ours = ["/" + path.relative_to(ROOT).as_posix() for top in ROOT.glob("[a-z]*") for path in top.rglob("*.py")]
    for name in re.findall(r"(?<![\w/])[a-z][\w/]*\.py\b", " ".join(inline_code(page))):
        assert any(path.endswith("/" + name) for path in ours), f"{page.name} names {name}"


@each_page
def test_modules_that_are_named_exist(page):
    for name in re.findall(r"\bmtgcn\.\w[\w.]*\w", " ".join(inline_code(page))):
        assert attribute(name) is not None, f"{page.name} names {name}"
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "mtgcn":
                for alias in node.names:
                    assert attribute(f"{node.module}.{alias.name}") is not None, f"{page.name}: {ast.unparse(node)}"


def attribute(name):
    """What a dotted name stands for: a module, or something inside one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part, None)
        return found
    return None


@pytest.mark.parametrize("method", list(METHODS))
def test_settings_that_are_listed_exist(method):
    page = text_of(ROOT / "docs" / "methods.md")
    section = re.search(rf"^## `{re.escape(method)}`\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
    assert section, f"docs/methods.md has no section on {method}"
    for table in re.findall(r"^\| setting \|.*\n\|[-| ]+\n((?:\|.*\n)+)", section[1], flags=re.MULTILINE):
        first_column = [row.split(" | ")[0] for row in table.splitlines() if not row.startswith("| and those of")]
        listed = set(re.findall(r"`(\w+)`", " ".join(first_column)))
        assert listed <= {field.name for field in fields(METHODS[method])}


def test_the_picture_shows_every_room():
    folders = {path.parent.name for path in (ROOT / "src" / "mtgcn").glob("*/__init__.py")}
    assert folders <= set(re.findall(r'class="name"[^>]*>([^<]+)<', text_of(ROOT / "docs" / "images" / "rooms.svg")))


def after_running(page):
    """The names that a page's blocks of Python leave behind."""
    names = {"__name__": "page"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)  # noqa: S102 (it is what is tested)
    return names


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """What a method keeps between fits is not added to the user's own cache."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_the_readme_is_true():
    names = after_running(ROOT / "README.md")
    truth = [names["club"].nodes[member]["club"] for member in names["club"]]
    assert sum(names["model"].transduction_ == truth) == 33
    assert len(names["model"].suggest(3)) == 3


def test_the_commands_of_the_readme_are_targets_of_make():
    commands = re.findall(r"^make (\S+)", text_of(ROOT / "README.md"), flags=re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(f"\n{target}:" in text_of(ROOT / "Makefile") for target in commands)


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_the_page_on_the_classifier_is_true():
    names = after_running(ROOT / "docs" / "estimator.md")
    assert min(names["scores"]) > 0.9
    assert len(set(names["model"].transduction_)) == 1
    del METHODS["shares"]


@pytest.mark.usefixtures("empty_cache")
def test_what_the_page_on_columns_shows_is_true(capsys):
    names = after_running(ROOT / "docs" / "columns.md")
    assert capsys.readouterr().out.splitlines() == names["model"].graph_.preprocessing.lines()
    assert names["model"].predict(names["frame"][:2]).tolist() == ["saver", "saver"]


@pytest.mark.slow
def test_the_page_on_comparing_is_true():
    results = after_running(ROOT / "docs" / "comparing.md")["results"]
    accuracy = {cell.method: cell.accuracy.mean for cell in results.comparison.cells}
    assert list(accuracy) == ["lp", "logistic", "Shares"]
    assert accuracy["lp"] > 0.8 > 0.2 > accuracy["Shares"]


@pytest.mark.slow
@pytest.mark.usefixtures("empty_cache")
def test_the_quickstart_is_true(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "quickstart.md"
    names = after_running(page)
    assert names["accuracy"] > 0.9
    assert names["accuracy_of_new"] > 0.9
    assert names["right"] == 33
    assert (names["same"].transduction_ == names["model"].transduction_).all()
    assert names["prediction"].probabilities.shape == (3, 1797, 10)

    commands = [line for block in blocks(page, "sh") for line in block.splitlines() if line.startswith("mtgcn ")]
    assert len(commands) == 4
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, f"{command}: {capsys.readouterr().err}"
    rows = (tmp_path / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 35
    assert rows[0].startswith("id,predicted,probability,")
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
