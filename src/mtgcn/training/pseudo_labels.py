"""Pseudo labels: Algorithm 1 of the MT-GCN paper, and growing label sets.

Proposals of new labels are combined by `|` and `&`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.errors import InputError
from mtgcn.nn.base import CLASSES, NODES, NodeValues
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import MISSING, Nodes

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Task


# t as printed in the paper. Its rule gives 76 on Cora; 72 results from counting duplicate edges.
PAPER_PER_CLASS = {"cora": 72, "citeseer": 216, "pubmed": 975}

# The rule 3n / (k d^2) vanishes on dense graphs. The smallest share of n / k in the paper is PubMed's, 975 of 6572.
MIN_SHARE = 0.15


def default_per_class(graph: Graph) -> int:
    """t, the number of pseudo labels per class: the paper's value, or floor(3n / (k d^2)) with mean degree d, but at
    least `MIN_SHARE` of n / k."""
    if graph.name in PAPER_PER_CLASS:
        return PAPER_PER_CLASS[graph.name]
    nodes, classes = graph.num_nodes, graph.num_classes
    rule = 3 * nodes / (classes * max(graph.mean_degree, 1) ** 2)
    return max(math.floor(rule), math.ceil(MIN_SHARE * nodes / classes))


Proposal = Bool[Tensor, "nodes classes runs"]  # whether a node is proposed as a new label of a class


@dataclass(frozen=True)
class PseudoLabels:
    """The pseudo labels of every model. Slots `j * per_class` to `(j + 1) * per_class` belong to class j, the most
    confident first. An empty slot is not `filled` and has node 0."""

    nodes: Int[Tensor, "slots runs peers"]
    filled: Bool[Tensor, "slots runs peers"]
    per_class: int
    total_count: Int[Tensor, "runs peers"] | None = None  # sum over processes; None with a single process

    @property
    def count(self) -> Int[Tensor, "runs peers"]:
        return self.filled.sum(0)

    @property
    def total(self) -> Int[Tensor, "runs peers"]:
        """The count over all processes; each process holds the pseudo labels of its nodes."""
        return self.count if self.total_count is None else self.total_count

    @property
    def classes(self) -> Int[Tensor, "slots 1 1"]:
        """The class of each slot."""
        return (torch.arange(len(self.nodes), device=self.nodes.device) // self.per_class)[:, None, None]

    def rows(self, values: NodeValues) -> Float[Tensor, "slots classes runs peers"]:
        """The `values` of each model at its pseudo-labelled nodes."""
        width = values.shape[CLASSES]
        return values.gather(NODES, self.nodes[:, None].expand(-1, width, -1, -1))

    def own_class(self, rows: Float[Tensor, "slots classes runs peers"]) -> Float[Tensor, "slots runs peers"]:
        """The values in the column of each slot's class."""
        by_class = rows.unflatten(0, (-1, self.per_class))  # classes, per_class, classes, runs, peers
        return by_class.diagonal(dim1=0, dim2=2).movedim(-1, 0).flatten(0, 1)

    def chosen_by_any(self, num_nodes: int) -> Bool[Tensor, "nodes runs"]:
        """The nodes that were selected by at least one peer of a run."""
        rows = torch.where(self.filled, self.nodes, num_nodes)  # empty slots mark an extra row
        marks = torch.zeros(num_nodes + 1, *rows.shape[1:], dtype=torch.bool, device=rows.device)
        return marks.scatter_(NODES, rows, True)[:-1].any(-1)

    def from_next_peer(self) -> PseudoLabels:
        """Pseudo labels in which each peer has those of the next peer."""
        total = None if self.total_count is None else self.total_count.roll(-1, -1)
        return PseudoLabels(self.nodes.roll(-1, -1), self.filled.roll(-1, -1), self.per_class, total)


