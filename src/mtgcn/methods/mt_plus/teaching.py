"""Mutual teaching: in every round, all peers learn the confident pseudo labels of their weighted average."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.linalg.node_keys import keyed_bits
from mtgcn.linalg.softmax_regression import dual_part, fit_to_all, probabilities_of
from mtgcn.methods.mt_plus.cross_validation import Peer, average
from mtgcn.methods.mt_plus.settings import MTPlusSettings
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import Nodes, Task
from mtgcn.training.loop import PseudoLabelRecord
from mtgcn.training.progress import report_progress

SAMPLING_STREAM = 0xC1A55  # stream of the nodes sampled per round
MIN_SHARE = 1e-6  # smallest share of a class in the predictions
ROUNDING = 1e-5  # rounding error of a mean of probabilities in 32 bits
PSEUDO_LABELS = "pseudo labels"  # name of the number of pseudo labels in the history

Probabilities = Float[Tensor, "runs nodes classes"]
Sample = Int[Tensor, "sampled"] | slice  # nodes of a round, in ascending order


class Teaching:
    """The rounds of teaching, and the record of pseudo labels."""

    def __init__(
        self,
        task: Task,
        views: Mapping[str, Float[Tensor, "nodes width"]],
        keys: Int[Tensor, "nodes"],
        peers: Mapping[str, Peer],
        weights: Float[Tensor, "runs peers"],
        strength: Float[Tensor, "runs"],
        labelled: Nodes,  # labelled nodes of all processes
        settings: MTPlusSettings,
    ) -> None:
        self.task, self.views, self.settings = task, views, settings
        self.peers, self.weights, self.sum = peers, weights, task.communicator.sum
        self.pseudo_weight = settings.teaching_weight * strength  # in total; the labels have weight 1
        self.balance = class_balance(labelled, task.num_classes, settings)
        self.by_class = self.balance * label_imbalance(labelled, task.num_classes)
        counts = _class_sums(labelled.present.float(), labelled.classes, task.num_classes)
        self.label_shares = (counts + 1) / (counts + 1).sum(1, keepdim=True)  # classes of few labels count as uniform
        self.num_labels = labelled.index.shape[1]
        self.record = PseudoLabelRecord(task)
        # Position of each node in a random order of all nodes.
        large = task.graph.num_nodes > settings.nodes_per_round
        self.positions = task.communicator.positions(keyed_bits(keys, 0, SAMPLING_STREAM)) if large else None
        self._counts: list[Tensor] = []  # numbers of pseudo labels by round, runs x peers
        self.pseudo_parts: dict[str, Tensor] = {}  # contribution of the last pseudo labels to the coefficients
        unlabelled = torch.ones(task.runs, task.num_nodes + 1, dtype=torch.bool, device=task.device)
        # Padding is written to the extra column.
        self.unlabelled = unlabelled.scatter_(1, task.labelled.index % (task.num_nodes + 1), False)[:, :-1]

    def run(self, before: Mapping[str, Probabilities]) -> tuple[dict[str, Probabilities], dict[str, Tensor]]:
        """Probabilities and coefficients of every peer after all rounds."""
        settings = self.settings
        # A forest teaches but is not taught.
        coefficients = {name: peer.weight for name, peer in self.peers.items() if peer.forest is None}
        bounds: dict[str, Tensor] = {}
        for number in range(settings.rounds):
            nodes, labels = self.sample_nodes(number)
            rows = {name: _rows_at(table, nodes) for name, table in self.views.items()}
            probabilities = {
                name: probabilities_of(rows[name], coefficients[name])
                if number and name in coefficients
                else before[name][:, nodes]
                for name in rows
            }
            if settings.taught_by == "all":
                teacher = average(self.weights, [probabilities[name] for name in rows])
                targets = dict.fromkeys(rows, self.pseudo_labels(teacher, nodes))
            else:
                targets = {name: self.pseudo_labels(probabilities[name], nodes) for name in rows}
            for name in coefficients:
                table, (share, classes) = rows[name], targets[name]
                examples = self._with_labels(share * self.pseudo_weight[:, None], classes, nodes, labels)
                penalty = self.peers[name].penalty.clamp(max=settings.taught_penalty)
                bound = bounds.get(name) if number % settings.rounds_per_bound else None
                coefficients[name], bounds[name] = fit_to_all(
                    table, *examples, penalty, coefficients[name], settings.steps, self.sum, bound
                )
                if number == settings.rounds - 1:
                    part = dual_part(table, share * self.pseudo_weight[:, None], classes, coefficients[name], penalty)
                    self.pseudo_parts[name] = self.sum(part)
            self._record(torch.stack([share > 0 for share, _ in targets.values()], 1), nodes)
            report_progress(number + 1, settings.rounds)
        if not settings.rounds:
            return dict(before), coefficients
        after = {
            name: probabilities_of(table, coefficients[name]) if name in coefficients else before[name]
            for name, table in self.views.items()
        }
        return after, coefficients

    def sample_nodes(self, number: int) -> tuple[Sample, Bool[Tensor, "runs labelled"]]:
        """The nodes of a round, and which labels are among them: all nodes of a small graph, or a new random sample
        of unlabelled and labelled nodes. Thousands of examples suffice to fit a peer, and the cost of a round
        does not depend on the size of the graph."""
        nodes, labelled, settings = self.task.graph.num_nodes, self.task.labelled, self.settings
        positions = self.positions
        if positions is None:
            return slice(None), labelled.present

        def window(count: int) -> Bool[Tensor, "nodes"]:
            return torch.remainder(positions - number * count, nodes) < count

        in_round = window(min(nodes, nodes * settings.labels_per_round // max(1, self.num_labels)))
        labels = labelled.present & in_round[labelled.index]
        sampled = window(min(nodes, settings.nodes_per_round))
        sampled[labelled.index[labels]] = True
        return sampled.nonzero()[:, 0], labels

    def pseudo_labels(
        self, probabilities: Probabilities, nodes: Sample = slice(None)
    ) -> tuple[Float[Tensor, "runs nodes"], Int[Tensor, "runs nodes"]]:
        """Weights of the pseudo labels, which sum to 1, and their classes.

        The shares of the classes in the teacher's predictions are first moved towards their shares among the labels. A
        node is pseudo-labelled if the teacher's confidence exceeds the mean. Where classes have unequal numbers of
        labels, the teacher is more confident of the larger ones; then the threshold is closer to the mean over nodes of
        the predicted class, especially if labels are few.
        """
        unlabelled, by_class = self.unlabelled[:, nodes].to(probabilities.dtype), self.by_class
        # Computed in 64 bits, so that the sum does not depend on the number of processes.
        predicted = self.sum((unlabelled[..., None] * probabilities).sum(1, dtype=torch.float64))
        tiny = torch.finfo(probabilities.dtype).tiny
        predicted = predicted / predicted.sum(1, keepdim=True).clamp(min=tiny)
        factor = (self.label_shares / predicted.clamp(min=MIN_SHARE)) ** (self.settings.share_power * self.balance)
        factor = factor.to(probabilities.dtype)
        confidence, classes = functional.normalize(probabilities * factor[:, None], p=1, dim=-1).max(-1)

        def class_sums(values: Float[Tensor, "runs nodes"]) -> Float[Tensor, "runs classes"]:
            return self.sum(_class_sums(values, classes, self.task.num_classes))

        def node_sum(values: Float[Tensor, "runs nodes"]) -> Float[Tensor, "runs 1"]:
            return self.sum(values.sum(1, keepdim=True))

        mean_of_class = class_sums(confidence * unlabelled) / class_sums(unlabelled).clamp(min=1)
        mean = node_sum(confidence * unlabelled) / node_sum(unlabelled).clamp(min=1)
        threshold = by_class * mean_of_class.gather(1, classes) + (1 - by_class) * mean
        confident = confidence >= (1 - ROUNDING) * threshold  # keeps ties in spite of rounding
        confident &= confidence > (1 + ROUNDING) / self.task.num_classes  # at chance, the class is that of the order
        weight = unlabelled * confident
        weight = weight / (class_sums(weight).clamp(min=1) ** self.balance).gather(1, classes)
        return weight / node_sum(weight).clamp(min=tiny), classes

    def history(self) -> dict[str, Float[np.ndarray, "rounds runs peers"]]:
        """The number of pseudo labels of each peer by round."""
        return {PSEUDO_LABELS: torch.stack(self._counts).float().cpu().numpy()} if self._counts else {}

    def _with_labels(
        self,
        weight: Float[Tensor, "runs nodes"],
        classes: Int[Tensor, "runs nodes"],
        nodes: Sample,
        labels: Bool[Tensor, "runs labelled"],
    ) -> tuple[Float[Tensor, "runs nodes"], Int[Tensor, "runs nodes"]]:
        """The labels of the round added to the pseudo labels, with total weight 1."""
        labelled = self.task.labelled
        share = labels / self.sum(labels.sum(1, keepdim=True)).clamp(min=1)
        place = labelled.index if isinstance(nodes, slice) else torch.searchsorted(nodes, labelled.index)
        place = torch.where(labels, place, weight.shape[1])  # others are written to an extra column
        weight = torch.cat([weight, weight.new_zeros(len(weight), 1)], 1).scatter(1, place, share)[:, :-1]
        classes = torch.cat([classes, classes.new_zeros(len(classes), 1)], 1).scatter(1, place, labelled.classes)
        return weight, classes[:, :-1]

    def _record(self, pseudo_labelled: Bool[Tensor, "runs peers nodes"], nodes: Sample) -> None:
        by_any = torch.zeros(self.task.num_nodes, self.task.runs, dtype=torch.bool, device=self.task.device)
        by_any[nodes] = pseudo_labelled.any(1).T
        self.record.next_epoch(by_any)
        self._counts.append(self.sum(pseudo_labelled.sum(2)))


def class_balance(labelled: Nodes, num_classes: int, settings: MTPlusSettings) -> Float[Tensor, "runs 1"]:
    """The exponent b of class balancing: pseudo labels of a class are divided by their number to the power b. All
    classes have equal weights with b = 1, weights by size with b = 0. With few labels, sizes are unknown and b = 1."""
    per_class = labelled.present.sum(1, keepdim=True) / num_classes
    if settings.balanced != "by-labels":
        return torch.full_like(per_class, float(settings.balanced == "always"))
    return (settings.few_labels / per_class.clamp(min=settings.few_labels)).sqrt()


def label_imbalance(labelled: Nodes, num_classes: int) -> Float[Tensor, "runs 1"]:
    """0 if all labelled classes have equally many labels; 1 if one has at most half the average."""
    counts = _class_sums(labelled.present.float(), labelled.classes, num_classes)
    given = counts > 0
    mean = counts.sum(1) / given.sum(1).clamp(min=1)
    fewest = counts.masked_fill(~given, torch.inf).amin(1)
    return (2 * (1 - fewest / mean)).clamp(0, 1)[:, None]


def _rows_at(table: Float[Tensor, "nodes width"], nodes: Sample) -> Float[Tensor, "sampled width"]:
    return table[nodes] if isinstance(nodes, slice) else table.index_select(0, nodes)  # 5 times faster than an index


def _class_sums(
    values: Float[Tensor, "runs nodes"], classes: Int[Tensor, "runs nodes"], num_classes: int
) -> Float[Tensor, "runs classes"]:
    return values.new_zeros(len(values), num_classes).scatter_add_(1, classes, values)
