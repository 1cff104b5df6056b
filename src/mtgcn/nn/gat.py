"""Stacked graph attention networks (Veličković et al., 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu

from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.nn.base import NetworkSettings, TwoLayerNetwork
from mtgcn.nn.layers import DropoutStream, modelwise_product
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Task

HEADS = 8  # of the first layer; the second has one
SLOPE = 0.2  # of the leaky ReLU


def channels_per_head(hidden_channels: int) -> int:
    """Half of `hidden_channels`, which makes the paper's 8 x 8 of the default 16."""
    return max(1, hidden_channels // 2)


class GAT(TwoLayerNetwork):
    """Two layers H'_i = Σ_j α_ij H_j with α_i = softmax over i and its neighbours j of LeakyReLU(a·[H_i | H_j]), H the
    layer's input times Θ (Veličković et al., 2018), for all runs and peers at once.

    The first layer has 8 heads, laid side by side, and an ELU. Dropout falls on the hidden layer and on the α of both
    layers. Edge weights are ignored.
    """

    FIRST_LAYER: ClassVar[tuple[str, ...]] = (*TwoLayerNetwork.FIRST_LAYER, "attention0")

    weight0: nn.Parameter  # features, runs, peers, heads · channels: Θ0
    attention0: nn.Parameter  # 2, channels, runs, peers, heads: a, for target and source
    weight1: nn.Parameter  # runs, peers, heads · channels, classes: Θ1
    attention1: nn.Parameter  # 2, classes, runs, peers, 1

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.input = self._feature_product()
        self.edges = _Edges(task.graph, task.device)
        channels = channels_per_head(settings.hidden_channels)

        def initial(inputs: int, outputs: int, label: int) -> Tensor:
            if label:
                return self._initial(inputs, outputs, label)
            # Each head of the first layer is initialised as a separate layer, as is each half of a.
            return torch.cat([self._initial(inputs, channels, label=10 + head) for head in range(HEADS)], -1)

        self._add_layers(initial, HEADS * channels)
        self.add_parameter("attention0", self._initial_attention(HEADS, channels, label=4), run_axis=2)
        self.add_parameter("attention1", self._initial_attention(1, task.num_classes, label=5), run_axis=2)
        self.edge_dropout = (
            DropoutStream(task.seeds, peers * HEADS, settings.dropout, task.device, label=0xD2),
            DropoutStream(task.seeds, peers, settings.dropout, task.device, label=0xD3),
        )

    @staticmethod
    def bytes_per_model(task: Task, hidden_channels: int) -> int:
        """About the memory of one model in training: weights with gradient and Adam's two moments, and activations."""
        hidden = HEADS * channels_per_head(hidden_channels)
        edges = task.graph.adjacency.nnz + task.num_nodes
        at_nodes = task.num_nodes * (10 * hidden + 15 * task.num_classes)
        return 4 * (4 * task.graph.num_features * hidden + at_nodes + edges * 14 * (HEADS + 1))

    def new_epoch(self) -> None:
        super().new_epoch()
        for stream in self.edge_dropout:
            stream.advance()

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        seen = self.input(self.weight0, drops=self.training).unflatten(-1, (HEADS, -1))
        seen = seen.permute(0, 4, 1, 2, 3).contiguous()  # nodes, channels, runs, peers, heads
        attended = self._attended(seen, self.attention0, self.edge_dropout[0])
        hidden = elu(attended.permute(0, 2, 3, 4, 1).flatten(-2) + self.bias0)  # nodes, runs, peers, heads · channels
        if self._drops:
            hidden = hidden * self.dropout.kept(self._all_nodes).view_as(hidden)
        seen = modelwise_product(hidden, self._readout_weight).unsqueeze(-1)  # one head
        return self._attended(seen, self.attention1, self.edge_dropout[1]).squeeze(-1) + self.bias1

    def _attended(
        self,
        seen: Float[Tensor, "nodes channels runs peers heads"],
        attention: Float[Tensor, "2 channels runs peers heads"],
        dropout: DropoutStream,
    ) -> Float[Tensor, "nodes channels runs peers heads"]:
        """The attention-weighted sums over neighbours."""
        target, source = ((seen * part).sum(1) for part in attention)  # nodes, runs, peers, heads
        scores = leaky_relu(self.edges.target_of(target) + self.edges.source_of(source), SLOPE)
        weights: Tensor = _SoftmaxOverNeighbours.apply(scores, self.edges)
        if self._drops:
            weights = weights * dropout.kept(self.edges.all).view_as(weights) / (1 - self.settings.dropout)
        result: Tensor = _WeightedSum.apply(seen, weights, self.edges)
        return result

    def _initial_attention(self, heads: int, channels: int, label: int) -> Float[Tensor, "2 channels runs peers heads"]:
        drawn = [self._initial(channels, 1, label=100 * label + part) for part in range(2 * heads)]
        by_part = torch.cat(drawn, -1).unflatten(-1, (2, heads))  # runs, peers, channels, 2, heads
        return by_part.permute(3, 2, 0, 1, 4)


class _Edges:
    """Every edge in both directions and all self-loops, ordered by target."""

    def __init__(self, graph: Graph, device: torch.device) -> None:
        pattern = normalized_adjacency(graph)
        self.nodes = graph.num_nodes
        count, target = pattern.nnz, np.repeat(np.arange(self.nodes), np.diff(pattern.indptr))
        self.all = torch.arange(count, device=device)
        self.source, self.target = (torch.from_numpy(end).to(device) for end in (pattern.indices.astype(int), target))
        # Sums over edges in a fixed order, which scatter-add on a GPU does not have.
        self.target_of, self.source_of = (
            SparseOperator(sp.csr_array((np.ones(count), (np.arange(count), end)), (count, self.nodes)), device)
            for end in (target, pattern.indices)
        )

    def sum_at_target(self, values: Float[Tensor, "edges *rest"]) -> Float[Tensor, "nodes *rest"]:
        return self.target_of.transposed.multiply(values.flatten(1)).unflatten(1, values.shape[1:])

    def sum_at_source(self, values: Float[Tensor, "edges *rest"]) -> Float[Tensor, "nodes *rest"]:
        return self.source_of.transposed.multiply(values.flatten(1)).unflatten(1, values.shape[1:])


class _SoftmaxOverNeighbours(torch.autograd.Function):
    """The softmax of scores over the edges of each target."""

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "edges *rest"], edges: _Edges) -> Tensor:
        flat = scores.flatten(1)
        largest = flat.new_full((edges.nodes, flat.shape[1]), -torch.inf)
        largest.scatter_reduce_(0, edges.target[:, None].expand_as(flat), flat, "amax")
        weights = (flat - largest.index_select(0, edges.target)).exp_()
        weights /= edges.sum_at_target(weights).index_select(0, edges.target)
        weights = weights.view_as(scores)
        ctx.edges = edges
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        edges: _Edges = ctx.edges
        weighted = weights * gradient
        shared = edges.sum_at_target(weighted).index_select(0, edges.target)
        return weighted.sub_(shared.mul_(weights)), None


