"""Deep Graph Infomax (Velickovic et al., ICLR 2019): encoders trained without labels.

An encoder learns to distinguish the propagated features of a node from corrupted ones, in which features are permuted
between nodes, by comparison with a summary of the graph. Propagated features need no gradient, so they are computed
once, and a training step uses a batch of nodes: its cost does not depend on the size of the graph.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.linalg.pagerank import num_components
from mtgcn.nn.base import StackedParameters
from mtgcn.nn.layers import uniform
from mtgcn.settings import LearningRate, NonNegativeFloat, NonNegativeInt, PositiveInt, Settings
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


MAX_EMBEDDINGS = 2**24  # most numbers in the embeddings of all nodes
MIN_DIMENSIONS = 64
MIN_CORRUPTIONS = 2  # fewest corrupted graphs
MAX_CORRUPTED = 2**26  # most numbers in all corrupted graphs
TEMPORARY_TABLES = 7  # temporary tables of propagated features


@dataclass(frozen=True)
class Propagation:
    """The input of an encoder: scaled features (`"sum"`, `"length"`) after `steps` steps of personalised PageRank."""

    feature_scaling: str
    steps: int
    restart: float


@dataclass(frozen=True)
class InfomaxSettings(Settings):
    """Settings of training two encoders together, one without and one with weight decay."""

    dimensions: PositiveInt = 256  # width of an encoder's embeddings
    width: PositiveInt = 256  # width of an encoder's input
    epochs: NonNegativeInt = 200  # training steps, each on one batch
    learning_rate: LearningRate = 0.002
    held_decay: NonNegativeFloat = 4e-3  # weight decay of the second encoder
    batch_size: PositiveInt = 512  # nodes per training step
    max_corruptions: PositiveInt = 8  # corrupted graphs, used alternately; fewer on large graphs
    slope: NonNegativeFloat = 0.25  # slope of the activation below 0, the initial value of the paper's PReLU

    @property
    def weight_decays(self) -> tuple[float, ...]:
        """Weight decay of each encoder."""
        return (0.0, self.held_decay)

    def for_graph(self, graph: Graph) -> InfomaxSettings:
        """These settings with narrower embeddings on large graphs, to bound memory."""
        limit = MAX_EMBEDDINGS // max(1, graph.num_nodes)
        return replace(self, dimensions=min(self.dimensions, max(limit, MIN_DIMENSIONS)))

    def corruptions(self, nodes: int, width: int) -> int:
        """The number of corrupted graphs; fewer if they would take much memory."""
        return min(self.max_corruptions, max(MIN_CORRUPTIONS, MAX_CORRUPTED // max(1, nodes * width)))

    def bytes_for(self, graph: Graph) -> int:
        """Approximate memory (bytes) of training: several copies of the propagated features, and weights with gradient
        and Adam's two moments."""
        width, encoders = min(num_components(self.width, graph), graph.num_features), len(self.weight_decays)
        tables = (TEMPORARY_TABLES + self.corruptions(graph.num_nodes, width)) * graph.num_nodes * width
        return 4 * (tables + 5 * (graph.num_features + self.dimensions) * self.dimensions * encoders)


@dataclass(frozen=True, eq=False)
class Views:
    """The inputs of the encoders and the batch of each epoch."""

    rows: Float[Tensor, "nodes width"]
    corrupted: Float[Tensor, "corruptions nodes width"]
    batches: Int[Tensor, "epochs some"]


class Infomax(StackedParameters):
    """One-layer encoders, each with a discriminator that compares nodes with a summary of the graph. The encoders are
    peers of a stack with one run, and have different seeds and weight decays."""

    weight: nn.Parameter  # width, runs, encoders, dimensions
    bias: nn.Parameter  # runs, encoders, dimensions
    discriminator: nn.Parameter  # runs, encoders, dimensions, dimensions

    def __init__(
        self,
        views: Views,
        settings: InfomaxSettings,
        seed: int,
        device: torch.device,
        communicator: Communicator = ONE_PROCESS,
    ) -> None:
        encoders = len(settings.weight_decays)
        super().__init__(runs=1, peers=encoders, device=device)
        self.views, self.communicator = views, communicator
        width, dimensions = views.rows.shape[1], settings.dimensions
        weight = uniform((seed,), (encoders, width, dimensions), math.sqrt(6 / (width + dimensions)), label=0)
        self.add_parameter("weight", weight.permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias", torch.zeros(1, encoders, dimensions), run_axis=0)
        discriminator = uniform((seed,), (encoders, dimensions, dimensions), math.sqrt(3 / dimensions), label=1)
        self.add_parameter("discriminator", discriminator, run_axis=0)
        self.to(views.rows.dtype)
        self.slope = settings.slope
        self.weight_decays = torch.tensor(settings.weight_decays, device=device)
        # This is a tensor, so that it also advances when a CUDA graph is replayed.
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)

    def new_epoch(self) -> None:
        self.epoch += 1

    def resume_after(self, epoch: int) -> None:
        self.epoch.fill_(epoch)

    def loss(self) -> Float[Tensor, "runs encoders"]:
        """Binary cross-entropy on original and corrupted nodes of the current batch, plus weight decay."""
        views, gather_rows = self.views, self.communicator.gather_rows
        number = (self.epoch - 1).clamp(max=len(views.batches) - 1)
        batch, corruption = views.batches.index_select(0, number)[0], number % len(views.corrupted)
        all_corrupted, first = views.corrupted.flatten(0, 1), corruption * len(views.rows)
        batches = gather_rows(views.rows, batch), gather_rows(all_corrupted, batch, first)
        weight, bias, discriminator = self.weight, self.bias, self.discriminator[0]
        positive, corrupted = (activated(rows @ weight.flatten(1), bias.flatten(), self.slope) for rows in batches)
        summary = positive.mean(0).sigmoid().view(self.peers, -1, 1)  # encoders, dimensions, 1
        # The matrix is block-diagonal, so that one product serves all encoders.
        compared = torch.block_diag(*(discriminator @ summary))
        loss = functional.softplus(-(positive @ compared)).mean(0) + functional.softplus(corrupted @ compared).mean(0)
        # The gradient of half the squared norm, times the decay, is that of weight decay in Adam.
        squares = weight[:, 0].square().sum((0, 2)) + bias[0].square().sum(1) + discriminator.square().sum((1, 2))
        return (loss + self.weight_decays / 2 * squares)[None]


def activated(values: Tensor, bias: Tensor, slope: float) -> Tensor:
    return functional.leaky_relu_(values + bias, slope)
