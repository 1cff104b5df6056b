"""What the methods share whose answer is a trained network: it can be taken to a graph it has not seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mtgcn.methods.base import CPU, Method
from mtgcn.nn.base import CLASSES, NetworkSettings, StackedNetwork, each_peer, mean_of_peers
from mtgcn.settings import NonNegativeInt
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import Adam, Phase, Step, train
from mtgcn.training.losses import Reduction, supervised_loss

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class NetworkMethod(Method):
    """A method that trains `network(task)` and gives `network.trained()` back as its prediction's parameters."""

    @abstractmethod
    def network(self, task: Task) -> StackedNetwork:
        """The stack as it is before training."""

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        if not parameters:
            raise ValueError("there are none")
        runs = len(next(iter(parameters.values())))
        network = self.network(Task.without_labels(graph, runs, device))
        network.load_trained(parameters)
        return each_peer(network.probabilities())


@dataclass(frozen=True, kw_only=True)
class TrainedOnLabels(NetworkSettings, NetworkMethod):
    """One network per run, trained on the labels alone for so many epochs; the last one answers."""

    epochs: NonNegativeInt = 200  # of training

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        phase = Phase(self.epochs, lambda: supervised_step(network, task))
        history = train(network, [phase], Adam(self.learning_rate, self.weight_decay))
        return Prediction(mean_of_peers(network.probabilities()), history, parameters=network.trained())


def supervised_step(network: StackedNetwork, task: Task, reduction: Reduction = "mean") -> Step:
    """The supervised loss alone. Only the labelled nodes are looked at, so only they are computed."""
    log_probabilities = network.logits_at(task.labelled.index).log_softmax(CLASSES)
    return Step({"supervised": supervised_loss(log_probabilities, task.labelled, reduction, task.communicator)})
