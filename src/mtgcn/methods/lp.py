"""LP by ParWalks (Wu, Li, So, Wright and Chang, NIPS 2012): partially absorbing random walks to labelled nodes.

A node gets the class of the labelled node that most likely absorbs its walk. Features are not used.

    P = α (L + αI)^-1  with  L = D - A:  P_ij is the probability that a walk from i ends at j,
    ŷ_i = the class of argmax over labelled j of P_ij.

Choices that the paper leaves open:
- The best single labelled node decides, as in the program of Li, Han and Wu (2018), who report the printed values. Sums
  per class would give a component to its most frequent label, since walks with a tiny α end almost uniformly.
- Edge weights are divided by their mean, so that α does not depend on their unit.
- Probabilities are a softmax of mean degree · (L + αI)^-1, with the best column of each class. Shares of P itself would
  all be close to 1 / classes.
- Nodes that no label reaches get the mean probabilities of the other nodes of the run, an estimate of class sizes.

The linear systems are solved on the CPU, in doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mtgcn.linalg.random_walks import SOLVED_AT_ONCE, absorbing_walk
from mtgcn.methods.base import Method
from mtgcn.settings import PositiveFloat
from mtgcn.task import Prediction, Task


@dataclass(frozen=True, kw_only=True)
class ParWalks(Method):
    """The class of the labelled node with the largest absorption."""

    uses_features: ClassVar[bool] = False
    alpha: PositiveFloat = 1e-6  # α: absorption rate of the walk

    def fit(self, task: Task) -> Prediction:
        walk = absorbing_walk(task.graph, self.alpha)
        best = walk.by_class(task.labelled, task.num_classes, np.maximum)
        largest = best.max(axis=1, keepdims=True)
        reached = largest > 0
        unit = walk.degrees.mean() or 1.0
        weight = np.exp(unit * (best - largest))
        probabilities = weight / weight.sum(axis=1, keepdims=True)
        average = probabilities.mean(axis=2, keepdims=True, where=reached)
        probabilities = np.where(reached, probabilities, average)
        return Prediction(np.ascontiguousarray(probabilities.transpose(0, 2, 1), dtype=np.float32))

    def shared_bytes(self, task: Task) -> int:
        return 8 * 8 * min(SOLVED_AT_ONCE, task.num_nodes * task.labelled.index.numel())  # eight columns for each label
