"""Deep Graph Infomax (Velickovic et al., ICLR 2019): encoders that learn without a single label.

An encoder sees every node's surroundings twice, as they are and with the features moved to other nodes, and learns to
tell the two apart by comparing each with a summary of the graph. It can be applied to graphs it has not seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.node_keys import keyed_orders, node_keys
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator, operator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.nn.base import StackedParameters
from mtgcn.nn.init import uniform
from mtgcn.settings import Ge, Le, LearningRate, NonNegativeFloat, NonNegativeInt, PositiveInt, Settings
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph


LARGEST_LAYER = 2**24  # numbers that the encoders trained together give to all nodes
FEWEST_DIMENSIONS = 64
NODE_EPOCHS = 200 * 2**15  # nodes times epochs
FEWEST_EPOCHS = 20
SLOPE = 0.25  # of the activation's negative side; where the paper's PReLU starts


@dataclass(frozen=True)
class Propagation:
    """What an encoder sees of a node: features scaled by their `"sum"` or `"length"`, propagated along so many
    steps of a random walk that starts again at the node with probability `restart`."""

    feature_scaling: str
    steps: int
    restart: float


@dataclass(frozen=True)
class InfomaxSettings(Settings):
    """How encoders are trained."""

    dimensions: PositiveInt = 256
    # encoders that differ in their random numbers only, their embeddings side by side
    repeats: Annotated[int, Ge(1), Le(100)] = 1
    epochs: NonNegativeInt = 200
    learning_rate: LearningRate = 0.002
    weight_decay: NonNegativeFloat = 0.0

    def for_graph(self, graph: Graph) -> InfomaxSettings:
        """On large graphs shorter embeddings and fewer epochs, so that neither memory nor time runs away."""
        room = LARGEST_LAYER // (graph.num_nodes * self.repeats)
        return replace(
            self,
            dimensions=min(self.dimensions, max(room, FEWEST_DIMENSIONS)),
            epochs=min(self.epochs, max(NODE_EPOCHS // graph.num_nodes, FEWEST_EPOCHS)),
        )

    def bytes_for(self, graph: Graph) -> int:
        """About what training the encoders takes: values at all nodes a dozen times over, weights with
        gradient and Adam's two moments, and for every epoch the order of the nodes."""
        width = self.dimensions * self.repeats
        return 4 * (12 * graph.num_nodes * width + 4 * graph.num_features * width + self.epochs * graph.num_nodes)


class Infomax(StackedParameters):
    """One-layer encoders, and for each the discriminator that compares a node with the summary. The repeats are
    the peers of a stack with one run."""

    weight: nn.Parameter  # features, runs, repeats, dimensions
    bias: nn.Parameter  # runs, repeats, dimensions
    discriminator: nn.Parameter  # runs, repeats, dimensions, dimensions

    def __init__(
        self,
        graph: Graph,
        propagation: Propagation,
        settings: InfomaxSettings,
        seed: int,
        device: torch.device,
        operators: tuple[SparseOperator, Operator] | None = None,  # Â and X, where they are made already
    ) -> None:
        super().__init__(runs=1, peers=settings.repeats, device=device)
        if operators is None:
            made = graph_operators(graph, propagation.feature_scaling, device)
            operators = made.adjacency, operator(made.features, device)
        self.propagation, (self.adjacency, self.features) = propagation, operators
        self._narrow = self._narrower_than(settings.dimensions * settings.repeats)
        inputs, dimensions, repeats = graph.num_features, settings.dimensions, settings.repeats
        glorot = math.sqrt(6 / (inputs + dimensions))
        weight = uniform((seed,), (repeats, inputs, dimensions), glorot, label=0)
        self.add_parameter("weight", weight.permute(2, 0, 1, 3), run_axis=1)
        self.add_parameter("bias", torch.zeros(1, repeats, dimensions), run_axis=0)
        discriminator = uniform((seed,), (repeats, dimensions, dimensions), math.sqrt(3 / dimensions), label=1)
        self.add_parameter("discriminator", discriminator, run_axis=0)
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self.epochs, self.seed, self._graph = settings.epochs, seed, graph
        self._orders: Tensor | None = None

    def new_epoch(self) -> None:
        self.epoch += 1

    def encoded(self) -> Float[Tensor, "nodes repeats·dimensions"]:
        return self._activated(self._positive())

    def loss(self) -> Float[Tensor, "runs repeats"]:
        """How badly nodes as they are and corrupted ones are told apart, each compared with the summary."""
        values, corrupted_values = self._positive_and_corrupted()
        positive, corrupted = self._activated(values), self._activated(corrupted_values)
        summary = self._mean(positive).sigmoid().view(self.peers, -1, 1)  # repeats, dimensions, 1
        # Block-diagonal, so that one product compares the embeddings of every repeat with that repeat's summary.
        compared = torch.block_diag(*(self.discriminator[0] @ summary))
        told_apart = functional.softplus(-(positive @ compared)), functional.softplus(corrupted @ compared)
        return sum(map(self._share, told_apart), start=compared.new_zeros(()))[None]

    def _mean(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "width"]:
        """Over all nodes of the graph."""
        return values.mean(0)

    def _share(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "width"]:
        """What the nodes that are held here add to the mean over all of them."""
        return values.mean(0)

    def _narrower_than(self, width: int) -> Tensor | None:
        """The features, where they are fewer than what the encoders make of them: then it costs less to propagate the
        features, which need no gradient, and to multiply afterwards. The result is the same."""
        if isinstance(self.features, DenseOperator) and self.features.matrix.shape[1] < width:
            return self.features.matrix
        return None

    @cached_property
    def _propagated_features(self) -> Tensor:
        assert self._narrow is not None
        return self._propagated(self._narrow)

    def _positive(self) -> Tensor:
        if self._narrow is not None:
            return self._propagated_features @ self.weight.flatten(1)
        return self._propagated(self._projected())

    def _positive_and_corrupted(self) -> tuple[Tensor, Tensor]:
        if self._narrow is not None:
            corrupted = self._propagated(self._exchanged(self._narrow))
            return self._positive(), corrupted @ self.weight.flatten(1)
        projected = self._projected()
        return self._propagated(projected), self._propagated(self._exchanged(projected))

    def _projected(self) -> Tensor:
        return self.features(self.weight.flatten(1))

    def _propagated(self, values: Tensor) -> Tensor:
        return personalized_page_rank(values, self.adjacency, self.propagation.steps, self.propagation.restart)

    def _activated(self, values: Tensor) -> Tensor:
        return functional.leaky_relu_(values + self.bias.flatten(), SLOPE)

    def _exchanged(self, values: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes width"]:
        """Every node with the values of another."""
        return values.index_select(0, self._order())

    def _order(self) -> Tensor:
        """Whose features each node gets in this epoch, which follows from what the two are and not from where they
        stand. All epochs' are drawn at once, so that a recorded epoch finds its own."""
        if self._orders is None:
            drawn = keyed_orders(node_keys(self._graph), self.seed, self.epochs)
            self._orders = torch.from_numpy(drawn).to(self.device)
        return self._orders.index_select(0, (self.epoch - 1).clamp(max=self.epochs - 1))[0].long()
