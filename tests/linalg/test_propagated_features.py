import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import propagated_features as module
from mtgcn.linalg.operators import SparseOperator
from mtgcn.linalg.propagated_features import propagated_features

CPU = torch.device("cpu")


def scaled(rows, scaling):
    if scaling == "none":
        return rows
    sizes = np.linalg.norm(rows, axis=1) if scaling == "length" else np.abs(rows).sum(1)
    return rows / np.where(sizes > 0, sizes, 1)[:, None]


def reference(graph, propagation, scaling, steps, restart):
    """The rows by their formula."""
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
    if request.param == "few entries":  # of many, a table is quicker to multiply with
        features = sp.csr_array(features @ np.diag([1.0, 1.0] + [0.0] * (given.num_features - 2)))
    return Graph(given.adjacency, features)


def test_a_matrix_with_few_entries_stays_one(graph, request):
    features = propagated_features(graph, "length", 2, 0.1, CPU).features
    assert isinstance(features, SparseOperator) == (request.node.callspec.params["graph"] == "few entries")


@pytest.mark.parametrize("scaling", ["length", "sum", "none"])
@pytest.mark.parametrize(("steps", "restart"), [(0, 0.0), (2, 0.0), (7, 0.2)])
@pytest.mark.parametrize("columns_at_once", [None, 5])
def test_rows_and_products_follow_the_formula(
    graph, dense_propagation, scaling, steps, restart, columns_at_once, monkeypatch
):
    if columns_at_once:
        monkeypatch.setattr(module, "_columns_at_once", lambda *_: columns_at_once)
    expected = reference(graph, np.asarray(dense_propagation(graph)), scaling, steps, restart)
    found = propagated_features(graph, scaling, steps, restart, CPU)
    index = torch.tensor([[3, 0, 39, 38, 7, 8, 9], [3, 5, 38, -1, -1, -1, -1]])
    np.testing.assert_allclose(found.rows_at(index)[0], expected[[3, 0, 39, 38, 7, 8, 9]], atol=1e-6)
    np.testing.assert_allclose(found.rows_at(index)[1, :3], expected[[3, 5, 38]], atol=1e-6)
    weight = torch.rand(graph.num_features, 3, 2, generator=torch.Generator().manual_seed(0))
    np.testing.assert_allclose(found.times(weight), np.einsum("nf,fab->nab", expected, weight), atol=1e-5)


def test_they_are_made_once(make_graph):
    graph = make_graph()
    assert propagated_features(graph, "length", 2, 0.1, CPU) is propagated_features(graph, "length", 2, 0.1, CPU)
