"""`mtgcn run` and `compare` on own files, and `mtgcn arena`."""

import json

import pytest

from mtgcn.cli.experiments import configured_methods
from mtgcn.datasets import load
from mtgcn.errors import InputError
from mtgcn.experiments.store import read_units
from own_files import OwnFiles


@pytest.fixture
def own(tmp_path, make_graph):
    """Options that name the files of 120 nodes, of which 90 are labelled."""
    return OwnFiles(tmp_path, make_graph, nodes=120, labelled=90).options


FAST = ["--methods", "lp,logistic", "--runs", 3, "--labels-per-class", 2]


def test_compare_writes_all_files(mtgcn_command, own, tmp_path):
    out, latex, report = tmp_path / "rows", tmp_path / "paper" / "table.tex", tmp_path / "page.html"
    latex.parent.mkdir()
    status, table, err = mtgcn_command("compare", *own, *FAST, "--out", out, "--latex", latex, "--report", report)
    assert status == 0
    assert table.startswith("Accuracy % on edges.csv, 2 labels per class, 3 runs\n")
    written = [
        *(out / name for name in ("rows.jsonl", "summary-comparison.md", "summary-comparison.csv")),
        *(out / name for name in ("report-comparison.html", "tables-comparison.tex")),
        latex,
        report,
    ]
    *files, last = err.splitlines()
    assert last == f"mtgcn: wrote {', '.join(map(str, written))}"
    assert [line.split(",")[0] for line in files] == [
        *("mtgcn: nodes.csv: node table", "mtgcn: edges.csv: edge list", "mtgcn: labels.csv: label table")
    ]
    assert mtgcn_command("report", out)[1].splitlines() == [str(path) for path in written[1:5]]  # made from the rows
    assert latex.read_text(encoding="utf-8") == (out / "tables-comparison.tex").read_text(encoding="utf-8")
    page = report.read_text(encoding="utf-8")
    assert "<code>mtgcn compare --edges " in page  # how it was made
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(r["method"], r["run"]) for r in rows] == [(name, run) for name in ("lp", "logistic") for run in range(3)]
    assert {row["scored_nodes"] for row in rows} == {90 - 2 * 3}


def test_run_writes_all_files(mtgcn_command, own, tmp_path):
    out, latex, report = tmp_path / "rows", tmp_path / "table.tex", tmp_path / "page.html"
    arguments = ["run", *own, "--method", "lp", "--set", "alpha=0.01", "--labels-per-class", 2, "--runs", 3]
    status, table, _ = mtgcn_command(*arguments, "--out", out, "--latex", latex, "--report", report)
    assert status == 0
    assert table.startswith("lp on edges.csv, 2 labels per class, 3 runs\n")
    assert all(path.exists() for path in (latex, report, out / "rows.jsonl"))
    [rows] = read_units(out).values()
    assert rows[0].settings == {"alpha": 0.01}


