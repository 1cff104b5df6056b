"""Peers that differ in kind teach each other: round after round, all learn what their weighted average is sure of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from mtgcn.linalg.node_keys import node_keys, random_order
from mtgcn.linalg.softmax_regression import fit_to_all, probabilities_of
from mtgcn.methods.mt_plus.cross_validation import PeerEvidence
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Nodes, Task
from mtgcn.training.progress import report_progress
from mtgcn.training.recording import PseudoLabelRecord

ROUNDING = 1e-5  # of a mean of probabilities in 32 bits
FEW_LABELS = 3  # per class; up to so many all classes weigh the same
# However large a penalty suits a peer with a handful of labels: thousands of pseudo labels need no more, and where
# classes are not evened out a larger one lets the largest class swallow the others.
LARGEST_PENALTY = 1e-3
PSEUDO_LABELS = "pseudo labels"  # how many nodes teach

LARGEST_CLASS = 2**12  # nodes that a round of teaching looks at
ROUNDS_ALIKE = 3  # so many after each other teach so much the same that peers learn with the same bound
ATTENDANCE = 0xC1A55  # tells what is drawn for who attends a round from what else is drawn by node

Probabilities = Float[Tensor, "runs nodes classes"]
Teacher = Literal["all", "itself"]
Here = Int[Tensor, "here"] | slice  # the nodes that a round looks at, in order


@dataclass(frozen=True, eq=False)
class SharedNodes:
    """What a process needs to know of nodes that others hold, where it holds only some of them."""

    total: Callable[[Tensor], Tensor]  # the sum of what every process has found
    places: Int[Tensor, "nodes"]  # of the nodes held here, where they stand as all come to be looked at


class Lessons:
    """What is taught how much, and the record of who was pseudo-labelled when."""

    def __init__(
        self,
        task: Task,
        rows: Mapping[str, Float[Tensor, "nodes width"]],
        evidence: Mapping[str, PeerEvidence],
        votes: Float[Tensor, "runs peers"],
        amount: Float[Tensor, "runs"],  # what all pseudo labels together weigh beside the labels
        evenness: Float[Tensor, "runs 1"],
        all_labels: Task | None = None,  # a task that has them all, where this one has those of some nodes
        shared: SharedNodes | None = None,
    ) -> None:
        self.given = (all_labels or task).labelled.present.sum(1, keepdim=True)
        self.shared = shared
        self.task, self.rows, self.evidence, self.votes = task, rows, evidence, votes
        self.amount, self.evenness = amount, evenness
        self.apart = evenness * inequality_of_labels(all_labels or task)
        self.record = PseudoLabelRecord(task)
        self._counts: list[Tensor] = []  # of pseudo labels, runs x peers, by round
        free = torch.ones(task.runs, task.num_nodes + 1, dtype=torch.bool, device=task.device)
        # MISSING falls into the extra column.
        self.free = free.scatter_(1, task.labelled.index % (task.num_nodes + 1), False)[:, :-1]

    def taught(
        self, before: Mapping[str, Probabilities], rounds: int, steps: int, taught_by: Teacher = "all"
    ) -> tuple[dict[str, Probabilities], dict[str, Tensor]]:
        """What every peer says after so many rounds of so many steps, and its weights."""
        weights = {name: one.weight for name, one in self.evidence.items()}
        bounds: dict[str, Tensor] = {}
        for number in range(rounds):
            here = self._attending(number)
            rows = {name: _some_rows(table, here) for name, table in self.rows.items()}
            said = {
                name: probabilities_of(rows[name], weights[name]) if number else before[name][:, here] for name in rows
            }
            if taught_by == "all":
                together = average(self.votes, [said[name] for name in rows])
                lessons = dict.fromkeys(rows, self.lesson(together, here))
            else:
                lessons = {name: self.lesson(said[name], here) for name in rows}
            for name, table in rows.items():
                share, classes = lessons[name]
                examples = self._with_labels(share * self.amount[:, None], classes, here)
                penalty = self.evidence[name].penalty.clamp(max=LARGEST_PENALTY)
                bound = bounds.get(name) if number % ROUNDS_ALIKE else None
                weights[name], bounds[name] = fit_to_all(
                    table, *examples, penalty, weights[name], steps, self._total, bound
                )
            self._write_down(torch.stack([share > 0 for share, _ in lessons.values()], 1), here)
            report_progress(number + 1, rounds, lambda: {PSEUDO_LABELS: float(self._counts[-1].float().mean())})
        if not rounds:
            return dict(before), weights
        return {name: probabilities_of(table, weights[name]) for name, table in self.rows.items()}, weights

    def _attending(self, number: int) -> Here:
        """The nodes that a round looks at: all; on large graphs some, others in every round, beside those that have a
        label. Who attends together follows from what nodes are. Thousands of examples fix what a peer learns, and a
        round costs the same on a graph of any size."""
        nodes, labelled = self.task.graph.num_nodes, self.task.labelled
        if nodes <= LARGEST_CLASS:
            return slice(None)
        attends = (self._places - number * LARGEST_CLASS) % nodes < LARGEST_CLASS
        attends[labelled.index[labelled.present]] = True
        return attends.nonzero()[:, 0]

    @cached_property
    def _places(self) -> Int[Tensor, "nodes"]:
        """Where nodes stand as they come to be looked at."""
        if self.shared:
            return self.shared.places
        order = random_order(node_keys(self.task.graph, self.task.device), 0, ATTENDANCE)
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))

    def _total(self, values: Tensor) -> Tensor:
        """The sum of what every process has found."""
        return self.shared.total(values) if self.shared else values

    def lesson(
        self, teacher: Probabilities, here: Here = slice(None)
    ) -> tuple[Float[Tensor, "runs nodes"], Int[Tensor, "runs nodes"]]:
        """How much each node counts, in all 1, and as which class.

        Nodes teach of which the teacher is surer than of the average node. Where some classes were given more labels
        than others it is surer of those, and while labels are few it is the average node of their class that counts.
        """
        sure, classes = teacher.max(-1)
        free, apart = self.free[:, here].to(sure.dtype), self.apart

        def by_class(values: Float[Tensor, "runs nodes"]) -> Float[Tensor, "runs classes"]:
            return self._total(_sum_by_class(values, classes, self.task.num_classes))

        of_class = (by_class(sure * free) / by_class(free).clamp(min=1)).gather(1, classes)
        of_all = self._total((sure * free).sum(1, keepdim=True)) / self._total(free.sum(1, keepdim=True)).clamp(min=1)
        threshold = apart * of_class + (1 - apart) * of_all
        weight = free * (sure >= (1 - ROUNDING) * threshold)  # nodes that are all equally sure all teach
        weight = weight / (by_class(weight).clamp(min=1) ** self.evenness).gather(1, classes)
        return weight / self._total(weight.sum(1, keepdim=True)).clamp(min=torch.finfo(weight.dtype).tiny), classes

    def history(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        """How many nodes taught each peer, round by round."""
        return {PSEUDO_LABELS: torch.stack(self._counts).float().cpu().numpy()} if self._counts else {}

    def _with_labels(
        self, weight: Float[Tensor, "runs here"], classes: Int[Tensor, "runs here"], here: Here
    ) -> tuple[Float[Tensor, "runs here"], Int[Tensor, "runs here"]]:
        """The given labels among them, weighing 1 in all."""
        labelled: Nodes = self.task.labelled
        present = labelled.present
        share = present / self.given
        place = labelled.index if isinstance(here, slice) else torch.searchsorted(here, labelled.index)
        place = torch.where(present, place, weight.shape[1])  # MISSING falls into an extra column
        weight = torch.cat([weight, weight.new_zeros(len(weight), 1)], 1).scatter(1, place, share)[:, :-1]
        classes = torch.cat([classes, classes.new_zeros(len(classes), 1)], 1).scatter(1, place, labelled.classes)
        return weight, classes[:, :-1]

    def _write_down(self, teaches: Bool[Tensor, "runs peers here"], here: Here) -> None:
        taught = torch.zeros(self.task.num_nodes, self.task.runs, dtype=torch.bool, device=self.task.device)
        taught[here] = teaches.any(1).T
        self.record.next_epoch(taught)
        self._counts.append(self._total(teaches.sum(2)))


def evenness_by_labels(task: Task) -> Float[Tensor, "runs 1"]:
    """The power of its size that a class's weight is divided by: 1 makes classes equal, 0 leaves them as they are. With
    few labels per class all weigh the same, since nobody can know yet how large they are."""
    labels_per_class = task.labelled.present.sum(1, keepdim=True) / task.num_classes
    return (FEW_LABELS / labels_per_class.clamp(min=FEW_LABELS)).sqrt()


def inequality_of_labels(task: Task) -> Float[Tensor, "runs 1"]:
    """0 where every class has as many labels, 1 where one that has any has half the average or less."""
    classes, present = task.labelled.classes, task.labelled.present
    counts = _sum_by_class(present.float(), classes, task.num_classes)
    given = counts > 0
    mean = counts.sum(1) / given.sum(1).clamp(min=1)
    fewest = counts.masked_fill(~given, torch.inf).amin(1)
    return (2 * (1 - fewest / mean)).clamp(0, 1)[:, None]


def average(votes: Float[Tensor, "runs peers"], said: Sequence[Probabilities]) -> Probabilities:
    """What peers say together."""
    result = torch.zeros_like(said[0])
    for vote, one in zip(votes.T, said, strict=True):
        result += vote[:, None, None] * one
    return result


def _some_rows(table: Float[Tensor, "nodes width"], here: Here) -> Float[Tensor, "here width"]:
    return table[here] if isinstance(here, slice) else table.index_select(0, here)  # a fifth of the time of an index


def _sum_by_class(
    values: Float[Tensor, "runs nodes"], classes: Int[Tensor, "runs nodes"], num_classes: int
) -> Float[Tensor, "runs classes"]:
    return values.new_zeros(len(values), num_classes).scatter_add_(1, classes, values)
