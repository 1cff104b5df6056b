"""A sweep: which units a command asks for, and running those that are not stored yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from mtgcn.benchmark.executors import Executor
from mtgcn.benchmark.protocol import (
    ABLATION,
    AVERAGES,
    BACKBONES,
    COUNTS_TABLE,
    PAPER_TABLES,
    PROTOCOL_TITLES,
    REFERENCE,
    TABLE_1,
    TABLES,
    Cell,
    Entry,
    Protocol,
    Table,
)
from mtgcn.benchmark.rows import StoredRow
from mtgcn.benchmark.split_choice import RANDOM
from mtgcn.benchmark.store import Store
from mtgcn.benchmark.units import Unit
from mtgcn.errors import InputError, unknown_name
from mtgcn.methods import METHODS, create
from mtgcn.settings import NonNegativeInt, PositiveInt, Settings

AUTHORS_SETTINGS = {"checkpoint": "best-training"}


@dataclass(frozen=True)
class Selection(Settings):
    """What a person asked for; None: everything the paper has."""

    tables: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    runs: PositiveInt | None = None
    seed: NonNegativeInt = 0
    protocol: Protocol = "ours"
    ablation: bool = False
    backbones: bool = False
    curves: bool = False  # also of the training, at the lowest and the highest label rate of each dataset
    device: str = "cpu"
    threads: PositiveInt = 1

    def __post_init__(self) -> None:
        for what, given, known in (
            ("table", self.tables, (COUNTS_TABLE, *TABLES)),
            ("dataset", self.datasets, _DATASETS),
            ("method", self.methods, METHODS),
            ("protocol", (self.protocol,), PROTOCOL_TITLES),
        ):
            for name in given or ():
                if name not in known:
                    raise unknown_name(what, name, known)
        super().__post_init__()
        if self.ablation and self.backbones:
            raise InputError("an ablation and a comparison of backbones are two sweeps; ask for one after the other")
        for asked, what in ((self.ablation, "an ablation"), (self.backbones, "a comparison of backbones")):
            if asked and (self.methods or self.protocol != "ours"):
                raise InputError(f"{what} is of {REFERENCE}, in our protocol; leave --methods and --protocol out")


_DATASETS = tuple(dict.fromkeys(cell.dataset for table in TABLES.values() for cell in table.cells))


@dataclass(frozen=True)
class PlannedUnit:
    """A unit, and the place in a table that it fills."""

    unit: Unit
    table: Table
    cell: Cell
    entry: Entry  # what the paper prints there
    title: str  # the method, or the variant of an ablation


@dataclass(frozen=True)
class Plan:
    """The places a selection asks to fill."""

    selection: Selection
    counted: tuple[str, ...]  # datasets whose line of table 1 was asked for
    units: tuple[PlannedUnit, ...]
    missing_methods: tuple[str, ...]  # in the tables, but not in this version of the program


def plan(selection: Selection) -> Plan:
    """List the units that a selection asks for, in the order of the tables."""
    places = [(table, cell) for table in _tables(selection) for cell in table.cells if _is_selected(cell, selection)]
    counted = tuple(
        printed.dataset
        for printed in TABLE_1
        if (selection.tables is None or COUNTS_TABLE in selection.tables)
        and (selection.datasets is None or printed.dataset in selection.datasets)
    )
    if not places and not counted:
        raise InputError(
            f"no cell of table {_listed(selection.tables)} is on dataset {_listed(selection.datasets)}; "
            "leave --table or --datasets out"
        )
    if selection.ablation or selection.backbones:
        units = [unit for table, cell in places if cell.split == RANDOM for unit in _variants(table, cell, selection)]
        return Plan(selection, counted, tuple(units), ())
    methods = {cell: _methods_of(cell, places, selection) for _, cell in places}
    units = [
        _planned(table, cell, cell.entry(name), name, {}, selection)
        for table, cell in places
        for name in methods[cell]
        if name in METHODS
    ]
    missing = dict.fromkeys(name for names in methods.values() for name in names if name not in METHODS)
    return Plan(selection, counted, tuple(units), tuple(missing))


def _tables(selection: Selection) -> list[Table]:
    if selection.tables is not None:
        return [TABLES[name] for name in selection.tables if name != COUNTS_TABLE]
    # A dataset that the paper does not have is run only if it is asked for.
    beyond = [table for table in TABLES.values() if table not in PAPER_TABLES] if selection.datasets else []
    return [*PAPER_TABLES, *beyond]


def _is_selected(cell: Cell, selection: Selection) -> bool:
    if selection.datasets is not None and cell.dataset not in selection.datasets:
        return False
    return cell.split == RANDOM or selection.protocol == "ours"  # the authors draw all their splits themselves


def _methods_of(cell: Cell, places: Iterable[tuple[Table, Cell]], selection: Selection) -> list[str]:
    """The methods to run in a cell: those it lists, or those asked for.

    A method asked for runs in the cells that list it, and one that none of them lists on all random splits.
    """
    listed = [entry.method for entry in cell.entries]
    if selection.protocol == "paper":
        listed = [name for name in listed if _reads_peers(name)]
        for name in selection.methods or ():
            if not _reads_peers(name):
                raise InputError(f"--protocol paper takes the better of two peers and {name} has none; leave it out")
    if selection.methods is None:
        return listed
    anywhere = {entry.method for _, other in places for entry in other.entries}
    return [name for name in selection.methods if name in listed or (name not in anywhere and cell.split == RANDOM)]


def _reads_peers(method: str) -> bool:
    return method in METHODS and set(AUTHORS_SETTINGS) <= set(METHODS[method].__dataclass_fields__)


def _variants(table: Table, cell: Cell, selection: Selection) -> Iterator[PlannedUnit]:
    if selection.ablation and table not in PAPER_TABLES:
        raise InputError(f"an ablation turns the paper's t, which it does not give for {cell.dataset}; leave it out")
    for variant in BACKBONES if selection.backbones else ABLATION:
        changes = variant.settings(cell.dataset)
        entry = Entry(REFERENCE) if changes else cell.entry(REFERENCE)
        yield _planned(table, cell, entry, variant.title, changes, selection)


def _planned(
    table: Table, cell: Cell, entry: Entry, title: str, changes: Mapping[str, object], selection: Selection
) -> PlannedUnit:
    authors = selection.protocol == "paper"
    averages = AVERAGES if authors else 1
    unit = Unit(
        protocol=selection.protocol,
        dataset=cell.dataset,
        labels_per_class=cell.labels_per_class,
        split=cell.split,
        validation=0 if authors else cell.validation,
        method=entry.method,
        settings=create(entry.method, **changes, **(AUTHORS_SETTINGS if authors else {})),
        runs=averages * (selection.runs or cell.runs),
        averages=averages,
        seed=selection.seed,
        device=selection.device,
        threads=selection.threads,
    )
    return PlannedUnit(unit, table, cell, entry, title)


def _listed(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names)


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

    ELSEWHERE = 2000  # nodes, of a dataset whose number is not in table 1

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
        nodes = {printed.dataset: printed.nodes for printed in TABLE_1}
        return runs * nodes.get(dataset, self.ELSEWHERE)
