"""A sweep one of whose units waits to be disturbed, to be started as a program: `ray_sweep.py FOLDER SIGNS ADDRESS`.

Without an address it runs in this process. A unit that waits writes the id of its process into the folder of signs and
goes on when a file `go` is there.
"""

import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from mtgcn.experiments.executors import in_this_process
from mtgcn.experiments.ray_cluster import ray_cluster
from mtgcn.experiments.reproduce import run_missing
from mtgcn.experiments.store import Store
from mtgcn.methods import Method, create
from mtgcn.task import Prediction, Task


@dataclass(frozen=True, kw_only=True)
class Waiting(Method):
    """gcn, which first waits to be told to go on."""

    signs: str

    def fit(self, task: Task) -> Prediction:
        signs = Path(self.signs)
        with (signs / "processes").open("a") as file:
            file.write(f"{os.getpid()}\n")
        while not (signs / "go").exists():
            time.sleep(0.02)
        return create("gcn", epochs=30, hidden_channels=4).fit(task)


def units(signs):
    import small_sweep  # found beside this file only when it is started as a program

    first, *others = small_sweep.units()[:4]
    return [replace(first, method="waiting", settings=Waiting(signs=signs)), *others]


def main(folder, signs, address=None):
    with Store(Path(folder)) as store:
        if address is None:
            run_missing(units(signs), store, in_this_process)
        else:
            with ray_cluster(address) as cluster:
                run_missing(units(signs), store, cluster.execute)


if __name__ == "__main__":
    main(*sys.argv[1:])
