"""The examples run, and benchmarks against other libraries."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    """What a method keeps between fits is not added to the user's own cache."""
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def example(monkeypatch, capsys):
    """The lines that an example prints, run in this process."""

    def lines(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return lines


@pytest.mark.slow
def test_own_csv(example):
    lines = example("own_csv.py")
    assert lines[0] == "Graph('edges.csv', nodes=120, edges=480, features=3, classes=3)"
    assert re.fullmatch(r"person-009: (chess|rowing|theatre) \(\d+%\)", lines[1])
    right = int(re.match(r"(\d+) of 120 are right", lines[-1])[1])
    assert right > 110


@pytest.mark.long
def test_customers(example, tmp_path):
    """Two commands and no preparation: semicolons, decimal commas, Latin-1, gaps, dates, notes, edges to nobody."""
    lines = example("customers.py", tmp_path / "files")
    assert sum(line.startswith("$ mtgcn ") for line in lines) == 2
    right, customers = map(int, re.match(r"(\d+) of (\d+) customers are in their segment", lines[-1]).groups())
    assert customers == 2000
    assert right > 0.9 * customers


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("graph", lambda cells: cells["correct"] >= 32),
        ("table", lambda cells: cells["doubtful"][0].index == 3 and cells["accuracy"] > 0.9),
        ("text", lambda cells: cells["new"].tolist() == ["login", "billing"]),
        ("comparison", lambda cells: min(cells["accuracy"].values()) > 0.7),
    ],
)
def test_notebooks_run(name, holds, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert holds(runpy.run_path(str(ROOT / "examples" / "notebooks" / f"{name}.py")))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "least"), [("wine_table.py", 163, 145), ("text_table.py", 40, 38)])
def test_two_commands_on_a_table(example, tmp_path, name, rows, least):
    lines = example(name, tmp_path)
    assert sum(line.startswith("$ mtgcn ") for line in lines) == 2
    right, total = map(int, re.match(r"(\d+) of (\d+) ", lines[-1]).groups())
    assert total == rows
    assert right >= least


@pytest.mark.parametrize(("method", "splits"), [("sgc", 2), pytest.param("mt-plus", 3, marks=pytest.mark.long)])
def test_table_without_graph(example, method, splits):
    *_, means, gain = example("table_without_graph.py", "--splits", splits, "--method", method)
    spreading, teaching = (float(share) for share in re.findall(r"([\d.]+)%", means))
    assert 70 < spreading < 95  # 85.8 on average
    assert teaching > (spreading - 1 if method == "mt-plus" else 70)
    assert float(re.search(r"gains ([+-][\d.]+) points", gain)[1]) == pytest.approx(teaching - spreading, abs=0.11)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # PyTorch Geometric calls it
@pytest.mark.parametrize("has_pyg", [True, False])
def test_pyg_custom_backbone(example, monkeypatch, has_pyg):
    if not has_pyg:
        monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    lines = example("pyg_custom_backbone.py")
    assert [line.partition(":")[0] for line in lines] == ["our GCN", "your module"]
    assert min(float(re.search(r"([\d.]+)% of the unlabelled", line)[1]) for line in lines) > 90


def benchmark(name, *arguments):
    """What a benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = ("--dataset", "synthetic", "--nodes", "400", "--edges", "2000", "--runs", "2", "--infomax-epochs", "2")


@pytest.mark.long
def test_peers_are_fitted_to_the_same_splits(tmp_path):
    table = tmp_path / "peers.json"
    wanted = ("--programs", "mtgcn lp,LabelPropagation,LabelSpreading,Infomax", "--json", str(table))
    benchmark("peers.py", *SMALL, *wanted)
    rows = {row["program"]: row for row in json.loads(table.read_text(encoding="utf-8"))["rows"]}
    assert rows["PyG DeepGraphInfomax + LogisticRegression"]["note"] == "2 of 2 epochs"
    assert all(len(row["accuracies"]) == 2 and row["first, s"] > 0 for row in rows.values())
    # Edges mostly join equals, so whoever spreads labels along them finds out far more than chance, one in ten.
    assert min(row["accuracy %"] for name, row in rows.items() if "Infomax" not in name) > 25


@pytest.mark.long
def test_missing_peer_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "torch_geometric.py").write_text("raise ImportError('no such thing')", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    told = benchmark("peers.py", *SMALL, "--programs", "mtgcn lp,PyG LabelPropagation")
    assert "left out: PyG LabelPropagation; torch_geometric is not installed (no such thing)" in told
    assert re.search(r"\| mtgcn lp +\|", told)
    assert "| PyG" not in told


@pytest.mark.long
def test_stages_of_a_first_fit(tmp_path):
    table = tmp_path / "first.json"
    benchmark("first_fit.py", "--dataset", "digits", "--labels-per-class", "2", "--json", str(table))
    found = json.loads(table.read_text(encoding="utf-8"))
    [row] = found["files"]
    by_clock = [float(row[f"{stage}, s"].split()[0]) for stage in ("imports", "reading", "fitting", "writing")]
    assert min(by_clock) > 0
    assert sum(by_clock) <= row["seconds"] + 1
    assert found["python"][0]["refit, s"] > 0
