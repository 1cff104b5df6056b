"""`lp` beside other programs that spread labels along edges: accuracy and time, on the same splits.

    python benchmarks/label_propagation.py                          # cora, citeseer, pubmed at the lowest rate
    python benchmarks/label_propagation.py --dataset dblp --labels-per-class 20 --json label_propagation.json
    python benchmarks/label_propagation.py --large                  # one fit of 240,000 nodes and 6.2 million edges

The peers are scikit-learn's `LabelSpreading`, given the graph as its kernel, and the classifiers of scikit-network
(`pip install scikit-network`), all with their default settings; the former also with the α = 0.99 of its paper.
Each fits one run after the other, ours all runs together; the seconds are those of the whole cell. Before any clock
starts, everybody fits one run; ours then has the factorisation of the graph in its cache, so its row is given a
second time with the factorisation computed again. What a program answers for nodes that no label reaches is its own
affair, and counts.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

import measuring
import numpy as np
import scipy.sparse as sp
from sklearn.semi_supervised import LabelSpreading
from sknetwork.classification import DiffusionClassifier, PageRankClassifier, Propagation
from synthetic import random_graph

from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.graph import UNLABELED, Graph
from mtgcn.methods import create
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Prediction, observe

LOWEST_RATE = {"cora": 2, "citeseer": 3, "pubmed": 2}  # labels per class
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}  # of a cell in the paper
OTHERWISE = {"labels_per_class": 3, "runs": 10}
LARGE = {"nodes": 240_000, "edges": 6_200_000, "features": 1, "classes": 47}  # 235 labels, 5 of each class


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        dataset=(",".join(RUNS), "comma-separated"),
        labels_per_class=(int, "default: the paper's lowest rate of each dataset, else 3"),
        runs=(int, "default: the paper's 30, 30 and 10, else 10"),
        large=(False, "one fit of a large random graph instead, ours alone"),
        seed=0,
        threads=(1, "of torch; the solvers use one"),
    )
    _, facts = measuring.start(arguments, "scikit-learn", "scikit-network")
    rows = []
    for dataset in [] if arguments.large else arguments.dataset.split(","):
        labels_per_class = arguments.labels_per_class or LOWEST_RATE.get(dataset, OTHERWISE["labels_per_class"])
        runs = arguments.runs or RUNS.get(dataset, OTHERWISE["runs"])
        found = compare(dataset, labels_per_class, runs, arguments.seed)
        measuring.show_table(found)
        rows += found
    if arguments.large:
        rows = [one_fit(arguments.seed)]
        measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def one_fit(seed: int) -> dict[str, Any]:
    """A row: ours on the large graph, from nothing."""
    graph = random_graph(**LARGE)
    splits = draw_splits(graph, 5, 1, seed)
    probabilities, seconds = measuring.timed(ours_from_scratch, graph, splits)
    [found] = score(Prediction(probabilities), graph, splits)
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "labels": len(splits[0].train),
        "seconds": seconds,
        "accuracy %": round(100 * found.accuracy, 1),
    }


def compare(dataset: str, labels_per_class: int, runs: int, seed: int) -> list[dict[str, Any]]:
    """A row for each program."""
    graph = load(dataset)
    splits = draw_splits(graph, labels_per_class, runs, seed)
    programs: dict[str, Callable[[Graph, tuple[Split, ...]], np.ndarray]] = {
        "mtgcn lp": ours,
        "mtgcn lp, factorisation included": ours_from_scratch,
        "scikit-learn LabelSpreading": one_by_one(_Spreading),
        "scikit-learn LabelSpreading, α 0.99": one_by_one(lambda: _Spreading(alpha=0.99, max_iter=1000)),
        "scikit-network Propagation": one_by_one(Propagation),
        "scikit-network DiffusionClassifier": one_by_one(DiffusionClassifier),
        "scikit-network PageRankClassifier": one_by_one(PageRankClassifier),
    }
    rows = []
    for name, fit in programs.items():
        fit(graph, splits[:1])
        probabilities, seconds = measuring.timed(fit, graph, splits)
        accuracies = [100 * one.accuracy for one in score(Prediction(probabilities), graph, splits)]
        rows.append(
            {
                "dataset": dataset,
                "labels per class": labels_per_class,
                "runs": runs,
                "program": name,
                "accuracy %": round(mean(accuracies), 1),
                "standard error": round(stdev(accuracies) / runs**0.5, 2) if runs > 1 else None,
                "seconds": seconds,
            }
        )
    return rows


def ours(graph: Graph, splits: tuple[Split, ...]) -> np.ndarray:
    return create("lp").fit(observe(graph, splits, seed=0)).probabilities


def ours_from_scratch(graph: Graph, splits: tuple[Split, ...]) -> np.ndarray:
    # What is computed once per graph is kept with the graph: another graph, of the same parts, has nothing yet.
    return ours(Graph(graph.adjacency, labels=graph.labels, class_names=graph.class_names), splits)


def one_by_one(make: Callable[[], Any]) -> Callable[[Graph, tuple[Split, ...]], np.ndarray]:
    """Fits a classifier with scikit-network's face to one split after the other."""

    def fit(graph: Graph, splits: tuple[Split, ...]) -> np.ndarray:
        adjacency = sp.csr_matrix(graph.adjacency, copy=True)  # scikit-network knows no arrays, and writes into these
        probabilities = []
        for split in splits:
            labels = np.full(graph.num_nodes, UNLABELED)
            labels[split.train] = graph.labels[split.train]
            probabilities.append(make().fit(adjacency, labels).predict_proba())
        return np.stack(probabilities)

    return fit


class _Spreading:
    """`LabelSpreading` on a graph that is given instead of made from features."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def fit(self, adjacency: Any, labels: np.ndarray) -> _Spreading:
        model = LabelSpreading(kernel=lambda *_: adjacency, **self.settings)
        self.probabilities = model.fit(np.zeros((len(labels), 1)), labels).label_distributions_
        return self

    def predict_proba(self) -> np.ndarray:
        return self.probabilities


if __name__ == "__main__":
    main()
