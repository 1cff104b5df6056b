"""PyTorch Geometric's data, and a network of your own as the peers' backbone.

    python examples/pyg_custom_backbone.py

Without PyTorch Geometric the same edges are handed over as a plain edge index.
"""

import torch
from torch import Tensor, nn

from mtgcn import MutualTeachingClassifier

try:
    from torch_geometric.data import Data
except ImportError:
    Data = None

NODES, CLASSES, FEATURES = 240, 3, 16


class NeighbourMean(nn.Module):
    """What a node is and what its neighbours are on average, twice; `forward(x, edge_index)` as everywhere in PyG."""

    def __init__(self, features: int, classes: int, hidden: int = 16) -> None:
        super().__init__()
        self.first = nn.Linear(2 * features, hidden)
        self.second = nn.Linear(2 * hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden = self.first(with_neighbours(x, edge_index)).relu()
        hidden = nn.functional.dropout(hidden, 0.5, self.training)
        return self.second(with_neighbours(hidden, edge_index))


def with_neighbours(x: Tensor, edge_index: Tensor) -> Tensor:
    source, target = edge_index
    total = torch.zeros_like(x).index_add(0, target, x[source])
    count = torch.bincount(target, minlength=len(x)).clamp(min=1)
    return torch.cat([x, total / count[:, None]], dim=1)


def made_up_graph() -> tuple[Tensor, Tensor, Tensor]:
    """Features, edges in both directions and classes: edges mostly stay within a class, features say little."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.arange(NODES) % CLASSES
    chance = torch.where(truth[:, None] == truth, 0.06, 0.005)
    upper = torch.triu(torch.rand(NODES, NODES, generator=generator) < chance, diagonal=1)
    features = torch.rand(NODES, FEATURES, generator=generator)
    features[torch.arange(NODES), truth] += 0.7
    return features, (upper | upper.T).nonzero().T.contiguous(), truth


def main() -> None:
    features, edge_index, truth = made_up_graph()
    y = torch.full((NODES,), -1)
    y[: 4 * CLASSES] = truth[: 4 * CLASSES]  # four labels per class

    graph = edge_index if Data is None else Data(x=features, edge_index=edge_index)
    for title, backbone in (("our GCN", "gcn"), ("your module", NeighbourMean(FEATURES, CLASSES))):
        model = MutualTeachingClassifier(backbone=backbone, random_state=0).fit(features, y, graph=graph)
        right = (torch.from_numpy(model.transduction_) == truth)[y == -1]
        print(f"{title}: {right.double().mean():.1%} of the unlabelled nodes are right")


if __name__ == "__main__":
    main()
