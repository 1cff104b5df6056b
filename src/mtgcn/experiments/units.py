"""The unit of work of a sweep: one method on one cell, all runs together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from mtgcn import datasets, environment
from mtgcn.experiments.authors_reading import authors_splits, with_unknown_as_first_class
from mtgcn.experiments.protocol import Protocol
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.run import run_cell
from mtgcn.experiments.scoring import score, score_better_peer
from mtgcn.experiments.split_choice import OVER_ALL, RANDOM, labels_title
from mtgcn.graph import Graph
from mtgcn.memory import CPU_BUDGET
from mtgcn.methods import Method
from mtgcn.splits import Split, draw_over_all, draw_splits

# A stack cut elsewhere is rounded otherwise, so the cut may not follow what happens to be free on a GPU.
CUDA_BUDGET = 4 * 2**30
# The numbers may change with any of these. With Python's own version they do not.
DECISIVE_VERSIONS = ("mtgcn", "torch", "numpy", "scipy")


@dataclass(frozen=True)
class Unit:
    """Everything that decides the numbers of its rows, and nothing else."""

    protocol: Protocol
    dataset: str
    labels_per_class: int
    split: str
    validation: int  # nodes set aside and scored for nobody
    method: str
    settings: Method
    runs: int
    averages: int  # into how many averages the runs are cut; 1 but for the authors' way of reporting
    seed: int
    device: str  # "cpu", or "cuda" with the model of the GPU
    threads: int

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Two units with equal identities have equal rows, in all but seconds."""
        parts = {**asdict(self), "versions": decisive_versions()}
        return json.loads(json.dumps(parts))  # as it reads after being stored: no tuples

    @cached_property
    def id(self) -> str:
        """The identity in short."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        return f"{self.method} on {self.dataset}, {labels_title(self.labels_per_class, self.split)}"


@dataclass(frozen=True, eq=False)
class Data:
    """What a unit reads, so that it may be read on one machine and executed on another."""

    graph: Graph
    public_split: Split | None  # None: the unit draws its splits


def data_of(unit: Unit) -> Data:
    """What a unit reads, as found on this machine or fetched."""
    fixed = unit.protocol == "ours" and unit.split not in (OVER_ALL, RANDOM)
    return Data(datasets.load(unit.dataset), datasets.public_split(unit.dataset) if fixed else None)


def decisive_versions() -> dict[str, str]:
    """The versions, here, of what the numbers may change with."""
    versions = environment.versions()
    return {name: versions[name] for name in DECISIVE_VERSIONS}


def execute(unit: Unit, data: Data | None = None) -> list[StoredRow]:
    """Fit and score a unit, in whichever process this is; without `data`, it reads them itself."""
    device = torch.device(unit.device.split()[0])
    with limited_threads(unit.threads):
        graph, splits = _graph_and_splits(unit, data or data_of(unit))
        rows = run_cell(
            graph,
            splits,
            unit.settings,
            name=unit.method,
            seed=unit.seed,
            split_source=unit.split,
            device=device,
            memory_budget=CUDA_BUDGET if device.type == "cuda" else CPU_BUDGET,
            scorer=score_better_peer if unit.protocol == "paper" else score,
        )
    return [
        StoredRow(
            **vars(row),
            unit=unit.id,
            protocol=unit.protocol,
            validation=unit.validation,
            runs=unit.runs,
            averages=unit.averages,
        )
        for row in rows
    ]


def _graph_and_splits(unit: Unit, data: Data) -> tuple[Graph, tuple[Split, ...]]:
    graph = data.graph
    if data.public_split is not None:
        return graph, (data.public_split,) * unit.runs
    if unit.protocol == "paper":
        graph = with_unknown_as_first_class(graph)
        return graph, authors_splits(graph, unit.labels_per_class, unit.runs, unit.seed)
    if unit.split == OVER_ALL:
        return graph, draw_over_all(graph, unit.labels_per_class, unit.runs, unit.seed, unit.validation)
    return graph, draw_splits(graph, unit.labels_per_class, unit.runs, unit.seed, unit.validation)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """While this lasts, torch and the BLAS libraries of numpy and scipy use so many threads: sums are cut by
    threads, so another number of them rounds otherwise."""
    before = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
