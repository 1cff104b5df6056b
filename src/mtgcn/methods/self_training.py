"""Self-training (Li, Han and Wu, AAAI 2018): a GCN's own most confident predictions join its labels.

A GCN is trained on the labels; of the nodes it predicts as each class, those it is surest of become labels of that
class (their Algorithm 2), and it trains on with all of them.

    Z = softmax(Â ReLU(Â X Θ0) Θ1), trained on Y,
    Y_k := Y_k ∪ the t unlabelled nodes i with the largest Z_ik among those with argmax Z_i = k,  for every class k.

What the paper leaves open, and the choice here:
- "Surest of each class" may mean the largest probabilities of a class among all nodes, or among those predicted as
  that class. The authors' program takes the latter; so does this.
- The paper continues training, the program starts a fresh network: `restart`. The paper's is the default.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mtgcn.methods.growing import GrowingGCN
from mtgcn.nn.gcn import GCN
from mtgcn.shapes import Bool
from mtgcn.task import Task
from mtgcn.training.pseudo_labels import labelled_mask, most_confident_per_class


@dataclass(frozen=True, kw_only=True)
class SelfTraining(GrowingGCN):
    """One growth, by what the network itself is surest of.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("self-training").fit(task)), 2)
    0.96
    """

    def propose(self, network: GCN, task: Task, per_class: int) -> Bool[Tensor, "nodes classes runs"]:
        return most_confident_per_class(network.logits_without_dropout(), per_class, labelled_mask(task))
