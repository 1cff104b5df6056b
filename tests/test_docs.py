"""Documentation: layout, names that exist, and code that runs. `mkdocs build --strict` checks links."""

import ast
import importlib
import re
import shlex
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
def test_methods_page_lists_every_method(method):
    page = text_of(ROOT / "docs" / "methods.md")
    assert f"`{method}`" in page
    assert f"\n::: {METHODS[method].__module__}\n" in page


def test_architecture_names_every_package():
    folders = {path.parent.name for path in (ROOT / "src" / "mtgcn").glob("*/__init__.py")}
    for page in ("architecture.md", "images/architecture.svg"):
        assert folders <= set(re.findall(r"\w+", text_of(ROOT / "docs" / page)))


def after_running(page):
    """The names that a page's blocks of Python leave behind."""
    names = {"__name__": "page"}
    for number, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)  # noqa: S102 (it is what is tested)
    return names


@pytest.mark.slow
@pytest.mark.usefixtures("private_cache")
def test_readme_runs():
    names = after_running(ROOT / "README.md")
    truth = [names["club"].nodes[member]["club"] for member in names["club"]]
    assert sum(names["model"].transduction_ == truth) == 33
    assert len(names["model"].suggest(3)) == 3


def test_readme_commands_are_make_targets():
    commands = re.findall(r"^make (\S+)", text_of(ROOT / "README.md"), flags=re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(f"\n{target}:" in text_of(ROOT / "Makefile") for target in commands)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch Geometric calls it
@pytest.mark.usefixtures("private_cache")
def test_python_page_runs():
    names = after_running(ROOT / "docs" / "python.md")
    assert min(names["scores"]) > 0.9
    assert names["search"].best_score_ > 0.9
    del METHODS["shares"]


@pytest.mark.usefixtures("private_cache")
def test_own_data_page_runs(capsys):
    block = next(block for block in blocks(ROOT / "docs" / "own-data.md", "python") if "DataFrame" in block)
    names = {}
    exec(compile(block, "own-data.md", "exec"), names)  # noqa: S102
    assert capsys.readouterr().out.splitlines() == names["model"].graph_.preprocessing.lines()
    assert names["model"].predict(names["frame"][:2]).tolist() == ["saver", "saver"]


@pytest.mark.slow
def test_comparing_page_runs():
    results = after_running(ROOT / "docs" / "comparing.md")["results"]
    accuracy = {cell.method: cell.accuracy.mean for cell in results.comparison.cells}
    assert list(accuracy) == ["lp", "logistic"]
    assert min(accuracy.values()) > 0.8


@pytest.mark.slow
@pytest.mark.usefixtures("private_cache")
def test_quickstart_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "quickstart.md"
    names = after_running(page)
    assert names["accuracy"] > 0.9
    assert names["accuracy_of_new"] > 0.9
    assert names["correct"] == 33
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
