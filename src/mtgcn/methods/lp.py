"""LP by ParWalks (Wu, Li, So, Wright and Chang, NIPS 2012): whose labelled node would most likely absorb a random walk?

A walk from a node ends at each step with a small chance; the node takes the class of the single labelled node where
it most likely ends. Features play no part.

    P = α (L + αI)^-1  with  L = D - A:  P_ij is the probability that a walk from i ends at j,
    ŷ_i = the class of argmax over labelled j of P_ij.

What the paper leaves open, and the choice here:
- How columns are combined. Each labelled node stands alone, as in the program of Li, Han and Wu (2018), from whose
  paper the printed values come. Summed per class, the walks of a tiny α end almost evenly everywhere, and the class
  with more labels in a component takes all of it.
- Weights are taken in units of their mean, so that neither the answer nor what α means depends on their unit.
- Probabilities. A softmax over the classes of mean degree · (L + αI)^-1, of which every class enters its best column.
  Dividing by the sum instead would leave every class at almost 1 / classes, so small are the differences.
- A node that no label can reach gets the run's average probabilities of the nodes that one can: an estimate of how
  large the classes are. The labels themselves would be a poor one where equally many of each class are given: all
  classes tie, and the first would win by its number.

The linear systems are solved on the CPU, in doubles, whatever the device of the task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mtgcn.linalg.random_walks import absorbing_walk, solving_bytes
from mtgcn.methods.base import Method
from mtgcn.settings import PositiveFloat
from mtgcn.task import Prediction, Task


@dataclass(frozen=True, kw_only=True)
class ParWalks(Method):
    """The class of the labelled node with the largest absorption.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("lp").fit(task)), 2)
    0.96
    """

    uses_features: ClassVar[bool] = False
    alpha: PositiveFloat = 1e-6  # α: how readily a walk ends

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
        return solving_bytes(task.num_nodes, task.labelled.index.numel())
