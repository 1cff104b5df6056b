"""Seconds of a fit of 1 912 nodes on two cores, while other processes are busy.

    taskset -c 0,1 python benchmarks/threads.py --loads 0,4,8

Each fit (`mt-plus`, 60 labels, empty cache) runs in a new process; the median of `--repeats` is shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

import measuring
import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.methods import create, fit_in_chunks
from mtgcn.splits import Split
from mtgcn.task import observe

VARIANTS = {
    "two threads that spin (0.7.0)": {"OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": "300000"},  # libgomp's default
    "two threads that wait passively": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
    "one thread": {"OMP_NUM_THREADS": "1"},
    "as chosen": {},
}


def one_fit() -> float:
    """The seconds of one fit."""
    random, nodes, classes = np.random.default_rng(0), 1912, 3
    labels = np.arange(nodes) % classes
    ends = random.integers(0, nodes, (2, 60_000))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (random.random(60_000) < 0.3)]
    adjacency = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(nodes, nodes)).tocsr()
    features = random.random((nodes, 128)) + 0.2 * (labels[:, None] == np.arange(128) % classes)
    graph = Graph(adjacency.maximum(adjacency.T), features, labels)
    task = observe(graph, [Split(np.arange(60), [], np.arange(60, nodes))], seed=0)
    return measuring.timed(fit_in_chunks, create("mt-plus"), task)[1]


def timed(environment: dict[str, str], limit: float) -> float:
    """The seconds of a fit in a new process, or the limit."""
    command = [sys.executable, __file__, "--one"]
    with tempfile.TemporaryDirectory() as cache:
        try:
            done = subprocess.run(
                command, env={**environment, "MTGCN_CACHE": cache}, stdout=-1, text=True, check=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return limit
    return float(done.stdout)


def main() -> None:
    given = measuring.arguments(
        __doc__,
        loads=("0,4,8", "numbers of busy processes"),
        repeats=3,
        limit=(120.0, "seconds after which a fit is stopped"),
        one=(False, "print the seconds of one fit"),
    )
    if given.one:
        print(one_fit())
        return
    loads = [int(load) for load in given.loads.split(",")]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    rows: dict[str, dict[str, str]] = {name: {"threads": name} for name in VARIANTS}
    for load in loads:
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(load)]
        try:
            for name, variables in VARIANTS.items():
                seconds = [timed({**plain, **variables}, given.limit) for _ in range(given.repeats)]
                found = f"{median(seconds):.1f} s" if median(seconds) < given.limit else f"> {given.limit} s"
                rows[name][f"{load} busy processes"] = found
        finally:
            for process in busy:
                process.kill()
                process.wait()
    measuring.show_table(list(rows.values()))


if __name__ == "__main__":
    main()
