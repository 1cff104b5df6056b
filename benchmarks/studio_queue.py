"""Ten labels from none: following the studio's queue, against drawing nodes at random.

    python benchmarks/studio_queue.py                                            # digits and Cora, mt-plus, 30 seeds
    python benchmarks/studio_queue.py --datasets digits --runs 5 --method ppr    # a quick look
    python benchmarks/studio_queue.py --json FILE

A person who is simulated answers with the true class. Nothing is labelled at the start and nothing is fitted before all
labels are there; the classes of a fit are those that were met, as in the studio. Each run draws one half of
the nodes as test nodes, which are never labelled. Both ways have the same half, seed and settings.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import measuring
import numpy as np

from mtgcn import MutualTeachingClassifier
from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.statistics import paired_difference, summarise
from mtgcn.graph import Graph
from mtgcn.methods import method_class
from mtgcn.settings import parse_settings
from mtgcn.studio.storage import LoadedGraph
from mtgcn.uncertainty.suggestions import first_suggestions
from mtgcn.uncertainty.warnings import FitWarning


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets="digits,cora",
        labels=10,
        runs=30,
        seed=(4000, "of the first run; each later one has one more"),
        method="mt-plus",
        set=[],
        device="cpu",
    )
    seed = checked_seed(arguments.seed, final=False)
    _, facts = measuring.start(arguments)
    runs: dict[str, list[dict[str, Any]]] = {}
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        runs[dataset] = []
        for run in range(arguments.runs):
            runs[dataset].append(simulated(graph, arguments, seed + run))
            print(f"{dataset}: run {run + 1} of {arguments.runs}: {runs[dataset][-1]}", file=sys.stderr, flush=True)
    measuring.show_table([compared(dataset, done) for dataset, done in runs.items()])
    measuring.write_json(arguments.json, {"command": " ".join(sys.argv), "machine": facts, "runs": runs})


def simulated(graph: Graph, arguments: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Both ways of choosing on one half of the nodes, scored on the other."""
    random = np.random.default_rng(seed)
    order = random.permutation(graph.known)
    askable, test = order[: len(order) // 2], order[len(order) // 2 :]
    drawn = random.choice(askable, arguments.labels, replace=False)
    row: dict[str, Any] = {"seed": seed}
    for way, chosen in (("queue", queued(graph, askable, arguments.labels)), ("random", drawn)):
        row[way] = accuracy(graph, chosen, test, arguments, seed)
        row[f"{way}, classes met"] = len(np.unique(graph.labels[chosen]))
    return row


def queued(graph: Graph, askable: np.ndarray, count: int) -> np.ndarray:
    """What the queue asks for, one node after the other, each labelled before the next is asked for."""
    chosen: list[int] = []
    free = np.zeros(graph.num_nodes, dtype=bool)
    free[askable] = True
    for _ in range(count):
        [first] = first_suggestions(graph, np.array(chosen, dtype=np.int64), free, 1)
        chosen.append(first.index)
        free[first.index] = False
    return np.array(chosen)


def accuracy(graph: Graph, chosen: np.ndarray, test: np.ndarray, arguments: argparse.Namespace, seed: int) -> float:
    """Of a fit on the labels of the chosen nodes, with the classes that they have."""
    loaded = LoadedGraph(graph)
    labels = {loaded.ids[node]: graph.class_names[graph.labels[node]] for node in chosen}
    model = MutualTeachingClassifier(
        arguments.method,
        settings=parse_settings(method_class(arguments.method), arguments.set) or None,
        device=arguments.device,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # ten labels are few
        model.fit_graph(loaded.labelled(labels))
    truth = np.array(graph.class_names)[graph.labels[test]]
    return float((model.transduction_[test] == truth).mean())


def compared(dataset: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The means, and the paired difference with its interval."""
    ways = {way: [run[way] for run in runs] for way in ("queue", "random")}
    gain = paired_difference(ways["queue"], ways["random"])
    low, high = gain.ci95
    return {
        "dataset": dataset,
        "runs": len(runs),
        "queue, %": 100 * summarise(ways["queue"]).mean,
        "random, %": 100 * summarise(ways["random"]).mean,
        "difference, 95 %": f"{100 * gain.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})",
        "classes met, queue": float(np.mean([run["queue, classes met"] for run in runs])),
        "classes met, random": float(np.mean([run["random, classes met"] for run in runs])),
    }


if __name__ == "__main__":
    main()
