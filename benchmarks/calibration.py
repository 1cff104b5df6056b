"""Calibration error before and after temperature scaling on the given labels.

    python benchmarks/calibration.py                                       # mt-plus and mt-gcn, few and many labels
    python benchmarks/calibration.py --cells cora:2,cora:20 --runs 10 --methods mt-gcn
    python benchmarks/calibration.py --coverage 0.9 --cells cora:20        # the coverage of prediction sets

All runs of a cell and their cross-validation fits are one stack. Seeds are development seeds.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from typing import Any

import measuring
import numpy as np

from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import calibration_error
from mtgcn.experiments.statistics import paired_difference, summarise
from mtgcn.graph import UNLABELED, Graph
from mtgcn.methods import Method, fit_in_chunks, method_from_text
from mtgcn.splits import Split, draw_splits
from mtgcn.task import observe
from mtgcn.uncertainty.held_out import folds, prediction_sets, temperature_from, tempered

CELLS = "cora:2,cora:8,cora:20,citeseer:3,citeseer:20,pubmed:2,pubmed:20"


@dataclass(frozen=True)
class AsFitted:
    """The attributes of a fitted model that prediction sets need."""

    graph_: Graph
    method_: Method
    label_distributions_: Any = None
    peer_distributions_: Any = None
    peer_report_: Any = None
    history_: Any = None


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        methods=("mt-plus,mt-gcn", "comma-separated"),
        cells=(CELLS, "dataset:labels per class, comma-separated"),
        runs=8,
        coverage=(float, "measure prediction sets of this coverage instead"),
        seed=77,
        set=[],
        device="cpu",
    )
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments)
    rows = []
    for method in arguments.methods.split(","):
        for cell in arguments.cells.split(","):
            dataset, labels_per_class = cell.split(":")
            graph = load(dataset)
            splits = draw_splits(graph, int(labels_per_class), arguments.runs, seed)
            measure = coverage_of if arguments.coverage else calibration_of
            rows.append(
                {"method": method, "dataset": dataset, "labels per class": int(labels_per_class)}
                | measure(graph, splits, method, seed, device, arguments)
            )
            print(f"{method}: {cell} done", file=sys.stderr, flush=True)
    measuring.show_table([{name: value for name, value in row.items() if name != "per run"} for row in rows])
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def calibration_of(
    graph: Graph, splits: tuple[Split, ...], name: str, seed: int, device: Any, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Means over the runs, calibration errors and confidences in per cent."""
    held_out = [folds(labelled_graph(graph, split), seed) for split in splits]
    none = np.empty(0, dtype=np.int64)
    fits = [
        Split(np.setdiff1d(split.train, nodes), none, split.test)
        for split, some in zip(splits, held_out, strict=True)
        for nodes in (none, *some)
    ]
    task = observe(graph, fits, seed, device=device)
    # A run and the fits without some of its labels differ by labels alone.
    owner = np.repeat(np.arange(len(splits)), [1 + len(some) for some in held_out])
    task = replace(task, seeds=tuple(task.seeds[run] for run in owner))
    probabilities = fit_in_chunks(method_from_text(name, arguments.set), task).probabilities
    found = []
    for run, (split, some) in enumerate(zip(splits, held_out, strict=True)):
        whole, *parts = probabilities[owner == run]
        heat = temperature_from(whole, np.stack(parts), some, graph.labels)
        truth, given = graph.labels[split.test], whole[split.test]
        found.append(
            {
                "accuracy": float(np.mean(given.argmax(axis=1) == truth)),
                "confidence": float(given.max(axis=1).mean()),
                "temperature": heat,
                "error before": calibration_error(given, truth),
                "error after": calibration_error(tempered(given, heat), truth),
            }
        )
    columns = {name: [run[name] for run in found] for name in found[0]}
    change = paired_difference(columns["error after"], columns["error before"])
    return {
        "accuracy": 100 * summarise(columns["accuracy"]).mean,
        "confidence": 100 * summarise(columns["confidence"]).mean,
        "temperature": float(np.median(columns["temperature"])),
        "error before": 100 * summarise(columns["error before"]).mean,
        "error after": 100 * summarise(columns["error after"]).mean,
        "change, 95 %": f"{100 * change.mean:+.1f} ({100 * change.ci95[0]:+.1f} to {100 * change.ci95[1]:+.1f})",
        "per run": columns,
    }


def coverage_of(
    graph: Graph, splits: tuple[Split, ...], name: str, seed: int, device: Any, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Coverage of the true class on test nodes, and the mean size of the sets."""
    covered, sizes = [], []
    for split in splits:
        # Drawn over all classes: the coverage holds for nodes drawn as the labels were.
        random = np.random.default_rng(split.train)
        drawn = random.choice(graph.known, len(split.train), replace=False)
        if len(np.unique(graph.labels[drawn])) < graph.num_classes:
            continue  # a class without a label cannot be learned
        given = Split(drawn, np.empty(0, dtype=np.int64), np.setdiff1d(graph.known, drawn))
        model = AsFitted(labelled_graph(graph, given), method_from_text(name, arguments.set))
        sets = prediction_sets(model, arguments.coverage, seed=seed, device=device)
        covered.append(float(sets.contains[given.test, graph.labels[given.test]].mean()))
        sizes.append(float(sets.sizes[given.test].mean()))
    low, high = summarise(covered).ci95
    return {
        "runs": len(covered),
        "asked": 100 * arguments.coverage,
        "covered": 100 * summarise(covered).mean,
        "covered, 95 %": f"{100 * low:.1f} to {100 * high:.1f}",
        "classes in a set": summarise(sizes).mean,
        "per run": {"covered": covered, "sizes": sizes},
    }


def labelled_graph(graph: Graph, split: Split) -> Graph:
    """The graph with the training labels alone."""
    labels = np.full(graph.num_nodes, UNLABELED)
    labels[split.train] = graph.labels[split.train]
    return replace(graph, labels=labels)


if __name__ == "__main__":
    main()
