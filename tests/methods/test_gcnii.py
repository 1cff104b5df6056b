import math
from functools import partial

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.splits import draw_splits
from mtgcn.task import Task, observe


def test_one_layer_by_hand():
    graph = Graph(np.array([[0, 1], [1, 0]]), features=np.eye(2), class_names=("a", "b"))
    method = create("gcnii", hidden_channels=2, layers=1, restart=0.2, identity=math.e - 1, feature_scaling="none")
    network = method.network(Task.without_labels(graph)).eval()
    with torch.no_grad():
        network.weight0[:, 0, 0] = torch.tensor([[1.0, -1.0], [3.0, 2.0]])
        network.bias0.zero_()
        network.weights[0, 0, 0] = torch.tensor([[1.0, 0.0], [1.0, -2.0]])
        network.weight1[0, 0] = torch.eye(2)
        network.bias1[:, 0, 0] = torch.tensor([0.0, 1.0])
        found = network.logits()[..., 0, 0]
    # H_0 = (1 0; 3 2), Â averages: 0.8 (2 1; 2 1) + 0.2 H_0 = (1.8 0.8; 2.2 1.2); β = 1, so that W alone acts.
    torch.testing.assert_close(found, torch.tensor([[2.6, 1.0], [3.4, 1.0]]))


@pytest.mark.parametrize("restart", [0.1, 0.5])
def test_without_identity_weight_it_is_a_walk(two_runs, restart):
    network = create("gcnii", layers=5, restart=restart, identity=0.0, dropout=0.0, input_dropout=0.0).network(two_runs)
    before = network.logits()
    with torch.no_grad():
        network.weights.add_(1.0)  # β = 0
    torch.testing.assert_close(network.logits(), before)


def test_gradient_reaches_every_layer_of_a_deep_network(two_runs):
    method = create("gcnii", layers=64)
    network = method.network(two_runs).train()
    network.new_epoch()
    method.step(network, two_runs).losses["supervised"].sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.isfinite().all()
    of_layers = network.weights.grad.flatten(2).norm(dim=-1)  # layers, runs
    assert (of_layers > 0).all()
    assert of_layers.max() < 1e4 * of_layers.min()


def test_dropout_differs_between_layers_and_keeps_the_mean(two_runs):
    settings = {"hidden_channels": 2000, "layers": 2, "identity": 0.0, "restart": 0.0, "dropout": 0.5}
    network = create("gcnii", **settings).network(two_runs)
    with torch.no_grad():
        network.weight0.zero_()
        network.bias0.fill_(1.0)
        network.weight1.fill_(1 / 2000)
        network.bias1.zero_()
        network.new_epoch()
        kept = network.dropout.kept(torch.arange(two_runs.num_nodes)).unflatten(-1, (3, -1))
        dropped, whole = network.train().logits(), network.eval().logits()
    for layer in range(3):
        assert 0.45 < (kept[:, :, layer] == kept[:, :, (layer + 1) % 3]).float().mean() < 0.55
    assert dropped.mean() == pytest.approx(whole.mean().item(), rel=0.02)


def test_equals_plain_adam(make_graph, dense_propagation, dense_features, weights_of, assert_trained_by_adam):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0)
    settings = {"epochs": 10, "dropout": 0, "input_dropout": 0, "weight_decay": 0.05, "layer_decay": 0.2}
    method = create("gcnii", **settings, learning_rate=0.02, layers=3, hidden_channels=8, feature_scaling="sum")
    found, propagation, features = method.fit(task), dense_propagation(graph), dense_features(graph)

    def logits(weights, layers):
        weight0, bias0, weight1, bias1 = weights
        hidden = first = torch.relu(features @ weight0 + bias0)
        for number, weight in enumerate(layers, start=1):
            beta = math.log(0.5 / number + 1)
            mixed = 0.9 * propagation @ hidden + 0.1 * first
            hidden = torch.relu((1 - beta) * mixed + beta * mixed @ weight)
        return hidden @ weight1 + bias1

    for run in range(2):
        network = method.network(task)
        weights = [part.requires_grad_() for part in weights_of(network, run, 0)]
        layers = network.weights[:, run, 0].detach().double().requires_grad_()
        groups = [{"params": weights, "weight_decay": 0.05}, {"params": [layers], "weight_decay": 0.2}]
        nodes, classes, of_run = task.labelled.index[run], task.labelled.classes[run], partial(logits, weights, layers)

        def losses(_, nodes=nodes, classes=classes, of_run=of_run):
            return {"supervised": torch.nn.functional.cross_entropy(of_run()[nodes], classes)}

        assert_trained_by_adam(found, run, groups, 0.02, 10, losses, of_run)