def most_confident(
    confidence: Float[Tensor, "nodes runs peers"],
    predicted: Int[Tensor, "nodes runs peers"],
    *,
    classes: int,
    per_class: int,
    exclude: Bool[Tensor, "nodes runs"],
    num_nodes: int | None = None,
    communicator: Communicator = ONE_PROCESS,
) -> PseudoLabels:
    """Algorithm 1: for every class j, the `per_class` nodes predicted as j with the largest probability.

    If probabilities are equal, the first node is selected. A class with fewer predictions leaves slots empty. With
    several processes, each gets the selected nodes that it holds; `num_nodes` counts the nodes of all processes.
    """
    nodes, runs, peers = confidence.shape
    device, num_nodes = confidence.device, num_nodes or nodes
    # One sort of 64-bit keys per model. A key consists of the class (one past the last class if the node is excluded),
    # the bits of the probability (which sort like the number, since it is positive), and the node in descending order,
    # which breaks ties.
    node_bits = max(num_nodes - 1, 1).bit_length()
    class_shift = 30 + node_bits  # the bits of a probability are below 2^30
    if classes.bit_length() + class_shift > 63:
        raise InputError(f"{num_nodes} nodes with {classes} classes exceed a sorting key of 63 bits; use fewer")
    backwards = (num_nodes - 1 - communicator.numbers(nodes, device))[:, None, None]
    keys = torch.where(exclude[..., None], classes, predicted) << class_shift
    keys = keys + (confidence.view(torch.int32).to(torch.int64) << node_bits) + backwards
    keys = keys.flatten(1).T.contiguous()  # models, nodes
    # NumPy sorts 64-bit integers with vector instructions, several times faster than torch on the CPU.
    ordered = torch.from_numpy(np.sort(keys.numpy())) if device.type == "cpu" else keys.sort().values
    starts = torch.arange(classes + 1, device=device) << class_shift  # the smallest key of each class
    bounds = torch.searchsorted(ordered, starts.expand(len(ordered), -1).contiguous())
    first, end, slots = bounds[:, :-1], bounds[:, 1:], per_class
    if not communicator.has_whole_graph:
        lowest = _lowest_chosen(ordered, starts[:-1], class_shift, per_class, communicator)
        first = torch.searchsorted(ordered, lowest)
        slots = max(1, int((end - first).max()))
    place = end[..., None] - 1 - torch.arange(slots, device=device)  # models, classes, slots
    filled = (place >= first[..., None]).flatten(1)
    key = ordered.gather(1, place.clamp(min=0).flatten(1))
    found = communicator.rows_of(num_nodes - 1 - (key & ((1 << node_bits) - 1)))
    return PseudoLabels(
        nodes=torch.where(filled, found, 0).T.reshape(-1, runs, peers).contiguous(),
        filled=filled.T.reshape(-1, runs, peers).contiguous(),
        per_class=slots,
        total_count=None if communicator.has_whole_graph else communicator.sum(filled.sum(1)).view(runs, peers),
    )


DIGIT = 8  # bits of a key fixed per round


