import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import pagerank
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank

CPU = torch.device("cpu")


def walk_matrix(adjacency, steps, restart):
    """Σ_k α (1 - α)^k Â^k for k < K, and (1 - α)^K Â^K: the steps written out."""
    power, total = torch.eye(len(adjacency), dtype=torch.float64), torch.zeros_like(adjacency)
    for step in range(steps):
        total = total + restart * (1 - restart) ** step * power
        power = power @ adjacency
    return total + (1 - restart) ** steps * power


def test_one_step_on_two_nodes_by_hand():
    pair = Graph(np.array([[0, 1], [1, 0]]))  # Â is 1/2 everywhere
    adjacency = SparseOperator(normalized_adjacency(pair), CPU, symmetric=True)
    start = torch.tensor([[1.0], [0.0]])
    # 0.75 · 1/2 arrives at both, and 0.25 goes back to where it began.
    assert personalized_page_rank(start, adjacency, 1, 0.25).tolist() == [[0.625], [0.375]]
    assert torch.equal(personalized_page_rank(start, adjacency, 0, 0.25), start)


@pytest.mark.parametrize("cached", [None, 0.5, 0.001])  # of all values, so many may stay in the cache
@pytest.mark.parametrize(("steps", "restart"), [(1, 0.5), (3, 0.2), (10, 0.1), (2, 0.0)])
def test_a_walk_and_its_gradient_are_the_polynomials(
    make_graph, dense_propagation, monkeypatch, steps, restart, cached
):
    graph = make_graph(weighted=True, unreached=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    towards = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(1))
    if cached:
        monkeypatch.setattr(pagerank, "CACHED_BYTES", int(cached * start.nbytes))
    matrix = walk_matrix(dense_propagation(graph), steps, restart)
    found = personalized_page_rank(start, adjacency, steps, restart)
    torch.testing.assert_close(found.double(), torch.einsum("ij,jab->iab", matrix, start.double()), atol=1e-5, rtol=0)
    (found * towards).sum().backward()
    expected = torch.einsum("ji,jab->iab", matrix, towards.double())
    torch.testing.assert_close(start.grad.double(), expected, atol=1e-5, rtol=0)


def test_slices_change_no_bit(make_graph, monkeypatch):
    graph = make_graph(nodes=60, weighted=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(60, 7, 5, generator=torch.Generator().manual_seed(0))
    whole = personalized_page_rank(start, adjacency, 4, 0.2)
    for columns in (1, 3, 16, 34):
        monkeypatch.setattr(pagerank, "CACHED_BYTES", 4 * 60 * columns)
        assert torch.equal(personalized_page_rank(start, adjacency, 4, 0.2), whole)
