import numpy as np
import pytest
import torch

from mtgcn.nn.appnp import APPNP
from mtgcn.nn.base import NetworkSettings
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def walk_matrix(adjacency, steps, restart):
    """Σ_k α (1 - α)^k Â^k for k < K, and (1 - α)^K Â^K: the steps written out."""
    power, total = torch.eye(len(adjacency), dtype=torch.float64), torch.zeros_like(adjacency)
    for step in range(steps):
        total = total + restart * (1 - restart) ** step * power
        power = power @ adjacency
    return total + (1 - restart) ** steps * power


@pytest.mark.parametrize(("runs", "peers"), [(1, 1), (3, 2)])
def test_a_stack_is_each_of_its_networks_forward_and_back(
    make_graph, dense_propagation, dense_features, weights_of, runs, peers
):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    network = APPNP(task, peers, NetworkSettings(hidden_channels=5, dropout=0))
    walk, features = walk_matrix(dense_propagation(graph), APPNP.STEPS, APPNP.RESTART), dense_features(graph)
    towards = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3, runs, peers)))
    logits = network.logits()
    (logits * towards).sum().backward()
    for run in range(runs):
        for peer in range(peers):
            weights = [part.requires_grad_() for part in weights_of(network, run, peer)]
            weight0, bias0, weight1, bias1 = weights
            expected = walk @ (torch.relu(features @ weight0 + bias0) @ weight1 + bias1)
            torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
            (expected * towards[..., run, peer]).sum().backward()
            for part, gradient in zip(weights, weights_of(network, run, peer, gradient=True), strict=True):
                torch.testing.assert_close(gradient, part.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
def test_dropout_lasts_an_epoch_and_ends_with_training(two_runs, input_dropout):
    network = APPNP(two_runs, 2, NetworkSettings(input_dropout=input_dropout))
    network.train()
    network.new_epoch()
    first = network.logits()
    assert torch.equal(network.logits(), first)
    network.new_epoch()
    assert not torch.equal(network.logits(), first)
    probabilities = network.probabilities()
    network.new_epoch()
    assert torch.equal(network.probabilities(), probabilities)
