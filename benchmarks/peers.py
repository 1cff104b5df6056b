"""Methods of mtgcn and of other libraries: time and accuracy on the same splits, in one process.

    python benchmarks/peers.py                                     # cora, pubmed, amazon-photo, 200,000 random nodes
    python benchmarks/peers.py --dataset cora --runs 2 --json peers.json
    python benchmarks/peers.py --dataset synthetic --nodes 20000 --edges 100000

Peers: PyTorch Geometric's `DeepGraphInfomax` with logistic regression (the setting of its example), `LabelPropagation`
and `CorrectAndSmooth`; scikit-learn's `LabelSpreading`; the classifiers of scikit-network. They are not dependencies
of mtgcn (`pip install torch_geometric scikit-network`); missing ones are reported and left out.

"first" are the seconds of the first fit, with everything that has to be made of the graph; "further" those of each
further split, for which a program may keep what it learned without labels. The cache is empty at first. Every
program fits a tiny graph before the clock starts. Training of infomax stops after `--most-seconds`, as its row notes.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

import measuring
import numpy as np
import synthetic
from peer_programs import Missing, Program, programs

from mtgcn.datasets import load
from mtgcn.experiments.scoring import score
from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Prediction, observe

SYNTHETIC = "synthetic"
DATASETS = ("cora", "pubmed", "amazon-photo", SYNTHETIC)
OURS = ("mt-plus", "lp", "correct-and-smooth")
FEATURES, CLASSES = 100, 10  # of the synthetic graph
TINY = {"nodes": 300, "edges": 900, "features": 20, "classes": 3}


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        dataset=(",".join(DATASETS), "comma-separated"),
        programs=(None, "only those whose name holds one of these words, comma-separated"),
        labels_per_class=5,
        runs=(3, "splits"),
        seed=0,
        nodes=(200000, "of the synthetic graph"),
        edges=(1000000, "of the synthetic graph"),
        infomax_epochs=300,
        most_seconds=(900.0, "that infomax is trained"),
        threads=None,
    )
    _, facts = measuring.start(arguments, "torch_geometric", "scikit-learn", "scikit-network")
    # Before the cache is another one, since fetched data lie there as well.
    graphs = {name: _graph(name, arguments) for name in arguments.dataset.split(",")}
    chosen = _all_programs(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as empty:
        os.environ["MTGCN_CACHE"] = empty
        known = _available(chosen)
        for name, graph in graphs.items():
            splits = draw_splits(graph, arguments.labels_per_class, arguments.runs, arguments.seed)
            found = compared([row(name, program, make(), graph, splits) for program, make in known.items()])
            # The accuracies of single splits are for the JSON alone.
            measuring.show_table([{key: one[key] for key in one if key != "accuracies"} for one in found])
            rows += found
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def _graph(name: str, arguments: argparse.Namespace) -> Graph:
    if name != SYNTHETIC:
        return load(name)
    return synthetic.random_graph(arguments.nodes, arguments.edges, FEATURES, CLASSES)


@dataclass
class Ours(Program):
    """A method of mtgcn, one split at a time, as the peers go."""

    method: str

    def fit(self, graph: Graph, split: Split) -> np.ndarray:
        # The same seed for every split: what is learned without labels is learned once, as the peers do.
        return fit_in_chunks(create(self.method), observe(graph, [split], seed=0)).probabilities[0]


def _all_programs(arguments: argparse.Namespace) -> dict[str, Callable[[], Program]]:
    ours: dict[str, Callable[[], Program]] = {f"mtgcn {name}": lambda name=name: Ours(name) for name in OURS}
    chosen = ours | programs(arguments.infomax_epochs, arguments.most_seconds)
    words = arguments.programs.split(",") if arguments.programs else [""]
    return {name: make for name, make in chosen.items() if any(word.lower() in name.lower() for word in words)}


def _available(chosen: dict[str, Callable[[], Program]]) -> dict[str, Callable[[], Program]]:
    """The programs whose packages are there, each tried on a tiny graph; the others are named."""
    graph = synthetic.random_graph(**TINY)
    [split] = draw_splits(graph, 5, 1, seed=0)
    known = {}
    for name, make in chosen.items():
        try:
            make().fit(graph, split)
        except Missing as missing:
            print(f"left out: {name}; {missing}")
        else:
            known[name] = make
    print()
    return known


def row(dataset: str, name: str, program: Program, graph: Graph, splits: Sequence[Split]) -> dict[str, Any]:
    """Seconds and accuracy of a program on these splits, one after the other."""
    answers, seconds = zip(*(measuring.timed(program.fit, graph, split) for split in splits), strict=True)
    accuracies = [100 * one.accuracy for one in score(Prediction(np.stack(answers)), graph, splits)]
    return {
        "dataset": dataset,
        "program": name,
        "accuracy %": round(mean(accuracies), 1),
        "standard error": round(stdev(accuracies) / len(splits) ** 0.5, 2) if len(splits) > 1 else "",
        "first, s": seconds[0],
        "further, s": mean(seconds[1:]) if len(splits) > 1 else "",
        "note": program.note,
        "accuracies": [round(one, 2) for one in accuracies],
    }


def compared(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with how many points of accuracy mt-plus has more on the same splits, and how many times as long as
    its first fit theirs took."""
    ours = next((one for one in rows if one["program"] == f"mtgcn {OURS[0]}"), None)
    if ours is None:
        return rows
    return [
        one
        | {
            f"{OURS[0]} ahead by": round(ours["accuracy %"] - one["accuracy %"], 1),
            "times its first": one["first, s"] / ours["first, s"],
        }
        for one in rows
    ]


if __name__ == "__main__":
    main()
