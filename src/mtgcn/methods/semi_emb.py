"""SemiEmb (Weston, Ratle, Mobahi and Collobert, 2008 and 2012): a network with an embedding loss over edges.

A network on node features learns the labels; the embedding loss pulls neighbours together and random pairs apart.

    loss = Σ_labelled ℓ(f_i, y_i) + λ Σ_ij ℓ'(f_i, f_j),
    ℓ'(f_i, f_j) = |f_i - f_j|² for neighbours,  max(0, m - |f_i - f_j|)² for others,

with the output f, the cross-entropy ℓ, λ = `embedding_weight` and m = `margin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import relative_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.methods.base import NetworkMethod, network_prediction, supervised_loss
from mtgcn.nn.base import CLASSES, MLP, NODES, NodeValues, StackedNetwork, rows_at
from mtgcn.settings import NonNegativeFloat, NonNegativeInt
from mtgcn.shapes import Float, Int
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import Phase, Step

if TYPE_CHECKING:
    from mtgcn.graph import Graph

SMALLEST_SQUARE = 1e-12  # below this a distance is 0 and has no gradient


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedEmbedding(NetworkMethod):
    """Choices that the paper leaves open:

    - The embedding is the output layer, the first of the paper's three variants.
    - An epoch uses every edge, weighted, and one random partner per node, where the paper steps through single pairs.
      Both parts are means, so that the size of the graph does not matter.
    - The network is that of `gcn` without propagation."""

    draws_by_place: ClassVar[bool] = True
    architecture: ClassVar[type[StackedNetwork]] = MLP
    epochs: NonNegativeInt = 200  # training epochs
    embedding_weight: NonNegativeFloat = 1.0  # λ: weight of the embedding loss
    margin: NonNegativeFloat = 1.0  # m: distance up to which random pairs are pushed apart

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        edges = Edges(task.graph, task.device)
        strangers = Strangers(task, self.epochs)

        def step() -> Step:
            embedding = network.logits()
            at_labelled = rows_at(embedding, task.labelled.index).log_softmax(CLASSES)
            losses = {
                "supervised": supervised_loss(at_labelled, task.labelled),
                "neighbours": self.embedding_weight * edges.mean_square(embedding),
                "strangers": self.embedding_weight * repulsion(embedding, strangers.next_partners(), self.margin),
            }
            return Step(losses)

        return network_prediction(network, self.train(network, [Phase(self.epochs, step)]))


class Edges:
    """The embedding loss of neighbours."""

    def __init__(self, graph: Graph, device: torch.device) -> None:
        adjacency = relative_adjacency(graph)
        degrees = adjacency.sum(axis=1)
        self.total_weight = float(degrees.sum()) or 1.0  # every edge is counted at both ends
        self.laplacian = SparseOperator(sp.csr_array(sp.diags_array(degrees) - adjacency), device, symmetric=True)

    def mean_square(self, embedding: NodeValues) -> Float[Tensor, "runs peers"]:
        """The mean of |f_i - f_j|² over edges: Σ_ij w_ij |f_i - f_j|² is 2 tr(fᵀ (D - A) f)."""
        return 2 / self.total_weight * (embedding * self.laplacian(embedding)).sum((NODES, CLASSES))


class Strangers:
    """A random partner for every node in every epoch.

    Each run has a random node order, and each epoch a random shift of this order. Every node is the partner of one
    node, so gradients are added in a fixed order.
    """

    def __init__(self, task: Task, epochs: int) -> None:
        nodes = task.num_nodes
        generators = [np.random.default_rng([seed, 0x5E]) for seed in task.seeds]
        order = np.stack([random.permutation(nodes) for random in generators], 1)
        steps = np.stack([random.integers(min(1, nodes - 1), nodes, epochs + 1) for random in generators], 1)
        self.order = torch.from_numpy(order).to(task.device)  # place, run
        self.place = torch.from_numpy(order.argsort(0)).to(task.device)  # node, run
        self.steps = torch.from_numpy(steps).to(task.device)  # epoch, run
        # This is a tensor, so that it also advances when a CUDA graph is replayed.
        self.epoch = torch.zeros(1, dtype=torch.int64, device=task.device)

    def next_partners(self) -> Int[Tensor, "nodes runs"]:
        steps = self.steps.index_select(0, self.epoch)
        self.epoch += 1
        return self.order.gather(0, (self.place + steps) % len(self.order))


def repulsion(embedding: NodeValues, partners: Int[Tensor, "nodes runs"], margin: float) -> Float[Tensor, "runs peers"]:
    """The mean over nodes of max(0, margin - |f_i - f_partner|)²."""
    theirs = embedding.gather(NODES, partners[:, None, :, None].expand_as(embedding))
    distance = (embedding - theirs).square().sum(CLASSES).clamp(min=SMALLEST_SQUARE).sqrt()
    return (margin - distance).clamp(min=0).square().mean(NODES)
