"""What the methods share whose answer is a trained network: it can be taken to a graph it has not seen."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from mtgcn.methods.base import CPU, Method
from mtgcn.nn.axes import each_peer
from mtgcn.nn.base import StackedNetwork
from mtgcn.shapes import Float
from mtgcn.task import Task

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
        runs = len(next(iter(parameters.values())))
        network = self.network(Task.without_labels(graph, runs, device))
        network.load_trained(parameters)
        return each_peer(network.probabilities())
