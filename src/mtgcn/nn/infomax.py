"""Deep Graph Infomax (Velickovic et al., ICLR 2019): encoders that learn without a single label.

An encoder sees every node's surroundings twice, as they are and with the features moved to other nodes, and learns to
tell the two apart by comparing each with a summary of the graph. It can be applied to graphs it has not seen.

What it sees needs no gradient. So surroundings are gathered once, a few corrupted ones too, and a step of training
looks at some of the nodes only: it costs the same on a graph of any size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtgcn.linalg.truncated_svd import num_components
from mtgcn.nn.base import StackedParameters
from mtgcn.nn.layers import uniform
from mtgcn.settings import LearningRate, NonNegativeFloat, NonNegativeInt, PositiveInt, Settings
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


LARGEST_LAYER = 2**24  # numbers that an encoder gives to all nodes
FEWEST_DIMENSIONS = 64
FEWEST_CORRUPTIONS = 2  # that steps take in turn
LARGEST_CORRUPTIONS = 2**26  # numbers in all of them
TABLES_ON_THE_WAY = 7  # of what is seen of all nodes, beside those that are kept, while they are made


@dataclass(frozen=True)
class Propagation:
    """What an encoder sees of a node: features scaled by their `"sum"` or `"length"`, propagated along so many
    steps of a random walk that starts again at the node with probability `restart`."""

    feature_scaling: str
    steps: int
    restart: float


@dataclass(frozen=True)
class InfomaxSettings(Settings):
    """How two encoders are trained, side by side: one freely, one whose weights are held back."""

    dimensions: PositiveInt = 256  # of an encoder's embeddings
    width: PositiveInt = 256  # of what it sees of a node
    epochs: NonNegativeInt = 200  # in each of which it looks at some of the nodes
    learning_rate: LearningRate = 0.002
    held_decay: NonNegativeFloat = 4e-3  # weight decay of the one that is held back
    batch_size: PositiveInt = 512  # nodes per training step
    max_corruptions: PositiveInt = 8  # corrupted graphs that steps take in turn
    slope: NonNegativeFloat = 0.25  # of the activation's negative side; where the paper's PReLU starts

    @property
    def weight_decays(self) -> tuple[float, ...]:
        """Of every encoder."""
        return (0.0, self.held_decay)

    def for_graph(self, graph: Graph) -> InfomaxSettings:
        """On large graphs shorter embeddings, so that memory does not run away."""
        room = LARGEST_LAYER // max(1, graph.num_nodes)
        return replace(self, dimensions=min(self.dimensions, max(room, FEWEST_DIMENSIONS)))

    def corruptions(self, nodes: int, width: int) -> int:
        """How many corrupted graphs encoders learn from: fewer where they would take much memory."""
        return min(self.max_corruptions, max(FEWEST_CORRUPTIONS, LARGEST_CORRUPTIONS // max(1, nodes * width)))

    def bytes_for(self, graph: Graph) -> int:
        """About what training the encoders takes: what they see of all nodes, some times over, and weights with their
        gradient and Adam's two moments."""
        width, encoders = min(num_components(self.width, graph), graph.num_features), len(self.weight_decays)
        seen = (TABLES_ON_THE_WAY + self.corruptions(graph.num_nodes, width)) * graph.num_nodes * width
        return 4 * (seen + 5 * (graph.num_features + self.dimensions) * self.dimensions * encoders)


@dataclass(frozen=True, eq=False)
class Views:
    """What encoders see of the nodes of a graph, and at which of them each step of training looks."""

    rows: Float[Tensor, "nodes width"]
    corrupted: Float[Tensor, "corruptions nodes width"]
    batches: Int[Tensor, "epochs some"]


class Infomax(StackedParameters):
    """One-layer encoders, and for each the discriminator that compares a node with the summary. They are the peers of
    a stack with one run, which differ in their random numbers and in how much their weights are held back."""

    weight: nn.Parameter  # width, runs, encoders, dimensions
    bias: nn.Parameter  # runs, encoders, dimensions
    discriminator: nn.Parameter  # runs, encoders, dimensions, dimensions

    def __init__(self, views: Views, settings: InfomaxSettings, seed: int, device: torch.device) -> None:
        encoders = len(settings.weight_decays)
        super().__init__(runs=1, peers=encoders, device=device)
        self.views = views
        width, dimensions = views.rows.shape[1], settings.dimensions
        weight = uniform((seed,), (encoders, width, dimensions), math.sqrt(6 / (width + dimensions)), label=0)
        self.add_parameter("weight", weight.permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias", torch.zeros(1, encoders, dimensions), run_axis=0)
        discriminator = uniform((seed,), (encoders, dimensions, dimensions), math.sqrt(3 / dimensions), label=1)
        self.add_parameter("discriminator", discriminator, run_axis=0)
        self.slope = settings.slope
        self.weight_decays = torch.tensor(settings.weight_decays, device=device)
        # On the device, so that an epoch recorded once as a CUDA graph sees it move.
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)

    def new_epoch(self) -> None:
        self.epoch += 1

    def loss(self) -> Float[Tensor, "runs encoders"]:
        """How badly nodes as they are and corrupted ones are told apart, each compared with the summary."""
        rows, corrupted_rows = self._seen()
        positive, corrupted = self._encoded(rows), self._encoded(corrupted_rows)
        summary = positive.mean(0).sigmoid().view(self.peers, -1, 1)  # encoders, dimensions, 1
        # Block-diagonal, so that one product compares the embeddings of every encoder with that encoder's summary.
        compared = torch.block_diag(*(self.discriminator[0] @ summary))
        told = functional.softplus(-(positive @ compared)).mean(0) + functional.softplus(corrupted @ compared).mean(0)
        return (told + self.weight_decays / 2 * self._squares())[None]

    def _seen(self) -> tuple[Float[Tensor, "some width"], Float[Tensor, "some width"]]:
        """What is seen in this epoch of the nodes that are looked at, as they are and corrupted."""
        looked_at, corruption = self._this_epoch()
        moved = corruption * len(self.views.rows) + looked_at
        return self.views.rows.index_select(0, looked_at), self.views.corrupted.flatten(0, 1).index_select(0, moved)

    def _encoded(self, rows: Float[Tensor, "some width"]) -> Float[Tensor, "some encoders·dimensions"]:
        return activated(rows @ self.weight.flatten(1), self.bias.flatten(), self.slope)

    def _squares(self) -> Float[Tensor, "encoders"]:
        """Of all parameters of an encoder; half of them times the weight decay has Adam's weight decay as gradient."""
        of_weight, of_bias = self.weight[:, 0].square().sum((0, 2)), self.bias[0].square().sum(1)
        return of_weight + of_bias + self.discriminator[0].square().sum((1, 2))

    def _this_epoch(self) -> tuple[Int[Tensor, "some"], Int[Tensor, "1"]]:
        """The nodes that are looked at, and which corruption is."""
        number = (self.epoch - 1).clamp(max=len(self.views.batches) - 1)
        return self.views.batches.index_select(0, number)[0], number % len(self.views.corrupted)


def activated(values: Tensor, bias: Tensor, slope: float) -> Tensor:
    return functional.leaky_relu_(values + bias, slope)
