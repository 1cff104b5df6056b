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
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.methods.base import NetworkMethod, TrainedOnLabels, supervised_step
from mtgcn.nn.base import CLASSES, NetworkSettings, mean_of_peers
from mtgcn.nn.networks import GCN
from mtgcn.settings import NonNegativeInt
from mtgcn.task import Nodes, Prediction, Task
from mtgcn.training.loop import Adam, Phase, train
from mtgcn.training.losses import supervised_loss


@dataclass(frozen=True, kw_only=True)
class GCNWithoutValidation(TrainedOnLabels):
    """The last of `epochs` epochs.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("gcn").fit(task)), 2)
    0.96
    """

    def network(self, task: Task) -> GCN:
        return GCN(task, peers=1, settings=self)

    def bytes_per_run(self, task: Task) -> int:
        return GCN.bytes_per_model(task, self.hidden_channels)


@dataclass(frozen=True, kw_only=True)
class GCNWithValidation(NetworkSettings, NetworkMethod):
    """The epoch with the best accuracy on the validation nodes; of equals, the one with the smallest loss there.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club(with_validation=True)
    >>> round(accuracy(create("gcn+v").fit(task)), 2)
    0.96
    """

    uses_validation: ClassVar[bool] = True
    epochs: NonNegativeInt = 200  # of training

    def network(self, task: Task) -> GCN:
        return GCN(task, peers=1, settings=self)

    def fit(self, task: Task) -> Prediction:
        validation = task.validation
        if validation is None:
            raise InputError(
                "gcn+v chooses its epoch on validation nodes and this task has none; give some, or use gcn"
            )
        network = self.network(task)
        best = network.clone_parameters()
        best_score = torch.full((task.runs,), -torch.inf, device=task.device)

        def keep_the_best() -> None:
            score = validation_score(network, validation)
            network.copy_runs(network.clone_parameters(), best, score > best_score)
            torch.maximum(score, best_score, out=best_score)

        phase = Phase(self.epochs, lambda: supervised_step(network, task), keep_the_best)
        history = train(network, [phase], Adam(self.learning_rate, self.weight_decay))
        network.load_state_dict(best)
        return Prediction(mean_of_peers(network.probabilities()), history, parameters=network.trained())

    def bytes_per_run(self, task: Task) -> int:
        return GCN.bytes_per_model(task, self.hidden_channels)


@torch.no_grad()
def validation_score(network: GCN, validation: Nodes) -> Tensor:
    """Accuracy of each run's first peer on its validation nodes, with a bonus below any step of accuracy for a
    smaller loss."""
    network.eval()
    log_probabilities = network.logits_at(validation.index).log_softmax(CLASSES)
    network.train()
    right = (log_probabilities.max(CLASSES).indices[..., 0] == validation.classes.T) & validation.present.T
    loss = supervised_loss(log_probabilities, validation)[:, 0]
    return right.sum(0) + 0.5 / (1 + loss)
