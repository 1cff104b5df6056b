"""The peer in plain PyTorch, as the authors' program does it: dense features, a sparse COO adjacency, `spmm`."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from one_run import DROPOUT, HIDDEN_CHANNELS, dense_features, fit_two
from torch import Tensor, nn

from mtgcn.graph import Graph
from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.splits import Split


def fit(
    graph: Graph, split: Split, seed: int, per_class: int, device: torch.device | str = "cpu", **epochs: Any
) -> np.ndarray:
    """Probabilities, nodes x classes."""
    return fit_two(
        lambda: TwoConvolutions(graph.num_features, graph.num_classes),
        inputs(graph, torch.device(device)),
        graph,
        split,
        seed=seed,
        per_class=per_class,
        **epochs,
    )


@cache
def inputs(graph: Graph, device: torch.device) -> tuple[Tensor, Tensor]:
    """Features and normalised adjacency; made once, since the graph does not change between runs."""
    matrix = normalized_adjacency(graph).tocoo()
    places = torch.from_numpy(np.stack([matrix.row, matrix.col]).astype(np.int64))
    adjacency = torch.sparse_coo_tensor(places, torch.from_numpy(matrix.data), matrix.shape, check_invariants=True)
    return dense_features(graph).to(device), adjacency.coalesce().to(device)


class GraphConvolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = outputs**-0.5
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        return torch.spmm(adjacency, x @ self.weight) + self.bias


class TwoConvolutions(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = GraphConvolution(features, HIDDEN_CHANNELS)
        self.second = GraphConvolution(HIDDEN_CHANNELS, classes)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        hidden = self.first(features, adjacency).relu()
        return self.second(F.dropout(hidden, DROPOUT, self.training), adjacency)
