"""A researcher with her own graph and method: from files to the table in her paper, command by command,
each in a new process."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtgcn
from mtgcn import read_graph

pytestmark = pytest.mark.long

NODES, FEATURES = 300, 8
CLASSES = ("Ärztin", "Bäcker", "Köchin")
OWN_METHOD = '''
"""Nearest centroid: a node is of the class whose labelled nodes lie nearest."""

from dataclasses import dataclass

import numpy as np

from mtgcn.task import Prediction


@dataclass(frozen=True)
class Centroid:
    sharpness: float = 1.0  # how much nearer weighs more

    def fit(self, task):
        features = np.asarray(task.graph.features)
        shares = np.empty((task.runs, task.num_nodes, task.num_classes))
        for run in range(task.runs):
            present = task.labelled.present[run].numpy()
            nodes, classes = (part[run].numpy()[present] for part in (task.labelled.index, task.labelled.classes))
            every = range(task.num_classes)
            centroids = np.stack([features[nodes[classes == number]].mean(axis=0) for number in every])
            distances = np.linalg.norm(features[:, None] - centroids, axis=2)
            weights = np.exp(-self.sharpness * (distances - distances.min(axis=1, keepdims=True)))
            shares[run] = weights / weights.sum(axis=1, keepdims=True)
        return Prediction(shares)
'''


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """Her folder: untidy tables (semicolons, ids with zeros in front, umlauts, half of the labels), her method."""
    folder = tmp_path_factory.mktemp("desk")
    random = np.random.default_rng(3)
    labels = np.arange(NODES) % len(CLASSES)
    same = labels[:, None] == labels
    edges = np.argwhere(np.triu(random.random((NODES, NODES)) < np.where(same, 0.05, 0.006), 1))
    features = random.normal(size=(NODES, FEATURES))
    features[np.arange(NODES), labels] += 1.2
    ids = [f"{13 * node:05}" for node in range(NODES)]
    write(folder / "edges.csv", ["von", "zu"], [(ids[first], ids[second]) for first, second in edges])
    write(folder / "nodes.csv", ["id", *(f"f{place}" for place in range(FEATURES))], zip(ids, *features.T, strict=True))
    write(folder / "labels.csv", ["id", "class"], [(ids[node], CLASSES[labels[node]]) for node in range(0, NODES, 2)])
    (folder / "mine.py").write_text(OWN_METHOD, encoding="utf-8")
    return folder


def write(path, heading, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(heading)
        writer.writerows(rows)


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory):
    """The package that is tested, wherever it is started; a new cache; one thread, so that sums are the same."""
    package = Path(mtgcn.__file__).parents[1]
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {"PYTHONPATH": str(package), "MTGCN_CACHE": str(cache), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def mtgcn_command(desk, surroundings):
    """Starts the program in her folder, which is not on Python's path."""

    def command(*arguments, status=0):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mtgcn", *map(str, arguments)],
            cwd=desk,
            env=surroundings,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done

    return command


FILES = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv")
COMPARED = ("--methods", "gcn,mt-plus,mine:Centroid", "--runs", 6)
PAPER = ("--out", "rows", "--latex", "table.tex", "--report", "page.html")


