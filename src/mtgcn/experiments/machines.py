"""What a sweep runs on: processes of this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.experiments.executors import Executor, check_workers, default_workers, in_this_process, in_workers


@dataclass(frozen=True)
class Machines:
    """Where units are executed, and on what."""

    device: str  # in words, as units name it
    at_a_time: int  # units, if there are so many
    executor: Callable[[int], Executor]  # for so many units at a time


def _processes(workers: int) -> Executor:
    return in_this_process if workers == 1 else partial(in_workers, workers=workers)


THIS_PROCESS = Machines("cpu", 1, _processes)


@contextmanager
def machines(device: str, threads: int, workers: int | None = None, ray: str | None = None) -> Iterator[Machines]:
    """What was asked for: a device by its name, and either a number of processes (None: by cores) or the address of a
    Ray cluster, which is left, or ended where it was started for this, with the context."""
    if ray is None:
        if workers is not None:
            check_workers(workers)
        title = device_title(chosen_device(device))
        yield Machines(title, workers or default_workers(title, threads), _processes)
        return
    if workers is not None:
        raise InputError(
            f"--workers {workers} are processes of this machine, and --ray {ray} takes as many as the cluster has room "
            "for; give one of the two"
        )
    from mtgcn.experiments.ray_cluster import ray_cluster

    with ray_cluster(ray) as cluster:
        title = cluster.chosen_device(device)
        yield Machines(title, cluster.at_a_time(title, threads), lambda _: cluster.execute)
