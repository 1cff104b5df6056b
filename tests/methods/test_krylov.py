from dataclasses import replace

import numpy as np
import pytest
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=60, weighted=True, unreached=True)


@pytest.fixture
def task(graph):
    return observe(graph, draw_splits(graph, [2, 1, 1], runs=1, seed=0) + draw_splits(graph, 2, runs=2, seed=0), seed=0)


def test_equals_the_formula(graph, task, dense_propagation):
    one = task.select(np.array([1]))
    found = create("krylov", degree=3, epochs=20).fit(one)
    powers = [np.linalg.matrix_power(np.asarray(dense_propagation(graph)), k) for k in range(4)]
    rows = np.concatenate([unit(power @ unit(graph.features.toarray())) for power in powers], axis=1)
    trained = {name: values[0] for name, values in found.parameters.items() if name != "basis"}
    hidden = np.maximum(rows @ trained["weight0"][:, 0] + trained["bias0"], 0)
    scores = np.exp(hidden @ trained["weight1"][0] + trained["bias1"][:, 0])
    np.testing.assert_allclose(found.probabilities[0], scores / scores.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_logits_at_some_nodes(task, training):
    network = create("krylov", degree=2, hidden_channels=4).network(task).train(training)
    network.new_epoch()
    everywhere, index = network.logits(), task.labelled.index
    found = network.logits_at(index)
    for run, nodes in enumerate(index):
        present = nodes >= 0
        torch.testing.assert_close(found[present, :, run], everywhere[nodes[present], :, run])
    assert (not training) or not torch.allclose(everywhere, network.eval().logits())


def test_apply_to_other_graphs(graph, task, make_graph):
    method, order = create("krylov", epochs=5), np.random.default_rng(0).permutation(60)
    prediction = method.fit(task)
    shuffled = Graph(graph.adjacency[order][:, order], graph.features[order], class_names=graph.class_names)
    found = method.apply(prediction.parameters, shuffled)
    assert found.shape == (3, 1, 60, 3)
    np.testing.assert_allclose(method.combined(found), prediction.probabilities[:, order], atol=1e-5)

    unseen = make_graph(nodes=30, seed=5, sparse=False)
    assert method.apply(prediction.parameters, unseen).shape == (3, 1, 30, 3)
    narrower = replace(unseen, features=unseen.features[:, :-1])
    with pytest.raises(InputError, match="the graph has 11 features, the model was trained on 12; use a graph"):
        method.apply(prediction.parameters, narrower)


def test_memory_grows_with_the_network(task):
    sizes = [create("krylov", **{key: 200}).bytes_per_run(task) for key in ("degree", "hidden_channels")]
    assert min(sizes) > create("krylov").bytes_per_run(task)
    assert create("krylov", degree=20).shared_bytes(task) > create("krylov").shared_bytes(task)