def test_from_own_files_to_the_table_of_a_paper(desk, mtgcn_command):
    listed = mtgcn_command("methods", "mine:Centroid").stdout
    assert listed.startswith("Nearest centroid: a node is of the class")
    assert "how much nearer weighs more" in listed

    # Two label rates, one folder.
    first = mtgcn_command("compare", *FILES, *COMPARED, "--labels-per-class", 2, *PAPER)
    means = {line.split()[0]: float(line.split()[1]) for line in first.stdout.splitlines()[2:5]}
    assert set(means) == {"gcn", "mt-plus", "mine:Centroid"}
    assert means["mt-plus"] > 80
    assert means["mt-plus"] > means["mine:Centroid"]
    mtgcn_command("compare", *FILES, *COMPARED, "--labels-per-class", 10, *PAPER)

    latex = (desk / "table.tex").read_text(encoding="utf-8")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    both = (desk / "rows" / "tables-comparison.tex").read_text(encoding="utf-8")
    assert "method & 2 labels per class & 10 labels per class" in both
    assert f"{means['mt-plus']:.1f}" in both
    for page in (desk / "page.html", desk / "rows" / "report-comparison.html"):
        assert "mine:Centroid" in page.read_text(encoding="utf-8")

    # The same again runs nothing and says the same.
    rows = (desk / "rows" / "rows.jsonl").read_bytes()
    again = mtgcn_command("compare", *FILES, *COMPARED, "--labels-per-class", 2, *PAPER)
    assert again.stdout == first.stdout
    assert (desk / "rows" / "rows.jsonl").read_bytes() == rows

    # Her method with another setting joins the comparison; so it does after she edited it.
    tried = ("--method", "mine:Centroid", "--runs", 6, "--labels-per-class", 2, "--out", "rows")
    mtgcn_command("run", *FILES, *tried, "--set", "sharpness=5")
    summary = (desk / "rows" / "summary-comparison.md").read_text(encoding="utf-8")
    assert "| mine:Centroid, sharpness=1.0 |" in summary
    assert "| mine:Centroid, sharpness=5.0 |" in summary
    before = len((desk / "rows" / "rows.jsonl").read_bytes().splitlines())
    (desk / "mine.py").write_text(OWN_METHOD.replace("-self.sharpness", "-2 * self.sharpness"), encoding="utf-8")
    mtgcn_command("run", *FILES, *tried)
    assert len((desk / "rows" / "rows.jsonl").read_bytes().splitlines()) == before + 6

    # The page again, from rows alone.
    (desk / "rows" / "report-comparison.html").unlink()
    assert "rows/report-comparison.html" in mtgcn_command("report", "rows").stdout
    assert (desk / "rows" / "report-comparison.html").exists()


def test_python_and_the_command_agree(desk, mtgcn_command, surroundings):
    printed = json.loads(mtgcn_command("compare", *FILES, *COMPARED, "--labels-per-class", 2, "--json").stdout)
    program = """
import json, mtgcn
graph = mtgcn.read_graph("edges.csv", nodes="nodes.csv", labels="labels.csv")
results = mtgcn.compare(graph, methods=["gcn", "mt-plus", "mine:Centroid"], labels_per_class=2, runs=6, seed=0)
print(json.dumps({cell.method: cell.accuracy.per_run for cell in results.comparison.cells}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=desk, env=surroundings, capture_output=True, text=True, check=True
    )
    accuracies = {cell["method"]: cell["accuracy"]["per_run"] for cell in printed["cells"]}
    assert json.loads(done.stdout) == accuracies


def test_the_data_of_pytorch_geometric(desk, mtgcn_command):
    pyg = pytest.importorskip("torch_geometric.data")
    import torch

    graph = read_graph(desk / "edges.csv", nodes=desk / "nodes.csv", labels=desk / "labels.csv", header="yes")
    data = pyg.Data(
        x=torch.tensor(graph.features),
        edge_index=torch.tensor(np.stack(graph.adjacency.nonzero())),
        y=torch.tensor(graph.labels),
    )
    torch.save(data, desk / "data.pt")
    arguments = ("--labels-per-class", 2, "--runs", 4, "--method", "gcn", "--json")
    from_tables, from_pyg = (
        json.loads(mtgcn_command("run", *files, *arguments).stdout) for files in (FILES, ("--graph", "data.pt"))
    )
    assert from_pyg["accuracy"]["per_run"] == from_tables["accuracy"]["per_run"]
    torch.save(torch.nn.Linear(2, 2), desk / "module.pt")
    refused = mtgcn_command("run", "--graph", "module.pt", "--labels-per-class", 2, status=2).stderr
    assert re.search(r'data = torch\.load\("module\.pt", weights_only=False\); numpy\.savez\("module\.npz"', refused)
