"""Carries out a plan: executes and stores the missing units, then builds the tables from the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from mtgcn.datasets import Description, describe
from mtgcn.environment import chosen_device, device_title
from mtgcn.errors import InputError
from mtgcn.experiments.curves import draw_curves
from mtgcn.experiments.executors import Executor, check_workers, default_workers, in_this_process, in_workers
from mtgcn.experiments.plan import Plan, Unit
from mtgcn.experiments.protocol import NODES, SUITES
from mtgcn.experiments.run import FittingProgress, silent_fitting
from mtgcn.experiments.store import Store, StoredRow
from mtgcn.experiments.tables import CellSummary, Evidence, MeasuredTable, measured_tables, stored_evidence

DEFAULT_NODES = 2000  # of a dataset that is not in `NODES`

# Called after each unit, with its title and the estimated seconds left (None: unknown).
Advance = Callable[[str, float | None], None]
# Entered around a sweep, with the number of units, of stored units and the estimated seconds left.
SweepProgress = Callable[[int, int, float | None], AbstractContextManager[Advance]]


def silent_sweep(_total: int, _done: int, _seconds_left: float | None) -> AbstractContextManager[Advance]:
    return nullcontext(lambda _title, _seconds_left: None)


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
    """Worker processes (None: by the number of cores), or the Ray cluster at an address while the context lasts."""
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
    units = {unit.id: unit for unit in plan.units}
    pending = {name: unit for name, unit in units.items() if name not in store.units}
    workers = max(1, min(machines.at_a_time, len(pending)))

    def time_left() -> float | None:
        return seconds_left(pending.values(), store.units.values(), workers)

    with sweep_progress(len(units), len(units) - len(pending), time_left()) as advance:

        def on_done(unit: Unit) -> None:
            del pending[unit.id]
            advance(unit.title, time_left())

        failed = run_missing(units.values(), store, machines.executor(workers), on_done)
    summaries: dict[str, CellSummary] = {}
    tables = measured_tables(plan, store.units, summaries)
    evidence = None
    if tables:
        suite = SUITES[plan.selection.suite] if plan.selection.suite else None
        evidence = stored_evidence(store.units, tables[0].lines[0].rows[0], suite, summaries)
    drawn = plan.selection.curves and plan.units
    return Reproduction(
        plan=plan,
        counts=counts,
        tables=tables,
        evidence=evidence,
        curves=draw_curves(plan.selection, store.folder, fitting_progress) if drawn else None,
        failures=tuple(f"{unit.title}: {error}" for unit, error in failed),
    )


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
