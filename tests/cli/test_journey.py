"""The commands of an analyst from end to end: fit, suggest, label, predict new nodes."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mtgcn

KINDS = np.array(["Käufer", "neugierig", "weg"])
SOURCE = str(Path(mtgcn.__file__).parents[1])  # wherever the commands are started from


@pytest.fixture
def files(tmp_path):
    """600 customers of three classes, the last 100 of them new; `truth` has all classes."""
    random = np.random.default_rng(4)
    kind = random.integers(0, 3, 600)
    names = [f"K{7 * number:05}" for number in range(600)]
    features = random.normal(size=(600, 6)) + np.eye(6)[kind] * 1.2
    pairs = [(one, other) for one in range(600) for other in random.choice(600, 8, replace=False) if one < other]
    friends = [(one, other) for one, other in pairs if kind[one] == kind[other] or random.random() < 0.08]

    def write(name, header, rows):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])

    header = ["id", "a", "b", "c", "d", "e", "f"]
    rows = [[name, *row] for name, row in zip(names, features.round(3).tolist(), strict=True)]
    write("nodes.csv", header, rows[:500])
    write("new.csv", [*header[:1], *header[:0:-1]], [[row[0], *row[:0:-1]] for row in rows[500:]])
    edges = [[names[one], names[other]] for one, other in friends]
    late = set(names[500:])
    write("edges.csv", ["source", "target"], [edge for edge in edges if not late & set(edge)])
    write("new-edges.csv", ["source", "target"], [edge for edge in edges if late & set(edge)])
    given = [np.flatnonzero(kind[:500] == number)[:2] for number in range(3)]
    write("labels.csv", ["id", "label"], [[names[node], KINDS[kind[node]]] for some in given for node in some])
    return tmp_path, dict(zip(names, KINDS[kind], strict=True))


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def accuracy(rows, truth):
    return np.mean([row["predicted"] == truth[row["id"]] for row in rows])


@pytest.mark.long
def test_fit_suggest_label_predict(files):
    folder, truth = files

    def command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "mtgcn", *arguments],
            cwd=folder,
            capture_output=True,
            check=False,
            env=os.environ | {"MTGCN_CACHE": str(folder / "cache"), "PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8"},
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    status, out, err = command(
        "fit", "--edges", "edges.csv", "--nodes", "nodes.csv", "--labels", "labels.csv", "--out", "m"
    )
    assert status == 0, err
    assert "labels      6: Käufer 2, neugierig 2, weg 2" in out
    assert command("predict", "m", "--out", "before.csv")[0] == 0
    before = accuracy(read(folder / "before.csv"), truth)

    # Twelve suggestions are filled in; one stays empty, one has a typing error.
    assert command("suggest", "m", "--count", "12", "--out", "ask.csv") == (0, "ask.csv\n", "")
    asked = read(folder / "ask.csv")
    _, two, _ = command("suggest", "m", "--count", "2", "--json")
    assert [one["node"] for one in json.loads(two)["suggestions"]] == [row["id"] for row in asked[:2]]
    for row in asked[1:]:
        row["label"] = truth[row["id"]]

    def label():
        with (folder / "answered.csv").open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, asked[0].keys())
            table.writeheader()
            table.writerows(asked)
        return command("label", "m", "answered.csv")

    right, asked[5]["label"] = asked[5]["label"], "Kaufer"
    status, out, err = label()
    assert (status, out) == (2, "")
    assert "unknown class 'Kaufer'; did you mean 'Käufer'?" in err
    asked[5]["label"] = right
    for path in (folder / "cache").rglob("*.npz"):  # the refit must find embeddings in the model
        path.unlink()
    status, out, err = label()
    assert status == 0, err
    assert out.startswith("added       11: ")
    assert "nodes without a label before" in out
    assert not list((folder / "cache").rglob("*.npz"))
    assert command("predict", "m", "--out", "after.csv")[0] == 0
    after = accuracy(read(folder / "after.csv"), truth)
    assert after > before
    assert after > 0.8

    # A hundred new customers with edges to known ones and to each other.
    new = ["--nodes", "new.csv", "--edges", "new-edges.csv"]
    status, out, err = command("predict", "m", *new, "--out", "-")
    assert status == 0, err
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["id"] for row in rows] == list(truth)[500:]
    assert accuracy(rows, truth) > 0.7, accuracy(rows, truth)
    assert command("predict", "m", *new, "--all", "--out", "all.csv")[0] == 0
    assert read(folder / "all.csv") == read(folder / "after.csv") + rows
    status, out, err = command("predict", "m", "--nodes", "nodes.csv", "--edges", "edges.csv", "--out", "-")
    assert (status, out) == (2, "")
    assert "the model already has 500 of these 500 nodes" in err
    assert "--new-graph" in err
    same = ("predict", "m", "--nodes", "nodes.csv", "--edges", "edges.csv", "--new-graph", "--out", "same.csv")
    assert command(*same)[0] == 0
    assert read(folder / "same.csv") == read(folder / "after.csv")
