"""Carries out a plan: executes and stores the missing units, then builds the tables from the store.

Units run in this process, in worker processes or on a Ray cluster. Rows do not depend on it: every unit runs with its
own fixed number of threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from mtgcn.datasets import Description, describe
from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.experiments.curves import draw_curves
from mtgcn.experiments.plan import Outcome, Plan, Unit, execute, usable_cores
from mtgcn.experiments.protocol import NODES, SUITES
from mtgcn.experiments.scoring import FittingProgress, silent_fitting
from mtgcn.experiments.store import Store, StoredRow
from mtgcn.experiments.tables import Evidence, MeasuredTable, stored_evidence
from mtgcn.memory import check_fits, keep_freed_blocks

WORKER_BYTES = 300 << 20  # of a process before it does anything
MAX_DEFAULT_WORKERS = 4  # each holds a graph and a stack of runs in memory
DEFAULT_NODES = 2000  # of a dataset that is not in `NODES`

Executor = Callable[[Sequence[Unit]], Generator[Outcome, None, None]]
# Called after each unit, with its title and the estimated seconds left (None: unknown).
Advance = Callable[[str, float | None], None]
# Entered around a sweep, with the number of units, of stored units and the estimated seconds left.
SweepProgress = Callable[[int, int, float | None], AbstractContextManager[Advance]]


def silent_sweep(_total: int, _done: int, _seconds_left: float | None) -> AbstractContextManager[Advance]:
    return nullcontext(lambda _title, _seconds_left: None)


def in_this_process(units: Sequence[Unit]) -> Generator[Outcome, None, None]:
    """Execute one unit after the other."""
    for unit in units:
        try:
            yield unit, execute(unit)
        except InputError as error:
            yield unit, error


def in_workers(units: Sequence[Unit], workers: int) -> Generator[Outcome, None, None]:
    """Yield units in the order in which `workers` processes finish them.

    Each worker watches a pipe whose other end only this process holds. When that end closes, because the sweep ends or
    this process dies, the worker exits at once.
    """
    watched, held = Pipe(duplex=False)
    # Spawned, since torch may hang in a forked process.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(watched,))
    in_main_thread = threading.current_thread() is threading.main_thread()  # which alone receives signals
    try:
        # Inherited by the workers: only this process handles Ctrl-C.
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
                    f"one of {workers} workers was killed, most likely for want of memory; "
                    "start the same command with fewer --workers, what was finished is stored"
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

    device: str  # as in units: "cpu", or "cuda" with the model of the GPU
    at_a_time: int  # most units at a time
    executor: Callable[[int], Executor]  # for this many units at a time


def _processes(workers: int) -> Executor:
    return in_this_process if workers == 1 else partial(in_workers, workers=workers)


THIS_PROCESS = Machines("cpu", 1, _processes)


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
        yield Machines(title, workers, _processes)
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


@dataclass(frozen=True)
class Reproduction:
    """The result of a plan."""

    plan: Plan
    counts: tuple[Description, ...]  # of the datasets whose line of table 1 is asked for
    tables: tuple[MeasuredTable, ...]  # of this plan
    evidence: Evidence | None  # of the whole folder; None if it holds no rows
    curves: Path | None  # the file of training curves, if asked for
    failures: tuple[str, ...]  # units that cannot be run, and why


def carry_out(
    plan: Plan,
    store: Store,
    machines: Machines = THIS_PROCESS,
    sweep_progress: SweepProgress = silent_sweep,
    fitting_progress: FittingProgress = silent_fitting,
) -> Reproduction:
    """Execute the units that are not stored and build the tables."""
    counts = tuple(describe(name) for name in plan.counted)  # first, to fail early if a dataset is missing
    failed = sweep(plan.units, store, machines, sweep_progress)
    own = {unit.id: store.units[unit.id] for unit in plan.units if unit.id in store.units}
    tables: tuple[MeasuredTable, ...] = ()
    evidence = None
    if own:
        suite = SUITES[plan.selection.suite] if plan.selection.suite else None
        tables = getattr(stored_evidence(own, suite=suite), plan.selection.kind)
        evidence = stored_evidence(store.units, next(iter(own.values()))[0], suite)
    drawn = plan.selection.curves and plan.units
    return Reproduction(
        plan=plan,
        counts=counts,
        tables=tables,
        evidence=evidence,
        curves=draw_curves(plan.selection, store.folder, fitting_progress) if drawn else None,
        failures=tuple(f"{unit.title}: {error}" for unit, error in failed),
    )


def sweep(
    planned: Iterable[Unit], store: Store, machines: Machines, progress: SweepProgress = silent_sweep
) -> list[tuple[Unit, InputError]]:
    """Execute and store the units that are not stored, with progress and time left; returns the failed ones."""
    units = {unit.id: unit for unit in planned}
    pending = {name: unit for name, unit in units.items() if name not in store.units}
    workers = max(1, min(machines.at_a_time, len(pending)))

    def time_left() -> float | None:
        return seconds_left(pending.values(), store.units.values(), workers)

    with progress(len(units), len(units) - len(pending), time_left()) as advance:

        def on_done(unit: Unit) -> None:
            del pending[unit.id]
            advance(unit.title, time_left())

        return run_missing(units.values(), store, machines.executor(workers), on_done)


def run_missing(
    units: Iterable[Unit], store: Store, executor: Executor, on_done: Callable[[Unit], None] = lambda _: None
) -> list[tuple[Unit, InputError]]:
    """Execute the units that are not stored, store each as soon as it is done, and return the failed ones."""
    failed = []
    missing = [unit for unit in units if unit.id not in store.units]
    with closing(executor(missing)) as outcomes:  # which ends the workers
        for unit, outcome in outcomes:
            if isinstance(outcome, InputError):
                failed.append((unit, outcome))
            else:
                store.append(outcome)
            on_done(unit)
    return failed


def seconds_left(units: Iterable[Unit], stored: Iterable[Sequence[StoredRow]], workers: int) -> float | None:
    """Estimated time of units, from the seconds per run and node of the stored rows of their method.

    A method without rows takes as long as the average; None without any rows.
    """
    totals: defaultdict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))  # seconds; runs x nodes
    for rows in stored:
        nodes = NODES.get(rows[0].dataset, DEFAULT_NODES)
        totals[rows[0].method] += (sum(row.seconds for row in rows), len(rows) * nodes)
    if not totals:
        return None
    average = sum(totals.values(), np.zeros(2))
    left = 0.0
    for unit in units:
        seconds, work = totals.get(unit.method, average)
        left += seconds / work * unit.runs * NODES.get(unit.dataset, DEFAULT_NODES)
    return left / workers
