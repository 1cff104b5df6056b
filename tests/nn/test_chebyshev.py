import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_laplacian, scaled_laplacian
from mtgcn.linalg.operators import SparseOperator
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.chebyshev import Chebyshev, chebyshev_sum
from mtgcn.splits import Split
from mtgcn.task import observe


def test_laplacian_of_a_path_by_hand():
    path = Graph(np.array([[0, 1, 0, 0], [1, 0, 4, 0], [0, 4, 0, 0], [0, 0, 0, 0]]))
    # Degrees 1, 5, 4 and 0: off the diagonal stand -1 / sqrt(1 · 5) and -4 / sqrt(5 · 4).
    expected = np.eye(4)
    expected[0, 1] = expected[1, 0] = -1 / np.sqrt(5)
    expected[1, 2] = expected[2, 1] = -4 / np.sqrt(20)
    np.testing.assert_allclose(normalized_laplacian(path).toarray(), expected, atol=1e-12)
    # A path is bipartite, so the largest eigenvalue is 2 and L̃ = L - I.
    np.testing.assert_allclose(scaled_laplacian(path).toarray(), expected - np.eye(4), atol=1e-6)


@pytest.mark.parametrize("nodes", [40, 150])  # all eigenvalues, or the largest by Lanczos
def test_scaled_laplacian_has_eigenvalues_from_minus_one_to_one(make_graph, nodes):
    graph = make_graph(nodes=nodes, weighted=True, unreached=True)
    eigenvalues = np.linalg.eigvalsh(scaled_laplacian(graph).toarray().astype(np.float64))
    assert eigenvalues.max() == pytest.approx(1, abs=1e-5)
    assert eigenvalues.min() >= -1 - 1e-5


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_chebyshev_sum_is_the_cosine_series(degree):
    # T_k(cos φ) = cos k φ; a diagonal matrix applies the polynomials entry by entry.
    angle = np.linspace(0, np.pi, 9)
    diagonal = np.diag(np.cos(angle)).astype(np.float32)
    terms = np.random.default_rng(0).normal(size=(degree + 1, 9, 2)).astype(np.float32)
    expected = sum(np.cos(k * angle)[:, None] * term for k, term in enumerate(terms))
    laplacian = SparseOperator(sp.csr_array(diagonal), torch.device("cpu"), symmetric=True)
    found = chebyshev_sum([torch.from_numpy(term) for term in terms], laplacian)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_degree_zero_ignores_edges(make_graph):
    graph = make_graph()
    alone = Graph(np.zeros((40, 40)), graph.features, graph.labels)
    probabilities = [
        Chebyshev(observe(one, [Split([0], [], [1])], seed=0), 1, NetworkSettings(), degree=0).probabilities()
        for one in (graph, alone)
    ]
    assert torch.equal(*probabilities)
