"""How long a cell of the paper's tables takes: mtgcn and two other implementations on the same splits.

    python benchmarks/speed.py                                    # cora, citeseer, pubmed at the lowest rate
    python benchmarks/speed.py --dataset cora --peer-runs 4 --json speed.json
    python benchmarks/speed.py --single                           # one fit, and the import
    python benchmarks/speed.py --memory                           # peak memory of a cell, in a new process

A cell is many runs. Ours fits them together and is timed in full. A peer fits one after the other, so a few of
its runs are timed, half of them before ours and half after (what else the machine does then hits both), and the
cell's cost is extrapolated: seconds per run x runs. All programs compute a few epochs before timing starts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import measuring
import numpy as np
import peer_networks
import torch

from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Prediction, observe, run_seed
from mtgcn.training.pseudo_labels import default_per_class

LOWEST_RATE = {"cora": 2, "citeseer": 3, "pubmed": 2}  # labels per class
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}  # of a cell in the paper
A_FEW_EPOCHS = {"warmup_epochs": 3, "teaching_epochs": 3}
IMPORTS = ("import torch", "import mtgcn", "import mtgcn.methods, mtgcn.datasets")
IMPORT_REPETITIONS = 5
SINGLE_REPETITIONS = 3


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        dataset=("cora,citeseer,pubmed", "comma-separated"),
        labels_per_class=(int, "default: the paper's lowest rate of each dataset"),
        runs=(int, "of ours; default: the paper's 30, 30 and 10"),
        peer_runs=(2, "timed runs of each peer; 0: ours alone"),
        peers=(",".join(peer_networks.PEERS), "comma-separated"),
        single=(False, "one fit on Cora, and the time of imports, instead"),
        memory=(False, "peak memory of ours, instead"),
        seed=0,
        device="cpu",
        threads=None,
    )
    device, facts = measuring.start(arguments)
    if arguments.single:
        rows = [*single_fit(arguments.seed, device), *import_seconds()]
        measuring.show_table(rows)
    else:
        cells = [Cell(name, arguments, device) for name in arguments.dataset.split(",")]
        measure = memory_of_cell if arguments.memory else compare
        rows = []
        for cell in cells:
            found = measure(cell)
            measuring.show_table(found)
            rows += found
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


class Cell:
    """One dataset at one label rate, with its splits."""

    def __init__(self, dataset: str, arguments: argparse.Namespace, device: torch.device) -> None:
        self.dataset, self.device, self.seed = dataset, device, arguments.seed
        self.labels_per_class = arguments.labels_per_class or LOWEST_RATE[dataset]
        self.runs = arguments.runs or RUNS[dataset]
        self.peer_runs = min(arguments.peer_runs, self.runs)
        self.peers = arguments.peers.split(",")

    def graph(self) -> Graph:
        return load(self.dataset)

    def splits(self) -> tuple[Split, ...]:
        return draw_splits(self.graph(), self.labels_per_class, self.runs, self.seed)

    def fit_ours(self, **settings: int) -> Prediction:
        task = observe(self.graph(), self.splits(), self.seed, device=self.device)
        return fit_in_chunks(create("mt-gcn", **settings), task)

    def fit_peer(self, peer: str, run: int, **epochs: int) -> np.ndarray:
        graph = self.graph()
        return peer_networks.fit(
            peer,
            graph,
            self.splits()[run],
            run_seed(self.seed, run),
            default_per_class(graph),
            device=self.device,
            **epochs,
        )

    def accuracy(self, probabilities: Sequence[np.ndarray]) -> float:
        """In percent, the mean over the first runs, one belief each."""
        scores = score(Prediction(np.stack(probabilities)), self.graph(), self.splits()[: len(probabilities)])
        return 100 * mean(one.accuracy for one in scores)


def compare(cell: Cell) -> list[dict[str, Any]]:
    """A row for each peer."""
    cell.fit_ours(**A_FEW_EPOCHS)
    for peer in cell.peers:
        cell.fit_peer(peer, 0, **A_FEW_EPOCHS)

    seconds: dict[str, list[float]] = {peer: [] for peer in cell.peers}
    probabilities: dict[str, list[np.ndarray]] = {peer: [] for peer in cell.peers}

    def time_peers(runs: range) -> None:
        for run in runs:
            for peer in cell.peers:
                result, taken = measuring.timed(cell.fit_peer, peer, run, device=cell.device)
                seconds[peer].append(taken)
                probabilities[peer].append(result)

    before = (cell.peer_runs + 1) // 2
    time_peers(range(before))
    ours, our_seconds = measuring.timed(cell.fit_ours, device=cell.device)
    time_peers(range(before, cell.peer_runs))

    common = {
        "dataset": cell.dataset,
        "labels per class": cell.labels_per_class,
        "runs": cell.runs,
        "ours, s per cell": our_seconds,
        "ours, % (all runs)": cell.accuracy(list(ours.probabilities)),
    }
    if not cell.peer_runs:
        return [common]
    return [
        {
            **common,
            "peer": peer,
            "peer, s per run": mean(seconds[peer]),
            "peer, s per cell (extrapolated)": mean(seconds[peer]) * cell.runs,
            "ratio": mean(seconds[peer]) * cell.runs / our_seconds,
            "peer runs timed": cell.peer_runs,
            "peer, % (timed runs)": cell.accuracy(probabilities[peer]),
            "ours, % (the same runs)": cell.accuracy(list(ours.probabilities[: cell.peer_runs])),
        }
        for peer in cell.peers
    ]


def memory_of_cell(cell: Cell) -> list[dict[str, Any]]:
    """Peak memory of fitting the cell in a new process."""
    before, peak, on_device = measuring.in_fresh_process(_memory_while_fitting, cell)
    row = {
        "dataset": cell.dataset,
        "labels per class": cell.labels_per_class,
        "runs": cell.runs,
        "GiB before the fit": before / measuring.GIB,
        "GiB at its peak": peak / measuring.GIB,
    }
    return [row | {"GiB on the GPU at its peak": on_device / measuring.GIB}] if cell.device.type == "cuda" else [row]


def _memory_while_fitting(cell: Cell) -> tuple[int, int, int]:
    cell.splits()  # the dataset is read and cached here
    before = measuring.resident_memory()
    cell.fit_ours()
    on_device = torch.cuda.max_memory_allocated(cell.device) if cell.device.type == "cuda" else 0
    return before, measuring.peak_memory(), on_device


def single_fit(seed: int, device: torch.device) -> list[dict[str, Any]]:
    """One run on Cora, data loading excluded: the first fit of the process, and a later one."""
    graph = load("cora")
    task = observe(graph, draw_splits(graph, LOWEST_RATE["cora"], 1, seed), seed, device=device)
    method = create("mt-gcn")
    seconds = [measuring.timed(fit_in_chunks, method, task, device=device)[1] for _ in range(1 + SINGLE_REPETITIONS)]
    return [
        {"what": "one fit on Cora, the first of the process", "seconds": seconds[0]},
        {"what": f"one fit on Cora, median of {SINGLE_REPETITIONS} more", "seconds": median(seconds[1:])},
    ]


def import_seconds() -> list[dict[str, Any]]:
    """Seconds of a new interpreter that imports, less those of one that does nothing; medians, taken in turns."""
    statements = ("pass", *IMPORTS)
    seconds: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(IMPORT_REPETITIONS):
        for statement in statements:
            seconds[statement].append(measuring.timed(_run_python, statement)[1])
    nothing = median(seconds["pass"])
    return [{"what": statement, "seconds": median(seconds[statement]) - nothing} for statement in IMPORTS]


def _run_python(statement: str) -> None:
    source = Path(__file__).resolve().parents[1] / "src"
    path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, "-c", statement], check=True, env={**os.environ, "PYTHONPATH": path})


if __name__ == "__main__":
    main()