# Messages are computed for a few runs at a time, and again for the gradient, to save memory.
CARRIED_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}  # numbers


class _WeightedSum(torch.autograd.Function):
    """For each node the weighted sum of the values at its neighbours."""

    @staticmethod
    def forward(ctx: Any, seen: Tensor, weights: Tensor, edges: _Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(seen, weights)
        result = torch.empty_like(seen)
        for some in _some_runs_at_a_time(seen, edges):
            carried = seen[:, :, some].contiguous().index_select(0, edges.source).mul_(weights[:, None, some])
            result[:, :, some] = edges.sum_at_target(carried)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        seen, weights = ctx.saved_tensors
        edges: _Edges = ctx.edges
        for_seen, for_weights = torch.empty_like(seen), torch.empty_like(weights)
        for some in _some_runs_at_a_time(seen, edges):
            wanted = gradient[:, :, some].contiguous().index_select(0, edges.target)
            for_weights[:, some] = (seen[:, :, some].contiguous().index_select(0, edges.source).mul_(wanted)).sum(1)
            for_seen[:, :, some] = edges.sum_at_source(wanted.mul_(weights[:, None, some]))
        return for_seen, for_weights, None


def _some_runs_at_a_time(seen: Float[Tensor, "nodes channels runs peers heads"], edges: _Edges) -> Iterator[slice]:
    runs = seen.shape[2]
    at_once = max(1, CARRIED_AT_ONCE[seen.device.type] * runs // (len(edges.all) * seen[0].numel()))
    return (slice(start, start + at_once) for start in range(0, runs, at_once))
