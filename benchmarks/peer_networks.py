"""Mutual teaching of two ordinary torch modules, one run at a time, in plain PyTorch and in PyTorch Geometric.

Written as an experienced user would: whole-graph passes, no loop over nodes, library losses. What the paper leaves open
follows the defaults of `mt-gcn`, so that accuracies are comparable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from peer_programs import dense_features
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.splits import Split

HIDDEN_CHANNELS = 16
DROPOUT = 0.5
LEARNING_RATE = 0.01
WEIGHT_DECAY = 5e-4


class PlainConvolution(nn.Module):
    """As in the authors' program: `spmm` with a sparse COO adjacency."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return torch.spmm(adjacency, x @ self.weight) + self.bias


class TwoConvolutions(nn.Module):
    """A GCN of two layers."""

    def __init__(self, convolution: Callable[[int, int], nn.Module], features: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([convolution(features, HIDDEN_CHANNELS), convolution(HIDDEN_CHANNELS, classes)])
        for layer, outputs in zip(self.layers, (HIDDEN_CHANNELS, classes), strict=True):
            for parameter in layer.parameters():  # the authors' initial values
                nn.init.uniform_(parameter, -(outputs**-0.5), outputs**-0.5)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        hidden = self.layers[0](features, adjacency).relu()
        return self.layers[1](F.dropout(hidden, DROPOUT, self.training), adjacency)


def _cached_convolution(inputs: int, outputs: int) -> nn.Module:
    return GCNConv(inputs, outputs, cached=True)  # the normalised adjacency is computed in the first epoch only


@cache
def _normalised(graph: Graph, device: torch.device) -> Tensor:
    matrix = normalized_adjacency(graph).tocoo()
    places = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    adjacency = torch.sparse_coo_tensor(places, torch.from_numpy(matrix.data), matrix.shape, check_invariants=True)
    return adjacency.coalesce().to(device)


@cache
def _edge_index(graph: Graph, device: torch.device) -> Tensor:
    # A CSR adjacency, PyG's other way, costs the same here: on 2 cores both take 9 s for Cora, 28 s for PubMed.
    return torch.from_numpy(np.stack(graph.adjacency.nonzero()).astype(np.int64)).to(device)


PEERS: dict[str, tuple[Callable[[int, int], nn.Module], Callable[[Graph, torch.device], Tensor]]] = {
    "PyG": (_cached_convolution, _edge_index),
    "plain PyTorch": (PlainConvolution, _normalised),
}


def fit(
    peer: str,
    graph: Graph,
    split: Split,
    seed: int,
    per_class: int,
    device: torch.device | str = "cpu",
    warmup_epochs: int = 200,
    teaching_epochs: int = 200,
) -> np.ndarray:
    """Mean probabilities of two networks, nodes x classes."""
    convolution, adjacency = PEERS[peer]
    device = torch.device(device)
    inputs = dense_features(graph).to(device), adjacency(graph, device)
    labelled = torch.from_numpy(np.array(split.train)).to(device)
    classes = torch.from_numpy(graph.labels[split.train]).to(device)
    with torch.random.fork_rng():  # dropout draws from the global generator
        torch.manual_seed(seed)
        networks = [TwoConvolutions(convolution, graph.num_features, graph.num_classes).to(device) for _ in range(2)]
        parameters = [parameter for network in networks for parameter in network.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        for epoch in range(warmup_epochs + teaching_epochs):
            first, second = (network(*inputs).log_softmax(1) for network in networks)
            loss = F.nll_loss(first[labelled], classes) + F.nll_loss(second[labelled], classes)
            if epoch >= warmup_epochs:
                loss = loss + teaching_loss(first, second.detach(), per_class, labelled)
                loss = loss + teaching_loss(second, first.detach(), per_class, labelled)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        probabilities = [network.eval()(*inputs).softmax(1) for network in networks]
    return torch.stack(probabilities).mean(0).cpu().numpy()


def teaching_loss(learner: Tensor, teacher: Tensor, per_class: int, labelled: Tensor) -> Tensor:
    """L_pl + L_cl of log-probabilities `learner`, at the nodes of which its teacher is most confident."""
    probabilities = teacher.exp()
    nodes, pseudo_labels = most_confident(probabilities, per_class, labelled)
    entropy = -(probabilities[nodes] * teacher[nodes]).sum(1)
    certainty = 1 - entropy / math.log(probabilities.shape[1])
    hard = (certainty * F.nll_loss(learner[nodes], pseudo_labels, reduction="none")).mean()
    soft = F.kl_div(learner[nodes], probabilities[nodes], reduction="batchmean")
    return hard + soft


def most_confident(probabilities: Tensor, per_class: int, labelled: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1: the `per_class` most confident unlabelled nodes of each predicted class, and their classes."""
    confidence, predicted = probabilities.max(1)
    scores = probabilities.new_zeros(probabilities.shape[::-1])  # classes x nodes
    scores.scatter_(0, predicted[None], confidence[None])
    scores[:, labelled] = 0
    best, nodes = scores.topk(min(per_class, len(probabilities)), dim=1)
    nodes = nodes[best > 0]
    return nodes, predicted[nodes]
