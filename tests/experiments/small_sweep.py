"""A sweep of a few seconds, to be started as a program and killed: `small_sweep.py FOLDER WORKERS`."""

import sys
from functools import partial
from pathlib import Path

from mtgcn.experiments.executors import in_this_process, in_workers
from mtgcn.experiments.plan import Unit
from mtgcn.experiments.reproduce import run_missing
from mtgcn.experiments.store import Store
from mtgcn.methods import create


def units():
    settings = [
        ("gcn", {"epochs": 30, "hidden_channels": 4}),
        ("gcn+v", {"epochs": 30, "hidden_channels": 4}),
        ("mt-gcn", {"warmup_epochs": 15, "teaching_epochs": 15, "hidden_channels": 4, "per_class": 20}),
    ]
    return [
        Unit(
            protocol="ours",
            dataset="digits",
            labels_per_class=labels_per_class,
            split="random",
            validation=500,
            method=name,
            settings=create(name, **changes),
            runs=3,
            averages=1,
            seed=0,
            device="cpu",
            threads=1,
        )
        for labels_per_class in (2, 3, 4, 5)
        for name, changes in settings
    ]


def main(folder, workers):
    executor = in_this_process if workers == 1 else partial(in_workers, workers=workers)
    with Store(Path(folder), warn=print) as store:
        print("started", flush=True)
        run_missing(units(), store, executor)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
