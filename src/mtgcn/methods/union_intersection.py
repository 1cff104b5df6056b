"""Union and Intersection (Li, Han and Wu, AAAI 2018): co-training's and self-training's new labels together.

A GCN is trained on the labels. Then what random walks and what the GCN itself would add are united, for more
labels, or intersected, for surer ones; and the GCN trains on with them.

    Y_k := Y_k ∪ (C_k ∪ S_k),  or  Y_k := Y_k ∪ (C_k ∩ S_k),  for every class k,

where C_k is what co-training would add to the labels of class k, and S_k what self-training would.

What the paper leaves open, and the choice here:
- Sets are compared class by class, as in the authors' program: a node is in the intersection if both give it the same
  class. In the union, a node to which they give different classes carries both labels, and the cross-entropy counts
  both (`contested="both"`, as the program does); with `"neither"` it stays unlabelled.
- The paper continues training, the program starts a fresh network: `restart`. The paper's is the default.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mtgcn.methods.co_training import Contested, most_absorbing
from mtgcn.methods.self_training import SelfTraining
from mtgcn.nn.gcn import GCN
from mtgcn.settings import PositiveFloat
from mtgcn.shapes import Bool
from mtgcn.task import Task
from mtgcn.training.pseudo_labels import unambiguous


@dataclass(frozen=True, kw_only=True)
class Union(SelfTraining):
    """What either of the two would add.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("union").fit(task)), 2)
    0.96
    """

    alpha: PositiveFloat = 1e-6  # α: how readily a walk ends
    contested: Contested = "both"  # which labels a node gets that two classes claim

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        marks = super().propose(network, task, per_class) | most_absorbing(task, per_class, self.alpha)
        return marks if self.contested == "both" else unambiguous(marks)


@dataclass(frozen=True, kw_only=True)
class Intersection(SelfTraining):
    """What both of the two would add.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("intersection").fit(task)), 2)
    0.96
    """

    alpha: PositiveFloat = 1e-6  # α: how readily a walk ends

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        return super().propose(network, task, per_class) & most_absorbing(task, per_class, self.alpha)
