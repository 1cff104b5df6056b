"""GCNII (Chen et al., ICML 2020): a deep GCN with initial residuals and identity mappings.

    Z = softmax(H_L Θ1),  H_l = ReLU(((1 - α) Â H_l-1 + α H_0) ((1 - β_l) I + β_l W_l)),  l = 1 … L,
    H_0 = ReLU(X Θ0),  β_l = log(λ / l + 1),  Â = D̃^-1/2 (A + I) D̃^-1/2,
    loss = - mean over labelled i of log Z[i, y_i] + γ/2 Σ_l |W_l|² + μ/2 (|Θ0|² + |Θ1|²).

X are the features, A the adjacency, Θ and W the weights. Each layer keeps a share α of the first hidden layer, and its
product with weights is close to the identity, the closer the deeper it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from mtgcn.methods.base import TrainedOnLabels, supervised_step
from mtgcn.nn.base import FeatureScaling, NodeValues, StackedNetwork
from mtgcn.nn.layers import DropoutStream
from mtgcn.nn.networks import MLPWithAdjacency
from mtgcn.settings import Ge, Le, NonNegativeFloat, PositiveInt, Rate
from mtgcn.task import Task
from mtgcn.training.loop import Step


class GCNIINetwork(MLPWithAdjacency):
    """H_L Θ1, with dropout on the input of every layer."""

    weights: nn.Parameter  # layers, runs, peers, hidden, hidden: W_1, W_2, …

    def __init__(self, task: Task, peers: int, settings: GCNII) -> None:
        super().__init__(task, peers, settings)
        hidden, layers = settings.hidden_channels, settings.layers
        self.restart = settings.restart
        self.betas = [math.log1p(settings.identity / layer) for layer in range(1, layers + 1)]
        weights = torch.stack([self._initial(hidden, hidden, label=4 + layer) for layer in range(layers)])
        self.add_parameter("weights", weights, run_axis=1)
        self.dropout = DropoutStream(task.seeds, peers * (layers + 1) * hidden, settings.dropout, task.device)

    @classmethod
    def bytes_per_model(cls, task: Task, settings: GCNII) -> int:
        return settings.layers * super().bytes_per_model(task, settings)

    def decayed_parameters(self) -> list[nn.Parameter]:
        return [one for one in super().decayed_parameters() if one is not self.weights]

    def logits(self) -> NodeValues:
        first = (self.input(self.weight0, drops=self.training) + self.bias0).relu()  # nodes, runs, peers, hidden
        masks: list[Tensor | None] = [None] * (len(self.betas) + 1)
        if self._drops:
            masks = list(self.dropout.kept(self._all_nodes).view(*first.shape[:3], -1, first.shape[-1]).unbind(-2))
        scale = (1 - self.restart) / (1 - self.settings.dropout if self._drops else 1)
        residual, eye = self.restart * first, torch.eye(first.shape[-1], device=self.device)
        hidden = first if masks[0] is None else first * masks[0]
        for weight, beta, mask in zip(self.weights, self.betas, masks[1:], strict=True):
            mixed = torch.add(residual, self.adjacency(hidden), alpha=scale)
            hidden = torch.einsum("nrph,rphk->nrpk", mixed, (1 - beta) * eye + beta * weight).contiguous().relu()
            hidden = hidden if mask is None else hidden * mask
        return self._readout(hidden)


@dataclass(frozen=True, kw_only=True)
class GCNII(TrainedOnLabels):
    """The last of `epochs` epochs.

    The paper has different settings for each graph: 16 to 64 layers, 64 or 256 channels and dropout of 0.5 to 0.7.
    Here they are the same for all graphs.

    >>> from mtgcn.methods import karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(GCNII().fit(task)), 2)
    0.96
    """

    architecture: ClassVar[type[StackedNetwork]] = GCNIINetwork
    hidden_channels: PositiveInt = 64  # width of every hidden layer
    input_dropout: Rate = 0.5  # dropout on the features
    layers: Annotated[int, Ge(1), Le(1000)] = 8  # L: number of hidden layers
    restart: Rate = 0.1  # α: share of the first hidden layer
    identity: NonNegativeFloat = 0.5  # λ: distance of the first layer's weights from the identity
    layer_decay: NonNegativeFloat = 0.01  # γ: weight decay of W
    weight_decay: NonNegativeFloat = 5e-4  # μ: weight decay of Θ
    init: Literal["uniform", "glorot"] = "uniform"  # initial weights; uniform: within 1 / sqrt(outputs)
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by

    def step(self, network: StackedNetwork, task: Task) -> Step:
        supervised = supervised_step(network, task).losses["supervised"]
        decay = self.layer_decay / 2 * network.get_parameter("weights").square().sum((0, -2, -1))
        return Step({"supervised": supervised, "weight decay": decay})


@dataclass(frozen=True, kw_only=True)
class GCNIIWithValidation(GCNII):
    """Predicts with the epoch of best validation accuracy; ties go to the smallest validation loss."""

    uses_validation: ClassVar[bool] = True
