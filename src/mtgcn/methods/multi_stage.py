"""Multi-stage self-training (Sun, Lin and Zhu, AAAI 2020): self-training, several times over.

In each of K stages the nodes that the GCN is surest of join the labels of each class, and it trains on with them.

    K times:  Z = softmax(Â ReLU(Â X Θ0) Θ1), trained on Y,
              Y_k := Y_k ∪ the ⌈t / K⌉ unlabelled nodes i with the largest Z_ik among those with argmax Z_i = k.

What the paper leaves open, and the choice here:
- How many nodes join in a stage. t is how many labels a two-layer GCN needs to reach the whole graph, so the stages
  share it: t / K in each, rounded up. That program divides it, too.
- Whether a stage continues with the weights it finds. As in the program that the authors point to
  (github.com/Junseok0207/M3S_Pytorch), every stage starts with a fresh network, and only after the last growth the
  network there is trains on: `fresh_stages` and `restart`.
- K on graphs that the paper does not have: 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from mtgcn.errors import InputError
from mtgcn.methods.self_training import SelfTraining
from mtgcn.settings import Ge, Le
from mtgcn.task import Task

# K by dataset: up to which share of labelled nodes, how many stages. These are the paper's numbers as far as we know
# them (its text was not at hand to check); it has label rates of 0.5, 1, 2, 3 and 4 % on Cora, and the bounds lie
# between them.
PAPER_STAGES = {
    "cora": ((0.0075, 5), (0.015, 4), (1.0, 2)),
    "citeseer": ((1.0, 3),),
    "pubmed": ((1.0, 4),),
}
USUAL_STAGES = 3


@dataclass(frozen=True, kw_only=True)
class MultiStage(SelfTraining):
    """Several growths, by what the network itself is surest of.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("multi-stage", epochs=100).fit(task)), 2)
    0.96
    """

    # K in the paper; None: the paper's number for its datasets, 3 elsewhere
    stages: Annotated[int, Ge(1), Le(100)] | None = None
    fresh_stages: bool = True  # whether a fresh network is trained after every growth but the last

    def growths(self, task: Task) -> int:
        return self.stages or default_stages(task)

    def starts_afresh(self, growth: int, last: int) -> bool:
        return self.restart if growth == last else self.fresh_stages


def default_stages(task: Task) -> int:
    """K: the paper's for its datasets, by the share of nodes that are labelled."""
    rates = (task.labelled.present.sum(1) / task.num_nodes).tolist()
    bounds = PAPER_STAGES.get(task.graph.name, ((1.0, USUAL_STAGES),))
    stages = {next(number for most, number in bounds if rate <= most) for rate in rates}
    if len(stages) > 1:
        few, many = min(stages), max(stages)
        raise InputError(
            f"runs with {min(rates):.2%} and {max(rates):.2%} of nodes labelled call for {many} and {few} stages; "
            "set stages, or fit them apart"
        )
    return stages.pop()
