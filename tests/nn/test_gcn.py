from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.nn.base import NetworkSettings, rows_at
from mtgcn.nn.gcn import GCN
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def path_task(nodes=120, runs=3, seed=0):
    """A path, on which two hops are few nodes; runs have different numbers of labels."""
    edges = np.eye(nodes, k=1)
    features = np.random.default_rng(0).random((nodes, 10)) + 0.1
    graph = Graph(edges + edges.T, features=features, labels=np.arange(nodes) % 2)
    splits = [Split(np.arange(1 + run) * 7 + run, [], [nodes - 1]) for run in range(runs)]
    return observe(graph, splits, seed)


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
def test_feature_scaling(make_graph, dense_propagation, dense_logits, weights_of, scaling):
    graph = make_graph(sparse=False)
    task = observe(graph, draw_splits(graph, 1, 1, seed=0), seed=1)
    network = GCN(task, 1, NetworkSettings(feature_scaling=scaling))
    features = torch.from_numpy(np.array(graph.features, dtype=np.float64))
    divisor = {"sum": features.sum(1), "length": features.norm(dim=1), "none": torch.ones(40)}[scaling]
    expected = dense_logits(dense_propagation(graph), features / divisor[:, None], weights_of(network, 0, 0))
    torch.testing.assert_close(network.probabilities()[..., 0, 0].double(), expected.softmax(1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("hidden", [1, 16])
def test_logits_at_few_nodes_match_the_whole_graph(monkeypatch, rate, hidden):
    task = path_task()
    index = task.labelled.index
    present = task.labelled.present.T[:, None, :, None]
    whole, local = (GCN(task, 2, NetworkSettings(dropout=rate, hidden_channels=hidden)) for _ in range(2))
    monkeypatch.setattr(local, "logits", lambda: pytest.fail("a block of the path suffices"))
    direction = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 2, 3, 2)).astype(np.float32)) * present
    for network in (whole, local):
        network.train()
        network.new_epoch()
    rows = rows_at(whole.logits(), index) * present
    found = local.logits_at(index) * present
    torch.testing.assert_close(found, rows, atol=1e-6, rtol=1e-5)
    (rows * direction).sum().backward()
    (found * direction).sum().backward()
    for name, parameter in local.named_parameters():
        expected = getattr(whole, name).grad
        assert expected.any()
        torch.testing.assert_close(parameter.grad, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
def test_logits_at_matches_logits_on_a_small_graph(two_runs, input_dropout):
    network = GCN(two_runs, 2, NetworkSettings(input_dropout=input_dropout))
    network.train()
    present = two_runs.labelled.present.T[:, None, :, None]
    for _ in range(3):
        network.new_epoch()
        found = network.logits_at(two_runs.labelled.index) * present
        expected = rows_at(network.logits(), two_runs.labelled.index) * present
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def isolated_network(nodes, runs=1, peers=1, features=None, **settings):
    """A GCN with weights 1 and biases 0 on nodes without edges, in training: a logit is a feature times its masks."""
    features = np.ones((nodes, 1)) if features is None else features
    graph = Graph(sp.csr_array((nodes, nodes)), features=features, labels=np.arange(nodes) % 2)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=0)
    network = GCN(task, peers, NetworkSettings(hidden_channels=1, **settings))
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(name.startswith("weight"))
    network.train()
    network.new_epoch()
    return network


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("which", ["dropout", "input_dropout"])
def test_dropout_rate_scale_and_independence(which, sparse):
    nodes, rate = 2000, 0.3
    features = sp.csr_array(np.ones((nodes, 1))) if sparse else None
    network = isolated_network(nodes, 2, 2, features, **{"dropout": 0.0, which: rate})
    values = network.logits()[:, 0].detach()  # nodes, runs, peers
    kept = values != 0
    torch.testing.assert_close(values[kept], torch.full_like(values[kept], 1 / (1 - rate)))
    assert (kept.float().mean(0) - (1 - rate)).abs().max() < 5 * np.sqrt(rate * (1 - rate) / nodes)
    for one, other in combinations(kept.flatten(1).T, 2):
        assert abs((one & other).float().mean() - (1 - rate) ** 2) < 5 * np.sqrt(0.25 / nodes)
    network.eval()
    torch.testing.assert_close(network.logits()[:, 0], torch.ones(nodes, 2, 2))


def test_input_dropout_passes_gradient_where_it_keeps():
    # Two features of 1/2 each: the gradient of a feature's weight is the number of nodes that keep it.
    network = isolated_network(50, features=sp.csr_array(np.ones((50, 2))), dropout=0, input_dropout=0.5)
    with torch.no_grad():
        network.bias0.fill_(0.25), network.bias1.fill_(0.25)  # positive, whatever is dropped
        network.weight0[1] = 3  # the sum, 0, 1, 3 or 4, shows which were kept
    hidden = network.logits()[:, 0, 0, 0]
    hidden.sum().backward()
    kept = (hidden.detach() - 0.5).round()
    assert set(kept.tolist()) == {0, 1, 3, 4}
    expected = [((kept == 1) | (kept == 4)).sum().item(), ((kept == 3) | (kept == 4)).sum().item()]
    assert network.weight0.grad.flatten().tolist() == pytest.approx(expected)


def test_embeddings_match_dense(two_runs, dense_propagation, dense_features, weights_of):
    network = GCN(two_runs, 2, NetworkSettings())  # in training mode, but without dropout
    propagation, features = dense_propagation(two_runs.graph), dense_features(two_runs.graph)
    found = network.embeddings()
    for run, peer in ((0, 0), (1, 0), (1, 1)):
        weight0, bias0, *_ = weights_of(network, run, peer)
        expected = propagation @ torch.relu(propagation @ features @ weight0 + bias0)
        np.testing.assert_allclose(found[:, run, peer], expected, atol=1e-5)
    assert not found.requires_grad
