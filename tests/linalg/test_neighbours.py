import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits

from mtgcn.errors import InputError
from mtgcn.linalg import neighbours
from mtgcn.linalg.neighbours import neighbour_graph, neighbour_search


@pytest.fixture(scope="module")
def points():
    return np.random.default_rng(0).standard_normal((60, 4))


def brute_force(points, k, metric):
    """The k nearest of each row, by all distances."""
    if metric == "cosine":
        points = points / np.linalg.norm(points, axis=1, keepdims=True)
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(distance, np.inf)
    edges = np.zeros((len(points), len(points)))
    np.put_along_axis(edges, np.argsort(distance, axis=1)[:, :k], 1, axis=1)
    return edges


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_neighbour_graph_matches_brute_force(points, metric, mutual, sparse):
    near = brute_force(points, 5, metric)
    expected = np.minimum(near, near.T) if mutual else np.maximum(near, near.T)
    table = sp.csr_array(points) if sparse else points
    assert np.array_equal(neighbour_graph(table, 5, metric, mutual).toarray(), expected)


def test_nearest_by_hand():
    search = neighbour_search([[0.0], [10.0], [4.0]], 2, "euclidean")
    assert search([[1.0], [9.0]]).tolist() == [[0, 2], [1, 2]]
    assert search([[0.0]])[0, 0] == 0  # a known row is its own neighbour
    with pytest.raises(InputError, match="k=3 is too large for 2 known rows; lower it to at most 2"):
        neighbour_search([[0.0], [1.0]], 3, "euclidean")


@pytest.mark.parametrize("metric", neighbours.BY_PRODUCTS)
@pytest.mark.parametrize("rows", [60, 700])
def test_search_by_products_is_exact(monkeypatch, metric, rows):
    points = np.random.default_rng(0).standard_normal((rows, 4))
    points += 1000 * (metric == "euclidean")  # rounding of products would decide
    points[7] = points[3]
    expected = neighbour_graph(points, 5, metric)
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 0)
    monkeypatch.setattr(neighbours, "BLOCK_NUMBERS", 2**17)  # several blocks
    done = []
    found = neighbour_graph(points, 5, metric, progress=lambda *numbers: done.append(numbers))
    assert (found != expected).nnz == 0
    assert done[-1] == (rows, rows)
    assert found[3, 7] == 1


@pytest.mark.parametrize("work", [2**40, pytest.param(0, marks=pytest.mark.long)], ids=["products", "approximate"])
@pytest.mark.parametrize("rows", [0, neighbours.EXACT_ROWS])
def test_search_among_equal_rows(monkeypatch, rows, work):
    monkeypatch.setattr(neighbours, "EXACT_ROWS", rows)
    monkeypatch.setattr(neighbours, "EXACT_WORK", work)
    edges = neighbour_graph(np.repeat([[0.0, 0.0], [1.0, 2.0]], 300, axis=0), k=4).toarray()
    assert np.array_equal(edges, edges.T)
    assert np.trace(edges) == 0
    assert (edges.sum(axis=1) >= 4).all()
    assert edges[:300, 300:].sum() == 0


@pytest.fixture
def always_approximate(monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 0)
    monkeypatch.setattr(neighbours, "EXACT_WORK", 0)


def test_search_is_exact_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 3)
    monkeypatch.setattr(neighbours, "EXACT_WORK", 0)
    monkeypatch.setattr(neighbours, "_approximate_neighbours", lambda table, k, *_: np.full((len(table), k), -1))
    assert neighbour_graph([[0.0], [1.0], [5.0]], k=2).nnz == 6
    assert neighbour_graph([[0.0], [1.0], [5.0], [6.0]], k=2).nnz == 0


def test_missing_neighbours_give_fewer_edges(always_approximate, monkeypatch):
    found = np.array([[1, -1], [0, 2], [1, 3], [2, -1]])  # -1 pads
    monkeypatch.setattr(neighbours, "_approximate_neighbours", lambda *_: found)
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    assert np.array_equal(neighbour_graph(np.zeros((4, 1)), k=2).toarray(), path)


def test_approximate_search(always_approximate, monkeypatch):
    found = np.array([[0, 1], [1, 0], [3, 0], [3, 2]])  # a duplicate displaced row 2 among its own neighbours

    def search(table, **settings):
        assert settings == {"metric": "euclidean", "n_neighbors": 2, "random_state": 3}
        torch.set_num_threads(2)  # as numba does
        return SimpleNamespace(neighbor_graph=(found, None))

    monkeypatch.setitem(sys.modules, "pynndescent", SimpleNamespace(NNDescent=search))
    pairs = np.kron(np.eye(2), [[0, 1], [1, 0]])
    assert np.array_equal(neighbour_graph(np.zeros((4, 1)), k=1, seed=3).toarray(), pairs)
    assert torch.get_num_threads() == 1


@pytest.mark.long  # numba compiles for a minute
@pytest.mark.parametrize("sparse", [False, True])
def test_approximate_search_is_accurate_and_reproducible(always_approximate, sparse):
    points = np.random.default_rng(1).standard_normal((1500, 8)).astype(np.float32)
    table = sp.csr_array(points) if sparse else points
    found = neighbour_graph(table, k=8, seed=3)
    near = brute_force(points, 8, "euclidean")
    expected = np.maximum(near, near.T)
    assert (found.toarray() * expected).sum() / expected.sum() > 0.95
    assert (found != found.T).nnz == 0
    assert found.diagonal().sum() == 0
    assert (found != neighbour_graph(table, k=8, seed=3)).nnz == 0
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"k": 3}, "k=3 is too large for 3 rows, each with 2 others; lower it to at most 2"),
        ({"k": 0}, "k=0 is too small; give at least 1"),
        ({"metric": "euclidian"}, "unknown metric 'euclidian'; did you mean 'euclidean'"),
        ({"X": [[0.0], [np.nan], [1.0]]}, "a feature of row 1 is NaN or infinite"),
        ({"X": sp.csr_array([[0.0], [1.0], [np.inf]])}, "a feature of row 2 is NaN or infinite"),
        ({"X": [["a"], ["b"], ["c"]]}, "X is not a table of numbers"),
        ({"X": [1.0, 2.0, 3.0]}, r"X has shape \(3,\); give a table"),
    ],
)
def test_invalid_tables_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        neighbour_graph(**{"X": [[0.0], [1.0], [2.0]], "k": 1, **given})


def test_ties_do_not_depend_on_threads():
    table = np.random.default_rng(0).integers(2, size=(1500, 20)).astype(float)  # many equal distances
    expected = neighbour_graph(table, k=5)
    for threads in (1, 2, 4):
        with threadpool_limits(limits=threads):
            assert (neighbour_graph(table, k=5) != expected).nnz == 0
