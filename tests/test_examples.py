"""The examples run, and benchmarks start."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"

pytestmark = pytest.mark.slow  # each is a program of its own, started anew


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """What a method keeps between fits is not added to the user's own cache."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))


def printed(name, *arguments):
    """What an example prints; a warning ends it as it would end a test."""
    # PyTorch Geometric itself calls what torch has deprecated.
    quiet = ["-W", "error", "-W", "ignore:`torch.jit:DeprecationWarning"]
    command = [sys.executable, *quiet, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_own_csv():
    lines = printed("own_csv.py").splitlines()
    assert lines[0] == "Graph('edges.csv', nodes=120, edges=480, features=3, classes=3)"
    assert re.fullmatch(r"person-009: (chess|rowing|theatre) \(\d+%\)", lines[1])
    right = int(re.match(r"(\d+) of 120 are right", lines[-1])[1])
    assert right > 110


def test_customers(tmp_path):
    """Two commands and no preparation: semicolons, decimal commas, Latin-1, gaps, dates, notes, edges to nobody."""
    lines = printed("customers.py", str(tmp_path / "files")).splitlines()
    assert sum(line.startswith("$ mtgcn ") for line in lines) == 2
    right, customers = map(int, re.match(r"(\d+) of (\d+) customers are in their segment", lines[-1]).groups())
    assert customers == 2000
    assert right > 0.9 * customers


def test_table_without_graph():
    last = printed("table_without_graph.py", "--splits", "1", "--method", "gcn").splitlines()[-1]
    spreading, teaching = (float(share) for share in re.findall(r"([\d.]+)%", last))
    assert 70 < spreading < 95  # 85.8 on average
    assert 70 < teaching < 95


def test_mutual_teaching_on_the_table_without_graph():
    *_, means, gain = printed("table_without_graph.py", "--splits", "3").splitlines()
    spreading, teaching = (float(share) for share in re.findall(r"([\d.]+)%", means))
    assert teaching > spreading - 1
    assert float(re.search(r"gains ([+-][\d.]+) points", gain)[1]) == pytest.approx(teaching - spreading, abs=0.11)


def test_pyg_custom_backbone():
    shares = [float(share) for share in re.findall(r"([\d.]+)% of the unlabelled", printed("pyg_custom_backbone.py"))]
    assert len(shares) == 2
    assert min(shares) > 90


def test_pyg_is_optional(tmp_path, monkeypatch):
    (tmp_path / "torch_geometric.py").write_text("raise ImportError('not installed')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert "your module" in printed("pyg_custom_backbone.py")


def test_benchmarks_find_what_they_import_and_tell_their_options():
    """All in one process, which imports torch once."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").glob("*.py")}
    programs = [path for path, text in texts.items() if "__main__" in text and path.name != "marked_fit.py"]
    program = (
        "import os, runpy, sys\n"
        "for path in sys.argv[1:]:\n"
        "    sys.argv, sys.path[0] = [path, '--help'], os.path.dirname(path)\n"
        "    try: runpy.run_path(path, run_name='__main__')\n"
        "    except SystemExit as end: assert not end.code, path\n"
    )
    done = subprocess.run([sys.executable, "-c", program, *map(str, programs)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("usage: ") == len(programs)


def benchmark(name, *arguments):
    """What a benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = ("--dataset", "synthetic", "--nodes", "400", "--edges", "2000", "--runs", "2", "--infomax-epochs", "2")


def test_peers_are_fitted_to_the_same_splits(tmp_path):
    table = tmp_path / "peers.json"
    wanted = ("--programs", "mtgcn lp,LabelPropagation,LabelSpreading,Infomax", "--json", str(table))
    benchmark("peers.py", *SMALL, *wanted)
    rows = {row["program"]: row for row in json.loads(table.read_text(encoding="utf-8"))["rows"]}
    assert rows["PyG DeepGraphInfomax + LogisticRegression"]["note"] == "2 of 2 epochs"
    assert all(len(row["accuracies"]) == 2 and row["first, s"] > 0 for row in rows.values())
    # Edges mostly join equals, so whoever spreads labels along them finds out far more than chance, one in ten.
    assert min(row["accuracy %"] for name, row in rows.items() if "Infomax" not in name) > 25


def test_a_peer_that_is_not_installed_is_named_and_left_out(tmp_path, monkeypatch):
    (tmp_path / "torch_geometric.py").write_text("raise ImportError('no such thing')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    told = benchmark("peers.py", *SMALL, "--programs", "mtgcn lp,PyG LabelPropagation")
    assert "left out: PyG LabelPropagation; torch_geometric is not installed (no such thing)" in told
    assert re.search(r"\| mtgcn lp +\|", told)
    assert "| PyG" not in told


@pytest.mark.long
def test_a_first_fit_is_told_stage_by_stage(tmp_path):
    table = tmp_path / "first.json"
    benchmark("first_fit.py", "--dataset", "digits", "--labels-per-class", "2", "--json", str(table))
    found = json.loads(table.read_text(encoding="utf-8"))
    [row] = found["files"]
    by_clock = [float(row[f"{stage}, s"].split()[0]) for stage in ("imports", "reading", "fitting", "writing")]
    assert min(by_clock) > 0
    assert sum(by_clock) <= row["seconds"] + 1
    assert found["python"][0]["refit, s"] > 0
