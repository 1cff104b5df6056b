"""`mtgcn arena`, on digits and on graphs of this test."""

import json

import pytest

OPTIONS = ["--graphs", "digits", "--methods", "lp,ppr,sgc", "--labels", "2,5", "--runs", "2", "--device", "cpu"]


@pytest.fixture
def rows_folder(tmp_path, mtgcn_command):
    status, out, err = mtgcn_command("arena", *OPTIONS, "--workers", "1", "--out", tmp_path / "rows")
    assert status == 0
    assert f"wrote {tmp_path / 'rows' / 'arena.html'}" in err
    assert "| lp" in out
    return tmp_path / "rows"


def test_resumes(rows_folder, mtgcn_command, monkeypatch):
    before = (rows_folder / "rows.jsonl").read_text()
    monkeypatch.setattr("mtgcn.experiments.reproduce.execute", lambda unit: pytest.fail(unit.title))
    assert mtgcn_command("arena", *OPTIONS, "--workers", "1", "--out", rows_folder)[0] == 0
    assert (rows_folder / "rows.jsonl").read_text() == before
    assert len(before.splitlines()) == 3 * 2 * 2


def test_report_writes_the_page_again(rows_folder, succeeds):
    (rows_folder / "arena.html").unlink()
    assert "report.html" not in succeeds("report", rows_folder)
    assert (rows_folder / "arena.html").exists()


def test_two_methods_have_scores_instead_of_ranks(tmp_path, mtgcn_command):
    options = ["--graphs", "digits", "--methods", "lp,ppr", "--labels", "2", "--runs", "2", "--device", "cpu"]
    _, out, _ = mtgcn_command("arena", *options, "--workers", "1", "--out", tmp_path)
    assert out.startswith("| method | digits |\n| --- | --- |\n| lp | ")


def test_check(rows_folder, succeeds, mtgcn_command):
    out = succeeds("arena", "--check", rows_folder, "--methods", "lp", "--device", "cpu")
    assert out.count("lp on digits") == 2
    assert "DIFFERENT" not in out
    path = rows_folder / "rows.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row | {"accuracy": row["accuracy"] + 0.02}) + "\n" for row in rows))
    status, out, err = mtgcn_command("arena", "--check", rows_folder, "--methods", "lp", "--device", "cpu")
    assert (status, out.count("DIFFERENT")) == (2, 2)
    assert "2 units differ by more than 1 point" in err


def test_failures_are_named_and_the_others_go_on(tmp_path, mtgcn_command):
    options = [*OPTIONS[:4], "--labels", "2,500", "--runs", "2", "--device", "cpu", "--workers", "1"]
    status, _, err = mtgcn_command("arena", *options, "--out", tmp_path)
    assert status == 0
    assert err.count("labels-per-class 500 exceeds") == 3
    assert "failed (labels-per-class 500 exceeds" in (tmp_path / "arena.html").read_text()


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("give a folder for the rows", []),
        ("labels is 'many'", ["--labels", "many", "--out", "."]),
        ("unknown graph", ["--graphs", "moon", "--out", "."]),
    ],
)
def test_wrong_options(fails, tmp_path, monkeypatch, message, options):
    monkeypatch.chdir(tmp_path)
    fails(message, "arena", *options)
