"""Which predictions are sure enough to teach with: Algorithm 1 of the paper, and how certain they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.nn.axes import CLASSES, NODES
from mtgcn.shapes import Bool, Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Task

# t as the paper prints it. Its rule gives 76 on Cora; 72 comes of counting edges listed twice.
PAPER_PER_CLASS = {"cora": 72, "citeseer": 216, "pubmed": 975}

# The rule 3n / (k d^2) vanishes on dense graphs. The smallest share of n / k the paper itself uses is
# PubMed's, 975 of 6572, so no graph gets less than that.
LEAST_SHARE = 0.15


def default_per_class(graph: Graph) -> int:
    """t, the number of pseudo labels per class: the paper's where it names one, else floor(3n / (k d^2)), d the
    mean degree, but at least the smallest share of a class the paper uses."""
    if graph.name in PAPER_PER_CLASS:
        return PAPER_PER_CLASS[graph.name]
    nodes, classes = graph.num_nodes, graph.num_classes
    rule = 3 * nodes / (classes * max(graph.mean_degree, 1) ** 2)
    return max(math.floor(rule), math.ceil(LEAST_SHARE * nodes / classes))


@dataclass(frozen=True)
class Chosen:
    """The pseudo labels of every model. Slots `j * per_class` to `(j + 1) * per_class` belong to class j, the
    surest first; a slot that no prediction filled is not `filled` and names node 0."""

    nodes: Int[Tensor, "slots runs peers"]
    filled: Bool[Tensor, "slots runs peers"]
    per_class: int

    @property
    def count(self) -> Int[Tensor, "runs peers"]:
        return self.filled.sum(0)

    @property
    def classes(self) -> Int[Tensor, "slots 1 1"]:
        """The class each slot stands for."""
        return (torch.arange(len(self.nodes), device=self.nodes.device) // self.per_class)[:, None, None]

    def rows(self, values: Float[Tensor, "nodes classes runs peers"]) -> Float[Tensor, "slots classes runs peers"]:
        """What each model's `values` are at the nodes chosen for it."""
        width = values.shape[CLASSES]
        return values.gather(NODES, self.nodes[:, None].expand(-1, width, -1, -1))

    def own_class(self, rows: Float[Tensor, "slots classes runs peers"]) -> Float[Tensor, "slots runs peers"]:
        """Of each slot's row, the value of the class the slot stands for."""
        by_class = rows.unflatten(0, (-1, self.per_class))  # classes, per_class, classes, runs, peers
        return by_class.diagonal(dim1=0, dim2=2).movedim(-1, 0).flatten(0, 1)

    def chosen_by_any(self, num_nodes: int) -> Bool[Tensor, "nodes runs"]:
        """Which nodes at least one peer of a run chose."""
        rows = torch.where(self.filled, self.nodes, num_nodes)  # one row more than nodes, for what nobody filled
        marks = torch.zeros(num_nodes + 1, *rows.shape[1:], dtype=torch.bool, device=rows.device)
        return marks.scatter_(NODES, rows, True)[:-1].any(-1)

    def from_next_peer(self) -> Chosen:
        """Each model gets what its neighbour chose."""
        return Chosen(self.nodes.roll(-1, -1), self.filled.roll(-1, -1), self.per_class)


def most_confident(
    confidence: Float[Tensor, "nodes runs peers"],
    predicted: Int[Tensor, "nodes runs peers"],
    *,
    classes: int,
    per_class: int,
    exclude: Bool[Tensor, "nodes runs"],
) -> Chosen:
    """Algorithm 1: of the nodes predicted as class j, the `per_class` with the largest probability, for every j.

    Of equal probabilities the node that comes first wins. A class that fewer than `per_class` nodes are
    predicted as, or none, leaves slots unfilled.
    """
    nodes, runs, peers = confidence.shape
    device = confidence.device
    layout = KeyLayout(nodes, classes)
    keys = layout.keys(confidence, predicted, exclude, torch.arange(nodes, device=device))
    ordered = sorted_keys(keys)
    bounds = torch.searchsorted(ordered, layout.class_starts(device).expand(len(ordered), -1).contiguous())
    return chosen_above(ordered, bounds[:, :-1], bounds[:, 1:], layout.numbers_in, per_class, (runs, peers))


