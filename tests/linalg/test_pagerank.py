from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.linalg import pagerank
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator

CPU = torch.device("cpu")


def walk_matrix(adjacency, steps, restart):
    """Σ_k α (1 - α)^k Â^k for k < K, plus (1 - α)^K Â^K."""
    power, total = torch.eye(len(adjacency), dtype=torch.float64), torch.zeros_like(adjacency)
    for step in range(steps):
        total = total + restart * (1 - restart) ** step * power
        power = power @ adjacency
    return total + (1 - restart) ** steps * power


@pytest.mark.parametrize("cached", [None, 0.5, 0.001])  # share of the values that fits the cache
@pytest.mark.parametrize(("steps", "restart"), [(0, 0.5), (1, 0.5), (3, 0.2), (10, 0.1), (2, 0.0)])
def test_page_rank_and_gradient_match_polynomial(make_graph, dense_propagation, monkeypatch, steps, restart, cached):
    graph = make_graph(weighted=True, unreached=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    direction = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(1))
    if cached:
        monkeypatch.setattr(pagerank, "CACHED_BYTES", int(cached * start.nbytes))
    matrix = walk_matrix(dense_propagation(graph), steps, restart)
    found = pagerank.personalized_page_rank(start, adjacency, steps, restart)
    torch.testing.assert_close(found.double(), torch.einsum("ij,jab->iab", matrix, start.double()), atol=1e-5, rtol=0)
    (found * direction).sum().backward()
    expected = torch.einsum("ji,jab->iab", matrix, direction.double())
    torch.testing.assert_close(start.grad.double(), expected, atol=1e-5, rtol=0)


def test_slices_give_the_same_bits(make_graph, monkeypatch):
    graph = make_graph(nodes=60, weighted=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(60, 7, 5, generator=torch.Generator().manual_seed(0))
    whole = pagerank.personalized_page_rank(start, adjacency, 4, 0.2)
    for columns in (1, 3, 16, 34):
        monkeypatch.setattr(pagerank, "CACHED_BYTES", 4 * 60 * columns)
        assert torch.equal(pagerank.personalized_page_rank(start, adjacency, 4, 0.2), whole)


def singular_vectors(matrix, count, columns=None):
    dense = torch.from_numpy(matrix)
    random = np.random.default_rng(1)
    start = random.standard_normal((matrix.shape[1], columns or count + pagerank.OVERSAMPLING), dtype=np.float32)
    found = pagerank.leading_singular_vectors(
        lambda x: dense @ x, lambda x: dense.T @ x, count, torch.from_numpy(start)
    )
    return found.numpy()


def decaying_matrix():
    """Sparse, with slowly decaying singular values."""
    random = np.random.default_rng(0)
    values = random.random((120, 80)) * (random.random((120, 80)) < 0.2)
    return (values * np.arange(1, 81) ** -0.5).astype(np.float32)


@pytest.mark.parametrize("count", [1, 5, 30])
def test_vectors_are_orthonormal_and_capture_the_leading_variance(count):
    matrix = decaying_matrix()
    basis = singular_vectors(matrix, count)
    np.testing.assert_allclose(basis.T @ basis, np.eye(count), atol=1e-5)
    largest = (np.linalg.svd(matrix, compute_uv=False)[:count] ** 2).sum()
    assert 0.995 * largest < ((matrix @ basis) ** 2).sum() < 1.00001 * largest


@pytest.mark.parametrize("steps", [0, 3])
def test_feature_vectors_of_propagated_features(make_graph, steps):
    graph = replace(make_graph(nodes=60), features=np.random.default_rng(0).random((60, 50)).astype(np.float32))
    sparse = replace(graph, features=sp.csr_array(graph.features))
    found, other = (pagerank.feature_singular_vectors(g, "none", CPU, 40, steps, 0.0).numpy() for g in (graph, sparse))
    np.testing.assert_allclose(found.T @ found, np.eye(40), atol=1e-4)
    side = np.random.default_rng(1).standard_normal(50)
    assert (side @ found > 0).all()  # signs do not depend on rounding
    assert (side @ other > 0).all()
    rows, others = graph.features @ found, graph.features @ other
    np.testing.assert_allclose(rows @ rows.T, others @ others.T, atol=1e-2)
    propagated = np.linalg.matrix_power(normalized_adjacency(graph).toarray(), steps) @ graph.features
    largest = (np.linalg.svd(propagated, compute_uv=False)[:40] ** 2).sum()
    assert ((propagated @ found) ** 2).sum() > 0.999 * largest


@pytest.mark.parametrize(
    ("wanted", "nodes", "entries", "expected"),
    [
        (512, 1, 1, 512),
        (512, 2**16, 1, 512),
        (512, 2**17, 1, 256),
        (512, 2**20, 1, 32),
        (512, 2**24, 1, 32),
        (8, 2**24, 1, 8),
        (256, 9, 2**19, 256),
        (256, 9, 2**20, 128),
        (256, 9, 2**25, 32),
    ],
)
def test_large_graphs_have_fewer_components(wanted, nodes, entries, expected):
    assert pagerank.num_components(wanted, SimpleNamespace(num_nodes=nodes, mean_degree=entries / nodes)) == expected
