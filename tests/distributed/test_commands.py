"""The commands `shard` and `fit` in one process: files, output and errors."""

import json
import shutil

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.__main__ import main
from mtgcn.distributed.fitting import local_labels
from mtgcn.distributed.shards import read_local_graph, read_manifest
from mtgcn.errors import GraphNote, InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.io.options import TableOptions
from mtgcn.workflows.predict import predict_files
from own_files import read_csv
from thread_ranks import on_ranks

QUICK = ["--method", "mt-gcn", "--set", "warmup_epochs=3", "--set", "teaching_epochs=2"]


@pytest.fixture
def folder(files, tmp_path):
    return shutil.copytree(files, tmp_path / "graph")


def run(*typed):
    return main(list(map(str, typed)))


@pytest.fixture
def fit(folder):
    """Fits the shards with further options."""
    files = [folder / "shards", "--labels", folder / "labels.csv", "--out", folder / "result"]
    return lambda *more: run("fit", *files, *QUICK, *more)


def rows_of(path):
    return {row["id"]: row for row in read_csv(path)}


def test_shard(folder, capsys):
    typed = ["shard", "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--parts", 3]
    assert run(*typed, "--out", folder / "new") == 0
    out = capsys.readouterr().out
    assert out.startswith("60 nodes, ")
    assert "12 features in 3 parts" in out
    assert out.endswith(f"{folder / 'new'}\n")
    assert run(*typed, "--out", folder / "new", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["parts"] == 3
    assert 0 < summary["boundary"] < 1
    assert summary["notes"] == []


def test_fit_mt_gcn(folder, fit, capsys):
    assert fit("--model", folder / "model", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    card = json.loads((folder / "result" / "card.json").read_text())
    assert summary["predicted"] == card["predicted"]
    assert sum(card["predicted"].values()) == card["nodes"] == 60
    assert card["labelled"] == 9
    assert card["method"]["settings"]["warmup_epochs"] == 3
    assert len(card["history"]["supervised"]) == 5
    assert card["history"]["consistency"][0] == [None, None]
    model = MutualTeachingClassifier.load(folder / "model")
    predict_files(folder / "model", TableOptions(), out=folder / "predicted.csv")
    assert rows_of(folder / "result" / "predictions-0.csv") == rows_of(folder / "predicted.csv")
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv")
    assert model.graph_.node_ids.tolist() == graph.node_ids.tolist()
    np.testing.assert_array_equal(model.graph_.adjacency.toarray(), graph.adjacency.toarray())
    np.testing.assert_array_equal(model.graph_.features, graph.features)
    assert model.predict_proba(graph=graph).shape == (60, 3)


def test_predictions_of_earlier_ranks_are_removed(folder, fit, capsys):
    (folder / "labels.csv").write_text((folder / "labels.csv").read_text() + "n0,NaN\n")
    assert fit() == 0
    assert "mtgcn: note: " in capsys.readouterr().err
    shutil.copy(folder / "result" / "predictions-0.csv", folder / "result" / "predictions-3.csv")
    assert fit() == 0
    assert [path.name for path in (folder / "result").glob("*.csv")] == ["predictions-0.csv"]


def test_resume(folder, fit, capsys):
    assert fit() == 0
    undisturbed = rows_of(folder / "result" / "predictions-0.csv")
    keep = ["--checkpoint", folder / "kept", "--every", 4]
    assert fit(*keep) == 0
    shutil.rmtree(folder / "result")
    assert fit(*keep, "--resume") == 0
    assert "resuming after epoch 4" in capsys.readouterr().err
    assert rows_of(folder / "result" / "predictions-0.csv") == undisturbed
    assert fit(*keep, "--resume", "--seed", "1") == 2
    assert "was written with a different seed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--method", "mt-gnc"], "unknown method on shards 'mt-gnc'; did you mean 'mt-gcn'?"),
        (["--set", "backbone=gat"], "backbone='gat' is not supported on shards; omit it"),
        (["--resume"], "add --checkpoint DIR"),
        (["--checkpoint", "x", "--every", "0"], "--every is 0; give at least 1"),
        (["--unknown-nodes", "add"], "unknown choice of --unknown-nodes 'add'"),
        (["--labels", "nowhere.csv"], "nowhere.csv does not exist"),
        (["--column", "label=topic"], "topic"),
        (["--strange"], "No such option"),
    ],
)
def test_invalid_options(fit, more, message, capsys):
    assert fit(*more) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mtgcn: error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("mine", ["thesis.txt", "card.json", "old/predictions-2.csv"])
