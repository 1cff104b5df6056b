import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.nn.base import NetworkSettings, rows_at
from mtgcn.nn.gcn import GCN
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def path_task(nodes=120, runs=3, seed=0):
    """A path, on which two hops are few nodes; runs differ in how many labels they have."""
    edges = np.eye(nodes, k=1)
    features = np.random.default_rng(0).random((nodes, 10)) + 0.1
    graph = Graph(edges + edges.T, features=features, labels=np.arange(nodes) % 2)
    splits = [Split(np.arange(1 + run) * 7 + run, [], [nodes - 1]) for run in range(runs)]
    return observe(graph, splits, seed)


def gradients(network):
    return {name: parameter.grad.clone() for name, parameter in network.named_parameters()}


# Four, three, two models at a time or one: the stack sizes here need each of them.
@pytest.mark.parametrize(("runs", "peers"), [(1, 1), (1, 2), (3, 1), (2, 2), (5, 1), (2, 3), (1, 7)])
@pytest.mark.parametrize("hidden", [2, 16])  # narrower and wider than the classes
def test_a_stack_is_each_of_its_networks_forward_and_back(
    make_graph, dense_propagation, dense_features, dense_logits, weights_of, runs, peers, hidden
):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    network = GCN(task, peers, NetworkSettings(hidden_channels=hidden, dropout=0))
    towards = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3, runs, peers)))
    logits = network.logits()
    (logits * towards).sum().backward()
    for run in range(runs):
        for peer in range(peers):
            weights = [part.requires_grad_() for part in weights_of(network, run, peer)]
            expected = dense_logits(dense_propagation(graph), dense_features(graph), weights)
            torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-5)
            (expected * towards[..., run, peer]).sum().backward()
            for part, found in zip(weights, weights_of(network, run, peer, gradient=True), strict=True):
                torch.testing.assert_close(found, part.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scaling", ["sum", "length", "none"])
def test_feature_scaling_is_what_the_network_sees(make_graph, dense_propagation, dense_logits, weights_of, scaling):
    graph = make_graph(sparse=False)
    task = observe(graph, draw_splits(graph, 1, 1, seed=0), seed=1)
    network = GCN(task, 1, NetworkSettings(feature_scaling=scaling))
    features = torch.from_numpy(np.array(graph.features, dtype=np.float64))
    divisor = {"sum": features.sum(1), "length": features.norm(dim=1), "none": torch.ones(40)}[scaling]
    expected = dense_logits(dense_propagation(graph), features / divisor[:, None], weights_of(network, 0, 0))
    torch.testing.assert_close(network.probabilities()[..., 0, 0].double(), expected.softmax(1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.3])
@pytest.mark.parametrize("hidden", [1, 16])
def test_a_few_nodes_are_told_what_the_whole_graph_would_tell_them(monkeypatch, rate, hidden):
    task = path_task()
    index = task.labelled.index
    present = task.labelled.present.T[:, None, :, None]
    # As a stranger would compute it: everything, then the rows.
    whole, local = (GCN(task, 2, NetworkSettings(dropout=rate, hidden_channels=hidden)) for _ in range(2))
    monkeypatch.setattr(local, "logits", lambda: pytest.fail("a few nodes of a path do not need the whole path"))
    towards = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 2, 3, 2)).astype(np.float32)) * present
    for network in (whole, local):
        network.train()
        network.new_epoch()
    rows = rows_at(whole.logits(), index) * present
    found = local.logits_at(index) * present
    torch.testing.assert_close(found, rows, atol=1e-6, rtol=1e-5)
    (rows * towards).sum().backward()
    (found * towards).sum().backward()
    expected = gradients(whole)
    assert all((gradient != 0).any() for gradient in expected.values())
    for name, gradient in gradients(local).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
def test_a_few_nodes_of_a_small_graph_are_told_the_same(two_runs, input_dropout):
    network = GCN(two_runs, 2, NetworkSettings(input_dropout=input_dropout))
    network.train()
    present = two_runs.labelled.present.T[:, None, :, None]
    for _ in range(3):
        network.new_epoch()
        found = network.logits_at(two_runs.labelled.index) * present
        expected = rows_at(network.logits(), two_runs.labelled.index) * present
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


def test_dropout_stays_within_an_epoch_changes_with_the_next_and_ends_with_training(two_runs):
    network = GCN(two_runs, 2, NetworkSettings())
    network.train()
    network.new_epoch()
    first = network.logits()
    assert torch.equal(network.logits(), first)
    network.new_epoch()
    assert not torch.equal(network.logits(), first)
    probabilities = network.probabilities()
    assert network.training
    network.new_epoch()
    assert torch.equal(network.probabilities(), probabilities)
    network.eval()
    assert torch.equal(network.logits().softmax(1), probabilities)


