"""Seconds of a first fit, and of the refit after one more label.

    python benchmarks/first_fit.py                                  # both parts
    python benchmarks/first_fit.py --part files --dataset cora --json first-fit.json
    python benchmarks/first_fit.py --part python --dataset cora,amazon-photo

files: `mtgcn fit` on `nodes.csv`, `edges.csv` and `labels.csv`, from the start of the process to its end, with an empty
cache; and where the time goes: imports (until the files are opened), reading, fitting, expected accuracy, writing (with
the end of the process). python: the first fit in a process that has imported everything and holds the graph, with an
empty cache, and the fit after one more label. Processor seconds, which stay
comparable on a loaded machine, are measured as well.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time, time
from typing import Any

import measuring
import numpy as np
import scipy.sparse as sp
import torch

from mtgcn import MutualTeachingClassifier
from mtgcn.datasets import load
from mtgcn.graph import UNLABELED, Graph
from mtgcn.splits import Split, draw_splits

PARTS = {"files": "cora,pubmed", "python": "cora,coauthor-cs,amazon-photo"}
STAGES = ("imports", "reading", "fitting", "expected accuracy", "writing")
MARKED = Path(__file__).with_name("marked_fit.py")
REFITS = 3  # the table shows their median


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        part={"choices": (*PARTS, "both"), "default": "both"},
        dataset=(None, f"comma-separated; default: {PARTS['files']} and {PARTS['python']}"),
        labels_per_class=5,
        seed=0,
        threads=None,
    )
    if arguments.threads:
        os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    _, facts = measuring.start(arguments)
    found = {}
    for part, work in (("files", from_files), ("python", from_python)):
        if arguments.part in (part, "both"):
            names = (arguments.dataset or PARTS[part]).split(",")
            found[part] = [
                measuring.in_fresh_process(work, name, arguments.labels_per_class, arguments.seed, arguments.threads)
                for name in names
            ]
            measuring.show_table(found[part])
    measuring.write_json(arguments.json, {"machine": facts, **found})


def from_files(name: str, labels_per_class: int, seed: int, threads: int | None) -> dict[str, Any]:
    """A row: `mtgcn fit` on a dataset written as a person has it."""
    graph = load(name)
    [split] = draw_splits(graph, labels_per_class, 1, seed)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        write_files(graph, split, folder)
        typed = [f"--{table}={folder / f'{table}.csv'}" for table in ("nodes", "edges", "labels")]
        marks = folder / "marks.json"
        before, began, started = resource.getrusage(resource.RUSAGE_CHILDREN), time(), perf_counter()
        subprocess.run(
            [sys.executable, MARKED, marks, "fit", *typed, "--out", folder / "model"],
            check=True,
            env=os.environ | {"MTGCN_CACHE": str(folder / "cache")},
            stdout=subprocess.DEVNULL,
        )
        seconds, ended, after = perf_counter() - started, time(), resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        stamps = json.loads(marks.read_text(encoding="utf-8"))
    by_clock = np.diff([began, *(mark["clock"] for mark in stamps), ended])
    by_processor = np.diff([0.0, *(mark["processor"] for mark in stamps), used])
    row = {"dataset": name, "columns": graph.num_features, "seconds": seconds, "processor s": used}
    for stage, clock, processor in zip(STAGES, by_clock, by_processor, strict=True):
        row[f"{stage}, s"] = f"{clock:.2f} ({processor:.2f})"
    return row


def write_files(graph: Graph, split: Split, folder: Path) -> None:
    """Every feature a column, numbers as short as they can be read back; every edge once; the labels of the split."""
    with (folder / "nodes.csv").open("w", encoding="utf-8") as file:
        file.write(",".join(["id", *(f"f{number}" for number in range(graph.num_features))]) + "\n")
        for node in range(graph.num_nodes):
            row = graph.features[[node]]
            values = (row.toarray() if sp.issparse(row) else row)[0]
            file.write(",".join([str(node), *(f"{value:.9g}" for value in values.tolist())]) + "\n")
    above = sp.triu(graph.adjacency, format="coo")
    pairs = np.column_stack([above.row, above.col])
    np.savetxt(folder / "edges.csv", pairs, fmt="%d", delimiter=",", header="source,target", comments="")
    lines = [f"{node},{graph.class_names[graph.labels[node]]}" for node in split.train]
    (folder / "labels.csv").write_text("\n".join(["id,label", *lines]) + "\n", encoding="utf-8")


def from_python(name: str, labels_per_class: int, seed: int, threads: int | None) -> dict[str, Any]:
    """A row: fit and refit of the classifier on a graph in memory."""
    if threads:
        torch.set_num_threads(threads)
    graph = load(name)
    [split] = draw_splits(graph, labels_per_class, 1, seed)
    labels = np.full(graph.num_nodes, UNLABELED)
    labels[split.train] = graph.labels[split.train]
    known = Graph(graph.adjacency, graph.features, labels, class_names=graph.class_names, name=graph.name)
    model = MutualTeachingClassifier(random_state=seed)
    with tempfile.TemporaryDirectory() as empty:
        os.environ["MTGCN_CACHE"] = empty
        first, first_processor = both_clocks(lambda: model.fit_graph(known))
        again = [
            both_clocks(lambda node=node: model.label({node: graph.class_names[graph.labels[node]]}))
            for node in split.test[:REFITS].tolist()
        ]
    refit, refit_processor = np.median(again, axis=0).tolist()
    return {
        "dataset": name,
        "first fit, s": first,
        "first fit, processor s": first_processor,
        "refit, s": refit,
        "refit, processor s": refit_processor,
    }


def both_clocks(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    used = process_time()
    _, seconds = measuring.timed(work)
    return seconds, process_time() - used


if __name__ == "__main__":
    main()
