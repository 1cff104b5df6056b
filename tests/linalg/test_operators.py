import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.linalg import operators
from mtgcn.linalg.normalisation import normalized_adjacency

CPU = torch.device("cpu")


def sparse_matrix(rows, columns, density, seed=0):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, columns)) * (random.random((rows, columns)) < density)
    return sp.csr_array(values.astype(np.float32))


def numbers(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def assert_multiplies(apply, matrix, trailing=(3,)):
    """Products and gradients of `apply` are those of the matrix."""
    dense = torch.from_numpy(matrix.toarray())
    x = numbers(matrix.shape[1], *trailing).requires_grad_()
    direction = numbers(matrix.shape[0], *trailing, seed=2)
    product = apply(x)
    assert product.shape == direction.shape
    torch.testing.assert_close(product, torch.tensordot(dense, x, 1), atol=1e-5, rtol=1e-5)
    (product * direction).sum().backward()
    torch.testing.assert_close(x.grad, torch.tensordot(dense.T, direction, 1), atol=1e-5, rtol=1e-5)


MATRIX = sparse_matrix(7, 9, density=0.4)
SQUARE = sp.csr_array(MATRIX @ MATRIX.T)
WEIGHTS = numbers(MATRIX.nnz, seed=3)
REWEIGHTED = sp.csr_array((MATRIX.data * WEIGHTS.numpy(), MATRIX.indices, MATRIX.indptr), MATRIX.shape)
KINDS = {
    "sparse": (operators.SparseOperator(MATRIX, CPU), MATRIX),
    "empty": (
        operators.SparseOperator(sp.csr_array((7, 9), dtype=np.float32), CPU),
        sp.csr_array((7, 9), dtype=np.float32),
    ),
    "symmetric": (operators.SparseOperator(SQUARE, CPU, symmetric=True), SQUARE),
    "dense": (operators.DenseOperator(torch.from_numpy(MATRIX.toarray())), MATRIX),
    "reweighted": (operators.SparseOperator(MATRIX, CPU).with_weights(WEIGHTS), REWEIGHTED),
    "resident": (operators.ResidentOperator(operators.csr_arrays(SQUARE, CPU)), SQUARE),
    "chosen sparse": (operators.operator(sparse_matrix(30, 20, 0.02), CPU), sparse_matrix(30, 20, 0.02)),
    "chosen dense": (operators.operator(sparse_matrix(30, 20, 0.9), CPU), sparse_matrix(30, 20, 0.9)),
}


@pytest.mark.parametrize("trailing", [(5,), (2, 3), (2, 3, 4), ()])
@pytest.mark.parametrize("kind", KINDS)
def test_products_and_gradients_match_dense(kind, trailing):
    assert_multiplies(*KINDS[kind], trailing)


def test_operator_is_sparse_or_dense_by_cost():
    assert isinstance(KINDS["chosen sparse"][0], operators.SparseOperator)
    assert isinstance(KINDS["chosen dense"][0], operators.DenseOperator)


def test_operands_need_not_be_contiguous():
    dense = torch.from_numpy(MATRIX.toarray())
    x = numbers(3, 9).T  # a transposed view
    torch.testing.assert_close(operators.SparseOperator(MATRIX, CPU)(x), dense @ x)
    x = numbers(9, 3).requires_grad_()
    operators.SparseOperator(MATRIX, CPU)(x).sum().backward()  # an expanded gradient
    torch.testing.assert_close(x.grad, dense.sum(0)[:, None].expand(9, 3))


def star(nodes):
    adjacency = sp.lil_array((nodes, nodes))
    adjacency[0, 1:] = adjacency[1:, 0] = 1
    return normalized_adjacency(Graph(adjacency))


@pytest.mark.parametrize(
    ("right", "length"),
    [
        (sparse_matrix(40, 4000, density=0.0125), 2),  # the hub of a star fills the product
        (sp.csr_array(sp.eye_array(40, dtype=np.float32)), 1),
    ],
)
def test_chain_takes_the_cheaper_order(right, length):
    left = star(40)
    found = operators.chain(operators.SparseOperator(left, CPU, symmetric=True), right, left @ right)
    assert len(found) == length

    def apply(x):
        for one in found:
            x = one(x)
        return x

    assert_multiplies(apply, left @ right, (2, 3))


@pytest.mark.parametrize("tile_bytes", [8 * 4 * 100, 8 * 4 * 333])
def test_tiled_product_matches(monkeypatch, tile_bytes):
    values = sparse_matrix(700, 1000, density=0.1).toarray()
    values[[3, 699]] = 0  # empty rows, the last one among them
    matrix = sp.csr_array(values)
    x = numbers(1000, 8)
    monkeypatch.setattr(operators, "UNTILED_BYTES", 0)
    monkeypatch.setattr(operators, "TILE_BYTES", tile_bytes)
    tiled = operators.SparseOperator(matrix, CPU)
    np.testing.assert_allclose(tiled.multiply(x), matrix @ x.numpy(), atol=1e-4)
    assert len(tiled._tiles) == -(-1000 * 32 // tile_bytes)
    np.testing.assert_allclose(tiled.multiply(x[:, :3]), matrix @ x[:, :3].numpy(), atol=1e-4)  # the same tiles


def test_short_rows_are_not_tiled(monkeypatch):
    monkeypatch.setattr(operators, "UNTILED_BYTES", 0)
    monkeypatch.setattr(operators, "TILE_BYTES", 32)
    thin = operators.SparseOperator(sp.eye_array(50, dtype=np.float32, format="csr"), CPU)
    assert thin.multiply(torch.ones(50, 8)).sum() == 400
    assert not thin._tiles


def test_pieces_of_long_rows():
    row_starts = torch.tensor([0, 3, 3, 10, 11], dtype=torch.int32)
    pieces = operators.pieces_of_rows(row_starts, longest=3)
    assert [part.tolist() for part in pieces] == [[0, 3, 3, 6, 9, 10, 11], [0, 1, 2, 5, 6]]
    assert {part.dtype for part in pieces} == {torch.int32}
    assert operators.pieces_of_rows(row_starts, longest=7) is None
    assert operators.pieces_of_rows(row_starts[:1], longest=7) is None
    original = operators.SparseOperator(MATRIX, CPU)
    vars(original)["_pieces"] = pieces
    assert original.with_weights(WEIGHTS)._pieces is pieces


def test_resident_operator_knows_its_matrix():
    resident = operators.ResidentOperator(operators.csr_arrays(SQUARE, CPU), symmetric=True)
    assert (resident.shape, resident.nnz) == (SQUARE.shape, SQUARE.nnz)
    np.testing.assert_array_equal(resident.matrix.toarray(), SQUARE.toarray())
    assert resident.transposed is resident


@pytest.mark.parametrize("row_starts", [[0], [0, 0, 0], [0, 3, 3, 9, 10], [0, 100, 101, 101, 300]])
def test_blocks_cover_every_row_once(monkeypatch, row_starts):
    monkeypatch.setattr(operators, "BLOCK_SIZE", 4)
    rows = len(row_starts) - 1
    for cut in (operators.blocks_of_entries(np.array(row_starts)), operators.blocks_of_rows(rows, width=2)):
        assert [row for block in cut for row in range(block.start, block.stop)] == list(range(rows))


def test_each_block_runs_once_and_raises(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    done = np.zeros(10)

    def mark(block):
        done[block] += 1
        if block.start == 9:
            raise ValueError("broken")

    operators.each_block([slice(place, place + 1) for place in range(9)], mark)
    assert done.tolist() == [1] * 9 + [0]
    with pytest.raises(ValueError, match="broken"):
        operators.each_block([slice(0, 1), slice(9, 10)], mark)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_all_finite_finds_any_value(monkeypatch, value):
    monkeypatch.setattr(operators, "BLOCK_SIZE", 4)
    monkeypatch.setattr(operators, "LARGE_BLOCK", 5)
    values = np.full((4, 6), np.finfo(np.float32).max, dtype=np.float32)  # the sum overflows
    assert operators.all_finite(values)
    for place in np.ndindex(values.shape):
        changed = values.copy()
        changed[place] = value
        assert not operators.all_finite(changed)
        assert not operators.all_finite(changed.T)


@pytest.mark.parametrize("kind", [np.int32, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (1,), (8,), (37,), (5, 7, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_transfers_keep_every_value(monkeypatch, kind, shape, order):
    monkeypatch.setattr(operators, "PIECE", 64)
    array = np.arange(np.prod(shape)).reshape(shape)
    array = array.astype(np.float64 if np.issubdtype(kind, np.floating) else np.int64, order=order)
    array.setflags(write=False)
    sent, received = torch.from_numpy(np.empty(shape, kind)), np.empty(shape, kind)
    operators.copy_in_pieces(sent, np.ascontiguousarray(array), to_device=True)
    operators.copy_in_pieces(sent, received, to_device=False)
    whole = operators.on_device(array, kind, CPU)
    for found in (sent.numpy(), received, whole.numpy(), operators.on_host(whole)):
        assert found.dtype == kind
        np.testing.assert_array_equal(found, array)


def test_only_transfers_to_a_device_copy():
    array = np.zeros(3, dtype=np.float32)
    sent = operators.on_device(array, np.float32, CPU)
    sent += 1
    assert array.tolist() == [0, 0, 0]
    operators.on_host(sent)[0] = 7
    assert sent.tolist() == [7, 1, 1]
    with pytest.raises(TypeError, match="Cannot cast"):
        operators.copy_in_pieces(torch.ones(20, dtype=torch.int32), np.ones(20), to_device=True)
