"""The peer in PyTorch Geometric: two `GCNConv` networks, one run at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from one_run import DROPOUT, HIDDEN_CHANNELS, dense_features, fit_two
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from mtgcn.graph import Graph
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
    """Features and edges as PyG takes them; made once, since the graph does not change between runs."""
    return dense_features(graph).to(device), edge_index(graph).to(device)


def edge_index(graph: Graph) -> Tensor:
    # A CSR adjacency, PyG's other way, costs the same here: on 2 cores both take 9 s for Cora, 28 s for PubMed.
    return torch.from_numpy(np.stack(graph.adjacency.nonzero()).astype(np.int64))


class TwoConvolutions(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        # cached: the normalised adjacency is computed in the first epoch only.
        self.first = GCNConv(features, HIDDEN_CHANNELS, cached=True)
        self.second = GCNConv(HIDDEN_CHANNELS, classes, cached=True)
        for parameter in self.parameters():  # the authors' initial values instead of PyG's
            bound = len(parameter) ** -0.5  # biases and PyG's weights have the outputs first
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        hidden = self.first(features, edges).relu()
        return self.second(F.dropout(hidden, DROPOUT, self.training), edges)
