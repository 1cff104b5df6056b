"""GRAND (Feng et al., NeurIPS 2020): nodes are dropped at random before propagation; all samples must agree.

    Z^s = softmax(ReLU(X^s Θ0) Θ1),  X^s = 1 / (K + 1) Σ_k Â^k E^s X,  k = 0 … K,  s = 1 … S,
    Â = D̃^-1/2 (A + I) D̃^-1/2,  E^s diagonal: 1 / (1 - δ) with probability 1 - δ, else 0 (DropNode),
    loss = mean over s of (- mean over labelled i of log Z^s[i, y_i] + λ mean over all i of |Z^s_i - T_i|²),
    T_ic = Z̄_ic^(1/τ) / Σ_c' Z̄_ic'^(1/τ),  Z̄ = mean over s of Z^s.

X are the features, A the adjacency with row sums D̃ - I, Θ the weights. T are the sharpened mean predictions, to which
no gradient flows. Without dropout E = I, and Z predicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from mtgcn.linalg.operators import SparseOperator
from mtgcn.methods.base import TrainedOnLabels, supervised_loss
from mtgcn.nn.base import CLASSES, NODES, PEERS, FeatureScaling, StackedNetwork, rows_at
from mtgcn.nn.layers import DropoutStream, modelwise_product
from mtgcn.nn.networks import MLPWithAdjacency
from mtgcn.settings import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, Rate
from mtgcn.shapes import Float
from mtgcn.task import Task
from mtgcn.training.loop import Step


class RandomPropagation(MLPWithAdjacency):
    """An MLP on propagated features. In training, the last axis of the logits has the samples of DropNode."""

    def __init__(self, task: Task, peers: int, settings: GRAND) -> None:
        super().__init__(task, peers, settings)
        self.steps, hidden, samples = settings.steps, settings.hidden_channels, settings.samples
        self.dropout = DropoutStream(task.seeds, samples * hidden, settings.dropout, task.device)
        self.node_dropout = DropoutStream(task.seeds, samples, settings.node_dropout, task.device, label=0xD4)

    @classmethod
    def bytes_per_model(cls, task: Task, settings: GRAND) -> int:
        return settings.samples * super().bytes_per_model(task, settings)

    def new_epoch(self) -> None:
        super().new_epoch()
        self.node_dropout.advance()

    def logits(self) -> Float[Tensor, "nodes classes runs samples"]:
        products = self.input(self.weight0, drops=self.training)  # nodes, runs, 1, hidden
        if self.training:
            kept = self.node_dropout.kept(self._all_nodes)[..., None]  # nodes, runs, samples, 1
            products = products * (kept / (1 - self.node_dropout.rate))
        hidden = self._activated(mean_over_steps(products, self.adjacency, self.steps) + self.bias0)
        return modelwise_product(hidden, self._readout_weight.expand(-1, hidden.shape[2], -1, -1)).add_(self.bias1)


@dataclass(frozen=True, kw_only=True)
class GRAND(TrainedOnLabels):
    """The last of `epochs` epochs.

    The paper has different settings for each graph. Defaults are those for Cora except for λ and τ: with the paper's
    1 and 0.5, most nodes are predicted as one class if labels are few. Dropout applies to X instead of X^s, so that
    products with Θ0 can be propagated instead of features.

    >>> from mtgcn.methods import karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(GRAND().fit(task)), 2)
    0.96
    """

    architecture: ClassVar[type[StackedNetwork]] = RandomPropagation
    hidden_channels: PositiveInt = 32  # width of the hidden layer
    input_dropout: Rate = 0.5  # dropout on the features, before nodes are dropped
    steps: NonNegativeInt = 8  # K: largest number of propagation steps
    samples: PositiveInt = 4  # S: random propagations in each epoch
    node_dropout: Rate = 0.5  # δ: probability that a node is dropped
    consistency: NonNegativeFloat = 0.2  # λ: weight of the consistency loss
    temperature: PositiveFloat = 0.7  # τ: below 1 sharpens the mean prediction
    init: Literal["uniform", "glorot"] = "glorot"  # initial weights; uniform: within 1 / sqrt(outputs)
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by

    def step(self, network: StackedNetwork, task: Task) -> Step:
        log_probabilities = network.logits().log_softmax(CLASSES)  # nodes, classes, runs, samples
        at_labelled = rows_at(log_probabilities, task.labelled.index)
        supervised = supervised_loss(at_labelled, task.labelled).mean(-1, keepdim=True)
        consistency = consistency_loss(log_probabilities, self.temperature)
        return Step({"supervised": supervised, "consistency": self.consistency * consistency})


@dataclass(frozen=True, kw_only=True)
class GRANDWithValidation(GRAND):
    """Predicts with the epoch of best validation accuracy; ties go to the smallest validation loss."""

    uses_validation: ClassVar[bool] = True


def mean_over_steps(
    values: Float[Tensor, "nodes *rest"], adjacency: SparseOperator, steps: int
) -> Float[Tensor, "nodes *rest"]:
    """1 / (K + 1) Σ_k Â^k · values, k = 0 … K, computed by Horner's scheme."""
    values = total = values / (steps + 1)
    for _ in range(steps):
        total = values + adjacency(total)
    return total


def consistency_loss(
    log_probabilities: Float[Tensor, "nodes classes runs samples"], temperature: float
) -> Float[Tensor, "runs 1"]:
    """Mean squared distance of the samples from their sharpened mean, over nodes and samples."""
    log_mean = log_probabilities.detach().logsumexp(PEERS, keepdim=True) - math.log(log_probabilities.shape[PEERS])
    target = (log_mean / temperature).softmax(CLASSES)  # T
    distance = (log_probabilities.exp() - target).square().sum(CLASSES)
    return distance.mean((NODES, -1))[:, None]
