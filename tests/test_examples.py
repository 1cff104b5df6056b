"""The examples run, and benchmarks against other libraries."""

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


pytestmark = pytest.mark.usefixtures("private_cache")


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


@pytest.mark.parametrize(
    ("name", "rows", "least"),
    [
        pytest.param("wine_table.py", 163, 145, marks=pytest.mark.slow),
        pytest.param("text_table.py", 40, 38, marks=pytest.mark.slow),
        pytest.param("customers.py", 2000, 1801, marks=pytest.mark.long),
    ],
)
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
