"""Reference predictions: the same seeds give the same predictions before and after a change of the code.

    python benchmarks/reference.py --json before.json              # on the old code
    python benchmarks/reference.py --json after.json --against before.json

Each cell is fitted with `--runs` runs; what is kept is a digest of the probabilities, bit for bit, and the accuracy of
every run. Digests depend on the machine, the number of threads and the version of torch, so compare files made on one
machine.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import measuring
import numpy as np
import torch

from mtgcn import load
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import draw_splits
from mtgcn.task import observe

CELLS = (("cora", 2), ("citeseer", 3), ("amazon-photo", 20))
METHODS = ("mt-gcn", "mt-plus", "lp", "m3s", "gcn")


def fitted_cell(dataset: str, labels_per_class: int, method: str, runs: int, seed: int) -> dict[str, Any]:
    """Digest of the probabilities and accuracy of each run."""
    graph = load(dataset)
    splits = draw_splits(graph, labels_per_class, runs, seed=seed)
    prediction = fit_in_chunks(create(method), observe(graph, splits, seed=seed))
    probabilities = np.ascontiguousarray(prediction.probabilities)
    predicted = probabilities.argmax(-1)
    accuracy = [
        float((row[split.test] == graph.labels[split.test]).mean())
        for row, split in zip(predicted, splits, strict=True)
    ]
    return {"digest": hashlib.sha256(probabilities.tobytes()).hexdigest()[:16], "accuracy": accuracy}


def main() -> None:
    arguments = measuring.arguments(
        __doc__,
        datasets=",".join(dataset for dataset, _ in CELLS),
        methods=",".join(METHODS),
        runs=5,
        seed=0,
        threads=1,
        against=(Path, "compare with the result in this file; differences end with 1"),
    )
    torch.set_num_threads(arguments.threads)
    before = json.loads(arguments.against.read_text())["cells"] if arguments.against else {}
    cells: dict[str, Any] = {}
    differing = 0
    for dataset, labels_per_class in CELLS:
        for method in arguments.methods.split(","):
            if dataset not in arguments.datasets.split(","):
                continue
            name = f"{dataset} {labels_per_class} {method}"
            cell = fitted_cell(dataset, labels_per_class, method, arguments.runs, arguments.seed)
            cells[name] = cell
            verdict = ""
            if name in before:
                same = before[name]["digest"] == cell["digest"]
                change = 100 * (np.mean(cell["accuracy"]) - np.mean(before[name]["accuracy"]))
                verdict = "identical" if same else f"DIFFERENT, accuracy {change:+.3f} points"
                differing += not same
            print(f"{name:28} {100 * np.mean(cell['accuracy']):6.2f} %  {cell['digest']}  {verdict}", flush=True)
    if arguments.json:
        settings = {key: getattr(arguments, key) for key in ("runs", "seed", "threads")}
        arguments.json.write_text(json.dumps({**settings, "torch": torch.__version__, "cells": cells}, indent=1) + "\n")
    raise SystemExit(1 if differing else 0)


if __name__ == "__main__":
    main()
