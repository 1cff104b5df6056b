import math

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.nn import gat
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.gat import GAT, HEADS
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def dense_layer(linked, inputs, weight, attention, bias, heads):
    """One layer of one network, written as the paper writes it; attention is 2 x channels x heads."""
    results = []
    for head, part in enumerate(weight.chunk(heads, 1)):
        seen = inputs @ part
        scores = (seen @ attention[0, :, head])[:, None] + seen @ attention[1, :, head]
        scores = torch.where(scores > 0, scores, 0.2 * scores)
        results.append(torch.where(linked, scores, -torch.inf).softmax(1) @ seen)
    return torch.cat(results, 1) + bias


def dense_logits(graph, features, weights):
    linked = torch.from_numpy((graph.adjacency.toarray() > 0) | np.eye(graph.num_nodes, dtype=bool))
    weight0, attention0, bias0, weight1, attention1, bias1 = weights
    hidden = torch.nn.functional.elu(dense_layer(linked, features, weight0, attention0, bias0, HEADS))
    return dense_layer(linked, hidden, weight1, attention1, bias1, 1)


def weights_of(network, run, peer, *, gradient=False):
    def values(name):
        parameter = getattr(network, name)
        return (parameter.grad if gradient else parameter.detach()).double().clone()

    return [
        values("weight0")[:, run, peer],
        values("attention0")[:, :, run, peer],
        values("bias0")[run, peer],
        values("weight1")[run, peer],
        values("attention1")[:, :, run, peer],
        values("bias1")[:, run, peer],
    ]


@pytest.fixture
def path():
    """Three nodes in a row, the feature of each its number, and a fourth one alone."""
    adjacency = np.zeros((4, 4))
    adjacency[0, 1] = adjacency[1, 0] = 3  # a weight that plays no part
    adjacency[1, 2] = adjacency[2, 1] = 1
    graph = Graph(adjacency, np.array([[1.0], [2.0], [3.0], [5.0]]), labels=[0, 1, 0, 1])
    return observe(graph, [Split([0, 1], [], [2, 3])], seed=0)


def test_attention_on_a_path_by_hand(path):
    network = GAT(path, 1, NetworkSettings(hidden_channels=2, dropout=0, feature_scaling="none"))
    with torch.no_grad():
        for name in ("weight0", "attention0", "bias0", "weight1", "attention1", "bias1"):
            getattr(network, name).zero_()
        network.weight0[0, 0, 0, 0] = 1  # the first head sees x
        network.attention0[1, 0, 0, 0, 0] = math.log(2)  # and scores a neighbour by x · log 2: its weight is 2^x
        network.weight1[0, 0, 0, 0] = 1  # the first class is the mean over neighbours of what that head saw
        network.bias1[1] = 7
    first = [(2 * 1 + 4 * 2) / 6, (2 * 1 + 4 * 2 + 8 * 3) / 14, (4 * 2 + 8 * 3) / 12, 5]
    second = [(first[0] + first[1]) / 2, sum(first[:3]) / 3, (first[1] + first[2]) / 2, 5]
    expected = torch.tensor([second, [7] * 4]).T
    torch.testing.assert_close(network.logits()[..., 0, 0], expected)


@pytest.mark.parametrize("at_once", [2**20, 1])  # all runs together, or one after the other
@pytest.mark.parametrize(("runs", "peers"), [(1, 1), (3, 2)])
def test_a_stack_is_each_of_its_networks_forward_and_back(
    make_graph, dense_features, monkeypatch, runs, peers, at_once
):
    monkeypatch.setitem(gat.CARRIED_AT_ONCE, "cpu", at_once)
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    network = GAT(task, peers, NetworkSettings(hidden_channels=6, dropout=0))
    towards = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3, runs, peers)))
    logits = network.logits()
    (logits * towards).sum().backward()
    for run in range(runs):
        for peer in range(peers):
            weights = [part.requires_grad_() for part in weights_of(network, run, peer)]
            expected = dense_logits(graph, dense_features(graph), weights)
            torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
            (expected * towards[..., run, peer]).sum().backward()
            for part, gradient in zip(weights, weights_of(network, run, peer, gradient=True), strict=True):
                torch.testing.assert_close(gradient, part.grad, atol=1e-4, rtol=1e-4)


def test_the_default_is_the_papers_eight_heads_of_eight(two_runs):
    network = GAT(two_runs, 2, NetworkSettings())
    assert network.weight0.shape == (12, 2, 2, 64)
    assert network.attention0.shape == (2, 8, 2, 2, 8)
    assert network.attention1.shape == (2, 3, 2, 2, 1)


def test_scores_of_any_size_leave_finite_weights(path):
    network = GAT(path, 1, NetworkSettings(dropout=0))
    with torch.no_grad():
        network.attention0.mul_(1e6)
    network.logits().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_what_the_weight_decay_pulls_on(two_runs):
    everything = GAT(two_runs, 1, NetworkSettings())
    assert len(everything.decayed_parameters()) == len(list(everything.parameters())) == 6
    first = GAT(two_runs, 1, NetworkSettings(decay_on="first-layer"))
    assert {id(one) for one in first.decayed_parameters()} == {id(first.weight0), id(first.bias0), id(first.attention0)}


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
def test_dropout_lasts_an_epoch_and_ends_with_training(two_runs, input_dropout):
    network = GAT(two_runs, 2, NetworkSettings(input_dropout=input_dropout))
    network.train()
    network.new_epoch()
    first = network.logits()
    assert torch.equal(network.logits(), first)
    network.new_epoch()
    assert not torch.equal(network.logits(), first)
    probabilities = network.probabilities()
    network.new_epoch()
    assert torch.equal(network.probabilities(), probabilities)


def test_dropout_falls_on_attention_and_keeps_its_mean(make_graph):
    # With one node alone, attention is 1, and what is kept of it is made up for: 0 or 2, in the mean 1.
    graph = Graph(np.zeros((2, 2)), np.ones((2, 1)), labels=[0, 1])
    task = observe(graph, [Split([0], [], [1])] * 300, seed=0)
    network = GAT(task, 1, NetworkSettings(hidden_channels=2, bias=False))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1)
    network.train()
    network.new_epoch()
    dropped = network.logits()
    # Of each head's attention, its hidden unit and the last attention half are kept; the mean is 8 all the same.
    assert dropped.mean().item() == pytest.approx(8, rel=0.1)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert network.logits_without_dropout().unique().tolist() == [8]
