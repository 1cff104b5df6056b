"""IceBerg (Li et al., WWW 2025): an MLP on propagated features, self-trained with two balanced losses.

    Z = ReLU(X̄ Θ0) Θ1,  X̄ = X_T,  X_t+1 = (1 - α) Â X_t + α X,  X_0 = X,  Â = D̃^-1/2 (A + I) D̃^-1/2,
    loss = - mean over labelled i of log softmax(Z_i + log n)[y_i]
           - λ mean over i in U of log softmax(Z_i + log m)[ŷ_i],
    ŷ_i = argmax_c p_ic,  U = the unlabelled i with max_c p_ic ≥ mean over unlabelled j of max_c p_jc,  p = softmax(Z°).

X are the features, A the adjacency, Θ the weights; Z° is Z without dropout. n_c counts the labelled nodes of class c,
m_c the nodes in U with ŷ = c: a class with many (pseudo) labels needs a larger margin, so that it does not grow further
(double balancing). U and ŷ are updated in every epoch after a warm-up with the first term alone, so that the first
pseudo labels are not those of random weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from mtgcn.linalg.normalisation import scaled_features
from mtgcn.linalg.operators import DENSE_DISCOUNT, DenseOperator, on_device
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.methods.base import TrainedOnLabels, supervised_loss
from mtgcn.nn.base import CLASSES, NODES, FeatureScaling, NodeValues, StackedNetwork, rows_at
from mtgcn.nn.networks import MLPWithAdjacency
from mtgcn.settings import LearningRate, NonNegativeFloat, NonNegativeInt, PositiveInt, Rate
from mtgcn.shapes import Bool, Float, Real
from mtgcn.task import Task
from mtgcn.training.loop import Phase, Step
from mtgcn.training.pseudo_labels import Proposal, confidence, labelled_mask, one_hot_classes

NO_LABELS = 1e-30  # replaces a count of 0, so that its logarithm is finite


class PropagatedMLP(MLPWithAdjacency):
    """Z = ReLU(X̄ Θ0) Θ1. Propagates X Θ0 in every epoch, or X once if products with the dense X̄ are cheaper."""

    def __init__(self, task: Task, peers: int, settings: IceBerg) -> None:
        super().__init__(task, peers, settings)
        self.steps, self.restart = settings.steps, settings.restart
        dense_cost = DENSE_DISCOUNT[task.device.type] * task.num_nodes * task.graph.num_features
        if not settings.input_dropout and dense_cost < self.input.cost + self.steps * self.adjacency.nnz:
            features = scaled_features(task.graph, settings.feature_scaling)
            table = features if isinstance(features, np.ndarray) else features.toarray()
            self.input.chain = (DenseOperator(self._propagated(on_device(table, np.float32, task.device))),)
            self.steps = 0

    def logits(self) -> NodeValues:
        hidden = self._propagated(self.input(self.weight0, drops=self.training)) + self.bias0
        return self._readout(self._activated(hidden))

    def _propagated(self, values: Float[Tensor, "nodes *rest"]) -> Float[Tensor, "nodes *rest"]:
        return personalized_page_rank(values, self.adjacency, self.steps, self.restart)


@dataclass(frozen=True, kw_only=True)
class IceBerg(TrainedOnLabels):
    """Predicts with the last epoch.

    Widths and propagation are those of the authors' program for Cora. The program has no warm-up, does not scale
    features, trains for up to 5000 epochs, and uses a weight decay of 0.005 and learning rates of 0.01 to 0.1; with its
    settings for Cora, training fails on graphs with dense features. Its noise loss, of weight 0, is left out.

    >>> from mtgcn.methods import karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(IceBerg().fit(task)), 2)
    0.96
    """

    architecture: ClassVar[type[StackedNetwork]] = PropagatedMLP
    hidden_channels: PositiveInt = 128  # width of the hidden layer
    steps: NonNegativeInt = 20  # T: propagation steps
    restart: Rate = 0.1  # α: restart probability of the propagation
    self_training: NonNegativeFloat = 1.0  # λ: weight of the pseudo labels
    warmup_epochs: NonNegativeInt = 100  # epochs with the labels only, before `epochs` with pseudo labels
    learning_rate: LearningRate = 0.03  # learning rate of Adam
    weight_decay: NonNegativeFloat = 5e-4  # weight decay, added to the gradient as in Adam
    decay_on: Literal["all", "first-layer"] = "first-layer"  # parameters with weight decay
    init: Literal["uniform", "glorot"] = "glorot"  # initial weights; uniform: within 1 / sqrt(outputs)
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by

    def phases(self, network: StackedNetwork, task: Task) -> list[Phase]:
        def warmup_step() -> Step:
            return Step({"supervised": balanced_loss(network.logits_at(task.labelled.index), task)})

        return [Phase(self.warmup_epochs, warmup_step), *super().phases(network, task)]

    def step(self, network: StackedNetwork, task: Task) -> Step:
        pseudo = pseudo_labels(network.logits_without_dropout()[..., 0], labelled_mask(task))
        count = pseudo.sum((NODES, CLASSES))[:, None]
        logits = network.logits()
        log_pseudo = torch.where(pseudo[..., None], balanced_log_softmax(logits, pseudo.sum(NODES)), 0)
        losses = {
            "supervised": balanced_loss(rows_at(logits, task.labelled.index), task),
            "pseudo-label": -self.self_training * log_pseudo.sum((NODES, CLASSES)) / count.clamp(min=1),
        }
        return Step(losses, {"pseudo labels": count})


@dataclass(frozen=True, kw_only=True)
class IceBergWithValidation(IceBerg):
    """Predicts with the epoch of best validation accuracy; ties go to the smallest validation loss."""

    uses_validation: ClassVar[bool] = True


def pseudo_labels(logits: Float[Tensor, "nodes classes runs"], labelled: Bool[Tensor, "nodes runs"]) -> Proposal:
    """ŷ for the unlabelled nodes whose confidence is at least the mean over unlabelled nodes."""
    sure, predicted = confidence(logits)
    mean = torch.where(labelled, 0, sure).sum(NODES) / (~labelled).sum(NODES).clamp(min=1)
    return one_hot_classes(predicted, logits.shape[CLASSES]) & ((sure >= mean) & ~labelled)[:, None]


def balanced_loss(at_labelled: Float[Tensor, "labels classes runs peers"], task: Task) -> Float[Tensor, "runs peers"]:
    """The first term of the loss, from the logits of the labelled nodes."""
    counts = (one_hot(task.labelled.classes, task.num_classes) * task.labelled.present[..., None]).sum(1).T
    return supervised_loss(balanced_log_softmax(at_labelled, counts), task.labelled)


def balanced_log_softmax(logits: NodeValues, counts: Real[Tensor, "classes runs"]) -> NodeValues:
    """log softmax(Z + log n); classes without labels are ignored.

    >>> balanced_log_softmax(torch.zeros(1, 2, 1, 1), torch.tensor([[3], [1]])).exp().flatten()
    tensor([0.7500, 0.2500])
    """
    return (logits + counts.clamp(min=NO_LABELS).log()[..., None]).log_softmax(CLASSES)
