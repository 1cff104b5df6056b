"""GCN (Kipf and Welling, ICLR 2017): two graph convolutions trained on the labels alone.

    Z = softmax(Â ReLU(Â X Θ0) Θ1)  with  Â = D̃^-1/2 (A + I) D̃^-1/2,  D̃ the row sums of A + I,
    loss = - mean over labelled i of log Z[i, y_i].

X are the features, A the adjacency, Θ the weights. `gcn` is GCN-V of the MT-GCN paper: a fixed number of epochs, no
validation. `gcn+v` takes the epoch with the best validation accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from mtgcn.errors import InputError
from mtgcn.methods.base import NetworkMethod, TrainedOnLabels, network_prediction, supervised_step
from mtgcn.nn.base import CLASSES
from mtgcn.settings import NonNegativeInt
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import Phase
from mtgcn.training.losses import supervised_loss


@dataclass(frozen=True, kw_only=True)
class GCNWithoutValidation(TrainedOnLabels):
    """The last of `epochs` epochs."""


@dataclass(frozen=True, kw_only=True)
class GCNWithValidation(NetworkMethod):
    """The epoch with the best accuracy on the validation nodes; of equals, the one with the smallest loss there."""

    uses_validation: ClassVar[bool] = True
    epochs: NonNegativeInt = 200  # of training

    def fit(self, task: Task) -> Prediction:
        validation = task.validation
        if validation is None:
            raise InputError(
                "gcn+v chooses its epoch on validation nodes and this task has none; give some, or use gcn"
            )
        network = self.network(task)
        best = network.clone_parameters()
        best_score = torch.full((task.runs,), -torch.inf, device=task.device)

        @torch.no_grad()
        def keep_the_best() -> None:
            network.eval()
            log_probabilities = network.logits_at(validation.index).log_softmax(CLASSES)
            network.train()
            right = (log_probabilities.max(CLASSES).indices[..., 0] == validation.classes.T) & validation.present.T
            # The bonus for a small loss is below any step of accuracy.
            score = right.sum(0) + 0.5 / (1 + supervised_loss(log_probabilities, validation)[:, 0])
            network.copy_runs(network.clone_parameters(), best, score > best_score)
            torch.maximum(score, best_score, out=best_score)

        history = self.train(network, [Phase(self.epochs, lambda: supervised_step(network, task), keep_the_best)])
        network.load_state_dict(best)
        return network_prediction(network, history)
