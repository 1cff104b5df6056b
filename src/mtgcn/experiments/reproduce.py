"""Carries out a plan: executes and stores the missing units, then builds the tables from the store.

Units run in this process, in worker processes or on a Ray cluster. Rows are the same everywhere, since every unit
runs with its own fixed number of threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

from mtgcn.datasets import Description, describe
from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.experiments.curves import draw_curves
from mtgcn.experiments.plan import Outcome, Plan, Unit, execute, usable_cores
from mtgcn.experiments.protocol import SUITES
from mtgcn.experiments.scoring import FittingProgress
from mtgcn.experiments.store import Store
from mtgcn.experiments.tables import Evidence, Line, stored_evidence
from mtgcn.memory import check_fits, keep_freed_blocks

WORKER_BYTES = 300 << 20  # memory of an idle worker process
MAX_DEFAULT_WORKERS = 4  # each holds a graph and a stack of runs in memory

# Entered around a sweep, with the numbers of units and of stored units; called with the title of each finished unit.
SweepProgress = Callable[[int, int], AbstractContextManager[Callable[[str], None]]]


def in_processes(units: Sequence[Unit], workers: int = 1) -> Generator[Outcome, None, None]:
    """Yield units in the order in which `workers` processes finish them; a single worker is this process.

    Each worker watches a pipe whose other end only this process holds. When that end closes, because the sweep ends or
    this process dies, the worker exits at once.
    """
    if workers == 1:
        for unit in units:
            try:
                yield unit, execute(unit)
            except InputError as error:
                yield unit, error
        return
    watched, held = Pipe(duplex=False)
    # Workers are spawned, since torch may hang in a forked process.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(watched,))
    in_main_thread = threading.current_thread() is threading.main_thread()  # only this thread receives signals
    try:
        # Workers inherit this, so that only this process handles Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
        try:
            futures = {pool.submit(execute, unit): unit for unit in units}
        finally:
            if in_main_thread:
                signal.signal(signal.SIGINT, before)
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                raise InputError(
                    f"one of {workers} workers was killed, probably out of memory; "
                    "start the same command with fewer --workers; finished units are kept"
                ) from None
            except InputError as error:
                yield futures[future], error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        held.close()
        watched.close()


def _start_worker(watched: Connection) -> None:
    def exit_with_parent() -> None:
        try:
            watched.recv()
        except (EOFError, OSError):
            os._exit(1)

    keep_freed_blocks()
    threading.Thread(target=exit_with_parent, daemon=True).start()


@dataclass(frozen=True)
class Machines:
    """The executor of a sweep and its device."""

    device: str = "cpu"  # as in units: "cpu", or "cuda" with the model of the GPU
    at_a_time: int = 1  # maximum number of units at a time
    # Yields the outcomes of units, at most so many of them at a time.
    execute: Callable[[Sequence[Unit], int], Generator[Outcome, None, None]] = in_processes


@contextmanager
def machines(device: str, threads: int, workers: int | None = None, ray: str | None = None) -> Iterator[Machines]:
    """Worker processes (None: one on a GPU, else by the number of cores), or the Ray cluster at an address."""
    if ray is None:
        title = device_title(chosen_device(device))
        if workers is None:
            by_cores = max(1, min(usable_cores() // threads, MAX_DEFAULT_WORKERS))
            workers = 1 if title.startswith("cuda") else by_cores
        elif workers < 1:
            raise InputError(f"workers is {workers}; give at least 1")
        check_fits(workers * WORKER_BYTES, f"workers is {workers}, which", "give fewer")
        yield Machines(title, workers)
        return
    if workers is not None:
        raise InputError(
            f"--workers {workers} starts processes on this machine, and --ray {ray} uses all of the cluster; "
            "give one of the two"
        )
    from mtgcn.experiments.ray_cluster import ray_cluster

    with ray_cluster(ray) as cluster:
        title = cluster.chosen_device(device)
        yield Machines(title, cluster.at_a_time(title, threads), lambda units, _: cluster.execute(units))


@dataclass(frozen=True)
class Reproduction:
    """The result of a plan."""

    plan: Plan
    counts: tuple[Description, ...]  # sizes of the datasets whose line of table 1 is requested
    lines: tuple[Line, ...]  # lines of this plan
    evidence: Evidence | None  # all lines of the folder; None if it has no rows
    curves: Path | None  # the file of training curves, if requested
    failures: tuple[str, ...]  # units that cannot be run, and why


def carry_out(
    plan: Plan,
    store: Store,
    machines: Machines,
    sweep_progress: SweepProgress,
    fitting_progress: FittingProgress,
) -> Reproduction:
    """Execute the units that are not stored and build the tables."""
    counts = tuple(describe(name) for name in plan.counted)  # first, so that a missing dataset is an early error
    failed = sweep(plan.units, store, machines, sweep_progress)
    own = {unit.id: store.units[unit.id] for unit in plan.units if unit.id in store.units}
    lines: tuple[Line, ...] = ()
    evidence = None
    if own:
        suite = SUITES[plan.selection.suite] if plan.selection.suite else None
        lines = getattr(stored_evidence(own, suite=suite), plan.selection.kind)
        evidence = stored_evidence(store.units, next(iter(own.values()))[0], suite)
    drawn = plan.selection.curves and plan.units
    return Reproduction(
        plan=plan,
        counts=counts,
        lines=lines,
        evidence=evidence,
        curves=draw_curves(plan, store.folder, fitting_progress) if drawn else None,
        failures=tuple(f"{unit.title}: {error}" for unit, error in failed),
    )


def sweep(
    planned: Iterable[Unit], store: Store, machines: Machines, progress: SweepProgress
) -> list[tuple[Unit, InputError]]:
    """Execute the units that are not stored, store each as soon as it is done, and return the failed ones."""
    units = {unit.id: unit for unit in planned}
    missing = [unit for name, unit in units.items() if name not in store.units]
    failed = []
    with (
        progress(len(units), len(units) - len(missing)) as advance,
        closing(machines.execute(missing, max(1, min(machines.at_a_time, len(missing))))) as outcomes,  # ends workers
    ):
        for unit, outcome in outcomes:
            if isinstance(outcome, InputError):
                failed.append((unit, outcome))
            else:
                store.append(outcome)
            advance(unit.title)
    return failed