def test_other_folders_are_not_touched(folder, fit, mine, capsys):
    own = [folder / "result" / name for name in (mine, "predictions-2024.csv", "notes.txt")]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert fit() == 2
    assert "is not empty and contains no results" in capsys.readouterr().err
    assert all(path.read_text() == "{}" for path in own)


def test_shards_need_both_tables(folder, capsys):
    assert run("shard", "--edges", folder / "edges.csv", "--parts", 2, "--out", folder / "new") == 2
    assert "give --edges and --nodes" in capsys.readouterr().err


def test_fit_mt_plus_by_default(files, tmp_path, capsys):
    typed = ["fit", files / "shards", "--labels", files / "labels.csv", "--set", "infomax_epochs=6", "--device", "cpu"]
    assert run(*typed, "--out", tmp_path / "result", "--model", tmp_path / "model") == 0
    assert "mt-plus on 1 ranks" in capsys.readouterr().out
    predict_files(tmp_path / "model", TableOptions(), out=tmp_path / "predicted.csv")
    assert rows_of(tmp_path / "result" / "predictions-0.csv") == rows_of(tmp_path / "predicted.csv")
    graph = read_graph(files / "edges.csv", nodes=files / "nodes.csv")
    model = MutualTeachingClassifier.load(tmp_path / "model")
    predicted = model.predict_proba(graph=graph)
    assert (predicted.argmax(1) == model.label_distributions_.argmax(1)).mean() > 0.8


@pytest.fixture
def labelled(files, tmp_path):
    """The labels that each of two ranks reads from a table, by id."""

    def read(content, **options):
        path = tmp_path / "labels.csv"
        path.write_text(content)

        def work(ranks):
            graph = read_local_graph(read_manifest(files / "shards"), ranks)
            labels, names = local_labels(path, graph, TableOptions(may_add_nodes=False, **options))
            some = np.flatnonzero(labels >= 0)
            return {graph.ids[int(node)].as_py(): names[labels[node]] for node in some}

        return on_ranks(2, work)

    return read


def test_labels_of_each_rank(labelled):
    with pytest.warns(GraphNote, match="1 labels are words for a missing value"):
        found = labelled("id,label\nn1,cat\nn2,dog\nn3,NaN\nn40,dog\n")
    assert {**found[0], **found[1]} == {"n1": "cat", "n2": "dog", "n40": "dog"}
    assert not found[0].keys() & found[1].keys()


def test_labels_of_unknown_ids(labelled):
    table = "id,label\nn1,cat\nn2,dog\nstranger,dog\n"
    with pytest.raises(InputError, match=r"line 4: node 'stranger' is not in the graph .*leave such labels out$"):
        labelled(table)
    with pytest.warns(GraphNote, match="labels of 1 ids that are not in the graph .* are left out"):
        found = labelled(table, unknown_nodes="drop")
    assert {**found[0], **found[1]} == {"n1": "cat", "n2": "dog"}


def test_labels_of_all_nodes(labelled):
    with pytest.raises(InputError, match="all 60 nodes are labelled"):
        labelled("id,label\n" + "".join(f"n{node},{'ab'[node % 2]}\n" for node in range(60)))
    with pytest.raises(InputError, match="two labels for node 'n1'"):  # on every rank
        labelled("id,label\nn1,cat\nn1,dog\n")
