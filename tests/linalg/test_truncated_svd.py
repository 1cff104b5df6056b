from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.truncated_svd import (
    OVERSAMPLING,
    feature_singular_vectors,
    leading_singular_vectors,
    num_components,
    with_fixed_signs,
)

CPU = torch.device("cpu")


def start_of(columns, count):
    return torch.from_numpy(np.random.default_rng(1).standard_normal((columns, count), dtype=np.float32))


def directions_of(matrix, count):
    product, transposed = products_with(matrix)
    return leading_singular_vectors(product, transposed, count, start_of(matrix.shape[1], count + OVERSAMPLING)).numpy()


def products_with(matrix):
    dense = torch.from_numpy(matrix.toarray() if sp.issparse(matrix) else np.array(matrix))
    return lambda values: dense @ values, lambda values: dense.T @ values


@pytest.fixture
def matrix():
    """Sparse, and with singular values that fall slowly, as those of words do."""
    random = np.random.default_rng(0)
    values = random.random((120, 80)) * (random.random((120, 80)) < 0.2)
    return (values * np.arange(1, 81) ** -0.5).astype(np.float32)


@pytest.mark.parametrize("count", [1, 5, 30])
def test_they_are_orthonormal(matrix, count):
    basis = directions_of(matrix, count)
    assert basis.shape == (80, count)
    np.testing.assert_allclose(basis.T @ basis, np.eye(count), atol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 30])
def test_they_keep_as_much_of_a_matrix_as_its_singular_vectors(matrix, count):
    most = (np.linalg.svd(matrix, compute_uv=False)[:count] ** 2).sum()
    kept = (matrix @ directions_of(matrix, count)) ** 2
    assert 0.995 * most < kept.sum() < 1.00001 * most
    chance = (matrix @ np.linalg.qr(start_of(80, count).numpy())[0]) ** 2
    assert chance.sum() < 0.9 * most


def test_of_a_matrix_of_low_rank_they_keep_every_row():
    random = np.random.default_rng(0)
    matrix = (random.normal(size=(50, 4)) @ random.normal(size=(4, 40))).astype(np.float32)
    rows = matrix @ directions_of(matrix, 4)
    np.testing.assert_allclose(rows @ rows.T, matrix @ matrix.T, rtol=1e-4, atol=1e-3)


def test_leading_ones_of_a_diagonal_by_hand():
    diagonal = np.diag([1, 9, 2, 8, 3, 1, 1, 1]).astype(np.float32)
    basis = leading_singular_vectors(*products_with(diagonal), 2, start_of(8, 8)).numpy()
    np.testing.assert_allclose(np.abs(basis), np.eye(8)[:, [3, 1]], atol=1e-5)  # the largest comes last


def test_features_dense_and_sparse_give_the_same(make_graph):
    graph = replace(make_graph(nodes=60), features=np.random.default_rng(0).random((60, 50)).astype(np.float32))
    sparse = replace(graph, features=sp.csr_array(graph.features))
    for steps in (0, 3):
        found, other = (feature_singular_vectors(one, "none", CPU, 40, steps, 0.2).numpy() for one in (graph, sparse))
        assert found.shape == (50, 40)
        np.testing.assert_allclose(found.T @ found, np.eye(40), atol=1e-4)
        rows, others = graph.features @ found, graph.features @ other
        np.testing.assert_allclose(rows @ rows.T, others @ others.T, atol=1e-2)


def test_of_surroundings_they_keep_what_surroundings_differ_in(make_graph):
    graph = replace(make_graph(nodes=60), features=np.random.default_rng(0).random((60, 50)).astype(np.float32))
    smooth = np.linalg.matrix_power(normalized_adjacency(graph).toarray(), 3) @ graph.features
    basis = feature_singular_vectors(graph, "none", CPU, 34, 3, 0.0).numpy()
    most = (np.linalg.svd(smooth, compute_uv=False)[:34] ** 2).sum()
    assert ((smooth @ basis) ** 2).sum() > 0.999 * most


def test_a_direction_and_its_opposite_are_turned_to_one_side(matrix):
    basis = torch.from_numpy(directions_of(matrix, 5))
    turned = with_fixed_signs(basis)
    torch.testing.assert_close(turned, with_fixed_signs(basis * torch.tensor([1, -1, 1, -1, -1])))
    torch.testing.assert_close(turned.abs(), basis.abs())


def _size(nodes, entries=1):
    return SimpleNamespace(num_nodes=nodes, mean_degree=entries / nodes)


def test_large_graphs_keep_fewer_directions():
    kept = [num_components(512, _size(nodes)) for nodes in (1, 2**16, 2**17, 2**19, 2**20, 2**24)]
    assert kept == [512, 512, 256, 64, 32, 32]
    assert num_components(8, _size(2**24)) == 8
    assert [num_components(256, _size(9, entries)) for entries in (2**19, 2**20, 2**25)] == [256, 128, 32]
