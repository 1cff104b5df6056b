import math

import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.gat import GAT
from mtgcn.splits import Split
from mtgcn.task import observe


@pytest.fixture
def path():
    """A path of three nodes with features 1, 2 and 3, and a fourth node alone."""
    adjacency = np.zeros((4, 4))
    adjacency[0, 1] = adjacency[1, 0] = 3  # edge weights are ignored
    adjacency[1, 2] = adjacency[2, 1] = 1
    graph = Graph(adjacency, np.array([[1.0], [2.0], [3.0], [5.0]]), labels=[0, 1, 0, 1])
    return observe(graph, [Split([0, 1], [], [2, 3])], seed=0)


def test_attention_on_a_path_by_hand(path):
    network = GAT(path, 1, NetworkSettings(hidden_channels=2, dropout=0, feature_scaling="none"))
    with torch.no_grad():
        for name in ("weight0", "attention0", "bias0", "weight1", "attention1", "bias1"):
            getattr(network, name).zero_()
        network.weight0[0, 0, 0, 0] = 1  # the first head copies x
        network.attention0[1, 0, 0, 0, 0] = math.log(2)  # a neighbour has the score x · log 2, so the weight 2^x
        network.weight1[0, 0, 0, 0] = 1  # class 0: the mean of that head over neighbours
        network.bias1[1] = 7
    first = [(2 * 1 + 4 * 2) / 6, (2 * 1 + 4 * 2 + 8 * 3) / 14, (4 * 2 + 8 * 3) / 12, 5]
    second = [(first[0] + first[1]) / 2, sum(first[:3]) / 3, (first[1] + first[2]) / 2, 5]
    expected = torch.tensor([second, [7] * 4]).T
    torch.testing.assert_close(network.logits()[..., 0, 0], expected)


def test_default_is_eight_heads_of_eight(two_runs):
    network = GAT(two_runs, 2, NetworkSettings())
    assert network.weight0.shape == (12, 2, 2, 64)
    assert network.attention0.shape == (2, 8, 2, 2, 8)
    assert network.attention1.shape == (2, 3, 2, 2, 1)


def test_large_scores_have_finite_gradients(path):
    network = GAT(path, 1, NetworkSettings(dropout=0))
    with torch.no_grad():
        network.attention0.mul_(1e6)
    network.logits().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_weight_decay_covers_attention(two_runs):
    everything = GAT(two_runs, 1, NetworkSettings())
    assert len(everything.decayed_parameters()) == len(list(everything.parameters())) == 6
    first = GAT(two_runs, 1, NetworkSettings(decay_on="first-layer"))
    assert {id(one) for one in first.decayed_parameters()} == {id(first.weight0), id(first.bias0), id(first.attention0)}


def test_attention_dropout_keeps_the_mean():
    # The attention of a node without edges is 1; with dropout 0 or 2, in the mean 1.
    graph = Graph(np.zeros((2, 2)), np.ones((2, 1)), labels=[0, 1])
    task = observe(graph, [Split([0], [], [1])] * 300, seed=0)
    network = GAT(task, 1, NetworkSettings(hidden_channels=2, bias=False))
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(1)
    network.train()
    network.new_epoch()
    dropped = network.logits()
    # Half of each head's attention, hidden units and last attention is kept; the mean stays 8.
    assert dropped.mean().item() == pytest.approx(8, rel=0.1)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert network.logits_without_dropout().unique().tolist() == [8]
