"""`mtgcn reproduce`: what it prints and writes. Kills and executors are tested in tests/experiments."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.experiments import curves
from mtgcn.experiments import plan as plan_module
from mtgcn.experiments import reproduce as sweep
from own_files import read_csv

pytestmark = pytest.mark.slow


@pytest.fixture
def reproduce(mtgcn_command, tmp_path, few_epochs):
    """Runs the command on digits, in this process; gives exit status, standard output and standard error."""
    common = ["reproduce", "--out", tmp_path, "--device", "cpu", "--workers", 1]
    return lambda *arguments: mtgcn_command(*common, *arguments)


def rows(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.fixture
def executed(monkeypatch):
    """The titles of the units that were really executed."""
    titles = []

    def watched(unit):
        titles.append(f"{unit.method} {unit.labels_per_class}")
        return execute(unit)

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", watched)
    return titles


SMALL = ["--table", "digits", "--methods", "gcn,mt-gcn", "--runs", "2"]


def test_tables_are_printed_and_written(reproduce, tmp_path):
    status, out, err = reproduce(*SMALL)
    assert status == 0
    files = ["summary.md", "summary.csv", "report.html", "tables.tex"]
    assert err == f"mtgcn: wrote {', '.join(str(tmp_path / name) for name in files)}\n"
    assert (tmp_path / "summary.md").read_text() == out.removesuffix("\n")
    assert "| cell | method | mean | 95 % interval | minus mt-gcn | 95 % interval |" in out  # nothing is printed
    stored = rows(tmp_path)
    assert len(stored) == 4 * 2 * 2
    assert {(row["threads"], row["validation"], row["protocol"]) for row in stored} == {(1, 500, "ours")}
    first, second, *rest = read_csv(tmp_path / "summary.csv")
    assert len(rest) == 6
    assert (first["method"], first["labels_per_class"], first["runs"]) == ("gcn", "2", "2")
    of_first = [row["accuracy"] for row in stored if row["method"] == "gcn" and row["labels_per_class"] == 2]
    assert float(first["accuracy_mean"]) == pytest.approx(sum(of_first) / 2)
    assert float(first["minus_reference_mean"]) == pytest.approx(
        float(first["accuracy_mean"]) - float(second["accuracy_mean"])
    )
    assert second["minus_reference_mean"] == ""


def test_damaged_end_is_repaired_with_a_warning(reproduce, executed, tmp_path):
    reproduce(*SMALL)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    status, _, err = reproduce(*SMALL)
    assert status == 0
    assert err.startswith(f"mtgcn: warning: the end of {path} was incomplete, as after a crash;")
    assert len(executed) == 8 + 1
    assert len(rows(tmp_path)) == 16


@pytest.mark.parametrize("error", [InputError("no such thing"), KeyboardInterrupt()], ids=["failed", "interrupted"])
def test_failed_and_interrupted_units(reproduce, monkeypatch, tmp_path, error):
    def failing(unit):
        if unit.labels_per_class == 4:
            raise error
        return execute(unit)

    execute = sweep.execute
    monkeypatch.setattr(sweep, "execute", failing)
    status, out, err = reproduce(*SMALL)
    if isinstance(error, InputError):  # other units still run
        assert (status, len(rows(tmp_path))) == (2, 12)
        assert "mtgcn: error: gcn on digits, 4 labels per class: no such thing; mt-gcn on digits, 4 labels" in err
        assert ("digits 8" in out, "digits 4" in out) == (True, False)
    else:
        resume = f"2 of 8 units are stored in {tmp_path}; the same command resumes"
        assert (status, out, err) == (130, "", f"mtgcn: {resume}\nmtgcn: interrupted\n")


def test_paper_protocol_is_marked_as_optimistic(reproduce, tmp_path):
    status, out, _ = reproduce("--table", "digits", "--protocol", "paper", "--runs", "1")
    assert status == 0
    assert "## Accuracy on digits (not in the paper) (optimistic)" in out
    assert "OPTIMISTIC" in out
    assert "largest average (optimistic)" in out
    lines = read_csv(tmp_path / "summary-paper.csv")
    assert {line["protocol"] for line in lines} == {"paper (optimistic)"}
    stored = [row for row in rows(tmp_path) if row["labels_per_class"] == 2]
    assert len(stored) == 10  # averages of one run each
    assert float(lines[0]["reported_percent"]) == pytest.approx(100 * max(row["accuracy"] for row in stored))


def test_curves_stay_on_the_page(reproduce, tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "create", plan_module.create)
    asked = ["--table", "digits", "--datasets", "digits", "--methods", "mt-gcn", "--runs", "1"]
    reproduce(*asked)
    assert 'id="training"' not in (tmp_path / "report.html").read_text(encoding="utf-8")
    status, _, err = reproduce(*asked, "--curves")
    assert status == 0
    assert f"{tmp_path / 'curves.json'}" in err
    reproduce(*asked)
    assert 'id="training"' in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def digits_for_cora(monkeypatch):
    """The suite runs on the digits of scikit-learn, so that no data are needed."""
    monkeypatch.setattr(plan_module, "datasets", SimpleNamespace(load=lambda name: replace(load("digits"), name=name)))


def test_suite_has_its_own_page_and_summaries(reproduce, digits_for_cora, executed, tmp_path):
    reproduce(*SMALL)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    small = ["--suite", "world", "--datasets", "cora", "--methods", "lp,gcn,mt-gcn", "--runs", "2"]
    status, out, err = reproduce(*small, "--final")
    assert status == 0
    names = ["summary-world.md", "summary-world.csv", "report-world.html", "tables-world.tex"]
    assert err == f"mtgcn: wrote {', '.join(str(tmp_path / name) for name in names)}\n"
    assert {name for name, content in before.items() if (tmp_path / name).read_bytes() != content} == {"rows.jsonl"}
    assert "| cora 5 on average, over all | gcn, none |" in out
    assert "printed" not in out
    made = [row for row in rows(tmp_path) if row["seed"] == 1_000_000]
    assert {(row["split"], row["labels_per_class"]) for row in made} == {("random", 3), ("random", 20), ("over-all", 5)}
    assert {r["settings"].get("feature_scaling") for r in made if r["method"] == "gcn"} == {"sum", "length", "none"}
    lines = read_csv(tmp_path / "summary-world.csv")
    assert {line["variant"] for line in lines} == {"lp", "gcn", "gcn, length", "gcn, none", "mt-gcn", "mt-gcn, length"}
    done = len(executed)
    assert reproduce(*small, "--final")[1] == out
    assert len(executed) == done  # nothing again


@pytest.mark.usefixtures("few_epochs", "digits_for_cora")
def test_suite_has_its_own_folder(mtgcn_command, succeeds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ["--device", "cpu", "--workers", "1", "--runs", "1", "--methods", "lp"]
    assert mtgcn_command("reproduce", "--suite", "world", "--datasets", "cora", *common)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["reproduction-world"]
    out = succeeds("report", "reproduction-world")
    assert out == "reproduction-world/report-world.html\nreproduction-world/tables-world.tex\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--table", "2,2"], "table names '2' twice"),
        (["--final", "--seed", "3"], "seed 3 is not a final seed; omit --seed"),
        (["--workers", "0"], "workers is 0; give at least 1"),
        (["--workers", "1000000000"], "workers is 1000000000, which takes about"),
        (["--suite", "world", "--curves"], "--suite world excludes --curves"),
    ],
)
def test_invalid_options(fails, tmp_path, arguments, message):
    fails(message, "reproduce", "--out", tmp_path, *arguments)
    assert not list(tmp_path.iterdir())
