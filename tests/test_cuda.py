"""On a GPU: the same bits of dropout, the same products, the same answers to noise, and twice the same answer."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.propagation import LONGEST_PIECE, SparseOperator
from mtgcn.random_streams import DropoutStream
from mtgcn.splits import draw_splits
from mtgcn.task import observe

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def two_communities(nodes: int = 200) -> Graph:
    random = np.random.default_rng(0)
    labels = np.arange(nodes) % 2
    linked = random.random((nodes, nodes)) < np.where(labels[:, None] == labels, 0.06, 0.01)
    adjacency = np.triu(linked, 1)
    features = random.random((nodes, 30)) + labels[:, None] * (np.arange(30) < 5)
    return Graph(adjacency=adjacency | adjacency.T, features=features, labels=labels, class_names=("even", "odd"))


def test_products_equal_the_cpus_also_for_rows_cut_into_pieces():
    random = np.random.default_rng(1)
    matrix = sp.csr_array(sp.random_array((5, 4 * LONGEST_PIECE), density=0.7, rng=random, dtype=np.float32))
    x = torch.from_numpy(random.random((matrix.shape[1], 37), dtype=np.float32))
    expected = SparseOperator(matrix, CPU)(x)
    torch.testing.assert_close(SparseOperator(matrix, CUDA)(x.to(CUDA)).cpu(), expected)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_dropout_decides_as_on_the_cpu(rate: float):
    on_cpu, on_gpu = (DropoutStream((1, 2, 3), 40, rate, device) for device in (CPU, CUDA))
    on_cpu.advance(), on_gpu.advance()
    assert torch.equal(on_gpu.kept(torch.arange(99, device=CUDA)).cpu(), on_cpu.kept(torch.arange(99)))


@pytest.mark.parametrize("method", ["gcn", "mt-gcn"])
def test_answers_equal_the_cpus_and_themselves(method: str):
    graph = two_communities()
    splits = draw_splits(graph, 3, runs=4, seed=0)
    on_cpu, first, second = (
        create(method).fit(observe(graph, splits, 0, device=device)).probabilities for device in (CPU, CUDA, CUDA)
    )
    assert np.array_equal(first, second)
    assert (first.argmax(-1) == on_cpu.argmax(-1)).mean() > 0.98
