"""Many labels and many classes: seconds, memory and accuracy of a first fit, also with another version.

    python benchmarks/many_labels.py                                   # 100 000 labels; 100 and 1 000 classes
    python benchmarks/many_labels.py --cells 20000,5,1000 --before OTHER/src

A cell is nodes, classes, labels. Every fit runs in a new process with an empty cache; `--before` names the sources of
another version, which fits the same graphs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from synthetic import random_graph

from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import Split
from mtgcn.task import observe

CELLS = "200000,5,100000 1200,100,300 12000,1000,3000"
EDGES_PER_NODE, FEATURES = 4, 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS.split(), metavar="NODES,CLASSES,LABELS")
    parser.add_argument("--before", type=Path, metavar="DIR", help="sources of another version")
    parser.add_argument("--method", default="mt-plus")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=600, help="seconds after which a fit is given up")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        print(json.dumps(fitted(arguments.cell, arguments.method)))
        return
    sources = {"this version": None, "before": arguments.before}
    for cell in arguments.cells:
        for title, folder in sources.items():
            if title == "before" and folder is None:
                continue
            print(f"{cell:24} {title:14} {measured(cell, folder, arguments)}", flush=True)


def measured(cell: str, folder: Path | None, arguments: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"MTGCN_CACHE": cache, "OMP_NUM_THREADS": str(arguments.threads)}
        if folder is not None:
            environment["PYTHONPATH"] = str(folder)
        command = [sys.executable, "-W", "ignore", __file__, "--cell", cell, "--method", arguments.method]
        try:
            done = subprocess.run(
                command, env=environment, check=False, capture_output=True, text=True, timeout=arguments.timeout
            )
        except subprocess.TimeoutExpired:
            return f"more than {arguments.timeout} s"
    if done.returncode:
        return done.stderr.strip().splitlines()[-1]
    row = json.loads(done.stdout)
    return "{seconds:7.1f} s {cpu_seconds:8.1f} s of CPU {gib:6.2f} GiB  accuracy {accuracy:.4f}".format(**row)


def fitted(cell: str, method: str) -> dict[str, float]:
    nodes, classes, labels = map(int, cell.split(","))
    graph = random_graph(nodes, EDGES_PER_NODE * nodes, FEATURES, classes)
    known, hidden = np.split(np.random.default_rng(0).permutation(nodes), [labels])
    task = observe(graph, [Split(known, [], hidden)], seed=0)
    started, cpu = perf_counter(), process_time()
    prediction = fit_in_chunks(create(method), task)
    seconds, cpu_seconds = perf_counter() - started, process_time() - cpu
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "accuracy": float(np.mean(prediction.probabilities[0, hidden].argmax(1) == graph.labels[hidden])),
    }


if __name__ == "__main__":
    main()