def test_dropout_of_the_hidden_layer_by_closed_form():
    # Nodes without edges and weights of one: what a node says is its feature times what its mask keeps.
    nodes, rate = 2000, 0.3
    graph = Graph(sp.csr_array((nodes, nodes)), features=np.ones((nodes, 1)), labels=np.arange(nodes) % 2)
    network = GCN(
        observe(graph, draw_splits(graph, 1, 2, seed=0), seed=0),
        2,
        NetworkSettings(hidden_channels=1, dropout=rate),
    )
    fill_with(network, weight=1, bias=0)
    network.train()
    network.new_epoch()
    logits = network.logits()[:, 0]  # nodes, runs, peers
    check_dropped(logits, rate)


@pytest.mark.parametrize("sparse", [True, False])
def test_dropout_of_the_features_by_closed_form(sparse):
    nodes, rate = 2000, 0.3
    features = np.ones((nodes, 1))
    graph = Graph(
        sp.csr_array((nodes, nodes)),
        features=sp.csr_array(features) if sparse else features,
        labels=np.arange(nodes) % 2,
    )
    network = GCN(
        observe(graph, draw_splits(graph, 1, 2, seed=0), seed=0),
        2,
        NetworkSettings(hidden_channels=1, dropout=0, input_dropout=rate),
    )
    fill_with(network, weight=1, bias=0)
    network.train()
    network.new_epoch()
    first = network.logits()[:, 0].detach()
    check_dropped(first, rate)
    network.new_epoch()
    assert not torch.equal(network.logits()[:, 0], first)
    network.eval()
    torch.testing.assert_close(network.logits()[:, 0], torch.ones(nodes, 2, 2))


def fill_with(network, weight, bias):
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.fill_(weight if name.startswith("weight") else bias)


def check_dropped(values, rate):
    kept = values != 0
    torch.testing.assert_close(values[kept], torch.full_like(values[kept], 1 / (1 - rate)))
    nodes = len(values)
    assert (kept.float().mean(0) - (1 - rate)).abs().max() < 5 * np.sqrt(rate * (1 - rate) / nodes)
    models = kept.flatten(1)
    for one in range(models.shape[1]):
        for other in range(one):
            both = (models[:, one] & models[:, other]).float().mean()
            assert abs(both - (1 - rate) ** 2) < 5 * np.sqrt(0.25 / nodes)


def test_input_dropout_sends_gradient_through_what_it_kept():
    # Nodes without edges, two features of 1/2 each: the gradient of a feature's weight is what was kept of it.
    graph = Graph(np.zeros((50, 50)), features=sp.csr_array(np.ones((50, 2))), labels=np.arange(50) % 2)
    network = GCN(
        observe(graph, draw_splits(graph, 1, 1, seed=0), seed=0),
        1,
        NetworkSettings(hidden_channels=1, dropout=0, input_dropout=0.5),
    )
    fill_with(network, weight=1, bias=0.25)  # positive whatever is dropped
    network.train()
    network.new_epoch()
    with torch.no_grad():
        network.weight0[1] = 3  # so that 0.5 / 0.5 of the features tell which were kept: 0, 1, 3 or both
    hidden = network.logits()[:, 0, 0, 0]
    hidden.sum().backward()
    kept = (hidden.detach() - 0.5).round()
    assert set(kept.tolist()) == {0, 1, 3, 4}
    expected = [((kept == 1) | (kept == 4)).sum().item(), ((kept == 3) | (kept == 4)).sum().item()]
    assert network.weight0.grad.flatten().tolist() == pytest.approx(expected)


def test_embeddings_are_what_the_second_layer_classifies(two_runs, dense_propagation, dense_features, weights_of):
    network = GCN(two_runs, 2, NetworkSettings())  # in training mode: dropout must play no part
    propagation, features = dense_propagation(two_runs.graph), dense_features(two_runs.graph)
    found = network.embeddings()
    for run, peer in ((0, 0), (1, 0), (1, 1)):
        weight0, bias0, *_ = weights_of(network, run, peer)
        expected = propagation @ torch.relu(propagation @ features @ weight0 + bias0)
        np.testing.assert_allclose(found[:, run, peer], expected, atol=1e-5)
    assert not found.requires_grad


def test_a_gcn_needs_features():
    graph = Graph([[0, 1], [1, 0]], labels=[0, 1])
    with pytest.raises(InputError, match="needs node features"):
        GCN(observe(graph, [Split([0], [], [1])], seed=0), 1, NetworkSettings())
