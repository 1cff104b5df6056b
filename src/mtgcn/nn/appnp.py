"""Stacked APPNP networks: an MLP whose logits are propagated by personalised PageRank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from mtgcn.linalg.normalisation import normalized_adjacency
from mtgcn.linalg.operators import SparseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.nn.base import NetworkSettings, TwoLayerNetwork
from mtgcn.nn.layers import modelwise_product
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.task import Task


class APPNP(TwoLayerNetwork):
    """Z_0 = ReLU(X Θ0) Θ1, then Z_k+1 = (1 - α) Â Z_k + α Z_0 (Gasteiger, Bojchevski and Günnemann, 2019), for all
    runs and peers at once.

    The receptive field is `STEPS` hops, so every epoch computes the whole graph.
    """

    STEPS = 10  # K in the paper
    RESTART = 0.1  # α in the paper

    weight0: nn.Parameter  # features, runs, peers, hidden: Θ0
    weight1: nn.Parameter  # runs, peers, hidden, classes: Θ1

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.input = self._feature_product()
        self.adjacency = SparseOperator(normalized_adjacency(task.graph), task.device, symmetric=True)
        self._add_layers(self._initial)

    @staticmethod
    def bytes_per_model(task: Task, hidden_channels: int) -> int:
        """About the memory of one model in training: weights with gradient and Adam's two moments, and activations."""
        parameters = task.graph.num_features * hidden_channels
        at_nodes = task.num_nodes * (8 * hidden_channels + 15 * task.num_classes)
        return 4 * (4 * parameters + at_nodes)

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        hidden = self._activated(self.input(self.weight0, drops=self.training).add_(self.bias0))
        alone = modelwise_product(hidden, self._readout_weight).add_(self.bias1)
        return personalized_page_rank(alone, self.adjacency, self.STEPS, self.RESTART)
