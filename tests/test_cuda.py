"""On a GPU: the same bits of dropout, the same products, the same answers to noise, and twice the same answer."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from mtgcn.graph import Graph
from mtgcn.linalg.operators import LONGEST_PIECE, SparseOperator
from mtgcn.methods import create
from mtgcn.nn.dropout import DropoutStream
from mtgcn.splits import draw_splits
from mtgcn.task import NOBODY, observe
from mtgcn.training.recording import recording

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


class Mean(nn.Module):
    """A layer on each node and the sum of its neighbours, with dropout."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(2 * features, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        source, target = edge_index
        near = torch.zeros_like(x).scatter_reduce(0, target[:, None].expand(-1, x.shape[1]), x[source], "amax")
        return self.layer(self.dropout(torch.cat([x, near], 1)))


@pytest.mark.parametrize("backbone", ["chebyshev", "appnp", "gat"])
def test_every_backbone_answers_as_on_the_cpu_and_twice_the_same(backbone: str):
    graph = two_communities()
    splits = draw_splits(graph, 3, runs=4, seed=0)
    on_cpu, first, second = (
        create("mt-gcn", backbone=backbone).fit(observe(graph, splits, 0, device=device)).probabilities
        for device in (CPU, CUDA, CUDA)
    )
    assert np.array_equal(first, second)
    assert (first.argmax(-1) == on_cpu.argmax(-1)).mean() > 0.98


def test_a_module_of_ones_own_runs_on_a_gpu_and_twice_the_same():
    graph = two_communities()
    task = observe(graph, draw_splits(graph, 3, runs=2, seed=0), 0, device=CUDA)
    method = create("mt-gcn", backbone=Mean, warmup_epochs=30, teaching_epochs=30)
    first, second = (method.fit(task).probabilities for _ in range(2))
    assert np.array_equal(first, second)
    assert (first[0].argmax(-1) == graph.labels).mean() > 0.6


def test_a_replayed_training_can_be_recorded():
    graph = two_communities()
    task = observe(graph, draw_splits(graph, 3, runs=2, seed=0), 0, device=CUDA)
    method = create("mt-gcn", warmup_epochs=20, teaching_epochs=25)
    with recording(every=10) as record:
        watched = method.fit(task)
    assert np.array_equal(watched.probabilities, method.fit(task).probabilities)
    assert record.epochs == (10, 20, 30, 40, 45)
    assert np.array_equal(record.predicted[:, -1], watched.probabilities.argmax(-1))
    taught = record.chosen[:, 2:]
    assert (taught != NOBODY).any(axis=(2, 3, 4)).all()
    assert (record.chosen[:, :2] == NOBODY).all()
