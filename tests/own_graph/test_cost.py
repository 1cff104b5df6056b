"""What a fit will cost, told before: counts by hand for recorded sizes, and what the commands say of them."""

import json

import numpy as np
import pytest
import torch

from mtgcn.linalg.leading_directions import ROUNDS, SPARE
from mtgcn.linalg.pagerank import work_of_walk
from mtgcn.linalg.softmax_regression import work_of_all
from mtgcn.machine_speed import Speeds
from mtgcn.methods import create
from mtgcn.nn.infomax import InfomaxSettings
from mtgcn.own_graph import cost
from mtgcn.own_graph.cost import expected_cost
from mtgcn.own_graph.memory_check import needed_bytes, one_run
from mtgcn.training import peer_inputs
from mtgcn.training.embeddings import work_of_embedding
from mtgcn.training.peer_inputs import ENCODED, FAR_STEPS, NEAR_STEPS, InputSettings, work_of_inputs

CPU = torch.device("cpu")


def test_a_walk_reads_every_entry_and_itself_once_a_step_and_column(make_graph):
    graph = make_graph(nodes=50)
    assert work_of_walk(graph, 7, 3).gathered == 3 * 7 * (graph.adjacency.nnz + 50)


def test_training_encoders_multiplies_what_cora_has():
    """512 of 2708 nodes, 256 directions, two encoders of 256 dimensions: twice forward, twice backward."""
    work = InfomaxSettings(epochs=200).work_of_training(nodes=2708, width=256)
    layer = 512 * 256 * 512
    assert 200 * 4 * layer <= work.multiplied <= 1.2 * 200 * 4 * layer


def test_teaching_multiplies_what_cora_has():
    """The bound is one square of the width per node; a step goes over all nodes twice. With a bound that is there, the
    loss before and after is looked at instead, once over all nodes each."""
    anew, alike = (work_of_all(2708, 257, num_classes=40, steps=8, bounded=bounded) for bounded in (False, True))
    square, steps = 257**2, 8 * (2 * 2708 * 257 * 40 + 257**2 * 40)
    assert anew.multiplied == 2708 * square + 4 * 257 * square + steps
    assert alike.multiplied == 2 * 2708 * 257 * 40 + steps


def test_inputs_read_along_edges_what_their_steps_do(make_graph, monkeypatch):
    monkeypatch.setattr(peer_inputs, "have_encoders", lambda *_: True)
    graph = make_graph(nodes=60)
    settings = InputSettings(directions=8, edge_directions=8, dimensions=4)
    features = min(8, graph.num_features)
    entries = graph.adjacency.nnz
    expected = (entries + 60) * (features * (NEAR_STEPS + FAR_STEPS) + 8 * FAR_STEPS)
    expected += (2 * ROUNDS + 2) * entries * (8 + SPARE)
    found = work_of_inputs(graph, settings, 0, CPU).gathered
    others = peer_inputs.work_of_feature_directions(graph, CPU, 8).gathered
    others += peer_inputs.work_of_product(graph.features, features, CPU).gathered
    others += work_of_embedding(graph, ENCODED, settings.encoders(graph), True, CPU).gathered
    assert found == expected + others


def test_encoders_at_hand_cost_less(make_graph):
    graph, settings = make_graph(nodes=60), InfomaxSettings()
    trained, anew = (work_of_embedding(graph, ENCODED, settings, known, CPU) for known in (True, False))
    assert anew.multiplied > 10 * max(1, trained.multiplied)
    assert anew.gathered > trained.gathered


@pytest.mark.parametrize("name", ["mt-plus", "mt-gcn", "gcn", "sgc", "ppr"])
def test_more_epochs_nodes_or_folds_cost_more(make_graph, name):
    method = create(name)
    small, large = (one_run(make_graph(nodes=nodes), CPU) for nodes in (40, 400))
    here, there = method.work_per_run(small), method.work_per_run(large)
    assert 0 < here.touched < there.touched


def test_nothing_is_said_of_time_where_nobody_can_tell(make_graph):
    graph = make_graph(nodes=40)
    assert expected_cost(graph, create("lp"), CPU, folds=0).seconds is None
    assert expected_cost(graph, create("mt-gcn", backbone="gat"), CPU, folds=0).seconds is None
    bare = type(graph)(graph.adjacency, labels=graph.labels)
    assert expected_cost(bare, create("gcn"), CPU, folds=0).seconds is None


def test_memory_is_what_there_is_and_what_is_needed(make_graph):
    graph, method = make_graph(nodes=40), create("gcn")
    expected = expected_cost(graph, method, CPU, folds=0)
    assert expected.seconds > 0
    assert expected.bytes > needed_bytes(method, one_run(graph, CPU))


def test_fit_and_check_say_it(tmp_path, capfd, monkeypatch):
    from mtgcn.cli import main

    edges, labels, nodes = (tmp_path / f"{name}.csv" for name in ("edges", "labels", "nodes"))
    around = np.arange(30)
    edges.write_text("source,target\n" + "".join(f"{one},{(one + 3) % 30}\n" for one in around))
    labels.write_text("id,label\n" + "".join(f"{one},{'abc'[one % 3]}\n" for one in around[:9]))
    nodes.write_text("id,size\n" + "".join(f"{one},{one % 3 + one / 100}\n" for one in around))
    asked = ["fit", "--edges", str(edges), "--nodes", str(nodes), "--labels", str(labels), "--method", "gcn"]
    main([*asked, "--check"])
    assert "gcn on cpu: about" in capfd.readouterr().out
    main([*asked, "--out", str(tmp_path / "model")])
    assert capfd.readouterr().err == ""  # nobody watches, and it is over at once
    monkeypatch.setattr(cost, "measured_speeds", lambda _: Speeds(1e9, 1e9, 1e9, calls=100.0))
    main([*asked, "--out", str(tmp_path / "model"), "--json"])
    told = capfd.readouterr()
    assert "fitting gcn: about" in told.err
    predicted = json.loads(told.out)["predicted_cost"]
    assert predicted["seconds"] > 30
    assert predicted["bytes"] > 2**20
