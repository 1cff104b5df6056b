"""Operators in 64 bits are those in 32, but for rounding, whoever holds which rows."""

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.local_graph import read_local_graph
from mtgcn.distributed.shards import read_manifest
from mtgcn.linalg.operators import DenseOperator, SparseOperator
from thread_ranks import on_ranks

THIRDS = np.array([[1 / 3, 0, 2 / 3], [0, 1 / 3, 0]])


def test_products_and_gradients_of_one_process():
    x = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64, requires_grad=True)
    cpu = torch.device("cpu")
    exact = torch.from_numpy(THIRDS.astype(np.float32).astype(np.float64))
    for operator in (SparseOperator(sp.csr_array(THIRDS, dtype=np.float32), cpu), DenseOperator(exact.float())):
        product = in_doubles(operator)(x)
        torch.testing.assert_close(product, exact @ x, rtol=1e-15, atol=0)
        (gradient,) = torch.autograd.grad(product.sum(), x)
        torch.testing.assert_close(gradient, exact.T @ torch.ones_like(product), rtol=1e-15, atol=0)


def test_products_over_ranks(files):
    x = torch.from_numpy(np.random.default_rng(0).random((60, 3)))
    whole = np.zeros((60, 3))

    def work(ranks):
        local = read_local_graph(read_manifest(files / "shards"), ranks)
        operator = shared_in_doubles(local.adjacency)
        assert operator.max_rows == local.adjacency.max_rows >= local.num_nodes
        product = operator.multiply(x[local.numbers])
        torch.testing.assert_close(product.float(), local.adjacency.multiply(x[local.numbers].float()))
        whole[local.numbers] = product.numpy()
        return product

    for count in (1, 3):
        on_ranks(count, work)
        if count == 1:
            alone = whole.copy()
    np.testing.assert_allclose(whole, alone, rtol=1e-15)