@dataclass(frozen=True)
class KeyLayout:
    """One sort per model settles class, confidence and ties together: the key is the class, then the bits of the
    probability (which order like the number, being positive), then the node, first nodes highest."""

    nodes: int
    classes: int

    def __post_init__(self) -> None:
        if self.classes.bit_length() + self.class_shift > 63:
            raise InputError(
                f"{self.nodes} nodes with {self.classes} classes do not fit the 63 bits of a sorting key; use fewer"
            )

    @property
    def node_bits(self) -> int:
        return max(self.nodes - 1, 1).bit_length()

    @property
    def class_shift(self) -> int:
        return 30 + self.node_bits  # a probability of at most 1 has its bits below 2^30

    def keys(
        self,
        confidence: Float[Tensor, "here runs peers"],
        predicted: Int[Tensor, "here runs peers"],
        exclude: Bool[Tensor, "here runs"],
        numbers: Int[Tensor, "here"],
    ) -> Int[Tensor, "models here"]:
        """The keys of nodes with these numbers; those excluded come after the last class."""
        of_class = torch.where(exclude[..., None], self.classes, predicted) << self.class_shift
        backwards = (self.nodes - 1 - numbers)[:, None, None]
        keys = of_class + (confidence.view(torch.int32).to(torch.int64) << self.node_bits) + backwards
        return keys.flatten(1).T.contiguous()

    def class_starts(self, device: torch.device) -> Int[Tensor, "classes_and_one"]:
        """Where the keys of each class begin, and those of the last one end."""
        return torch.arange(self.classes + 1, device=device) << self.class_shift

    def numbers_in(self, keys: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """The numbers of the nodes that the keys are of."""
        return self.nodes - 1 - (keys & ((1 << self.node_bits) - 1))


def chosen_above(
    ordered: Int[Tensor, "models here"],
    first: Int[Tensor, "models classes"],
    end: Int[Tensor, "models classes"],
    nodes_of: Callable[[Tensor], Tensor],
    per_class: int,
    shape: tuple[int, int],
) -> Chosen:
    """For every model and class, the last `per_class` of the sorted keys from `first` up to `end`; `nodes_of` keys are
    the nodes to choose, `shape` runs and peers."""
    place = end[..., None] - 1 - torch.arange(per_class, device=ordered.device)  # models, classes, per_class
    filled = (place >= first[..., None]).flatten(1)
    found = nodes_of(ordered.gather(1, place.clamp(min=0).flatten(1)))
    chosen = torch.where(filled, found, 0)
    return Chosen(
        nodes=chosen.T.reshape(-1, *shape).contiguous(),
        filled=filled.T.reshape(-1, *shape).contiguous(),
        per_class=per_class,
    )


def sorted_keys(keys: Int[Tensor, "models nodes"]) -> Int[Tensor, "models nodes"]:
    """Each model's keys from the smallest on."""
    # NumPy sorts 64-bit integers with vector instructions, several times faster than torch on the CPU.
    return torch.from_numpy(np.sort(keys.numpy())) if keys.device.type == "cpu" else keys.sort().values


def confidence(
    logits: Float[Tensor, "nodes classes *models"],
) -> tuple[Float[Tensor, "nodes *models"], Int[Tensor, "nodes *models"]]:
    """The largest probability of each node and its class; of equal ones, the lower class.

    >>> confidence(torch.tensor([[0.0, 0.0], [-100.0, 0.0]]))
    (tensor([0.5000, 1.0000]), tensor([0, 1]))
    """
    largest, predicted = logits.max(CLASSES)
    return 1 / (logits - largest.unsqueeze(CLASSES)).exp_().sum(CLASSES), predicted


def certainty(log_probabilities: Float[Tensor, "nodes classes *models"]) -> Float[Tensor, "nodes *models"]:
    """w = 1 - H(p) / log k of log-probabilities: one for a prediction without doubt, zero for one that knows nothing.

    >>> certainty(torch.tensor([[0.5, 0.5], [1.0, 1e-30]]).log())
    tensor([0., 1.])
    """
    entropy = -(log_probabilities.exp() * log_probabilities).sum(CLASSES)
    return 1 - entropy / math.log(log_probabilities.shape[CLASSES])


def labelled_mask(task: Task) -> Bool[Tensor, "nodes runs"]:
    """Which nodes a run was given the label of; they are never pseudo-labelled."""
    mask = torch.zeros(task.num_nodes + 1, task.runs, dtype=torch.bool, device=task.device)
    mask.scatter_(0, task.labelled.index.T % (task.num_nodes + 1), True)  # MISSING falls into the extra row
    return mask[:-1]
