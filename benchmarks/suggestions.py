"""Accuracy against labels: the nodes `mtgcn suggest` names, and nodes picked otherwise.

    python benchmarks/suggestions.py                                             # the three datasets, mt-plus
    python benchmarks/suggestions.py --datasets cora --runs 20 --rules random,suggest,doubt,central
    python benchmarks/suggestions.py --json FILE --svg docs/images/suggestions.svg

Each run starts from a few labels of every class. In every round each rule sees its own fit, picks as many nodes as
there are classes and gets their labels. Half of the nodes can never be picked, and accuracy is measured on those
alone: a rule that picks hard nodes would otherwise remove them from the test set. All runs of all rules are one stack.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import measuring
import numpy as np
from scipy.stats import rankdata

from mtgcn.datasets import load
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.statistics import paired_difference, summarise
from mtgcn.graph import Graph
from mtgcn.methods import fit_in_chunks, method_from_text
from mtgcn.report.charts import padded, round_numbers, spaced_out
from mtgcn.splits import draw_splits
from mtgcn.task import Nodes, Task, run_seed
from mtgcn.uncertainty.suggestions import centrality, choose, smoothed_features, uncertainty_of

TITLES = {
    "suggest": "mtgcn suggest",
    "random": "at random",
    "doubt": "most in doubt",
    "central": "in doubt and central",
}


@dataclass(frozen=True)
class Situation:
    """All that a rule may look at when it picks."""

    graph: Graph
    looks: np.ndarray
    central: np.ndarray
    uncertainty: np.ndarray
    labelled: np.ndarray
    free: np.ndarray  # whether a node may be picked
    count: int
    random: np.random.Generator


def suggested(now: Situation) -> np.ndarray:
    chosen = choose(now.graph, now.looks, now.central, now.uncertainty, now.labelled, now.free, now.count)
    return np.array([choice.node for choice in chosen])


def picked_at_random(now: Situation) -> np.ndarray:
    return now.random.choice(np.flatnonzero(now.free), now.count, replace=False)


def most_in_doubt(now: Situation) -> np.ndarray:
    return _best(now, now.uncertainty)


def in_doubt_and_central(now: Situation) -> np.ndarray:
    """The sum of the ranks by doubt and by PageRank, after Cai et al. (2017)."""
    return _best(now, rankdata(now.uncertainty) + rankdata(now.central))


def _best(now: Situation, score: np.ndarray) -> np.ndarray:
    return np.argsort(np.where(now.free, -score, np.inf), kind="stable")[: now.count]


RULES: dict[str, Callable[[Situation], np.ndarray]] = {
    "suggest": suggested,
    "random": picked_at_random,
    "doubt": most_in_doubt,
    "central": in_doubt_and_central,
}


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
        rules=("suggest,random", f"of {', '.join(RULES)}"),
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
    rules = arguments.rules.split(",")
    curves, rows = {}, []
    for dataset in arguments.datasets.split(","):
        graph = load(dataset)
        done = simulate(graph, rules, arguments, seed, device)
        curves[dataset] = {
            "labels": [graph.num_classes * (arguments.start + number) for number in range(arguments.rounds + 1)],
            "accuracy": {rule: [one.accuracy for one in done if one.rule == rule] for rule in rules},
        }
        rows += compared(dataset, curves[dataset]["accuracy"])
    measuring.show_table(rows)
    measuring.write_json(arguments.json, {"machine": facts, "curves": curves})
    if arguments.svg:
        arguments.svg.write_text(picture(curves, arguments.method), encoding="utf-8")


def simulate(
    graph: Graph, rules: Sequence[str], arguments: argparse.Namespace, seed: int, device: Any
) -> list[Simulation]:
    """Every rule in every run, round after round."""
    simulations = []
    for run, split in enumerate(draw_splits(graph, arguments.start, arguments.runs, seed)):
        shuffled = np.random.default_rng([seed, run]).permutation(split.test)
        test = shuffled[: len(shuffled) // 2]
        simulations += [Simulation(rule, run, split.train, test) for rule in rules]
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
            peers = None if answer.peers is None else answer.peers[place]
            now = Situation(
                graph=graph,
                looks=looks,
                central=central,
                uncertainty=uncertainty_of(probabilities, peers),
                labelled=one.labelled,
                free=free,
                count=graph.num_classes,
                random=np.random.default_rng([seed, one.run, round_number]),
            )
            one.labelled = np.concatenate([one.labelled, RULES[one.rule](now)])
        print(f"{graph.name}: round {round_number} of {arguments.rounds}", file=sys.stderr, flush=True)
    return simulations


def compared(dataset: str, accuracy: dict[str, list[list[float]]]) -> list[dict[str, Any]]:
    """The mean over all rounds after the first, against picking at random on the same runs."""
    of_run = {rule: [float(np.mean(run[1:])) for run in runs] for rule, runs in accuracy.items()}
    rows = []
    for rule, means in of_run.items():
        row: dict[str, Any] = {"dataset": dataset, "picked": TITLES[rule], "accuracy, %": 100 * summarise(means).mean}
        row["last round, %"] = 100 * float(np.mean([run[-1] for run in accuracy[rule]]))
        if "random" in of_run:
            gain = paired_difference(means, of_run["random"])
            low, high = gain.ci95
            text = f"{100 * gain.mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            row["above random, 95 %"] = "" if rule == "random" else text
        rows.append(row)
    return rows


STYLE = """
text { fill: #1d1f23 } .grid { stroke: #d9d9d2 } .paper { fill: #fdfdfb }
.line { fill: none; stroke-width: 2.2 } .band { opacity: .18; stroke: none }
.suggest { --c: #0067a8 } .random { --c: #6a6a6a } .doubt { --c: #c24e00 } .central { --c: #00805c }
.line { stroke: var(--c) } .band, .dot { fill: var(--c) }
@media (prefers-color-scheme: dark) {
  text { fill: #e8e8e4 } .grid { stroke: #3a3e46 } .paper { fill: #16181c }
  .suggest { --c: #5ab4f0 } .random { --c: #b4b4b4 } .doubt { --c: #ff8f52 } .central { --c: #35c99c }
}
"""
DASHES = {"suggest": "", "random": "7 4", "doubt": "2 4", "central": "9 3 2 3"}


def picture(curves: dict[str, Any], method: str) -> str:
    """A panel for each dataset: mean accuracy with 95 % intervals against the number of labels."""
    panel, gap, top, bottom, left, height = 250, 86, 54, 48, 44, 330  # the gap holds names and ticks
    width = left + len(curves) * (panel + gap)
    parts = [f'<rect class="paper" width="{width}" height="{height}" rx="8"/>']
    for place, (dataset, curve) in enumerate(curves.items()):
        start = left + place * (panel + gap)
        parts += _panel(dataset, curve, start, panel, top, height - bottom)
    parts.append(_text(width / 2, height - 8, f"labels (nodes picked in rounds; {method})", "middle"))
    title = "Accuracy against labels: nodes suggested, and nodes picked otherwise"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'font-family="Helvetica, Arial, sans-serif" font-size="13"><title>{title}</title>'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def _panel(dataset: str, curve: dict[str, Any], start: float, panel: float, top: float, base: float) -> list[str]:
    labels = curve["labels"]
    samples = {
        rule: [summarise(column) for column in zip(*runs, strict=True)] for rule, runs in curve["accuracy"].items()
    }
    low, high = padded([100 * end for one in samples.values() for sample in one for end in sample.ci95])

    def at(count: float, accuracy: float) -> str:
        x = start + (count - labels[0]) / (labels[-1] - labels[0]) * panel
        return f"{x:.1f},{base - (accuracy - low) / (high - low) * (base - top):.1f}"

    parts = [_text(start + panel / 2, 24, f"{dataset}, accuracy in per cent", "middle")]
    for tick in round_numbers(low, high, count=5):
        y = float(at(labels[0], tick).split(",")[1])
        parts.append(f'<path class="grid" d="M{start},{y:.1f}h{panel}"/>' + _text(start - 6, y + 4, f"{tick:g}", "end"))
    parts += [_text(float(at(count, low).split(",")[0]), base + 18, str(count), "middle") for count in labels]
    ends = spaced_out(
        [float(at(labels[-1], 100 * one[-1].mean).split(",")[1]) for one in samples.values()],
        gap=15,
        low=top,
        high=base,
    )
    for (rule, one), end in zip(samples.items(), ends, strict=True):
        lower = [at(count, 100 * sample.ci95[0]) for count, sample in zip(labels, one, strict=True)]
        upper = [at(count, 100 * sample.ci95[1]) for count, sample in zip(labels, one, strict=True)]
        means = [at(count, 100 * sample.mean) for count, sample in zip(labels, one, strict=True)]
        dash = f' stroke-dasharray="{DASHES[rule]}"' if DASHES[rule] else ""
        dots = "".join('<circle class="dot" cx="{}" cy="{}" r="3"/>'.format(*place.split(",")) for place in means)
        parts.append(
            f'<g class="{rule}"><path class="band" d="M{"L".join([*lower, *upper[::-1]])}Z"/>'
            f'<path class="line" d="M{"L".join(means)}"{dash}/>{dots}</g>'
            + _text(start + panel + 6, end + 4, rule, "start")
        )
    return parts


def _text(x: float, y: float, content: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


if __name__ == "__main__":
    main()
