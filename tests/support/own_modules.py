"""Modules of a user, as backbones of mt-gcn."""

import torch
from torch import nn


class NeighbourSum(nn.Module):
    """A linear layer on each node and the sum of its neighbours, with dropout."""

    def __init__(self, features=12, classes=3):
        super().__init__()
        self.layer = nn.Linear(2 * features, classes)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, edge_index):
        return self.layer(self.dropout(torch.cat([x, self.spread(x, edge_index)], 1)))

    def spread(self, x, edge_index, weight=None):
        source, target = edge_index
        carried = x[source] if weight is None else x[source] * weight[:, None]
        return torch.zeros_like(x).index_add(0, target, carried)


class WeightedSum(NeighbourSum):
    def forward(self, x, edge_index, edge_weight=None):
        return self.layer(torch.cat([x, self.spread(x, edge_index, edge_weight)], 1))
