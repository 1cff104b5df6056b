"""`Task`, the input of a method, and `Prediction`, its result. Both contain all runs of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.communicator import Communicator
from mtgcn.environment import Device, usual_torch
from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.shapes import Bool, Float, Int
from mtgcn.splits import Split

MISSING = -1  # padding of runs with fewer nodes than the longest
PeerProbabilities = Float[np.ndarray, "runs peers nodes classes"]


@dataclass(frozen=True, eq=False)
class Nodes:
    """Some nodes of each run and their classes; rows of shorter runs are padded with `MISSING`."""

    index: Int[Tensor, "runs nodes"]
    classes: Int[Tensor, "runs nodes"]

    @property
    def present(self) -> Bool[Tensor, "runs nodes"]:
        """A mask of the entries that are not padding."""
        return self.index != MISSING

    def __getitem__(self, runs: slice | Tensor) -> Nodes:
        return Nodes(self.index[runs], self.classes[runs])

    def to(self, device: torch.device) -> Nodes:
        return Nodes(self.index.to(device), self.classes.to(device))

    @staticmethod
    def of(rows: Sequence[np.ndarray], labels: np.ndarray) -> Nodes:
        longest = max(map(len, rows))
        index = np.full((len(rows), longest), MISSING, dtype=np.int64)
        for run, row in enumerate(rows):
            index[run, : len(row)] = row
        classes = np.where(index == MISSING, 0, labels[index])
        return Nodes(torch.from_numpy(index), torch.from_numpy(classes))


@dataclass(frozen=True, eq=False)
class Task:
    """A graph without labels and the labelled nodes of each run.

    `validation` is filled only for methods that use it; its nodes are never scored.
    """

    graph: Graph  # the graph without any labels
    labelled: Nodes
    seeds: tuple[int, ...]  # one per run; every random number of a run comes from its seed
    validation: Nodes | None = None
    device: torch.device = field(default=torch.device("cpu"))
    seed: int = 0  # seed of the experiment, for randomness shared by its runs

    def __post_init__(self) -> None:
        if (self.graph.labels != UNLABELED).any():
            raise InputError("the graph of a task must not have labels; pass graph.without_labels")

    @staticmethod
    def without_labels(graph: Graph, runs: int = 1, device: Device = "cpu") -> Task:
        """A task without labelled nodes, for networks that are already trained."""
        device = torch.device(device)
        none = torch.zeros(runs, 0, dtype=torch.int64, device=device)
        return Task(graph.without_labels, Nodes(none, none), seeds=(0,) * runs, device=device)

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def num_nodes(self) -> int:
        """The number of nodes of this process."""
        return len(self.graph.labels)

    @property
    def communicator(self) -> Communicator:
        return self.graph.communicator

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes

    def select(self, runs: Int[np.ndarray, "runs"]) -> Task:
        """The task with these runs only."""
        chosen = torch.from_numpy(runs).to(self.device)
        return replace(
            self,
            labelled=self.labelled[chosen],
            seeds=tuple(self.seeds[run] for run in runs),
            validation=self.validation and self.validation[chosen],
        )

    def chunks(self, runs_at_once: int) -> Iterator[Task]:
        """The same task, a few runs at a time."""
        for start in range(0, self.runs, runs_at_once):
            yield self.select(np.arange(start, min(start + runs_at_once, self.runs)))


@usual_torch()
def observe(
    graph: Graph, splits: Sequence[Split], seed: int, *, with_validation: bool = False, device: Device = "cpu"
) -> Task:
    """The task of these splits: the training labels and, if the method uses them, the validation labels."""
    device = torch.device(device)
    validation = None
    if with_validation:
        if not all(len(split.validation) for split in splits):
            raise InputError("this method needs validation nodes, which a split does not have; draw some")
        validation = Nodes.of([split.validation for split in splits], graph.labels).to(device)
    return Task(
        graph=graph.without_labels,
        labelled=Nodes.of([split.train for split in splits], graph.labels).to(device),
        seeds=tuple(run_seed(seed, run) for run in range(len(splits))),
        validation=validation,
        device=device,
        seed=seed,
    )


def run_seed(seed: int, run: int) -> int:
    """The seed of one run: a 63-bit number that depends on nothing but `seed` and `run`."""
    return int(np.random.SeedSequence([seed, run]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@dataclass(frozen=True, eq=False)
class PeerReport:
    """The contribution of each peer to a prediction, for every run."""

    names: tuple[str, ...]  # names for use after "the", such as "near neighbourhood"
    weights: Float[np.ndarray, "runs peers"]  # weights in the prediction, which sum to 1
    held_out_accuracy: Float[np.ndarray, "runs peers"]  # cross-validated on the labels; NaN: unknown
    agreement: Float[np.ndarray, "runs peers"]  # share of nodes for which the peer agrees with the prediction
    teaching: Float[np.ndarray, "runs"]  # teaching strength, 0 to 1


@dataclass(frozen=True, eq=False)
class Prediction:
    """Class probabilities of every node, and further results of the fit."""

    probabilities: Float[np.ndarray, "runs nodes classes"]
    history: Mapping[str, Float[np.ndarray, "epochs runs peers"]] = field(default_factory=dict)
    peers: PeerProbabilities | None = None  # probabilities of each peer
    pseudo_labelled_at: Int[np.ndarray, "runs nodes"] | None = None  # first epoch as a pseudo label; 0: never
    parameters: Mapping[str, np.ndarray] | None = None  # trained values for `Method.apply`, runs first
    peer_report: PeerReport | None = None  # only if peers have different weights
    # Accuracy on held-out labels, their number, and the number of folds; NaN accuracy if no label is held out.
    held_out: Float[np.ndarray, "runs 3"] | None = None
    # Runs with the same number share random parts, such as an embedding, so their errors are correlated.
    groups: Int[np.ndarray, "runs"] | None = None

    @staticmethod
    def concatenate(parts: Sequence[Prediction]) -> Prediction:
        """The runs of several predictions, in order."""
        return parts[0] if len(parts) == 1 else _combined(parts, np.concatenate)

    def select(self, runs: Int[np.ndarray, "runs"]) -> Prediction:
        """These runs, in this order."""
        return _combined([self], lambda arrays, axis: np.take(arrays[0], runs, axis))


def _combined(parts: Sequence[Prediction], combine: Callable[[list[np.ndarray], int], np.ndarray]) -> Prediction:
    """The prediction whose arrays are `combine(arrays of all parts, axis of the runs)`."""

    def one(name: str) -> Any:
        found = [value for part in parts if (value := getattr(part, name)) is not None]
        if len(found) < len(parts):  # some parts do not have it
            return None
        if isinstance(found[0], PeerReport):
            keys = ("weights", "held_out_accuracy", "agreement", "teaching")
            return PeerReport(found[0].names, *(combine([getattr(one, key) for one in found], 0) for key in keys))
        if isinstance(found[0], Mapping):
            axis = 1 if name == "history" else 0
            return {key: combine([one[key] for one in found], axis) for key in found[0]}
        return combine(found, 0)

    return Prediction(**{part.name: one(part.name) for part in fields(Prediction)})
