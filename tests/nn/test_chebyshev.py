import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_laplacian, scaled_laplacian
from mtgcn.linalg.operators import SparseOperator
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.chebyshev import Chebyshev, chebyshev_sum
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

CPU = torch.device("cpu")


def dense_scaled_laplacian(graph):
    """2 L / λ - I by its formula, in doubles."""
    adjacency = graph.adjacency.toarray().astype(np.float64)
    degree = adjacency.sum(1)
    scale = np.array([1 / np.sqrt(one) if one else 0 for one in degree])
    laplacian = np.eye(len(degree)) - scale[:, None] * adjacency * scale
    return torch.from_numpy(2 * laplacian / np.linalg.eigvalsh(laplacian).max() - np.eye(len(degree)))


def recurrence(matrix, degree):
    """T_0 … T_degree of a dense matrix."""
    polynomials = [torch.eye(len(matrix), dtype=torch.float64), matrix]
    while len(polynomials) <= degree:
        polynomials.append(2 * matrix @ polynomials[-1] - polynomials[-2])
    return polynomials[: degree + 1]


def test_the_laplacian_of_a_path_by_hand():
    path = Graph(np.array([[0, 1, 0, 0], [1, 0, 4, 0], [0, 4, 0, 0], [0, 0, 0, 0]]))
    # Degrees 1, 5, 4 and 0: what is off the diagonal is -1 / sqrt(1 · 5) and -4 / sqrt(5 · 4).
    expected = np.eye(4)
    expected[0, 1] = expected[1, 0] = -1 / np.sqrt(5)
    expected[1, 2] = expected[2, 1] = -4 / np.sqrt(20)
    np.testing.assert_allclose(normalized_laplacian(path).toarray(), expected, atol=1e-12)
    # A path has two sides, so the largest eigenvalue is 2 and L̃ = L - I.
    np.testing.assert_allclose(scaled_laplacian(path).toarray(), expected - np.eye(4), atol=1e-6)


@pytest.mark.parametrize("nodes", [40, 150])  # all eigenvalues, or the largest alone
def test_the_scaled_laplacian_has_eigenvalues_up_to_one(make_graph, nodes):
    graph = make_graph(nodes=nodes, weighted=True, unreached=True)
    found = scaled_laplacian(graph).toarray()
    np.testing.assert_allclose(found, dense_scaled_laplacian(graph), atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(found.astype(np.float64))
    assert eigenvalues.max() == pytest.approx(1, abs=1e-5)
    assert eigenvalues.min() >= -1 - 1e-5


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_a_chebyshev_sum_is_that_of_the_recurrence(make_graph, degree):
    graph = make_graph(weighted=True, unreached=True)
    terms = torch.randn(degree + 1, 40, 3, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    polynomials = recurrence(dense_scaled_laplacian(graph), degree)
    expected = sum(torch.einsum("ij,jab->iab", one, term) for one, term in zip(polynomials, terms, strict=True))
    laplacian = SparseOperator(scaled_laplacian(graph), CPU, symmetric=True)
    found = chebyshev_sum(list(terms.float()), laplacian)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


def dense_logits(graph, features, network, run, peer, degree):
    """One network of the stack, as its formula reads; and its weights, in doubles."""
    polynomials = recurrence(dense_scaled_laplacian(graph), degree)
    hidden, classes = network.settings.hidden_channels, graph.num_classes
    names = ("weight0", "bias0", "weight1", "bias1")
    values = {name: getattr(network, name).detach().double() for name in names}
    weights = [values["weight0"][:, run, peer], values["bias0"][run, peer]]
    weights += [values["weight1"][run, peer], values["bias1"][:, run, peer]]
    weights = [one.clone().requires_grad_() for one in weights]
    first = (
        sum(one @ features @ part for one, part in zip(polynomials, weights[0].split(hidden, 1), strict=True))
        + weights[1]
    )
    second = sum(one @ first.relu() @ part for one, part in zip(polynomials, weights[2].split(classes, 1), strict=True))
    return second + weights[3], weights


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize(("runs", "peers"), [(1, 1), (3, 2)])
def test_a_stack_is_each_of_its_networks_forward_and_back(make_graph, dense_features, degree, runs, peers):
    graph = make_graph(weighted=True)
    task = observe(graph, draw_splits(graph, 1, runs, seed=0), seed=1)
    network = Chebyshev(task, peers, NetworkSettings(hidden_channels=5, dropout=0), degree)
    towards = torch.from_numpy(np.random.default_rng(0).normal(size=(40, 3, runs, peers)))
    logits = network.logits()
    (logits * towards).sum().backward()
    for run in range(runs):
        for peer in range(peers):
            expected, weights = dense_logits(graph, dense_features(graph), network, run, peer, degree)
            torch.testing.assert_close(logits[..., run, peer].double(), expected, atol=1e-5, rtol=1e-4)
            (expected * towards[..., run, peer]).sum().backward()
            found = (network.weight0.grad[:, run, peer], network.bias0.grad[run, peer])
            found += (network.weight1.grad[run, peer], network.bias1.grad[:, run, peer])
            for part, gradient in zip(weights, found, strict=True):
                torch.testing.assert_close(gradient.double(), part.grad, atol=1e-4, rtol=1e-4)


def test_without_neighbours_a_node_knows_itself_alone(make_graph):
    graph = make_graph()
    alone = Graph(np.zeros((40, 40)), graph.features, graph.labels)
    probabilities = [
        Chebyshev(observe(one, [Split([0], [], [1])], seed=0), 1, NetworkSettings(), degree=0).probabilities()
        for one in (graph, alone)
    ]
    assert torch.equal(*probabilities)


@pytest.mark.parametrize("input_dropout", [0.0, 0.4])
def test_dropout_lasts_an_epoch_and_ends_with_training(two_runs, input_dropout):
    network = Chebyshev(two_runs, 2, NetworkSettings(input_dropout=input_dropout), degree=2)
    network.train()
    network.new_epoch()
    first = network.logits()
    assert torch.equal(network.logits(), first)
    network.new_epoch()
    assert not torch.equal(network.logits(), first)
    probabilities = network.probabilities()
    network.new_epoch()
    assert torch.equal(network.probabilities(), probabilities)
