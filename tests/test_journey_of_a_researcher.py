"""A researcher with her own graph and method: from files to the table in her paper, each command in a new process."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtgcn

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


@pytest.fixture
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


@pytest.fixture
def python(desk, tmp_path):
    """Runs Python in her folder, which is not on its path, with a new cache, on one thread so that sums are the same;
    returns standard output."""
    package = Path(mtgcn.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": str(package), "MTGCN_CACHE": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def run(*arguments):
        command = [sys.executable, *(["-P"] if arguments[0] == "-m" else []), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=desk, env=environment, capture_output=True, text=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


FILES = ("--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv")
COMPARED = ("--methods", "gcn,mt-plus,mine:Centroid", "--runs", 6, "--labels-per-class", 2, "--out", "rows")
IN_PYTHON = """
import json, mtgcn
graph = mtgcn.read_graph("edges.csv", nodes="nodes.csv", labels="labels.csv")
results = mtgcn.compare(graph, methods=["gcn", "mt-plus", "mine:Centroid"], labels_per_class=2, runs=6, seed=0)
print(json.dumps({cell.method: cell.accuracy.per_run for cell in results.comparison.cells}))
"""


def test_from_own_files_to_the_table_of_a_paper(desk, python):
    listed = python("-m", "mtgcn", "methods", "mine:Centroid")
    assert listed.startswith("Nearest centroid: a node is of the class")
    assert "how much nearer weighs more" in listed

    table = python("-m", "mtgcn", "compare", *FILES, *COMPARED, "--latex", "table.tex")
    means = {line.split()[0]: float(line.split()[1]) for line in table.splitlines()[2:5]}
    assert set(means) == {"gcn", "mt-plus", "mine:Centroid"}
    assert means["mt-plus"] > 80
    assert means["mt-plus"] > means["mine:Centroid"]
    assert f"{means['mt-plus']:.1f}" in (desk / "table.tex").read_text(encoding="utf-8")

    # The same again runs nothing, and Python gives the same.
    rows = (desk / "rows" / "rows.jsonl").read_bytes()
    cells = json.loads(python("-m", "mtgcn", "compare", *FILES, *COMPARED, "--json"))["cells"]
    assert (desk / "rows" / "rows.jsonl").read_bytes() == rows
    accuracies = {cell["method"]: cell["accuracy"]["per_run"] for cell in cells}
    assert json.loads(python("-c", IN_PYTHON)) == accuracies
