"""Whatever the number of ranks, the answer of one process that holds the graph."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from mtgcn import read_graph
from mtgcn.distributed.commands import main
from mtgcn.distributed.labels import shared_labels
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.local_task import local_task
from mtgcn.distributed.mt_plus import fit_mt_plus
from mtgcn.distributed.shards import read_manifest
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.graph import Graph
from mtgcn.io.options import TableOptions
from mtgcn.methods import create
from mtgcn.splits import Split
from mtgcn.task import observe
from mtgcn.workflows.predict import predict_files
from thread_ranks import on_ranks

QUICK = {"directions": 6, "edge_directions": 12, "dimensions": 8, "infomax_epochs": 6, "rounds": 3, "steps": 3}


def fit_on(count, folder, method):
    def work(ranks):
        graph = read_local_graph(read_manifest(folder / "shards"), ranks)
        labels, names = shared_labels(folder / "labels.csv", graph, TableOptions())
        task = local_task(graph, labels, len(names), seed=5)
        return graph.numbers.numpy(), fit_mt_plus(method, graph, task, None)

    done = on_ranks(count, work)
    return np.argsort(np.concatenate([numbers for numbers, _ in done])), [answer for _, answer in done]


@pytest.mark.parametrize("source", ["files", "sparse_files"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"left_out": "infomax", "taught_by": "itself", "balanced": "always"},
        {"votes": "equal", "taught": "always", "balanced": "never"},
    ],
    ids=lambda settings: ",".join(settings) or "defaults",
)
def test_ranks_give_what_one_process_gives(source, settings, request):
    folder = request.getfixturevalue(source)
    method = create("mt-plus", **QUICK | settings)
    graph = read_graph(folder / "edges.csv", nodes=folder / "nodes.csv", labels=folder / "labels.csv")
    alone = method.fit(observe(graph, [Split(graph.known, [], [])], seed=5))
    for count in (1, 4):
        order, answers = fit_on(count, folder, method)
        probabilities = np.concatenate([answer.probabilities for answer in answers])[order]
        np.testing.assert_allclose(probabilities, alone.probabilities[0], atol=1e-4)
        np.testing.assert_array_equal(probabilities.argmax(1), alone.probabilities[0].argmax(1))
        peers = np.concatenate([answer.peers for answer in answers], axis=1)[:, order]
        np.testing.assert_allclose(peers, alone.peers[0], atol=1e-3)
        taught = np.concatenate([answer.pseudo_labelled_at for answer in answers])[order]
        np.testing.assert_array_equal(taught, alone.pseudo_labelled_at[0])
        for answer in answers:
            np.testing.assert_array_equal(answer.history["pseudo labels"], alone.history["pseudo labels"])
            assert answer.peer_report.names == alone.peer_report.names
            for part in ("weights", "held_out_accuracy", "agreement", "teaching"):
                found, expected = getattr(answer.peer_report, part), getattr(alone.peer_report, part)
                np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=part)
            assert {name: one.shape for name, one in answer.parameters.items()} == {
                name: one.shape for name, one in alone.parameters.items()
            }  # so that a model may take them over
            for name, values in answers[0].parameters.items():
                np.testing.assert_array_equal(answer.parameters[name], values)  # peers never drift apart


def test_large_graphs_are_taught_by_some_of_their_nodes(files):
    method = create("mt-plus", **QUICK, nodes_per_round=20)
    graph = read_graph(files / "edges.csv", nodes=files / "nodes.csv", labels=files / "labels.csv")
    alone = method.fit(observe(graph, [Split(graph.known, [], [])], seed=5))
    assert 0 < alone.history["pseudo labels"].max() <= 20
    for count in (1, 4):
        order, answers = fit_on(count, files, method)
        probabilities = np.concatenate([answer.probabilities for answer in answers])[order]
        np.testing.assert_allclose(probabilities, alone.probabilities[0], atol=1e-4)
        np.testing.assert_array_equal(answers[0].history["pseudo labels"], alone.history["pseudo labels"])


def test_the_command_fits_it_unasked_keeps_its_state_and_writes_a_model(files, tmp_path, capsys):
    typed = ["fit", files / "shards", "--labels", files / "labels.csv", "--set", "infomax_epochs=6", "--device", "cpu"]
    keep = ["--checkpoint", tmp_path / "kept", "--every", 4]
    assert main(list(map(str, [*typed, "--out", tmp_path / "result", "--model", tmp_path / "model"]))) == 0
    assert main(list(map(str, [*typed, *keep, "--out", tmp_path / "kept result"]))) == 0
    capsys.readouterr()
    assert main(list(map(str, [*typed, *keep, "--resume", "--out", tmp_path / "resumed"]))) == 0
    printed = capsys.readouterr()
    assert "mt-plus on 1 ranks" in printed.out
    assert "going on after epoch 4" in printed.err
    expected = predictions(tmp_path / "result")
    assert predictions(tmp_path / "kept result") == predictions(tmp_path / "resumed") == expected
    predict_files(tmp_path / "model", TableOptions(), out=tmp_path / "predictions-of-model.csv")
    assert predictions(tmp_path) == expected
    graph = read_graph(files / "edges.csv", nodes=files / "nodes.csv")
    model = MutualTeachingClassifier.load(tmp_path / "model")
    asked = model.predict_proba(graph=graph)  # of encoders and peers, as of any graph
    assert (asked.argmax(1) == model.label_distributions_.argmax(1)).mean() > 0.8


def predictions(folder):
    rows = [row for path in folder.glob("predictions-*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    names = [name for name in rows[0] if name.startswith("probability_")]
    return {row["id"]: (row["predicted"], [float(row[name]) for name in names]) for row in rows}


@pytest.mark.long
@pytest.mark.data
def test_torchrun_on_cora_gives_the_same_for_any_number_of_ranks(tmp_path, write_graph):
    from mtgcn.datasets import load

    cora = load("cora")
    folder = write_graph(tmp_path, Graph(cora.adjacency, (cora.features > 0).astype(np.float32)))
    distributed = ["-m", "mtgcn.distributed"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    cut = [*distributed, "shard", "--edges", folder / "edges.csv", "--nodes", folder / "nodes.csv", "--parts", "4"]
    subprocess.run([sys.executable, *map(str, cut), "--out", str(folder / "shards")], check=True, env=environment)
    found = {}
    for count in (1, 2, 4):
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count), *distributed]
        options = ["--labels", folder / "labels.csv", "--set", "infomax_epochs=40", "--device", "cpu", "--json"]
        out = folder / f"result-{count}"
        command = [sys.executable, *torchrun, "fit", folder / "shards", *options, "--out", out]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["method"]["name"] == "mt-plus"  # which is what one gets without asking
        found[count] = predictions(out)
    assert len(found[1]) == 2708
    for count in (2, 4):
        assert found[count].keys() == found[1].keys()
        for node, (predicted, probabilities) in found[1].items():
            assert found[count][node][0] == predicted
            np.testing.assert_allclose(found[count][node][1], probabilities, atol=1e-4)
