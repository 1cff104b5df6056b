"""The share of predictions that change with the order of the nodes, for each method.

python benchmarks/row_order.py                                         # every method, Cora, 2 labels per class
python benchmarks/row_order.py --methods deepwalk,mt-plus --runs 5 --json FILE

A second seed is compared as well, to show the effect of chance.
"""

from __future__ import annotations

import json

import measuring
import numpy as np

from mtgcn import environment
from mtgcn.datasets import load
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, create, fit_in_chunks
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe

VALIDATION = 500


def main() -> None:
    arguments = measuring.arguments(__doc__, dataset="cora", labels_per_class=2, methods=",".join(METHODS), runs=3)
    graph = load(arguments.dataset)
    splits = draw_splits(graph, arguments.labels_per_class, arguments.runs, 0, validation=VALIDATION)
    order = np.random.default_rng(0).permutation(graph.num_nodes)  # the node that stands at each place
    place = np.argsort(order)
    shuffled = Graph(
        graph.adjacency[order][:, order],
        None if graph.features is None else graph.features[order],
        graph.labels[order],
        name=graph.name,
    )
    moved = [Split(place[split.train], place[split.validation], place[split.test]) for split in splits]
    rows = []
    for name in arguments.methods.split(","):
        here, there = predicted(name, graph, splits, 0), predicted(name, shuffled, moved, 0)
        changed = 100 * float((there[:, place] != here).mean())
        by_chance = 100 * float((predicted(name, graph, splits, 1) != here).mean())
        rows.append({"method": name, "changed by order, %": changed, "by another seed, %": by_chance})
        print(f"{name}: {changed:.2f} % by order, {by_chance:.2f} % by another seed", flush=True)
    measuring.show_table(rows)
    if arguments.json:
        made = {"dataset": arguments.dataset, "labels_per_class": arguments.labels_per_class, "runs": arguments.runs}
        content = made | {"versions": environment.versions(), "methods": rows}
        arguments.json.write_text(json.dumps(content, indent=1) + "\n")


def predicted(name: str, graph: Graph, splits: list[Split], seed: int) -> np.ndarray:
    """The class of every node in every run."""
    method = create(name)
    task = observe(graph, splits, seed, with_validation=method.uses_validation)
    return fit_in_chunks(method, task).probabilities.argmax(-1)


if __name__ == "__main__":
    main()
