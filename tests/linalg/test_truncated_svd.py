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


def singular_vectors(matrix, count, columns=None):
    dense = torch.from_numpy(matrix)
    random = np.random.default_rng(1)
    start = random.standard_normal((matrix.shape[1], columns or count + OVERSAMPLING), dtype=np.float32)
    found = leading_singular_vectors(lambda x: dense @ x, lambda x: dense.T @ x, count, torch.from_numpy(start))
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


def test_low_rank_matrix_is_reproduced():
    random = np.random.default_rng(0)
    matrix = (random.normal(size=(50, 4)) @ random.normal(size=(4, 40))).astype(np.float32)
    rows = matrix @ singular_vectors(matrix, 4)
    np.testing.assert_allclose(rows @ rows.T, matrix @ matrix.T, rtol=1e-4, atol=1e-3)


def test_diagonal_matrix_by_hand():
    diagonal = np.diag([1, 9, 2, 8, 3, 1, 1, 1]).astype(np.float32)
    basis = singular_vectors(diagonal, 2, columns=8)
    np.testing.assert_allclose(np.abs(basis), np.eye(8)[:, [3, 1]], atol=1e-5)  # the largest comes last


@pytest.mark.parametrize("steps", [0, 3])
def test_feature_vectors_of_propagated_features(make_graph, steps):
    graph = replace(make_graph(nodes=60), features=np.random.default_rng(0).random((60, 50)).astype(np.float32))
    sparse = replace(graph, features=sp.csr_array(graph.features))
    found, other = (feature_singular_vectors(one, "none", CPU, 40, steps, 0.0).numpy() for one in (graph, sparse))
    np.testing.assert_allclose(found.T @ found, np.eye(40), atol=1e-4)
    rows, others = graph.features @ found, graph.features @ other
    np.testing.assert_allclose(rows @ rows.T, others @ others.T, atol=1e-2)
    propagated = np.linalg.matrix_power(normalized_adjacency(graph).toarray(), steps) @ graph.features
    largest = (np.linalg.svd(propagated, compute_uv=False)[:40] ** 2).sum()
    assert ((propagated @ found) ** 2).sum() > 0.999 * largest


def test_signs_are_fixed():
    basis = torch.from_numpy(singular_vectors(decaying_matrix(), 5))
    turned = with_fixed_signs(basis)
    torch.testing.assert_close(turned, with_fixed_signs(basis * torch.tensor([1, -1, 1, -1, -1])))
    torch.testing.assert_close(turned.abs(), basis.abs())


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
    assert num_components(wanted, SimpleNamespace(num_nodes=nodes, mean_degree=entries / nodes)) == expected
