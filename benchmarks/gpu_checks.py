"""Results on a GPU match those on the CPU, and repeat bit for bit: run `pytest benchmarks/gpu_checks.py`."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from mtgcn.communicator import ONE_PROCESS
from mtgcn.graph import Graph
from mtgcn.linalg import operators
from mtgcn.linalg.node_keys import keyed_bits, keyed_normal, node_keys
from mtgcn.linalg.normalisation import graph_operators
from mtgcn.linalg.operators import MAX_PIECE, SparseOperator
from mtgcn.methods import create
from mtgcn.methods.mt_plus.settings import ViewSettings
from mtgcn.methods.mt_plus.views import Inputs
from mtgcn.nn.layers import DropoutStream
from mtgcn.splits import draw_splits
from mtgcn.task import MISSING, observe
from mtgcn.training.loop import recording

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def two_communities(nodes: int = 200) -> Graph:
    random = np.random.default_rng(0)
    labels = np.arange(nodes) % 2
    linked = random.random((nodes, nodes)) < np.where(labels[:, None] == labels, 0.06, 0.01)
    adjacency = np.triu(linked, 1)
    features = random.random((nodes, 30)) + labels[:, None] * (np.arange(30) < 5)
    return Graph(adjacency=adjacency | adjacency.T, features=features, labels=labels, class_names=("even", "odd"))


def test_products_match_the_cpu_for_rows_cut_into_pieces():
    random = np.random.default_rng(1)
    matrix = sp.csr_array(sp.random_array((5, 4 * MAX_PIECE), density=0.7, rng=random, dtype=np.float32))
    x = torch.from_numpy(random.random((matrix.shape[1], 37), dtype=np.float32))
    expected = SparseOperator(matrix, CPU)(x)
    torch.testing.assert_close(SparseOperator(matrix, CUDA)(x.to(CUDA)).cpu(), expected)


@pytest.mark.parametrize("rate", [0.5, 0.3])
def test_dropout_matches_the_cpu(rate: float):
    on_cpu, on_gpu = (DropoutStream((1, 2, 3), 40, rate, device) for device in (CPU, CUDA))
    on_cpu.advance(), on_gpu.advance()
    assert torch.equal(on_gpu.kept(torch.arange(99, device=CUDA)).cpu(), on_cpu.kept(torch.arange(99)))


@pytest.mark.parametrize("backbone", ["no teaching", "gcn", "chebyshev", "appnp", "gat"])
def test_predictions_match_the_cpu_and_repeat(backbone: str):
    method = create("gcn") if backbone == "no teaching" else create("mt-gcn", backbone=backbone)
    graph = two_communities()
    splits = draw_splits(graph, 3, runs=4, seed=0)
    on_cpu, first, second = (
        method.fit(observe(graph, splits, 0, device=device)).probabilities for device in (CPU, CUDA, CUDA)
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


def test_user_module_repeats():
    graph = two_communities()
    task = observe(graph, draw_splits(graph, 3, runs=2, seed=0), 0, device=CUDA)
    method = create("mt-gcn", backbone=Mean, warmup_epochs=30, teaching_epochs=30)
    first, second = (method.fit(task).probabilities for _ in range(2))
    assert np.array_equal(first, second)
    assert (first[0].argmax(-1) == graph.labels).mean() > 0.6


def test_replayed_training_is_recorded():
    graph = two_communities()
    task = observe(graph, draw_splits(graph, 3, runs=2, seed=0), 0, device=CUDA)
    method = create("mt-gcn", warmup_epochs=20, teaching_epochs=25)
    with recording(every=10) as record:
        watched = method.fit(task)
    assert np.array_equal(watched.probabilities, method.fit(task).probabilities)
    assert record.epochs == (10, 20, 30, 40, 45)
    assert np.array_equal(record.predicted[:, -1], watched.probabilities.argmax(-1))
    taught = record.chosen[:, 2:]
    assert (taught != MISSING).any(axis=(2, 3, 4)).all()
    assert (record.chosen[:, :2] == MISSING).all()


def weighted(kind: str) -> Graph:
    """A graph with weights, self-loops, equal nodes and one long row, with features of a kind."""
    plain = two_communities(4 * MAX_PIECE)
    adjacency = plain.adjacency.toarray() * 1.5
    adjacency[:, 7] = adjacency[7] = np.linspace(0.5, 2, len(adjacency))
    adjacency[-5:] = adjacency[:, -5:] = 0
    features = np.array(plain.features)
    features[-5:] = 0
    tables = {"dense": features, "sparse": sp.csr_array(features * (features > 0.5)), "none": None}
    return Graph(adjacency, tables[kind])


@pytest.mark.parametrize("kind", ["dense", "sparse", "none"])
def test_keys_and_draws_match_the_cpu(kind: str):
    graph = weighted(kind)
    on_cpu, on_gpu = (node_keys(graph, device) for device in (CPU, CUDA))
    assert torch.equal(on_gpu.cpu(), on_cpu)
    positions = [ONE_PROCESS.positions(keyed_bits(keys, 3, 4)).cpu() for keys in (on_gpu, on_cpu)]
    assert torch.equal(*positions)
    torch.testing.assert_close(keyed_normal(on_gpu, 1, 20).cpu(), keyed_normal(on_cpu, 1, 20), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_operators_and_sizes_match_the_cpu(kind: str):
    graph = weighted(kind)
    np.testing.assert_allclose(
        Inputs(graph, ViewSettings(), CUDA).sizes(), Inputs(graph, ViewSettings(), CPU).sizes(), rtol=1e-6, atol=1e-6
    )
    assert np.array_equal(Inputs(graph, ViewSettings(), CUDA).sizes(), Inputs(graph, ViewSettings(), CUDA).sizes())
    x, along = torch.rand(30, 5), torch.rand(graph.num_nodes, 5)
    for scaling in ("sum", "length"):
        on_cpu, on_gpu = (graph_operators(graph, scaling, device) for device in (CPU, CUDA))
        np.testing.assert_allclose(on_gpu.adjacency.matrix.toarray(), on_cpu.adjacency.matrix.toarray(), rtol=1e-6)
        torch.testing.assert_close(on_gpu.adjacency(along.to(CUDA)).cpu(), on_cpu.adjacency(along))
        torch.testing.assert_close(on_gpu.feature_operator()(x.to(CUDA)).cpu(), on_cpu.feature_operator()(x))
    (there, sums), (here, expected) = (
        Inputs(graph, ViewSettings(), CUDA)._neighbours(),
        Inputs(graph, ViewSettings(), CPU)._neighbours(),
    )
    torch.testing.assert_close(there(along.to(CUDA)).cpu(), here(along))
    torch.testing.assert_close(sums.cpu(), expected, rtol=1e-6, atol=0)


def test_transfers_in_pieces(monkeypatch):
    monkeypatch.setattr(operators, "PIECE", 1000)
    array = np.arange(12_345).reshape(5, -1)
    array.setflags(write=False)
    sent = operators.on_device(array, np.int32, CUDA)
    assert torch.equal(sent.cpu(), torch.from_numpy(array.astype(np.int32)))
    np.testing.assert_array_equal(operators.on_host(sent * 2), array * 2)
    np.testing.assert_array_equal(operators.on_host(sent.T), array.T)


@pytest.mark.parametrize("nodes", [200, 5000])  # all of them take part in a round of teaching, or some
def test_mt_plus_matches_the_cpu_and_repeats(nodes: int, tmp_path, monkeypatch):
    graph = two_communities(nodes) if nodes < 1000 else sparse_communities(nodes)
    splits = draw_splits(graph, 5, runs=2, seed=0)
    found = []
    for number, device in enumerate((CPU, CUDA, CUDA)):
        monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / str(number)))  # each trains its own encoders
        fresh = Graph(graph.adjacency, graph.features, graph.labels, class_names=graph.class_names)
        found.append(create("mt-plus").fit(observe(fresh, splits, 0, device=device)))
    on_cpu, first, second = (one.probabilities for one in found)
    assert np.array_equal(first, second)
    assert (first.argmax(-1) == on_cpu.argmax(-1)).mean() > 0.98
    assert found[1].peers is not None
    assert np.array_equal(found[1].peers, found[2].peers)


def sparse_communities(nodes: int) -> Graph:
    """Like `two_communities`, drawn edge by edge."""
    random = np.random.default_rng(1)
    labels = np.arange(nodes) % 2
    ends = random.integers(nodes, size=(2, 12 * nodes))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (random.random(12 * nodes) < 0.2)]
    adjacency = sp.csr_array((np.ones(ends.shape[1]), ends), shape=(nodes, nodes))
    adjacency = (adjacency + adjacency.T).astype(bool)
    features = random.random((nodes, 30)) + labels[:, None] * (np.arange(30) < 5)
    return Graph(adjacency=adjacency, features=features, labels=labels, class_names=("even", "odd"))
