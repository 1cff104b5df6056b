"""Co-training, self-training, union and intersection (Li, Han and Wu, AAAI 2018): pseudo labels for a GCN.

    C_k = the t unlabelled nodes i with the largest Σ over j in Y_k of P_ij,  P = α (L + αI)^-1,  L = D - A,
    S_k = the t unlabelled nodes i with the largest Z_ik among those with argmax Z_i = k,
    co-training:    train on Y_k ∪ C_k,
    self-training:  train on Y_k, then on Y_k ∪ S_k,
    union:          train on Y_k, then on Y_k ∪ C_k ∪ S_k,
    intersection:   train on Y_k, then on Y_k ∪ (C_k ∩ S_k).

Y_k holds the labelled nodes of class k; P_ij is the probability that an absorbing random walk from i ends at j; Z are
the probabilities of the GCN; t is `per_class`.

What the paper leaves open, and the choice here:
- Every class ranks all nodes, so two classes may claim a node. In the authors' program it then has both labels, and so
  it has here (`contested="both"`), except that the loss is a mean over labels, not over nodes.
- S_k ranks the nodes predicted as class k, as in the program, not all nodes.
- After growth of the label set the paper continues training, as here; the program trains a new network (`restart`).
- Walks are solved on the CPU.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.random_walks import absorbing_walk
from mtgcn.methods.base import NetworkMethod, supervised_step
from mtgcn.nn.base import CLASSES, NetworkSettings, mean_of_peers
from mtgcn.nn.networks import GCN
from mtgcn.settings import NonNegativeInt, PositiveFloat, PositiveInt
from mtgcn.shapes import Bool
from mtgcn.task import Prediction, Task, run_seed
from mtgcn.training.loop import Adam, Phase, PseudoLabelRecord, Step, train
from mtgcn.training.pseudo_labels import (
    default_per_class,
    joined,
    labelled_mask,
    most_confident_per_class,
    top_nodes_per_class,
    unambiguous,
)

Contested = Literal["both", "neither"]  # which labels a node gets that two classes claim


@dataclass(frozen=True, kw_only=True)
class CoTraining(NetworkSettings, NetworkMethod):
    """Co-training: labels from random walks, then a GCN.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("co-training").fit(task)), 2)
    0.96
    """

    per_class: PositiveInt | None = None  # t: pseudo labels per class; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # of training
    alpha: PositiveFloat = 1e-6  # α: absorption of the walk
    contested: Contested = "both"  # which labels a node gets that two classes claim

    def network(self, task: Task) -> GCN:
        return GCN(task, peers=1, settings=self)

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        marks = most_absorbing(task, self.per_class or default_per_class(task.graph), self.alpha)
        if self.contested == "neither":
            marks = unambiguous(marks)
        grown = replace(task, labelled=joined(task.labelled, marks))
        phase = Phase(self.epochs, lambda: supervised_step(network, grown))
        history = train(network, [phase], Adam(self.learning_rate, self.weight_decay))
        record = PseudoLabelRecord(task)
        record.add(marks.any(CLASSES), epoch=1)
        return Prediction(
            mean_of_peers(network.probabilities()),
            history,
            pseudo_labelled_at=record.first_epochs(),
            parameters=network.trained(),
        )

    def bytes_per_run(self, task: Task) -> int:
        return GCN.bytes_per_model(task, self.hidden_channels)


def most_absorbing(task: Task, per_class: int, alpha: float) -> Bool[Tensor, "nodes classes runs"]:
    """C_k for every class."""
    absorbed = absorbing_walk(task.graph, alpha).by_class(task.labelled, task.num_classes, np.add)
    score = torch.from_numpy(absorbed).permute(2, 1, 0).to(task.device)
    return top_nodes_per_class(score, per_class, labelled_mask(task))


@dataclass(frozen=True, kw_only=True)
class GrowingGCN(NetworkSettings, NetworkMethod):
    """A GCN that is trained in stages; before each but the first, pseudo labels join the labels."""

    per_class: PositiveInt | None = None  # t: pseudo labels per class in all; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # of every stage: before the first growth and after each
    restart: bool = False  # whether a new network is trained after the last growth

    @abstractmethod
    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        """Pseudo labels, about `per_class` of each class, beside all labels so far, which are those of `task`."""

    def growths(self, task: Task) -> int:
        """How often the label set grows; t is divided among the growths."""
        return 1

    def starts_afresh(self, growth: int, last: int) -> bool:
        """Whether a new network, with its own seed, is trained after this growth, counted from 1."""
        return self.restart

    def network(self, task: Task) -> GCN:
        return GCN(task, peers=1, settings=self)

    def fit(self, task: Task) -> Prediction:
        stages = _Stages(self, task)
        history = stages.train()
        return Prediction(
            mean_of_peers(stages.network.probabilities()),
            history,
            pseudo_labelled_at=stages.record.first_epochs(),
            parameters=stages.network.trained(),
        )

    def bytes_per_run(self, task: Task) -> int:
        return GCN.bytes_per_model(task, self.hidden_channels)


class _Stages:
    """The network and its labels, which change from stage to stage."""

    def __init__(self, method: GrowingGCN, task: Task) -> None:
        self.method, self.task = method, task
        growths = method.growths(task)
        self.growths = range(1, growths + 1)
        self.per_class = math.ceil((method.per_class or default_per_class(task.graph)) / growths)
        self.network = method.network(task)
        self.record = PseudoLabelRecord(task)

    def train(self) -> dict[str, np.ndarray]:
        """The history of all networks, one after the other. Stages with the same network share Adam's moments."""
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


@dataclass(frozen=True, kw_only=True)
class SelfTraining(GrowingGCN):
    """Self-training: labels from the GCN's most confident predictions.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("self-training").fit(task)), 2)
    0.96
    """

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        return most_confident_per_class(network.logits_without_dropout(), per_class, labelled_mask(task))


@dataclass(frozen=True, kw_only=True)
class Union(SelfTraining):
    """Union: labels from random walks and from the GCN.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("union").fit(task)), 2)
    0.96
    """

    alpha: PositiveFloat = 1e-6  # α: absorption of the walk
    contested: Contested = "both"  # which labels a node gets that two classes claim

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        marks = super().propose(network, task, per_class) | most_absorbing(task, per_class, self.alpha)
        return marks if self.contested == "both" else unambiguous(marks)


@dataclass(frozen=True, kw_only=True)
class Intersection(SelfTraining):
    """Intersection: labels on which random walks and the GCN agree.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("intersection").fit(task)), 2)
    0.96
    """

    alpha: PositiveFloat = 1e-6  # α: absorption of the walk

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        return super().propose(network, task, per_class) & most_absorbing(task, per_class, self.alpha)
