from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.linalg.leading_directions import SPARE, kept_directions, leading_directions, turned_to_one_side

CPU = torch.device("cpu")


def start_of(columns, count):
    return np.random.default_rng(1).standard_normal((columns, count), dtype=np.float32)


def directions_of(matrix, count):
    return leading_directions(matrix, count, start_of(matrix.shape[1], count + SPARE), CPU).numpy()


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
    chance = (matrix @ np.linalg.qr(start_of(80, count))[0]) ** 2
    assert chance.sum() < 0.9 * most


def test_of_a_matrix_of_low_rank_they_keep_every_row():
    random = np.random.default_rng(0)
    matrix = (random.normal(size=(50, 4)) @ random.normal(size=(4, 40))).astype(np.float32)
    rows = matrix @ directions_of(matrix, 4)
    np.testing.assert_allclose(rows @ rows.T, matrix @ matrix.T, rtol=1e-4, atol=1e-3)


def test_leading_ones_of_a_diagonal_by_hand():
    diagonal = np.diag([1, 9, 2, 8, 3, 1, 1, 1]).astype(np.float32)
    basis = leading_directions(diagonal, 2, start_of(8, 8), CPU).numpy()
    np.testing.assert_allclose(np.abs(basis), np.eye(8)[:, [3, 1]], atol=1e-5)  # the largest comes last


def test_dense_and_sparse_give_the_same(matrix):
    for stored in (sp.csr_array(matrix), np.asfortranarray(matrix)):
        rows, others = matrix @ directions_of(stored, 10), matrix @ directions_of(matrix, 10)
        np.testing.assert_allclose(rows @ rows.T, others @ others.T, atol=1e-4)


def test_fewer_rows_than_directions_lose_nothing(matrix):
    few = matrix[:7]
    rows = few @ directions_of(sp.csr_array(few), 20)
    np.testing.assert_allclose(rows @ rows.T, few @ few.T, atol=1e-5)


def test_what_is_zero_has_directions_too():
    basis = directions_of(sp.csr_array((30, 40), dtype=np.float32), 3)
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-5)


def test_the_matrix_is_not_changed(matrix):
    before = matrix.copy()
    directions_of(matrix, 5)
    np.testing.assert_array_equal(matrix, before)


def test_of_a_walk_along_the_rows(matrix):
    walk = np.random.default_rng(2).random((120, 120)).astype(np.float32)
    walk = walk + walk.T
    start = start_of(80, 5 + SPARE)
    found = leading_directions(matrix, 5, start, CPU, lambda values: torch.from_numpy(walk) @ values).numpy()
    kept = (walk @ matrix @ found) ** 2
    assert kept.sum() > 0.995 * (np.linalg.svd(walk @ matrix, compute_uv=False)[:5] ** 2).sum()


def test_a_direction_and_its_opposite_are_turned_to_one_side(matrix):
    basis = torch.from_numpy(directions_of(matrix, 5))
    turned = turned_to_one_side(basis)
    torch.testing.assert_close(turned, turned_to_one_side(basis * torch.tensor([1, -1, 1, -1, -1])))
    torch.testing.assert_close(turned.abs(), basis.abs())


def test_large_graphs_keep_fewer_directions():
    kept = [kept_directions(512, SimpleNamespace(num_nodes=nodes)) for nodes in (1, 2**16, 2**17, 2**19, 2**20, 2**24)]
    assert kept == [512, 512, 256, 64, 32, 32]
    assert kept_directions(8, SimpleNamespace(num_nodes=2**24)) == 8
