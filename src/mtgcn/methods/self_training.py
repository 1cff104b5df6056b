"""Co-training, self-training, union and intersection (Li, Han and Wu, AAAI 2018): pseudo labels for a GCN.

    C_k = the t unlabelled nodes i with the largest Σ over j in Y_k of P_ij,  P = α (L + αI)^-1,  L = D - A,
    S_k = the t unlabelled nodes i with the largest Z_ik among those with argmax Z_i = k,
    co-training:    train on Y_k ∪ C_k,
    self-training:  train on Y_k, then on Y_k ∪ S_k,
    union:          train on Y_k, then on Y_k ∪ C_k ∪ S_k,
    intersection:   train on Y_k, then on Y_k ∪ (C_k ∩ S_k).

Y_k holds the labelled nodes of class k; P_ij is the probability that an absorbing random walk from i ends at j; Z are
the probabilities of the GCN; t is `per_class`.

Choices that the paper leaves open:
- Every class ranks all nodes, so two classes may claim a node. In the authors' program it then has both labels, and so
  it has here (`contested="both"`), except that the loss is a mean over labels, not over nodes.
- S_k ranks the nodes predicted as class k, as in the program, not all nodes.
- After growth of the label set the paper continues training, as here; the program trains a new network (`restart`).
- Walks are solved on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch

from mtgcn.linalg.random_walks import absorbing_walk
from mtgcn.methods.base import NetworkMethod, network_prediction, supervised_step
from mtgcn.nn.base import CLASSES, StackedNetwork
from mtgcn.settings import NonNegativeInt, PositiveFloat, PositiveInt
from mtgcn.task import Prediction, Task, run_seed
from mtgcn.training import pseudo_labels
from mtgcn.training.loop import Phase, PseudoLabelRecord, Step

Contested = Literal["both", "neither"]  # labels of a node that two classes claim


@dataclass(frozen=True, kw_only=True)
class CoTraining(NetworkMethod):
    """Co-training: labels from random walks, then a GCN."""

    per_class: PositiveInt | None = None  # t: pseudo labels per class; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # training epochs
    alpha: PositiveFloat = 1e-6  # α: absorption rate of the walk
    contested: Contested = "both"  # labels of a node that two classes claim

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        marks = most_absorbing(task, self.per_class or pseudo_labels.default_per_class(task.graph), self.alpha)
        if self.contested == "neither":
            marks = pseudo_labels.unambiguous(marks)
        grown = replace(task, labelled=pseudo_labels.joined(task.labelled, marks))
        history = self.train(network, [Phase(self.epochs, lambda: supervised_step(network, grown))])
        record = PseudoLabelRecord(task)
        record.add(marks.any(CLASSES), epoch=1)
        return network_prediction(network, history, pseudo_labelled_at=record.first_epochs())


def most_absorbing(task: Task, per_class: int, alpha: float) -> pseudo_labels.Proposal:
    """C_k for every class."""
    absorbed = absorbing_walk(task.graph, alpha).by_class(task.labelled, task.num_classes, np.add)
    score = torch.from_numpy(absorbed).permute(2, 1, 0).to(task.device)
    return pseudo_labels.top_nodes_per_class(score, per_class, pseudo_labels.labelled_mask(task))


@dataclass(frozen=True, kw_only=True)
class SelfTraining(NetworkMethod):
    """Self-training: labels from the GCN's most confident predictions.

    The GCN is trained in stages; before each but the first, pseudo labels join the labels.
    """

    per_class: PositiveInt | None = None  # t: pseudo labels per class in all; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # training epochs of every stage, before the first growth and after each
    restart: bool = False  # whether a new network is trained after the last growth

    def propose(self, network: StackedNetwork, task: Task, per_class: int) -> pseudo_labels.Proposal:
        """Pseudo labels, about `per_class` of each class, to add to the current labels, which are those of `task`."""
        return pseudo_labels.most_confident_per_class(
            network.logits_without_dropout(), per_class, pseudo_labels.labelled_mask(task)
        )

    def growths(self, task: Task) -> int:
        """How often the label set grows; t is divided among the growths."""
        return 1

    def starts_afresh(self, growth: int, last: int) -> bool:
        """Whether a new network, with its own seed, is trained after this growth, counted from 1."""
        return self.restart

    def fit(self, task: Task) -> Prediction:
        growths = self.growths(task)
        per_class = math.ceil((self.per_class or pseudo_labels.default_per_class(task.graph)) / growths)
        network, current, record = self.network(task), task, PseudoLabelRecord(task)

        def step() -> Step:
            return supervised_step(network, current)

        def grow(growth: int) -> None:
            nonlocal current
            marks = self.propose(network, current, per_class)
            record.add(marks.any(CLASSES), epoch=growth * self.epochs + 1)
            current = replace(current, labelled=pseudo_labels.joined(current.labelled, marks))

        # Stages with the same network share Adam's moments.
        histories, phases = [], [Phase(self.epochs, step)]
        for growth in range(1, growths + 1):
            if self.starts_afresh(growth, last=growths):
                histories.append(self.train(network, phases))
                grow(growth)
                network = self.network(replace(task, seeds=tuple(run_seed(seed, growth) for seed in task.seeds)))
                phases = [Phase(self.epochs, step)]
            else:
                phases.append(Phase(self.epochs, step, before=partial(grow, growth)))
        histories.append(self.train(network, phases))
        history = {key: np.concatenate([one[key] for one in histories]) for key in histories[0]}
        return network_prediction(network, history, pseudo_labelled_at=record.first_epochs())


@dataclass(frozen=True, kw_only=True)
class Union(SelfTraining):
    """Union: labels from random walks and from the GCN."""

    alpha: PositiveFloat = 1e-6  # α: absorption rate of the walk
    contested: Contested = "both"  # labels of a node that two classes claim

    def propose(self, network: StackedNetwork, task: Task, per_class: int) -> pseudo_labels.Proposal:
        marks = super().propose(network, task, per_class) | most_absorbing(task, per_class, self.alpha)
        return marks if self.contested == "both" else pseudo_labels.unambiguous(marks)


@dataclass(frozen=True, kw_only=True)
class Intersection(SelfTraining):
    """Intersection: labels on which random walks and the GCN agree."""

    alpha: PositiveFloat = 1e-6  # α: absorption rate of the walk

    def propose(self, network: StackedNetwork, task: Task, per_class: int) -> pseudo_labels.Proposal:
        return super().propose(network, task, per_class) & most_absorbing(task, per_class, self.alpha)
