"""Precision of doubtful labels on flipped ones, compared with cleanlab's confident learning.

    python benchmarks/doubt.py --json docs/measurements/doubt.json
    python benchmarks/doubt.py --datasets cora,wine --runs 2 --seed 77

A share of the labels is flipped to another class at random; precision is the share of flipped labels among as many of
the most doubtful. Confident learning (Northcutt et al., 2021) needs `pip install cleanlab`: labels that it filters by
noise rate come first, by normalised margin. Seed 77 served to choose the ranking.
"""

from __future__ import annotations

import sys
from typing import Any

import measuring
import numpy as np
from sklearn import datasets as tables

from mtgcn.datasets import load
from mtgcn.datasets.catalogue import NAMES
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.experiments.protocol import checked_seed
from mtgcn.graph import Graph
from mtgcn.methods import method_from_text
from mtgcn.splits import draw_splits
from mtgcn.uncertainty.suggestions import probabilities_without_label

try:
    from cleanlab.filter import find_label_issues
except ImportError:
    find_label_issues = None

GRAPHS = "cora,citeseer,pubmed,amazon-photo,blogcatalog,dblp"
TABLES = "digits,wine,breast_cancer,iris"


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets=(f"{GRAPHS},{TABLES}", "built-in datasets and tables of scikit-learn, comma-separated"),
        labels=(20, "per class"),
        share=(0.05, "of the labels that is flipped"),
        runs=5,
        seed=78,
        method="mt-plus",
        device="cpu",
    )
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments, "cleanlab")
    method = method_from_text(arguments.method, ())
    found: dict[str, list[dict[str, float]]] = {}
    for name in arguments.datasets.split(","):
        graph, found[name] = graph_named(name), []
        for run, split in enumerate(draw_splits(graph, arguments.labels, arguments.runs, seed)):
            labels, flipped = flipped_labels(graph, split.train, arguments.share, [seed, run])
            nodes, probabilities = probabilities_without_label(
                measuring.AsFitted(graph.with_labels(labels), method), seed=seed, device=device
            )
            found[name].append(precisions(labels[nodes], probabilities, np.isin(nodes, flipped)))
        print(f"{name} done", file=sys.stderr, flush=True)
    measuring.write_json(arguments.json, {"machine": facts, "rows": measuring.means_by_dataset(found)})


def graph_named(name: str) -> Graph:
    """A built-in dataset, or a table of scikit-learn whose rows are linked to their nearest neighbours."""
    if name in NAMES:
        return load(name)
    rows, classes = getattr(tables, f"load_{name}")(return_X_y=True)
    return MutualTeachingClassifier("lp", random_state=0).fit(rows, classes).graph_


def flipped_labels(graph: Graph, labelled: np.ndarray, share: float, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Labels of these nodes, some of another class, drawn uniformly; and the nodes with another class."""
    random = np.random.default_rng(seed)
    flipped = random.choice(labelled, max(1, round(share * len(labelled))), replace=False)
    labels = measuring.labelled_graph(graph, labelled).labels.copy()
    labels[flipped] = (labels[flipped] + random.integers(1, graph.num_classes, len(flipped))) % graph.num_classes
    return labels, flipped


def precisions(labels: np.ndarray, probabilities: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """In per cent, of the rankings; the accuracy is that of held-out labels."""
    each = np.arange(len(labels))
    of_label, others = probabilities[each, labels], probabilities.copy()
    others[each, labels] = -1
    margin = np.argsort(of_label - others.max(axis=1), kind="stable")
    rankings = {"doubtful_labels": np.argsort(of_label, kind="stable"), "margin": margin}
    if find_label_issues is not None:
        issues = find_label_issues(labels, probabilities, return_indices_ranked_by="normalized_margin", n_jobs=1)
        rankings["confident learning"] = np.array([*issues, *(one for one in margin if one not in set(issues))])
    accuracy = 100 * float((probabilities.argmax(axis=1) == labels)[~wrong].mean())
    top = {name: 100 * float(wrong[order[: wrong.sum()]].mean()) for name, order in rankings.items()}
    return {"accuracy": accuracy, "flipped": int(wrong.sum()), **top}


if __name__ == "__main__":
    main()
