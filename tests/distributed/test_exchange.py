"""Boundary rows reach whom they are needed by, and products with them are those with the whole matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.distributed.exchange import Boundary, shared_operator
from mtgcn.distributed.ranks import Ranks
from mtgcn.linalg.operators import SparseOperator
from thread_ranks import on_ranks

NODES = 12


@pytest.fixture
def symmetric():
    random = np.random.default_rng(0)
    dense = np.triu(random.random((NODES, NODES)) * (random.random((NODES, NODES)) < 0.3))
    return (dense + dense.T).astype(np.float32)


def stretch(ranks, starts):
    return slice(starts[ranks.rank], starts[ranks.rank + 1])


def operator_of(ranks, starts, matrix):
    """This rank's rows of a matrix, their columns its own nodes and then its boundary."""
    mine = stretch(ranks, starts)
    rows = matrix[mine]
    outside = np.setdiff1d(np.flatnonzero(rows.any(axis=0)), np.arange(NODES)[mine])
    boundary = Boundary.settled(ranks, starts, outside)
    return shared_operator(sp.csr_array(np.hstack([rows[:, mine], rows[:, outside]])), boundary)


@pytest.mark.parametrize("starts", [[0, 12], [0, 5, 12], [0, 1, 2, 12], [0, 3, 6, 9, 12]])
def test_rows_of_others_come_in_their_order(starts):
    wanted = {rank: np.arange(NODES)[rank % 2 :: 2] for rank in range(len(starts) - 1)}
    table = torch.arange(2.0 * NODES).view(NODES, 2)

    def work(ranks):
        mine = np.arange(starts[ranks.rank], starts[ranks.rank + 1])
        needed = np.setdiff1d(wanted[ranks.rank], mine)
        boundary = Boundary.settled(ranks, starts, needed)
        own = table[stretch(ranks, starts)]
        torch.testing.assert_close(boundary.rows(own), table[needed])
        torch.testing.assert_close(boundary.beside(own), torch.cat([own, table[needed]]))
        return ranks.sent, len(boundary)

    done = on_ranks(len(starts) - 1, work)
    # In whole numbers of 8 bytes once; then twice two numbers of 4 bytes for each row that somebody needs.
    assert sum(sent for sent, _ in done) == sum(needed * (8 + 2 * 8) for _, needed in done)


@pytest.mark.parametrize("starts", [[0, 12], [0, 5, 12], [0, 1, 2, 12]])
def test_products_and_gradients_are_those_of_the_whole_matrix(symmetric, starts):
    values = torch.from_numpy(np.random.default_rng(1).random((NODES, 2, 3), dtype=np.float32))
    weight = torch.from_numpy(np.random.default_rng(2).random((NODES, 2, 3), dtype=np.float32))
    whole = values.clone().requires_grad_()
    product = SparseOperator(sp.csr_array(symmetric), torch.device("cpu"), symmetric=True)(whole)
    (product * weight).sum().backward()

    def work(ranks):
        mine = stretch(ranks, starts)
        own = values[mine].clone().requires_grad_()
        result = operator_of(ranks, starts, symmetric)(own)
        torch.testing.assert_close(result, product[mine].detach())
        (result * weight[mine]).sum().backward()
        torch.testing.assert_close(own.grad, whole.grad[mine])

    on_ranks(len(starts) - 1, work)


def test_alone_nothing_is_sent(symmetric):
    ranks = Ranks()
    operator = operator_of(ranks, [0, NODES], symmetric)
    table = torch.ones(NODES, 1)
    np.testing.assert_allclose(operator(table)[:, 0].numpy(), symmetric.sum(axis=1), rtol=1e-6)
    assert operator.boundary.beside(table) is table
    assert ranks.sent == 0
