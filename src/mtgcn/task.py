"""`Task`: all a method may see. `Prediction`: all it answers. Both hold every run of a cell at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.shapes import Float, Int
from mtgcn.splits import Split

MISSING = -1  # fills the rows of runs that have fewer nodes than the longest


@dataclass(frozen=True, eq=False)
class Nodes:
    """Some nodes of each run and their classes; rows of shorter runs end in `MISSING`."""

    index: Int[Tensor, "runs nodes"]
    classes: Int[Tensor, "runs nodes"]

    @property
    def present(self) -> Tensor:
        """Where a row names a node: bool, runs x nodes."""
        return self.index != MISSING

    def __getitem__(self, runs: slice) -> Nodes:
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
    """A graph without labels and, for each run, the few labels that run is given.

    `validation` is filled only for methods that ask for it; its nodes are never scored.
    """

    graph: Graph  # holds no label at all
    labelled: Nodes
    seeds: tuple[int, ...]  # one per run; every random number of a run comes from its seed
    validation: Nodes | None = None
    device: torch.device = field(default=torch.device("cpu"))
    seed: int = 0  # of the whole experiment: what its runs share is drawn from it

    def __post_init__(self) -> None:
        if (self.graph.labels != UNLABELED).any():
            raise InputError("a task's graph must hold no labels; pass graph.without_labels")

    @staticmethod
    def without_labels(graph: Graph, runs: int = 1, device: torch.device | str = "cpu") -> Task:
        """A task that gives its runs nothing to learn from: for networks that are trained already."""
        device = torch.device(device)
        nobody = torch.zeros(runs, 0, dtype=torch.int64, device=device)
        return Task(graph.without_labels, Nodes(nobody, nobody), seeds=(0,) * runs, device=device)

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes

    def chunks(self, runs_at_once: int) -> Iterator[Task]:
        """The same task, a few runs at a time."""
        for start in range(0, self.runs, runs_at_once):
            some = slice(start, start + runs_at_once)
            yield replace(
                self,
                labelled=self.labelled[some],
                seeds=self.seeds[some],
                validation=self.validation and self.validation[some],
            )


def observe(
    graph: Graph,
    splits: Sequence[Split],
    seed: int,
    *,
    with_validation: bool = False,
    device: torch.device | str = "cpu",
) -> Task:
    """What a method may see of these splits: the training labels and, if it asks, the validation labels."""
    device = torch.device(device)
    validation = None
    if with_validation:
        if not all(len(split.validation) for split in splits):
            raise InputError("this method chooses its epoch on validation nodes and a split has none; draw some")
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
class Prediction:
    """What a method believes of every node, and what it wants to tell about how it got there."""

    probabilities: Float[np.ndarray, "runs nodes classes"]
    history: Mapping[str, Float[np.ndarray, "epochs runs peers"]] = field(default_factory=dict)
    peers: Float[np.ndarray, "runs peers nodes classes"] | None = None  # each peer's own
    pseudo_labelled_at: Int[np.ndarray, "runs nodes"] | None = None  # the epoch a node first taught; 0 never
    parameters: Mapping[str, np.ndarray] | None = None  # what was trained, runs first; `Method.apply` reads them
    peer_report: PeerReport | None = None  # where peers have votes of different weight
    # Runs with the same number share random parts, such as an embedding, and so err alike; None: none do.
    groups: Int[np.ndarray, "runs"] | None = None

    @staticmethod
    def concatenate(parts: Sequence[Prediction]) -> Prediction:
        """One prediction of the runs of several, in order."""
        if len(parts) == 1:
            return parts[0]

        def joined(name: str) -> np.ndarray | None:
            arrays = [getattr(part, name) for part in parts]
            return None if arrays[0] is None else np.concatenate(arrays)

        trained = [part.parameters for part in parts if part.parameters is not None]
        reports = [part.peer_report for part in parts if part.peer_report is not None]

        return Prediction(
            probabilities=np.concatenate([part.probabilities for part in parts]),
            history={key: np.concatenate([part.history[key] for part in parts], axis=1) for key in parts[0].history},
            peers=joined("peers"),
            pseudo_labelled_at=joined("pseudo_labelled_at"),
            parameters={name: np.concatenate([one[name] for one in trained]) for name in trained[0]}
            if trained
            else None,
            peer_report=PeerReport.concatenate(reports) if reports else None,
            groups=joined("groups"),
        )


@dataclass(frozen=True, eq=False)
class PeerReport:
    """What each peer contributed to an answer, for every run."""

    names: tuple[str, ...]  # in words that may follow "the": "features", "near neighbourhood"
    weights: Float[np.ndarray, "runs peers"]  # of its vote; they sum to 1
    held_out_accuracy: Float[np.ndarray, "runs peers"]  # on given labels that were kept from it; NaN: nobody knows
    agreement: Float[np.ndarray, "runs peers"]  # the share of all nodes of which it says what the answer says
    teaching: Float[np.ndarray, "runs"]  # how much the peers taught each other, 0 to 1

    @staticmethod
    def concatenate(parts: Sequence[PeerReport]) -> PeerReport:
        """One report of the runs of several, in order."""
        names = ("weights", "held_out_accuracy", "agreement", "teaching")
        return PeerReport(parts[0].names, *(np.concatenate([getattr(part, name) for part in parts]) for name in names))
