import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import operators
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import (
    DenseOperator,
    ResidentOperator,
    SparseOperator,
    chain,
    csr_arrays,
    operator,
    pieces_of_rows,
)

CPU = torch.device("cpu")


def sparse_matrix(rows, columns, density, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < density)
    return sp.csr_array(values.astype(np.float32))


def numbers(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("trailing", [(5,), (2, 3), (2, 3, 4), ()])
@pytest.mark.parametrize("kind", ["sparse", "dense", "empty", "symmetric"])
def test_an_operator_multiplies_and_its_gradient_is_the_transposed_product(kind, trailing):
    matrix = sparse_matrix(7, 9, density=0.0 if kind == "empty" else 0.4)
    if kind == "symmetric":
        matrix = sp.csr_array(matrix @ matrix.T)
    dense = torch.from_numpy(matrix.toarray())
    apply = (
        DenseOperator(torch.from_numpy(matrix.toarray()))
        if kind == "dense"
        else SparseOperator(matrix, CPU, symmetric=kind == "symmetric")
    )
    x = numbers(matrix.shape[1], *trailing).requires_grad_()
    towards = numbers(matrix.shape[0], *trailing, seed=2)
    product = apply(x)
    assert product.shape == towards.shape
    torch.testing.assert_close(product, torch.tensordot(dense, x, 1))
    (product * towards).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensordot(dense.T, towards, 1))


def test_products_take_values_that_do_not_lie_in_a_row_in_memory():
    matrix = sparse_matrix(6, 4, density=0.5)
    x = numbers(3, 4).T  # a transposed view
    torch.testing.assert_close(SparseOperator(matrix, CPU)(x), torch.from_numpy(matrix.toarray()) @ x)
    gradient_view = numbers(4, 3).requires_grad_()
    SparseOperator(matrix, CPU)(gradient_view).sum().backward()  # an expanded gradient
    torch.testing.assert_close(gradient_view.grad, torch.from_numpy(matrix.toarray()).sum(0)[:, None].expand(4, 3))


def test_reweighted_operators_multiply_their_own_values():
    matrix = sparse_matrix(6, 8, density=0.5)
    weights = numbers(matrix.nnz, seed=3)
    reweighted = matrix.copy()
    reweighted.data = matrix.data * weights.numpy()
    dense = torch.from_numpy(reweighted.toarray())
    x = numbers(8, 3).requires_grad_()
    towards = numbers(6, 3, seed=2)
    product = SparseOperator(matrix, CPU).with_weights(weights)(x)
    torch.testing.assert_close(product, dense @ x)
    (product * towards).sum().backward()
    torch.testing.assert_close(x.grad, dense.T @ towards)


@pytest.mark.parametrize("density", [0.02, 0.9])
def test_an_operator_multiplies_alike_whether_kept_sparse_or_dense(density):
    matrix = sparse_matrix(30, 20, density)
    x = numbers(20, 4)
    torch.testing.assert_close(operator(matrix, CPU)(x), torch.from_numpy(matrix.toarray()) @ x)


def star(nodes):
    adjacency = sp.lil_array((nodes, nodes))
    adjacency[0, 1:] = adjacency[1:, 0] = 1
    return normalized_adjacency(Graph(adjacency))


def test_a_chain_multiplies_by_both_matrices_whichever_order_it_takes():
    # Through the hub of a star every node sees every feature, so multiplying in advance would cost more.
    two_steps = star(40), sparse_matrix(40, 4000, density=0.0125)
    one_step = star(40), sp.csr_array(sp.eye_array(40, dtype=np.float32))
    lengths = []
    for left, right in (two_steps, one_step):
        operators = chain(SparseOperator(left, CPU, symmetric=True), right, left @ right)
        lengths.append(len(operators))
        x = numbers(right.shape[1], 2, 3).requires_grad_()
        result = x
        for one in operators:
            result = one(result)
        both = torch.from_numpy((left @ right).toarray())
        towards = numbers(40, 2, 3, seed=2)
        torch.testing.assert_close(result, torch.tensordot(both, x, 1), atol=1e-5, rtol=1e-5)
        (result * towards).sum().backward()
        torch.testing.assert_close(x.grad, torch.tensordot(both.T, towards, 1), atol=1e-5, rtol=1e-5)
    assert lengths == [2, 1]


@pytest.mark.parametrize("tile_bytes", [8 * 4 * 100, 8 * 4 * 333])
def test_a_product_in_tiles_is_the_product(monkeypatch, tile_bytes):
    values = sparse_matrix(700, 1000, density=0.1).toarray()
    values[[3, 699]] = 0  # rows without an entry, the last one among them
    matrix = sp.csr_array(values)
    x = numbers(1000, 8)
    monkeypatch.setattr(operators, "UNTILED_BYTES", 0)
    monkeypatch.setattr(operators, "TILE_BYTES", tile_bytes)
    monkeypatch.setattr(operators, "ROWS_AT_ONCE", 256)
    tiled = SparseOperator(matrix, CPU)
    np.testing.assert_allclose(tiled.multiply(x), matrix @ x.numpy(), atol=1e-4)
    assert len(tiled._tiles) == -(-1000 * 32 // tile_bytes)
    np.testing.assert_allclose(tiled.multiply(x[:, :3]), matrix @ x[:, :3].numpy(), atol=1e-4)  # the tiles are kept


def test_tiles_are_not_cut_where_rows_would_have_too_little_in_each(monkeypatch):
    monkeypatch.setattr(operators, "UNTILED_BYTES", 0)
    monkeypatch.setattr(operators, "TILE_BYTES", 32)
    thin = SparseOperator(sp.eye_array(50, dtype=np.float32, format="csr"), CPU)
    assert thin.multiply(torch.ones(50, 8)).sum() == 400
    assert not thin._tiles


def test_long_rows_are_cut_into_pieces_that_follow_each_other():
    row_starts = torch.tensor([0, 3, 3, 10, 11], dtype=torch.int32)
    pieces = pieces_of_rows(row_starts, longest=3)
    assert pieces is not None
    assert [part.tolist() for part in pieces] == [[0, 3, 3, 6, 9, 10, 11], [0, 1, 2, 5, 6]]
    assert {part.dtype for part in pieces} == {torch.int32}
    assert pieces_of_rows(row_starts, longest=7) is None
    assert pieces_of_rows(row_starts[:1], longest=7) is None


def test_an_operator_made_of_arrays_on_a_device_multiplies_and_knows_its_matrix():
    matrix = sparse_matrix(9, 9, density=0.4)
    resident = ResidentOperator(csr_arrays(matrix, CPU))
    x = numbers(9, 2, 3).requires_grad_()
    torch.testing.assert_close(resident(x), SparseOperator(matrix, CPU)(x))
    assert (resident.shape, resident.nnz) == (matrix.shape, matrix.nnz)
    resident(x).sum().backward()
    expected = torch.from_numpy(matrix.toarray().sum(0))[:, None, None].expand_as(x)
    torch.testing.assert_close(x.grad, expected.contiguous())
    np.testing.assert_array_equal(resident.matrix.toarray(), matrix.toarray())
    symmetric = ResidentOperator(csr_arrays(sp.csr_array(matrix + matrix.T), CPU), symmetric=True)
    assert symmetric.transposed is symmetric


def test_reweighting_cuts_rows_as_the_original_does():
    original = SparseOperator(sparse_matrix(5, 6, density=0.5), CPU)
    vars(original)["_pieces"] = pieces = (torch.tensor([0]), torch.tensor([0]))
    assert original.with_weights(torch.ones(original.nnz))._pieces is pieces