def _lowest_chosen(
    keys: Int[Tensor, "models nodes"], starts: Int[Tensor, "classes"], bits: int, count: int, communicator: Communicator
) -> Int[Tensor, "models classes"]:
    """For each model and class the `count`-th highest key over all processes, or the start of the class if it has fewer
    keys. It is found digit by digit, from the highest, by counting the keys with each digit over all processes.
    """
    lowest = starts.expand(len(keys), -1).clone()
    left = torch.full_like(lowest, count)  # keys still to be selected among those with the digits fixed so far
    enough = torch.ones_like(lowest, dtype=torch.bool)
    for shift in range((bits - 1) // DIGIT * DIGIT, -1, -DIGIT):
        digits = torch.arange((1 << min(DIGIT, bits - shift)) + 1, device=keys.device)
        edges = lowest[..., None] + (digits << shift)
        below = torch.searchsorted(keys, edges.flatten(1)).view_as(edges)
        held = communicator.sum(below.diff(dim=-1))  # number of keys with each digit
        from_digit = functional.pad(held.flip(-1).cumsum(-1).flip(-1), (0, 1))  # keys with at least this digit
        enough &= from_digit[..., 0] >= left
        digit = ((from_digit >= left[..., None]).sum(-1) - 1).clamp(min=0)
        left = left - from_digit.gather(-1, digit[..., None] + 1)[..., 0]
        lowest = torch.where(enough, lowest + (digit << shift), lowest)
    return torch.where(enough, lowest, starts)


def confidence(
    logits: Float[Tensor, "nodes classes *models"],
) -> tuple[Float[Tensor, "nodes *models"], Int[Tensor, "nodes *models"]]:
    """The largest probability of each node and its class; ties go to the lower class.

    >>> confidence(torch.tensor([[0.0, 0.0], [-100.0, 0.0]]))
    (tensor([0.5000, 1.0000]), tensor([0, 1]))
    """
    largest, predicted = logits.max(CLASSES)
    return 1 / (logits - largest.unsqueeze(CLASSES)).exp_().sum(CLASSES), predicted


def certainty(log_probabilities: Float[Tensor, "nodes classes *models"]) -> Float[Tensor, "nodes *models"]:
    """w = 1 - H(p) / log k: one for a one-hot prediction, zero for a uniform one.

    >>> certainty(torch.tensor([[0.5, 0.5], [1.0, 1e-30]]).log())
    tensor([0., 1.])
    """
    entropy = -(log_probabilities.exp() * log_probabilities).sum(CLASSES)
    return 1 - entropy / math.log(log_probabilities.shape[CLASSES])


def labelled_mask(task: Task) -> Bool[Tensor, "nodes runs"]:
    """The labelled nodes of each run, which are never pseudo-labelled."""
    mask = torch.zeros(task.num_nodes + 1, task.runs, dtype=torch.bool, device=task.device)
    mask.scatter_(0, task.labelled.index.T % (task.num_nodes + 1), True)  # absent nodes mark an extra row
    return mask[:-1]


def top_nodes_per_class(
    score: Float[Tensor, "nodes classes runs"], per_class: int, exclude: Bool[Tensor, "nodes runs"]
) -> Proposal:
    """The `per_class` nodes with the largest positive scores for each class; ties go to the first node."""
    ranked = score.masked_fill(exclude[:, None], 0).sort(dim=NODES, descending=True, stable=True)
    marks = torch.zeros(score.shape, dtype=torch.bool, device=score.device)
    return marks.scatter_(NODES, ranked.indices[:per_class], ranked.values[:per_class] > 0)


def most_confident_per_class(logits: NodeValues, per_class: int, exclude: Bool[Tensor, "nodes runs"]) -> Proposal:
    """The proposal of the nodes that `most_confident` selects from the logits of the first peer."""
    nodes, classes, runs, _ = logits.shape
    sure, predicted = confidence(logits[..., :1])
    chosen = most_confident(sure, predicted, classes=classes, per_class=min(per_class, nodes), exclude=exclude)
    place = (chosen.nodes * classes + chosen.classes).squeeze(-1)  # slots, runs
    place = torch.where(chosen.filled.squeeze(-1), place, nodes * classes)  # empty slots mark an extra row
    marks = torch.zeros(nodes * classes + 1, runs, dtype=torch.bool, device=logits.device)
    return marks.scatter_(0, place, True)[:-1].unflatten(0, (nodes, classes))


def one_hot_classes(classes_of_nodes: Int[Tensor, "nodes runs"], classes: int) -> Proposal:
    """The proposal of each node for its class."""
    return classes_of_nodes[:, None] == torch.arange(classes, device=classes_of_nodes.device)[:, None]


def unambiguous(marks: Proposal) -> Proposal:
    """The proposal without nodes that are proposed for several classes."""
    return marks & (marks.sum(CLASSES, keepdim=True) == 1)


def joined(labelled: Nodes, marks: Proposal) -> Nodes:
    """The labelled nodes followed by the proposed ones, once for each class that a node is proposed for."""
    run, node, its_class = marks.permute(2, 0, 1).nonzero().T
    counts = torch.bincount(run, minlength=len(labelled.index))
    place = torch.arange(len(run), device=run.device) - (counts.cumsum(0) - counts)[run]
    index = torch.full((len(counts), int(counts.max())), MISSING, device=run.device)
    classes = torch.zeros_like(index)
    index[run, place], classes[run, place] = node, its_class
    index, classes = torch.cat([labelled.index, index], 1), torch.cat([labelled.classes, classes], 1)
    # Move padding to the end of each row, also the padding of runs with fewer labels.
    order = (index == MISSING).to(torch.int8).argsort(stable=True, dim=1)[:, : int((index != MISSING).sum(1).max())]
    return Nodes(index.gather(1, order), classes.gather(1, order))
