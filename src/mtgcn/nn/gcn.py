"""Stacked graph convolutional networks: every layer is one product for all runs and peers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtgcn.linalg.normalisation import ComputationBlock, computation_block, graph_operators
from mtgcn.nn.base import NetworkSettings, TwoLayerNetwork
from mtgcn.nn.layers import InputProduct, ReluDropout, modelwise_product
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.task import Task


class GCN(TwoLayerNetwork):
    """Z = Â ReLU(Â X Θ0) Θ1 (Kipf and Welling, 2017), for all runs and peers at once."""

    weight0: nn.Parameter  # features, runs, peers, hidden: Θ0
    weight1: nn.Parameter  # runs, peers, hidden, classes: Θ1

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.operators = graph_operators(task.graph, settings.feature_scaling, task.device)
        self.adjacency = self.operators.adjacency
        self.input = InputProduct(
            self.operators.input_chain, self.operators.features, self.adjacency, task, peers, settings.input_dropout
        )
        self._add_layers(self._initial)
        # Â (H Θ1) or (Â H) Θ1: the product with Â should meet the narrower of the two.
        self._propagate_hidden = settings.hidden_channels < task.num_classes
        # By the id of the index tensor, which is stored so that the id stays in use.
        self._blocks: dict[int, tuple[Tensor, ComputationBlock | None]] = {}

    @staticmethod
    def bytes_per_model(task: Task, hidden_channels: int) -> int:
        """About the memory of one model in training: weights with gradient and Adam's two moments, and activations."""
        parameters = task.graph.num_features * hidden_channels
        at_nodes = task.num_nodes * (8 * hidden_channels + 12 * task.num_classes)
        return 4 * (4 * parameters + at_nodes)

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        hidden = self._activated(self.input(self.weight0, drops=self.training).add_(self.bias0))
        if self._propagate_hidden:
            return modelwise_product(self.adjacency(hidden), self._readout_weight).add_(self.bias1)
        return self.adjacency(modelwise_product(hidden, self._readout_weight)).add_(self.bias1)

    @torch.no_grad()
    def embeddings(self) -> Float[Tensor, "nodes runs peers hidden"]:
        """The input of the second layer, without dropout: Â ReLU(Â X Θ0)."""
        return self.adjacency((self.input(self.weight0, drops=False) + self.bias0).relu_())

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        block = self._block(index)
        if block is None:
            return super().logits_at(index)
        hidden = block.features(self.weight0.flatten(2).flatten(0, 1)).add_(block.runs(self.bias0.flatten(1)))
        kept = self.dropout.kept_by(block.nodes, block.run_index) if self._drops else None
        hidden = ReluDropout.apply(hidden, kept)
        propagated = block.readout(hidden).view(-1, self.task.runs, self.peers, self.settings.hidden_channels)
        return torch.einsum("srph,rphc->scrp", propagated, self._readout_weight) + self.bias1

    def _block(self, index: Int[Tensor, "runs some"]) -> ComputationBlock | None:
        """The computation block of these nodes; None if the whole graph is cheaper."""
        if self.settings.input_dropout or not self.task.communicator.has_whole_graph:
            return None
        if id(index) not in self._blocks:
            block = computation_block(self.adjacency.matrix, self.operators.smoothed, index)
            # A block belongs to one run; a product with the whole graph serves all runs.
            whole = (self.input.cost + self.adjacency.nnz) * self.task.runs
            worth_it = block.features.nnz + block.readout.nnz < whole
            self._blocks[id(index)] = index, block if worth_it else None
        return self._blocks[id(index)][1]
