"""The commands of an analyst from end to end: fit, suggest, label, predict new nodes."""

import json

import numpy as np
import pytest

from own_files import read_csv, write_csv

KINDS = np.array(["Käufer", "neugierig", "weg"])


@pytest.fixture
def truth(tmp_path, monkeypatch):
    """Writes the tables of 600 customers of three classes, the last 100 of them new; returns their classes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(4)
    kind = random.integers(0, 3, 600)
    names = [f"K{7 * number:05}" for number in range(600)]
    features = random.normal(size=(600, 6)) + np.eye(6)[kind] * 1.2
    pairs = [(one, other) for one in range(600) for other in random.choice(600, 8, replace=False) if one < other]
    friends = [(one, other) for one, other in pairs if kind[one] == kind[other] or random.random() < 0.08]
    rows = [[name, *row] for name, row in zip(names, features.round(3).tolist(), strict=True)]
    write_csv(tmp_path / "nodes.csv", [["id", *"abcdef"], *rows[:500]])
    write_csv(tmp_path / "new.csv", [["id", *"fedcba"], *([row[0], *row[:0:-1]] for row in rows[500:])])
    for name, new in (("edges.csv", False), ("new-edges.csv", True)):
        edges = [[names[one], names[other]] for one, other in friends if (max(one, other) >= 500) == new]
        write_csv(tmp_path / name, [["source", "target"], *edges])
    given = np.concatenate([np.flatnonzero(kind[:500] == number)[:2] for number in range(3)])
    write_csv(tmp_path / "labels.csv", [["id", "label"], *([names[node], KINDS[kind[node]]] for node in given)])
    return dict(zip(names, KINDS[kind], strict=True))


@pytest.mark.long
def test_fit_suggest_label_predict(mtgcn_command, succeeds, fails, truth, tmp_path):
    def accuracy(name):
        return np.mean([row["predicted"] == truth[row["id"]] for row in read_csv(tmp_path / name)])

    files = ["--edges", "edges.csv", "--nodes", "nodes.csv"]
    _, out, _ = mtgcn_command("fit", *files, "--labels", "labels.csv", "--out", "m")
    assert "labels      6: Käufer 2, neugierig 2, weg 2" in out
    succeeds("predict", "m", "--out", "before.csv")

    # Twelve suggestions are filled in; one stays empty, one has a typing error.
    succeeds("suggest", "m", "--count", 12, "--out", "ask.csv")
    asked = read_csv(tmp_path / "ask.csv")
    two = json.loads(succeeds("suggest", "m", "--count", 2, "--json"))["suggestions"]
    assert [one["node"] for one in two] == [row["id"] for row in asked[:2]]
    answers = [[row["id"], truth[row["id"]]] for row in asked[1:]]
    header = [["id", "label"], [asked[0]["id"], ""]]
    write_csv(tmp_path / "answered.csv", [*header, [answers[0][0], "Kaufer"], *answers[1:]])
    fails("unknown class 'Kaufer'; did you mean 'Käufer'?", "label", "m", "answered.csv")
    write_csv(tmp_path / "answered.csv", [*header, *answers])
    for path in (tmp_path / "cache").rglob("*.npz"):  # the refit must find embeddings in the model
        path.unlink()
    _, out, _ = mtgcn_command("label", "m", "answered.csv")
    assert out.startswith("added       11: ")
    assert not list((tmp_path / "cache").rglob("*.npz"))
    succeeds("predict", "m", "--out", "after.csv")
    assert accuracy("after.csv") > max(0.8, accuracy("before.csv"))

    # A hundred new customers with edges to known ones and to each other.
    new = ["predict", "m", "--nodes", "new.csv", "--edges", "new-edges.csv"]
    assert mtgcn_command(*new, "--out", "some.csv")[0] == 0
    assert [row["id"] for row in read_csv(tmp_path / "some.csv")] == list(truth)[500:]
    assert accuracy("some.csv") > 0.7
    assert mtgcn_command(*new, "--all", "--out", "all.csv")[0] == 0
    some, after = read_csv(tmp_path / "some.csv"), read_csv(tmp_path / "after.csv")
    assert read_csv(tmp_path / "all.csv") == after + some
    fails("the model already has 500 of these 500 nodes", "predict", "m", *files, "--out", "-")
    succeeds("predict", "m", *files, "--new-graph", "--out", "same.csv")
    assert read_csv(tmp_path / "same.csv") == after
