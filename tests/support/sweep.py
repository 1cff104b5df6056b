"""A sweep of a few seconds as a program, to be killed or disturbed, and helpers for tests of it.

`sweep.py FOLDER [--workers N] [--ray ADDRESS] [--signs FOLDER]`. With a folder of signs, the first of four units writes
the id of its process there and waits for a file `go`; without, twelve units run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from mtgcn.experiments.plan import Unit
from mtgcn.experiments.reproduce import machines, sweep
from mtgcn.experiments.store import Store
from mtgcn.methods import Method, create
from mtgcn.report.progress import sweep_progress

RUNS = 3
METHODS = {
    "gcn": {"epochs": 30, "hidden_channels": 4},
    "gcn+v": {"epochs": 30, "hidden_channels": 4},
    "mt-gcn": {"warmup_epochs": 15, "teaching_epochs": 15, "hidden_channels": 4, "per_class": 20},
}


@dataclass(frozen=True, kw_only=True)
class Waiting(Method):
    """gcn, after a file `go` appears."""

    signs: str

    def fit(self, task):
        signs = Path(self.signs)
        with (signs / "processes").open("a") as file:
            file.write(f"{os.getpid()}\n")
        while not (signs / "go").exists():
            time.sleep(0.02)
        return create("gcn", **METHODS["gcn"]).fit(task)


def units(signs=None):
    shared = {"protocol": "ours", "dataset": "digits", "split": "random", "validation": 500, "runs": RUNS}
    shared |= {"averages": 1, "seed": 0, "device": "cpu", "threads": 1}
    found = [
        Unit(**shared, labels_per_class=labels_per_class, method=name, settings=create(name, **settings))
        for labels_per_class in (2, 3, 4, 5)
        for name, settings in METHODS.items()
    ]
    if signs is None:
        return found
    return [replace(found[0], method="waiting", settings=Waiting(signs=str(signs))), *found[1:4]]


@contextmanager
def started(*command, **options):
    """A Python program, killed at the end if it still runs."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    # Background jobs of a shell ignore the signal, and the tests may be one of them.
    options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, *map(str, command)], **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def finished(*command, **options):
    with started(*command, **options) as process:
        out, errors = process.communicate(timeout=240)
        return process.returncode, out, errors


def rows_without_seconds(folder):
    rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
    assert all(row.pop("seconds") > 0 for row in rows)
    return sorted(rows, key=lambda row: (row["unit"], row["run"]))


def all_gone(processes):
    return all(not one.is_running() or one.status() == psutil.STATUS_ZOMBIE for one in processes)


def has_rows(folder):
    path = folder / "rows.jsonl"
    return path.exists() and path.stat().st_size > 0


def wait_until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--ray")
    parser.add_argument("--signs")
    given = parser.parse_args()
    workers = None if given.ray else given.workers
    with Store(given.folder, warn=lambda _: None) as store, machines("cpu", 1, workers, given.ray) as found:
        sweep(units(given.signs), store, found, sweep_progress)


if __name__ == "__main__":
    main()
