"""A task as one rank sees it: the sizes of the whole graph, and the labels of this rank's nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch

from mtgcn.communicator import Communicator
from mtgcn.distributed.communicator import RankCommunicator
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.shapes import Int
from mtgcn.task import Nodes, Task, run_seed


@dataclass(frozen=True)
class WholeGraph:
    """The sizes of the graph that all ranks hold together."""

    name: str
    num_nodes: int
    num_features: int
    num_classes: int
    mean_degree: float


@dataclass(frozen=True, eq=False)
class LocalTask:
    """What networks, losses and records ask of a `Task`, answered for this rank's nodes."""

    graph: WholeGraph
    labelled: Nodes  # those of this rank
    num_nodes: int  # of this rank
    num_labels: int  # of all ranks
    seeds: tuple[int, ...]
    device: torch.device
    communicator: Communicator
    seed: int = 0  # of the fit: what does not belong to its run is drawn from it

    @property
    def runs(self) -> int:
        return len(self.seeds)

    @property
    def num_classes(self) -> int:
        return self.graph.num_classes

    @property
    def as_task(self) -> Task:
        """For what is declared to take a task, and asks it for no more than this one has."""
        return cast(Task, self)


def local_task(local: LocalGraph, labels: Int[np.ndarray, "here"], classes: int, seed: int) -> LocalTask:
    """The task of this rank, whose nodes have these labels, -1 where there is none."""
    index = np.flatnonzero(labels >= 0)
    index = index[np.argsort(local.numbers.cpu().numpy()[index])]
    given = Nodes(torch.from_numpy(index)[None], torch.from_numpy(labels[index].astype(np.int64))[None])
    manifest = local.manifest
    return LocalTask(
        WholeGraph(manifest.name, manifest.num_nodes, manifest.num_features, classes, manifest.mean_degree),
        given.to(local.ranks.device),
        local.num_nodes,
        int(local.ranks.counts(len(index)).sum()),
        (run_seed(seed, 0),),
        local.ranks.device,
        RankCommunicator(local),
        seed,
    )
