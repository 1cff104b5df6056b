import numpy as np
import pytest
import torch

from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.methods.semi_emb import Edges, Strangers, repulsion
from mtgcn.nn.base import MLP
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

CPU = torch.device("cpu")


def test_edge_loss_without_edges_is_zero():
    embedding = torch.randn(2, 3, 1, 1, generator=torch.Generator().manual_seed(0))
    for adjacency in (np.eye(2), np.zeros((2, 2))):
        assert Edges(Graph(adjacency), CPU).mean_square(embedding).item() == 0


def test_strangers_are_pushed_up_to_the_margin():
    # Four nodes on a line at 0, 0.5, 3 and 3; partners 1, 0, 3, 2 are 0.5 and 0 apart.
    embedding = torch.tensor([0.0, 0.5, 3.0, 3.0]).view(4, 1, 1, 1).requires_grad_()
    push = repulsion(embedding, torch.tensor([[1], [0], [3], [2]]), margin=2.0)
    assert push.item() == pytest.approx((1.5**2 + 1.5**2 + 2**2 + 2**2) / 4)
    push.backward()
    # Each of the two pairs counts twice: the slope is -2 · (margin - distance) · 2 / 4. Equals have no direction.
    torch.testing.assert_close(embedding.grad.flatten(), torch.tensor([1.5, -1.5, 0.0, 0.0]))
    assert repulsion(embedding, torch.tensor([[2], [3], [0], [1]]), margin=2.0).item() == 0


def test_partners_are_permutations():
    task = observe(Graph(np.zeros((7, 7)), labels=np.arange(7) % 2), [Split([0], [], [1])] * 2, seed=0)
    strangers = Strangers(task, epochs=200)
    pairs = torch.stack([strangers.next_partners() for _ in range(200)])  # epoch, node, run
    for run in range(2):
        assert all(sorted(epoch.tolist()) == list(range(7)) for epoch in pairs[..., run])
        met = np.zeros((7, 7), dtype=int)
        np.add.at(met, (np.tile(np.arange(7), 200), pairs[..., run].flatten().numpy()), 1)
        assert (np.diag(met) == 0).all()
        assert (met + np.eye(7) > 0).all()
    assert not torch.equal(pairs[..., 0], pairs[..., 1])


def test_total_loss(make_graph):
    graph = make_graph(weighted=True, unreached=True)
    task, edges = observe(graph, draw_splits(graph, [3, 2, 1], runs=2, seed=0), seed=0), graph.adjacency.tocoo()
    method = create("semi-emb", epochs=1, dropout=0, embedding_weight=0.7, margin=1.3)
    history = method.fit(task).history
    embedding = MLP(task, 1, method).logits().detach()
    partners = Strangers(task, 1).next_partners()
    for run in range(2):
        f = embedding[..., run, 0]
        supervised = torch.nn.functional.cross_entropy(f[task.labelled.index[run]], task.labelled.classes[run])
        distance = (f - f[partners[:, run]]).norm(dim=1)
        pushed = 0.7 * (1.3 - distance).clamp(min=0).square().mean()
        assert history["supervised"][0, run, 0] == pytest.approx(supervised.item(), rel=1e-4)
        assert history["strangers"][0, run, 0] == pytest.approx(pushed.item(), rel=1e-4)
        squares = ((f.numpy()[edges.row] - f.numpy()[edges.col]) ** 2).sum(1)
        pulled = 0.7 * np.average(squares, weights=edges.data)
        assert history["neighbours"][0, run, 0] == pytest.approx(pulled, rel=1e-4)


@pytest.mark.parametrize("weight", [0, 1])
def test_edges_matter_with_an_embedding_loss(make_graph, weight):
    graph, method = make_graph(), create("semi-emb", epochs=5, embedding_weight=weight)
    splits = draw_splits(graph, 2, runs=2, seed=0)
    graphs = graph, Graph(np.zeros((40, 40)), graph.features, graph.labels)
    found, alone = (method.fit(observe(one, splits, seed=0)).probabilities for one in graphs)
    assert np.allclose(found, alone, atol=1e-6 if weight == 0 else 1e-3) == (weight == 0)
