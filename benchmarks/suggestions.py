"""Accuracy against labels: the nodes `mtgcn suggest` names, and nodes picked at random.

    python benchmarks/suggestions.py                                             # the three datasets, mt-plus
    python benchmarks/suggestions.py --json FILE --svg docs/images/suggestions.svg

Each run starts from a few labels of every class. In every round each rule sees its own fit, picks as many nodes as
there are classes and gets their labels. Half of the nodes can never be picked, and accuracy is measured on those
alone: a rule that picks hard nodes would otherwise remove them from the test set. All runs of both rules are one stack.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import measuring
import numpy as np

from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.statistics import paired_difference, summarise
from mtgcn.graph import Graph
from mtgcn.methods import fit_in_chunks, method_from_text
from mtgcn.report.charts import chart_style, curve_chart, new_figure
from mtgcn.splits import draw_splits
from mtgcn.task import Nodes, Task, run_seed
from mtgcn.uncertainty.suggestions import centrality, choose, smoothed_features, uncertainty_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {"suggest": "mtgcn suggest", "random": "at random"}


@dataclass
class Simulation:
    """One run of one rule."""

    rule: str
    run: int
    labelled: np.ndarray
    test: np.ndarray
    accuracy: list[float] = field(default_factory=list)


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets="cora,citeseer,pubmed",
        method="mt-plus",
        start=(2, "labels per class that a run starts from"),
        rounds=6,
        runs=20,
        seed=700,
        set=[],
        device="cpu",
        svg={"type": Path, "metavar": "FILE", "help": "draw the curves here"},
    )
    seed = checked_seed(arguments.seed, final=False)
    device, facts = measuring.start(arguments)
    curves, rows = {}, []
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        done = simulate(graph, arguments, seed, device)
        curves[dataset] = {
            "labels": [graph.num_classes * (arguments.start + number) for number in range(arguments.rounds + 1)],
            "accuracy": {rule: [one.accuracy for one in done if one.rule == rule] for rule in TITLES},
        }
        rows += compared(dataset, curves[dataset]["accuracy"])
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "curves": curves})
    if arguments.svg:
        with chart_style():
            picture(curves, arguments.method).savefig(arguments.svg, metadata={"Date": None})


def simulate(graph: Graph, arguments: argparse.Namespace, seed: int, device: Any) -> list[Simulation]:
    """Every rule in every run, round after round."""
    simulations = []
    for run, split in enumerate(draw_splits(graph, arguments.start, arguments.runs, seed)):
        shuffled = np.random.default_rng([seed, run]).permutation(split.test)
        test = shuffled[: len(shuffled) // 2]
        simulations += [Simulation(rule, run, split.train, test) for rule in TITLES]
    looks, central = smoothed_features(graph), centrality(graph)
    method = method_from_text(arguments.method, arguments.set)
    for round_number in range(arguments.rounds + 1):
        task = Task(
            graph=graph.without_labels,
            labelled=Nodes.of([one.labelled for one in simulations], graph.labels).to(device),
            seeds=tuple(run_seed(seed, one.run) for one in simulations),
            device=device,
        )
        answer = fit_in_chunks(method, task)
        for place, one in enumerate(simulations):
            probabilities = answer.probabilities[place]
            right = probabilities.argmax(axis=1)[one.test] == graph.labels[one.test]
            one.accuracy.append(float(right.mean()))
            if round_number == arguments.rounds:
                continue
            free = np.zeros(graph.num_nodes, dtype=bool)
            free[np.setdiff1d(graph.known, np.concatenate([one.labelled, one.test]))] = True
            if one.rule == "random":
                random = np.random.default_rng([seed, one.run, round_number])
                picked = random.choice(np.flatnonzero(free), graph.num_classes, replace=False)
            else:
                uncertainty = uncertainty_of(probabilities, None if answer.peers is None else answer.peers[place])
                found = choose(graph, looks, central, uncertainty, one.labelled, free, graph.num_classes)
                picked = np.array([choice.node for choice in found])
            one.labelled = np.concatenate([one.labelled, picked])
        print(f"{graph.name}: round {round_number} of {arguments.rounds}", file=sys.stderr, flush=True)
    return simulations


def compared(dataset: str, accuracy: dict[str, list[list[float]]]) -> list[dict[str, Any]]:
    """The mean over all rounds after the first, against picking at random on the same runs."""
    of_run = {rule: [float(np.mean(run[1:])) for run in runs] for rule, runs in accuracy.items()}
    rows = []
    for rule, means in of_run.items():
        row: dict[str, Any] = {"dataset": dataset, "picked": TITLES[rule], "accuracy, %": 100 * summarise(means).mean}
        row["last round, %"] = 100 * float(np.mean([run[-1] for run in accuracy[rule]]))
        gain = paired_difference(means, of_run["random"])
        low, high = gain.ci95
        text = f"{100 * gain.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
        rows.append(row | {"above random, 95 %": "" if rule == "random" else text})
    return rows


@chart_style()
def picture(curves: dict[str, Any], method: str) -> Figure:
    """A panel for each dataset: mean accuracy with 95 % intervals against the number of labels."""
    figure = new_figure(350 * len(curves), 330)
    for axes, (dataset, curve) in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves.items(), strict=True):
        samples = {
            rule: [summarise(column) for column in zip(*runs, strict=True)] for rule, runs in curve["accuracy"].items()
        }
        bands = {rule: 100 * np.array([(one.mean, *one.ci95) for one in some]).T for rule, some in samples.items()}
        curve_chart(curve["labels"], bands, "", axes=axes)
        axes.set(title=f"{dataset}, accuracy in per cent", xlabel="", xlim=(min(curve["labels"]), max(curve["labels"])))
        axes.set_xticks(curve["labels"])
    figure.supxlabel(f"labels (nodes picked in rounds; {method})", fontsize=13)
    return figure


if __name__ == "__main__":
    main()
