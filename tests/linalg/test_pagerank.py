import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import pagerank
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank, propagated_features

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
def test_page_rank_and_gradient_match_the_polynomial(
    make_graph, dense_propagation, monkeypatch, steps, restart, cached
):
    graph = make_graph(weighted=True, unreached=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    direction = torch.randn(40, 3, 2, generator=torch.Generator().manual_seed(1))
    if cached:
        monkeypatch.setattr(pagerank, "CACHED_BYTES", int(cached * start.nbytes))
    matrix = walk_matrix(dense_propagation(graph), steps, restart)
    found = personalized_page_rank(start, adjacency, steps, restart)
    torch.testing.assert_close(found.double(), torch.einsum("ij,jab->iab", matrix, start.double()), atol=1e-5, rtol=0)
    (found * direction).sum().backward()
    expected = torch.einsum("ji,jab->iab", matrix, direction.double())
    torch.testing.assert_close(start.grad.double(), expected, atol=1e-5, rtol=0)


def test_slices_give_the_same_bits(make_graph, monkeypatch):
    graph = make_graph(nodes=60, weighted=True)
    adjacency = SparseOperator(normalized_adjacency(graph), CPU, symmetric=True)
    start = torch.randn(60, 7, 5, generator=torch.Generator().manual_seed(0))
    whole = personalized_page_rank(start, adjacency, 4, 0.2)
    for columns in (1, 3, 16, 34):
        monkeypatch.setattr(pagerank, "CACHED_BYTES", 4 * 60 * columns)
        assert torch.equal(personalized_page_rank(start, adjacency, 4, 0.2), whole)


def scaled(rows, scaling):
    if scaling == "none":
        return rows
    sizes = np.linalg.norm(rows, axis=1) if scaling == "length" else np.abs(rows).sum(1)
    return rows / np.where(sizes > 0, sizes, 1)[:, None]


def reference(graph, propagation, scaling, steps, restart):
    """Scaled, propagated and scaled again, densely."""
    start = scaled(
        np.asarray(graph.features.todense() if hasattr(graph.features, "todense") else graph.features), scaling
    )
    place = start
    for _ in range(steps):
        place = (1 - restart) * propagation @ place + restart * start
    return scaled(place, scaling) if steps else place


@pytest.fixture(params=["few entries", "many entries", "dense"])
def graph(request, make_graph):
    given = make_graph(sparse=request.param != "dense", weighted=True, unreached=True)
    features = given.features * -1.5  # a sum of absolute values is not a sum
    if request.param == "few entries":
        features = sp.csr_array(features @ np.diag([1.0, 1.0] + [0.0] * (given.num_features - 2)))
    return Graph(given.adjacency, features)


def test_few_entries_stay_sparse(graph, request):
    features = propagated_features(graph, "length", 2, 0.1, CPU).features
    assert isinstance(features, SparseOperator) == (request.node.callspec.params["graph"] == "few entries")


@pytest.mark.parametrize("scaling", ["length", "sum", "none"])
@pytest.mark.parametrize(("steps", "restart"), [(0, 0.0), (2, 0.0), (7, 0.2)])
@pytest.mark.parametrize("columns_at_once", [None, 5])
def test_propagated_features_match_dense(
    graph, dense_propagation, scaling, steps, restart, columns_at_once, monkeypatch
):
    if columns_at_once:
        monkeypatch.setattr(pagerank, "_columns_at_once", lambda *_: columns_at_once)
    expected = reference(graph, np.asarray(dense_propagation(graph)), scaling, steps, restart)
    found = propagated_features(graph, scaling, steps, restart, CPU)
    index = torch.tensor([[3, 0, 39, 38, 7, 8, 9], [3, 5, 38, -1, -1, -1, -1]])
    np.testing.assert_allclose(found.rows_at(index)[0], expected[[3, 0, 39, 38, 7, 8, 9]], atol=1e-6)
    np.testing.assert_allclose(found.rows_at(index)[1, :3], expected[[3, 5, 38]], atol=1e-6)
    weight = torch.rand(graph.num_features, 3, 2, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(found.times(weight), np.einsum("nf,fab->nab", expected, weight), atol=1e-5)


def test_propagated_features_are_cached(make_graph):
    graph = make_graph()
    assert propagated_features(graph, "length", 2, 0.1, CPU) is propagated_features(graph, "length", 2, 0.1, CPU)