def test_few_scored_nodes_warn(mtgcn_command, own):
    arguments = ["compare", *own, "--methods", "lp", "--runs", 2, "--labels-per-class", 21]
    warning = "a run is scored on 27 nodes, fewer than 30"
    status, _, err = mtgcn_command(*arguments)
    assert status == 0
    assert f"\nmtgcn: warning: {warning}" in err
    assert warning in json.loads(mtgcn_command(*arguments, "--json")[1])["warnings"][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--split", "public"], "--split public requires --dataset"),
        (["--latex", "."], "is a folder; give a file name"),
        (["--report", "nodes.csv/page.html"], "nodes.csv is a file"),
        (["--out", "nodes.csv"], "nodes.csv is a file; give a folder for rows"),
        (["--reference", "gcn"], "unknown reference 'gcn'; choose from lp, logistic"),
        (["--set", "gcn.epochs=3"], "unknown method in --set gcn.epochs=3: 'gcn'; choose from lp, logistic"),
    ],
)
def test_invalid_options(fails, own, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    fails(message, "compare", *own, *FAST, *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_files_without_labels(fails, own):
    fails("no node is labelled, so nothing can be scored; give --target or --labels", "compare", *own[:4], *FAST)


def test_files_without_features(succeeds, own):
    options = [*own[:2], *own[4:], "--methods", "lp,logistic,gcn", "--runs", 3, "--labels-per-class", 2]
    result = json.loads(succeeds("compare", *options, "--json"))
    assert result["graph"]["features"] == 0
    assert all(cell["accuracy"]["mean"] > 0.8 for cell in result["cells"])


@pytest.mark.data
def test_dataset_without_features(succeeds):
    load("airports-usa")  # skips the test without data
    options = ["--dataset", "airports-usa", "--method", "logistic", "--labels-per-class", 20, "--runs", 2]
    assert json.loads(succeeds("run", *options, "--json"))["accuracy"]["mean"] > 0.3  # of four equal classes


def test_settings_of_one_or_all_methods():
    methods, notes = configured_methods(["gcn", "mt-gcn", "lp"], ["hidden-channels=8", "mt-gcn.peers=3", "lp.alpha=2"])
    assert (methods["gcn"].hidden_channels, methods["mt-gcn"].hidden_channels) == (8, 8)
    assert (methods["mt-gcn"].peers, methods["lp"].alpha) == (3, 2.0)
    assert notes == ["--set hidden-channels=8 is for gcn, mt-gcn; no such setting: lp"]


def test_duplicate_setting():
    with pytest.raises(InputError, match="'alpha' is given twice"):
        configured_methods(["lp"], ["alpha=1", "lp.alpha=2"])


@pytest.mark.parametrize("command", ["run", "compare"])
def test_final_seeds_are_refused(command, fails, tmp_path):
    missing = ["--edges", tmp_path / "no.csv", "--labels", tmp_path / "none.csv"]
    message = "seed 1000000 is reserved for mtgcn reproduce --final"
    fails(message, command, *missing, "--seed", 1_000_000)


# arena


ARENA = ["--graphs", "digits", "--methods", "lp,ppr,sgc", "--labels", "2,5", "--runs", "2", "--device", "cpu"]


@pytest.fixture
def rows_folder(tmp_path, mtgcn_command):
    status, out, err = mtgcn_command("arena", *ARENA, "--workers", "1", "--out", tmp_path / "rows")
    assert status == 0
    assert f"wrote {tmp_path / 'rows' / 'arena.html'}" in err
    assert "| lp" in out
    return tmp_path / "rows"


def test_arena_resumes(rows_folder, mtgcn_command, monkeypatch):
    before = (rows_folder / "rows.jsonl").read_text()
    monkeypatch.setattr("mtgcn.experiments.reproduce.execute", lambda unit: pytest.fail(unit.title))
    assert mtgcn_command("arena", *ARENA, "--workers", "1", "--out", rows_folder)[0] == 0
    assert (rows_folder / "rows.jsonl").read_text() == before
    assert len(before.splitlines()) == 3 * 2 * 2


def test_report_writes_the_arena_again(rows_folder, succeeds):
    (rows_folder / "arena.html").unlink()
    assert "report.html" not in succeeds("report", rows_folder)
    assert (rows_folder / "arena.html").exists()


def test_two_methods_have_scores_instead_of_ranks(tmp_path, mtgcn_command):
    options = ["--graphs", "digits", "--methods", "lp,ppr", "--labels", "2", "--runs", "2", "--device", "cpu"]
    _, out, _ = mtgcn_command("arena", *options, "--workers", "1", "--out", tmp_path)
    assert out.startswith("| method | digits |\n| --- | --- |\n| lp | ")


def test_arena_check(rows_folder, succeeds, mtgcn_command):
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
    options = [*ARENA[:4], "--labels", "2,500", "--runs", "2", "--device", "cpu", "--workers", "1"]
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
def test_wrong_options_of_the_arena(fails, tmp_path, monkeypatch, message, options):
    monkeypatch.chdir(tmp_path)
    fails(message, "arena", *options)
