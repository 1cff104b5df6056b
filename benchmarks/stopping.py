"""Labels saved by stopping when ten more labels are expected to bring less than a point, and the accuracy lost.

    python benchmarks/stopping.py --runs 2 --json docs/measurements/stopping.json
    python benchmarks/stopping.py --datasets cora,wine --runs 1 --seed 77

Labels of a split with 20 per class are given ten at a time, in random order after two of each class. Both accuracies
are on the nodes outside of the split. Seed 77 served to develop the rule.
"""

from __future__ import annotations

import sys

import measuring
import numpy as np
from doubt import GRAPHS, TABLES, graph_named

from mtgcn.experiments.protocol import checked_seed
from mtgcn.graph import Graph
from mtgcn.methods import Method, method_from_text
from mtgcn.splits import draw_splits
from mtgcn.uncertainty.held_out import MORE_LABELS, expected_accuracy, fits_without, why_not_measurable

FIRST_PER_CLASS = 2


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets=(f"{GRAPHS},{TABLES}", "built-in datasets and tables of scikit-learn, comma-separated"),
        labels=(20, "per class, at most"),
        runs=2,
        seed=78,
        method="mt-plus",
        device="cpu",
    )
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments)
    method = method_from_text(arguments.method, ())
    found: dict[str, list[dict[str, float]]] = {}
    for name in arguments.datasets.split(","):
        graph, found[name] = graph_named(name), []
        for run, split in enumerate(draw_splits(graph, arguments.labels, arguments.runs, seed)):
            order = label_order(graph, split.train, [seed, run])
            stop = stopping_point(graph, order, method, seed, device)
            test = np.setdiff1d(graph.known, order)
            early, full = (accuracy(graph, order[:count], test, method, seed, device) for count in (stop, len(order)))
            saved = 100 * (1 - stop / len(order))
            values = (len(order), stop, saved, early, full, full - early)
            keys = ("labels", "stop", "saved", "accuracy at stop", "accuracy at end", "lost")
            found[name].append(dict(zip(keys, map(float, values), strict=True)))
        print(f"{name} done", file=sys.stderr, flush=True)
    measuring.write_json(arguments.json, {"machine": facts, "rows": measuring.means_by_dataset(found)})


def label_order(graph: Graph, labelled: np.ndarray, seed: list[int]) -> np.ndarray:
    """The labelled nodes at random, after the first of each class."""
    shuffled = np.random.default_rng(seed).permutation(labelled)
    classes = graph.labels[shuffled]
    rank = np.array([(classes[:place] == classes[place]).sum() for place in range(len(classes))])
    return shuffled[np.argsort(rank >= FIRST_PER_CLASS, kind="stable")]


def stopping_point(graph: Graph, order: np.ndarray, method: Method, seed: int, device: object) -> int:
    """Number of labels at which there are enough, or all."""
    for count in range(FIRST_PER_CLASS * graph.num_classes, len(order), MORE_LABELS):
        some = measuring.labelled_graph(graph, order[:count])
        if why_not_measurable(some, method) is None:
            gain = expected_accuracy(some, method, seed=seed, device=device).gain
            if gain is not None and gain.enough:
                return count
    return len(order)


def accuracy(graph: Graph, labelled: np.ndarray, test: np.ndarray, method: Method, seed: int, device: object) -> float:
    fit = fits_without(measuring.labelled_graph(graph, labelled), method, [labelled[:0]], seed, device).probabilities[0]
    return 100 * float((fit[test].argmax(axis=1) == graph.labels[test]).mean())


if __name__ == "__main__":
    main()
