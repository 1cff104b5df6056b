"""Every stacked network against its formula for one model, written densely and in doubles."""

import numpy as np
import pytest
import torch
from torch.nn.functional import elu

from mtgcn.nn import gat
from mtgcn.nn.appnp import APPNP
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.chebyshev import Chebyshev
from mtgcn.nn.gat import GAT, HEADS
from mtgcn.nn.gcn import GCN
from mtgcn.splits import draw_splits
from mtgcn.task import observe


def gcn(graph, propagation, features, weight0, bias0, weight1, bias1):
    return propagation @ torch.relu(propagation @ features @ weight0 + bias0) @ weight1 + bias1


def appnp(graph, propagation, features, weight0, bias0, weight1, bias1):
    start = torch.relu(features @ weight0 + bias0) @ weight1 + bias1
    place = start
    for _ in range(10):
        place = 0.9 * propagation @ place + 0.1 * start
    return place


def chebyshev(degree):
    def logits(graph, propagation, features, weight0, bias0, weight1, bias1):
        polynomials = chebyshev_polynomials(graph, degree)

        def layer(inputs, weight):
            parts = weight.chunk(degree + 1, 1)
            return sum(one @ inputs @ part for one, part in zip(polynomials, parts, strict=True))

        return layer(torch.relu(layer(features, weight0) + bias0), weight1) + bias1

    return logits


def chebyshev_polynomials(graph, degree):
    """T_0 … T_degree of 2 L / λ - I."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    scale = np.array([1 / np.sqrt(one) if one else 0 for one in adjacency.sum(1)])
    laplacian = np.eye(len(scale)) - scale[:, None] * adjacency * scale
    scaled = torch.from_numpy(2 * laplacian / np.linalg.eigvalsh(laplacian).max() - np.eye(len(scale)))
    polynomials = [torch.eye(len(scale), dtype=torch.float64), scaled]
    while len(polynomials) <= degree:
        polynomials.append(2 * scaled @ polynomials[-1] - polynomials[-2])
    return polynomials[: degree + 1]


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
    **{f"chebyshev {k}": (lambda *args, k=k: Chebyshev(*args, degree=k), chebyshev(k)) for k in (0, 1, 2)},
}


def model_parameters(network, run, peer, *, gradient=False):
    """Copies of one model's parameters, or of their gradients, in doubles."""
    values = {name: getattr(network, name) for name in network._run_axis}
    return {
        name: (value.grad if gradient else value.detach())
        .select(network._run_axis[name], run)
        .select(network._run_axis[name], peer)
        .double()
        .clone()
        for name, value in values.items()
    }


@pytest.mark.parametrize(
    ("name", "runs", "peers", "hidden"),
    [
        *((name, *stack, 6) for name in NETWORKS for stack in ((1, 1), (3, 2))),
        # The readout multiplies groups of 4, 5, 6, 3, 2 models or 1; the hidden layer is narrower than the classes.
        *(("gcn", *stack, hidden) for stack in ((1, 2), (3, 1), (2, 2), (5, 1), (2, 3), (1, 7)) for hidden in (2, 16)),
    ],
)
def test_stack_matches_dense_models(
    make_graph, dense_propagation, dense_features, monkeypatch, name, runs, peers, hidden
):
    if name == "gat by run":
        monkeypatch.setitem(gat.CARRIED_AT_ONCE, "cpu", 1)
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    build, formula = NETWORKS[name]
    network = build(task, peers, NetworkSettings(hidden_channels=hidden, dropout=0))
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
