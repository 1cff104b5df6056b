"""Expected accuracy and calibration of mt-plus over tables and graphs, and the constants behind them.

    python benchmarks/calibration.py --json docs/measurements/calibration.json        # development: 33 data sets
    python benchmarks/calibration.py --fit docs/measurements/calibration.json         # constants of `AccuracyPrior`
    python benchmarks/calibration.py --final --json docs/measurements/calibration-final.json      # the final tables
    python benchmarks/calibration.py --coverage 0.9 --methods mt-plus --cells cora:20  # the coverage of prediction sets

A run is fitted with `calibrated=never`; temperature and interval follow from its held-out labels as in a fit. `--fit`
maximises the likelihood of the measured accuracies, all data sets with equal weight, and measures how often the 90 %
interval contains the accuracy of each data set with the constants of all others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import product
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import betaincinv, betaln, expit, logit

from mtgcn.datasets import load
from mtgcn.datasets.catalogue import FINAL_TABLES, GRAPHS, TABLES
from mtgcn.experiments.protocol import checked_seed
from mtgcn.experiments.scoring import calibration_error
from mtgcn.experiments.statistics import summarise
from mtgcn.graph import Graph
from mtgcn.methods import fit_in_chunks, method_from_text, task_of
from mtgcn.splits import Split, draw_splits
from mtgcn.training.calibration import AccuracyPrior, matching_temperature, tempered
from mtgcn.uncertainty.held_out import prediction_sets

MIN_TEST = 5  # rows of each class that are left to test
MAX_TEST = 3000  # nodes
CLIP = 0.01  # accuracies of 0 and 1 have no density


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        final=(False, "the tables kept for final figures"),
        datasets=(str, "names of tables and graphs, comma-separated; default: all"),
        labels=("2,5,10,20,50", "per class, comma-separated"),
        runs=10,
        fit=(Path, "estimate the constants from this file"),
        coverage=(float, "measure prediction sets of this coverage instead"),
        methods=("mt-plus", "of --coverage, comma-separated"),
        cells=("cora:20,citeseer:20", "of --coverage: dataset:labels per class, comma-separated"),
        seed=(int, "default: 77, or the first final seed"),
        set=[],
        device="cpu",
    )
    if arguments.fit:
        rows = json.loads(arguments.fit.read_text())["rows"]
        print(fitted_prior(rows))
        measuring.show_table(summary(rows, *left_out(rows)))
        return
    final = arguments.final
    seed = checked_seed(77 if arguments.seed is None and not final else arguments.seed, final=final)
    device, facts = measuring.start(arguments)
    if arguments.coverage:
        rows = list(coverage_rows(arguments, seed, device))
        shown = [{name: value for name, value in row.items() if name != "per run"} for row in rows]
    else:
        rows = []
        wanted = FINAL_TABLES if final else (*TABLES, *GRAPHS, "digits")
        for name in arguments.datasets.split(",") if arguments.datasets else wanted:
            graph = load(name)
            for labels in map(int, arguments.labels.split(",")):
                if graph.label_counts.min() >= labels + MIN_TEST:
                    row = {
                        "dataset": name,
                        "kind": "table" if name in TABLES + FINAL_TABLES else "graph",
                        "labels": labels,
                    }
                    rows.append(row | measure(graph, labels, arguments, seed, device))
            print(f"{name} done", file=sys.stderr, flush=True)
        shown = summary(rows, *distributions(rows, AccuracyPrior()))
    measuring.show_table(shown)
    measuring.write_json(arguments.json, {"machine": facts, "rows": rows})


def measure(
    graph: Graph, labels: int, arguments: argparse.Namespace, seed: int, device: torch.device
) -> dict[str, list[float]]:
    """Figures of each run: accuracy on other nodes, accuracy on held-out labels and their number; mean confidence,
    temperature, and calibration error before and after."""
    splits = draw_splits(graph, labels, arguments.runs, seed)
    method = method_from_text("mt-plus", ["calibrated=never", "embeddings=1", *arguments.set])
    prediction = fit_in_chunks(method, task_of(method, graph, splits, seed, device))
    assert prediction.held_out is not None
    found: dict[str, list[float]] = {}
    for split, probabilities, (share, count, _) in zip(
        splits, prediction.probabilities, prediction.held_out.tolist(), strict=True
    ):
        test = split.test
        if len(test) > MAX_TEST:
            test = np.random.default_rng(split.train).choice(test, MAX_TEST, replace=False)
        given, truth = probabilities[test].astype(np.float64), graph.labels[test]
        right, wrong = AccuracyPrior().distribution(share, count)
        everywhere = torch.ones(1, len(test), dtype=torch.bool)
        target = torch.tensor([right / (right + wrong)], dtype=torch.float64)
        heat = float(matching_temperature(torch.from_numpy(given)[None], target, everywhere))
        figures = {
            "accuracy": float((given.argmax(axis=1) == truth).mean()),
            "held-out accuracy": share,
            "held-out labels": count,
            "confidence": float(given.max(axis=1).mean()),
            "temperature": heat,
            "error before": calibration_error(given, truth),
            "error after": calibration_error(tempered(given, heat), truth),
        }
        for name, value in figures.items():
            found.setdefault(name, []).append(round(value, 4))
    return found


# ----------------------------------------------------------------------------------------------------------- constants


def distributions(rows: Sequence[Mapping[str, Any]], prior: AccuracyPrior) -> tuple[np.ndarray, np.ndarray]:
    """Both parameters of the beta distribution of every run."""
    share, labels = (np.array([row[name] for row in rows]) for name in ("held-out accuracy", "held-out labels"))
    right, wrong = prior.distribution(share, labels)
    return np.asarray(right), np.asarray(wrong)


def fitted_prior(rows: Sequence[Mapping[str, Any]]) -> AccuracyPrior:
    """The constants of maximum likelihood; each data set has the same weight."""
    names = [row["dataset"] for row in rows]
    accuracy = np.clip([row["accuracy"] for row in rows], CLIP, 1 - CLIP)
    weights = np.array([1 / names.count(name) for name in names])[:, None] / accuracy.shape[1]

    def prior(values: np.ndarray) -> AccuracyPrior:
        return AccuracyPrior(float(expit(values[0])), *np.exp(values[1:]).tolist())

    def loss(values: np.ndarray) -> float:
        right, wrong = distributions(rows, prior(values))
        density = (right - 1) * np.log(accuracy) + (wrong - 1) * np.log1p(-accuracy) - betaln(right, wrong)
        return -float((weights * density).sum() / weights.sum())

    start = np.array([logit(AccuracyPrior().accuracy), *np.log(astuple(AccuracyPrior())[1:])])
    return prior(minimize(loss, start, method="L-BFGS-B", bounds=[(-3, 3), (-2, 5), (-3, 2), (2, 12)]).x)


def left_out(rows: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """As `distributions`, each data set with the constants of all others."""
    right, wrong = (np.empty((len(rows), len(rows[0]["accuracy"]))) for _ in range(2))
    for name in {row["dataset"] for row in rows}:
        without = fitted_prior([row for row in rows if row["dataset"] != name])
        own = [number for number, row in enumerate(rows) if row["dataset"] == name]
        right[own], wrong[own] = distributions([rows[number] for number in own], without)
    return right, wrong


def summary(rows: Sequence[Mapping[str, Any]], right: np.ndarray, wrong: np.ndarray) -> list[dict[str, Any]]:
    """Coverage and width of the 90 % interval and calibration errors in per cent, by kind and number of labels."""
    accuracy = np.array([row["accuracy"] for row in rows])
    low, high = betaincinv(right, wrong, 0.05), betaincinv(right, wrong, 0.95)
    figures = {
        "accuracy": accuracy,
        "confidence": np.array([row["confidence"] for row in rows]),
        "covered": (low <= accuracy) & (accuracy <= high),
        "width": high - low,
        "absolute error": np.abs(right / (right + wrong) - accuracy),
        "calibration error before": np.array([row["error before"] for row in rows]),
        "after": np.array([row["error after"] for row in rows]),
    }
    lines = []
    kinds = [kind for kind in ("table", "graph") if kind in {row["kind"] for row in rows}]
    counts = sorted({row["labels"] for row in rows})
    for kind in (*kinds, None):
        for labels in (*counts, None):
            some = [row["kind"] == (kind or row["kind"]) and row["labels"] == (labels or row["labels"]) for row in rows]
            if any(some):
                line = {"kind": kind or "all", "labels per class": labels or "all", "data sets": sum(some)}
                if labels is None:
                    line["data sets"] = len({row["dataset"] for row, own in zip(rows, some, strict=True) if own})
                lines.append(line | {name: 100 * float(values[some].mean()) for name, values in figures.items()})
    return lines


# ----------------------------------------------------------------------------------------------------- prediction sets


def coverage_rows(arguments: argparse.Namespace, seed: int, device: Any) -> Any:
    """Coverage of the true class on test nodes, and the mean size of the sets."""
    for name, cell in product(arguments.methods.split(","), arguments.cells.split(",")):
        dataset, labels_per_class = cell.split(":")
        graph = load(dataset)
        splits = draw_splits(graph, int(labels_per_class), arguments.runs, seed)
        row = {"method": name, "dataset": dataset, "labels per class": int(labels_per_class)}
        yield row | coverage_of(graph, splits, name, seed, device, arguments)


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
        model = measuring.AsFitted(measuring.labelled_graph(graph, given.train), method_from_text(name, arguments.set))
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


if __name__ == "__main__":
    main()
