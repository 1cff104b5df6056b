"""Carry a plan out: units that are not stored yet are run and stored, then the tables are built from what is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from mtgcn.datasets import Description, describe
from mtgcn.errors import InputError
from mtgcn.experiments.curves import draw_curves
from mtgcn.experiments.executors import Executor
from mtgcn.experiments.machines import THIS_PROCESS, Machines
from mtgcn.experiments.plan import Plan
from mtgcn.experiments.progress import FittingProgress, SweepProgress, silent_fitting, silent_sweep
from mtgcn.experiments.protocol import TABLE_1
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.store import Store
from mtgcn.experiments.suite import NODES, SUITES
from mtgcn.experiments.tables import Evidence, MeasuredTable, measured_tables, stored_evidence
from mtgcn.experiments.units import Unit


@dataclass(frozen=True)
class Reproduction:
    """What came of a plan."""

    plan: Plan
    counts: tuple[Description, ...]  # of the datasets whose line of table 1 was asked for
    tables: tuple[MeasuredTable, ...]  # of this plan, not of everything in the folder
    evidence: Evidence | None  # of everything in the folder that may stand beside them; None: there is nothing
    curves: Path | None  # the file of the training curves, if they were asked for
    failures: tuple[str, ...]  # units that cannot be run, and why


def carry_out(
    plan: Plan,
    store: Store,
    machines: Machines = THIS_PROCESS,
    sweep_progress: SweepProgress = silent_sweep,
    fitting_progress: FittingProgress = silent_fitting,
) -> Reproduction:
    """Run what the store does not hold, on these machines, and build the tables."""
    counts = tuple(describe(name) for name in plan.counted)  # first: a dataset that is nowhere should be said soon
    failures = _run_with_progress(plan, store, machines, sweep_progress)
    tables = measured_tables(plan, store.units)
    suite = SUITES[plan.selection.suite] if plan.selection.suite else None
    drawn = plan.selection.curves and plan.units
    return Reproduction(
        plan=plan,
        counts=counts,
        tables=tables,
        evidence=stored_evidence(store.units, like=tables[0].lines[0].rows[0], suite=suite) if tables else None,
        curves=draw_curves(plan.selection, store.folder, fitting_progress) if drawn else None,
        failures=failures,
    )


def _run_with_progress(plan: Plan, store: Store, machines: Machines, progress: SweepProgress) -> tuple[str, ...]:
    units = {planned.unit.id: planned.unit for planned in plan.units}
    pending = {name: unit for name, unit in units.items() if name not in store.units}
    workers = max(1, min(machines.at_a_time, len(pending)))
    time_left = TimeLeft(store.units.values())
    first_guess = time_left.seconds(pending.values(), workers)
    with progress(len(units), len(units) - len(pending), first_guess) as advance:

        def on_done(unit: Unit) -> None:
            del pending[unit.id]
            if unit.id in store.units:
                time_left.saw(store.units[unit.id])
            advance(unit.title, time_left.seconds(pending.values(), workers))

        failed = run_missing(units.values(), store, machines.executor(workers), on_done)
    return tuple(f"{unit.title}: {error}" for unit, error in failed)


def run_missing(
    units: Iterable[Unit], store: Store, executor: Executor, on_stored: Callable[[Unit], None] = lambda _: None
) -> list[tuple[Unit, InputError]]:
    """Execute the units that the store does not hold and store each as soon as it is done.

    Gives back the units that cannot be executed, and why; they keep no other from running.
    """
    failed = []
    missing = [unit for unit in units if unit.id not in store.units]
    with closing(executor(missing)) as outcomes:  # workers end with it
        for unit, outcome in outcomes:
            if isinstance(outcome, InputError):
                failed.append((unit, outcome))
            else:
                store.append(outcome)
            on_stored(unit)
    return failed


class TimeLeft:
    """A guess from what was seen: the seconds a method took for a run and node, times what is left of them."""

    ELSEWHERE = 2000  # nodes, of a dataset whose number is neither in table 1 nor known of a suite

    def __init__(self, rows: Iterable[Sequence[StoredRow]]) -> None:
        self._seconds: dict[str, float] = {}
        self._work: dict[str, float] = {}
        for unit_rows in rows:
            self.saw(unit_rows)

    def saw(self, rows: Sequence[StoredRow]) -> None:
        """Learn from the rows of a unit."""
        method = rows[0].method
        self._seconds[method] = self._seconds.get(method, 0) + sum(row.seconds for row in rows)
        self._work[method] = self._work.get(method, 0) + self._work_of(rows[0].dataset, len(rows))

    def seconds(self, units: Iterable[Unit], workers: int) -> float | None:
        """How long these units will take `workers` processes; None while nothing was seen."""
        if not self._work:
            return None
        typical = sum(self._seconds.values()) / sum(self._work.values())
        return (
            sum(self._rate(unit.method, typical) * self._work_of(unit.dataset, unit.runs) for unit in units) / workers
        )

    def _rate(self, method: str, typical: float) -> float:
        return self._seconds[method] / self._work[method] if method in self._work else typical

    def _work_of(self, dataset: str, runs: int) -> float:
        nodes = {printed.dataset: printed.nodes for printed in TABLE_1} | NODES
        return runs * nodes.get(dataset, self.ELSEWHERE)
