"""Every stacked network against its formula for one model, written densely and in doubles."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import elu

from dense_networks import appnp, chebyshev, gcn, model_parameters
from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import scaled_laplacian
from mtgcn.methods.chebyshev import ChebyshevFilters
from mtgcn.nn import networks
from mtgcn.nn.base import MLP, NetworkSettings, rows_at
from mtgcn.nn.networks import APPNP, GAT, GCN, HEADS, Chebyshev
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe


def attention(graph, propagation, features, weight0, attention0, bias0, weight1, attention1, bias1):
    linked = torch.from_numpy((graph.adjacency.toarray() > 0) | np.eye(graph.num_nodes, dtype=bool))

    def layer(inputs, weight, attention, bias, heads):  # attention: 2, channels, heads
        results = []
        for head, part in enumerate(weight.chunk(heads, 1)):
            seen = inputs @ part
            scores = (seen @ attention[0, :, head])[:, None] + seen @ attention[1, :, head]
            scores = torch.where(scores > 0, scores, 0.2 * scores)
            results.append(torch.where(linked, scores, -torch.inf).softmax(1) @ seen)
        return torch.cat(results, 1) + bias

    return layer(elu(layer(features, weight0, attention0, bias0, HEADS)), weight1, attention1, bias1, 1)


NETWORKS = {
    "gcn": (GCN, gcn),
    "appnp": (APPNP, appnp),
    "gat": (GAT, attention),
    "gat by run": (GAT, attention),
    **{f"chebyshev {k}": (Chebyshev, chebyshev(k)) for k in (1, 2, 4)},
    "mlp": (MLP, chebyshev(0)),
}


@pytest.mark.parametrize(
    ("name", "runs", "peers", "hidden"),
    [
        *((name, *stack, 6) for name in NETWORKS for stack in ((1, 1), (3, 2))),
        # The readout multiplies groups of 4, 5, 6, 3, 2 models or 1; the hidden layer is narrower than the classes.
        *(("gcn", *stack, hidden) for stack in ((1, 2), (3, 1), (2, 2), (5, 1), (2, 3), (1, 7)) for hidden in (2, 16)),
    ],
)
def test_stack_matches_models(make_graph, dense_propagation, dense_features, monkeypatch, name, runs, peers, hidden):
    if name == "gat by run":
        monkeypatch.setitem(networks.CARRIED_AT_ONCE, "cpu", 1)
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    build, formula = NETWORKS[name]
    degree = int(name.removeprefix("chebyshev ")) if build is Chebyshev else 1
    network = build(task, peers, ChebyshevFilters(degree=degree, hidden_channels=hidden, dropout=0))
    given = graph, dense_propagation(graph), dense_features(graph)
    direction = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3, runs, peers)))
    logits = network.logits()
    (logits * direction).sum().backward()
    for run, peer in np.ndindex(runs, peers):
        parameters = {key: part.requires_grad_() for key, part in model_parameters(network, run, peer).items()}
        expected = formula(*given, **parameters)
        torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
        (expected * direction[..., run, peer]).sum().backward()
        for key, gradient in model_parameters(network, run, peer, gradient=True).items():
            torch.testing.assert_close(gradient, parameters[key].grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
@pytest.mark.parametrize("name", ["gcn", "appnp", "gat", "chebyshev 2"])
def test_dropout_changes_with_the_epoch_and_only_in_training(two_runs, name, input_dropout):
    network = NETWORKS[name][0](two_runs, 2, NetworkSettings(input_dropout=input_dropout))
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


def path_task(nodes=120, runs=3, seed=0):
    """A path, on which two hops are few nodes; runs have different numbers of labels."""
    edges = np.eye(nodes, k=1)
    features = np.random.default_rng(0).random((nodes, 10)) + 0.1
    graph = Graph(edges + edges.T, features=features, labels=np.arange(nodes) % 2)
    splits = [Split(np.arange(1 + run) * 7 + run, [], [nodes - 1]) for run in range(runs)]
    return observe(graph, splits, seed)


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


def test_embeddings_match_dense(two_runs, dense_propagation, dense_features):
    network = GCN(two_runs, 2, NetworkSettings())  # in training mode, but without dropout
    propagation, features = dense_propagation(two_runs.graph), dense_features(two_runs.graph)
    found = network.embeddings()
    for run, peer in ((0, 0), (1, 0), (1, 1)):
        weight0, bias0, *_ = model_parameters(network, run, peer).values()
        expected = propagation @ torch.relu(propagation @ features @ weight0 + bias0)
        np.testing.assert_allclose(found[:, run, peer], expected, atol=1e-5)
    assert not found.requires_grad


@pytest.mark.parametrize("nodes", [40, 150])  # all eigenvalues, or the largest by Lanczos
def test_scaled_laplacian_has_eigenvalues_from_minus_one_to_one(make_graph, nodes):
    graph = make_graph(nodes=nodes, weighted=True, unreached=True)
    eigenvalues = np.linalg.eigvalsh(scaled_laplacian(graph).toarray().astype(np.float64))
    assert eigenvalues.max() == pytest.approx(1, abs=1e-5)
    assert eigenvalues.min() >= -1 - 1e-5


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
