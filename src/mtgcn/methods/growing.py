"""What the methods share that train a GCN, let its label set grow, and train on."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from torch import Tensor

from mtgcn.methods.trained import NetworkMethod, supervised_step
from mtgcn.nn.base import CLASSES, NetworkSettings, mean_of_peers
from mtgcn.nn.gcn import GCN
from mtgcn.settings import NonNegativeInt, PositiveInt
from mtgcn.shapes import Bool
from mtgcn.task import Prediction, Task, run_seed
from mtgcn.training.loop import Adam, Phase, Step, train
from mtgcn.training.pseudo_labels import default_per_class, joined
from mtgcn.training.recording import PseudoLabelRecord


@dataclass(frozen=True, kw_only=True)
class GrowingGCN(NetworkSettings, NetworkMethod):
    """A GCN trained on the labels, then, after each growth of its label set, on the larger set."""

    per_class: PositiveInt | None = None  # t: how many labels of each class join in all; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # of every stage: before the first growth and after each
    restart: bool = False  # whether a fresh network is trained after the last growth; else the one there is trains on

    @abstractmethod
    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        """What joins the labels of `task`, which are all labels so far; about `per_class` nodes of each class."""

    def growths(self, task: Task) -> int:
        """How often the label set grows; t is divided among the growths."""
        return 1

    def starts_afresh(self, growth: int, last: int) -> bool:
        """Whether a fresh network, drawn from a seed of its own, is trained after this growth, counted from 1."""
        return self.restart

    def network(self, task: Task) -> GCN:
        return GCN(task, peers=1, settings=self)

    def fit(self, task: Task) -> Prediction:
        stages = _Stages(self, task)
        history = stages.train()
        network = stages.network
        return Prediction(
            mean_of_peers(network.probabilities()),
            history,
            pseudo_labelled_at=stages.record.first_epochs(),
            parameters=network.trained(),
        )

    def bytes_per_run(self, task: Task) -> int:
        return GCN.bytes_per_model(task, self.hidden_channels)


class _Stages:
    """The network and its labels as they change from stage to stage."""

    def __init__(self, method: GrowingGCN, task: Task) -> None:
        self.method, self.task = method, task
        growths = method.growths(task)
        self.growths = range(1, growths + 1)
        self.per_class = math.ceil((method.per_class or default_per_class(task.graph)) / growths)
        self.network = method.network(task)
        self.record = PseudoLabelRecord(task)

    def train(self) -> dict[str, np.ndarray]:
        """The history of all networks, one after the other. Stages that share a network share Adam's moments too."""
        adam = Adam(self.method.learning_rate, self.method.weight_decay)
        histories, phases = [], [Phase(self.method.epochs, self.step)]
        for growth in self.growths:
            if self.method.starts_afresh(growth, last=self.growths[-1]):
                histories.append(train(self.network, phases, adam))
                self.grow(growth)
                seeds = tuple(run_seed(seed, growth) for seed in self.task.seeds)
                self.network = self.method.network(replace(self.task, seeds=seeds))
                phases = [Phase(self.method.epochs, self.step)]
            else:
                phases.append(Phase(self.method.epochs, self.step, before=partial(self.grow, growth)))
        histories.append(train(self.network, phases, adam))
        return {key: np.concatenate([history[key] for history in histories]) for key in histories[0]}

    def step(self) -> Step:
        return supervised_step(self.network, self.task)

    def grow(self, growth: int) -> None:
        marks = self.method.propose(self.network, self.task, self.per_class)
        self.record.add(marks.any(CLASSES), epoch=growth * self.method.epochs + 1)
        self.task = replace(self.task, labelled=joined(self.task.labelled, marks))
