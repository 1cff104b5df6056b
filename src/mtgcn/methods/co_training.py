"""Co-training (Li, Han and Wu, AAAI 2018): a random walk, which sees the whole graph, finds labels for a GCN.

For every class, the nodes from which absorbing walks most likely end at labelled nodes of that class join the labels
(their Algorithm 1); then a GCN is trained on all of them.

    P = α (L + αI)^-1,  L = D - A,
    Y_k := Y_k ∪ the t unlabelled nodes i with the largest Σ_{j in Y_k} P_ij,  for every class k.

What the paper leaves open, and the choice here:
- Every class ranks all nodes by itself, so a node may be among the best of two classes. In the authors' program it
  then carries both labels, and the cross-entropy counts both. So it does here (`contested="both"`), except that the
  mean is over labels, not over nodes; with `"neither"` it stays unlabelled.
- The walks are solved on the CPU, whatever the device of the task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.random_walks import absorbing_walk
from mtgcn.methods.trained import NetworkMethod, supervised_step
from mtgcn.nn.base import CLASSES, NetworkSettings, mean_of_peers
from mtgcn.nn.gcn import GCN
from mtgcn.settings import NonNegativeInt, PositiveFloat, PositiveInt
from mtgcn.shapes import Bool
from mtgcn.task import Prediction, Task
from mtgcn.training.loop import Adam, Phase, train
from mtgcn.training.pseudo_labels import default_per_class, joined, labelled_mask, top_nodes_per_class, unambiguous
from mtgcn.training.recording import PseudoLabelRecord

Contested = Literal["both", "neither"]  # which labels a node gets that two classes claim


@dataclass(frozen=True, kw_only=True)
class CoTraining(NetworkSettings, NetworkMethod):
    """Labels found by random walks, then a GCN.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("co-training").fit(task)), 2)
    0.96
    """

    per_class: PositiveInt | None = None  # t: how many labels the walks find for each class; None: as for mt-gcn
    epochs: NonNegativeInt = 200  # of training
    alpha: PositiveFloat = 1e-6  # α: how readily a walk ends
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
    """For every class, the nodes from which most walks end at its labelled nodes: absorption summed over them."""
    absorbed = absorbing_walk(task.graph, alpha).by_class(task.labelled, task.num_classes, np.add)
    score = torch.from_numpy(absorbed).permute(2, 1, 0).to(task.device)
    return top_nodes_per_class(score, per_class, labelled_mask(task))
