"""`shard` and `fit` as a person types them, in one process: what they write, print and refuse."""

import csv
import json
import shutil

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.commands import main
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.io.options import TableOptions
from mtgcn.workflows.predict import predict_files

QUICK = ["--method", "mt-gcn", "--set", "warmup_epochs=3", "--set", "teaching_epochs=2"]


@pytest.fixture
def folder(files, tmp_path):
    return shutil.copytree(files, tmp_path / "graph")


@pytest.fixture
def fit(folder):
    """Fits the shards; what was typed beside comes after."""

    def run(*more, labels=folder / "labels.csv"):
        typed = ["fit", folder / "shards", "--labels", labels, "--out", folder / "result", *QUICK, *more]
        return main(list(map(str, typed)))

    return run


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_shards_are_cut_and_told_of(folder, capsys):
    typed = ["shard", "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--parts", 3]
    assert main(list(map(str, [*typed, "--out", folder / "new"]))) == 0
    out = capsys.readouterr().out
    assert out.startswith("60 nodes, ")
    assert "12 features in 3 parts" in out
    assert out.endswith(f"{folder / 'new'}\n")
    assert main(list(map(str, [*typed, "--out", folder / "new", "--json"]))) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["parts"] == 3
    assert 0 < summary["boundary"] < 1
    assert summary["notes"] == []


def test_a_fit_leaves_a_card_weights_and_predictions_as_predict_has_them(folder, fit, capsys):
    assert fit("--model", str(folder / "model"), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    card = json.loads((folder / "result" / "card.json").read_text())
    assert told["predicted"] == card["predicted"]
    assert sum(card["predicted"].values()) == card["nodes"] == 60
    assert card["labelled"] == 9
    assert card["method"]["settings"]["warmup_epochs"] == 3
    assert len(card["history"]["supervised"]) == 5
    assert card["history"]["consistency"][0] == [None, None]
    model = MutualTeachingClassifier.load(folder / "model")
    predict_files(folder / "model", TableOptions(), out=folder / "predicted.csv")
    expected = {row["id"]: row for row in rows_of(folder / "predicted.csv")}
    assert {row["id"]: row for row in rows_of(folder / "result" / "predictions-0.csv")} == expected
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv")
    assert model.graph_.node_ids.tolist() == graph.node_ids.tolist()
    np.testing.assert_array_equal(model.graph_.adjacency.toarray(), graph.adjacency.toarray())
    np.testing.assert_array_equal(model.graph_.features, graph.features)
    assert model.predict_proba(graph=graph).shape == (60, 3)  # the trained peers can be asked of any graph


def test_predictions_of_more_ranks_than_there_are_now_do_not_stay(folder, fit):
    assert fit() == 0
    shutil.copy(folder / "result" / "predictions-0.csv", folder / "result" / "predictions-3.csv")
    assert fit() == 0
    assert [path.name for path in (folder / "result").glob("*.csv")] == ["predictions-0.csv"]


def test_going_on_from_a_checkpoint_gives_the_same_predictions(folder, fit, capsys):
    assert fit() == 0
    undisturbed = rows_of(folder / "result" / "predictions-0.csv")
    keep = ["--checkpoint", str(folder / "kept"), "--every", "4"]
    assert fit(*keep) == 0
    assert json.loads((folder / "kept" / "latest.json").read_text())["epoch"] == 4
    shutil.rmtree(folder / "result")
    assert fit(*keep, "--resume") == 0
    assert "going on after epoch 4" in capsys.readouterr().err
    assert rows_of(folder / "result" / "predictions-0.csv") == undisturbed
    assert fit(*keep, "--resume", "--seed", "1") == 2
    assert "is of a fit with another seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "mt-gnc"], "unknown method on shards 'mt-gnc'; did you mean 'mt-gcn'?"),
        (["--set", "warmup_epochs=-1"], "warmup_epochs"),
        (["--set", "backbone=gat"], "backbone is 'gat', and on shards only 'gcn' can be fitted"),
        (["--seed", "-1"], "seed is -1; give at least 0"),
        (["--resume"], "add --checkpoint DIR"),
        (["--checkpoint", "x", "--every", "0"], "--every is 0; give at least 1"),
        (["--unknown-nodes", "add"], "unknown choice of --unknown-nodes 'add'"),
        (["--labels", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--column", "label=topic"], "topic"),
        (["--strange"], "No such option"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(fit, more, message, capsys):
    assert fit(*more) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mtgcn: error: ")
    assert message in said.err
    assert said.err.count("\n") == 1


def test_folders_with_something_else_are_not_touched(folder, fit, capsys):
    (folder / "result").mkdir()
    (folder / "result" / "thesis.txt").write_text("mine")
    assert fit() == 2
    assert "holds files and no results" in capsys.readouterr().err
    assert (folder / "result" / "thesis.txt").read_text() == "mine"


def test_shards_need_both_tables(folder, capsys):
    assert main(["shard", "--edges", str(folder / "edges.csv"), "--parts", "2", "--out", str(folder / "new")]) == 2
    assert "give --edges and --nodes" in capsys.readouterr().err
