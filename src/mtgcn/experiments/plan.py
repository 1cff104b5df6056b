"""Which units of work a command asks for, and which place of the tables each of them fills."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from mtgcn.environment import MAX_THREADS
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments.placing import Place
from mtgcn.experiments.protocol import (
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
from mtgcn.experiments.split_choice import PUBLIC, RANDOM
from mtgcn.experiments.suite import SUITES
from mtgcn.experiments.units import Unit
from mtgcn.methods import METHODS, create
from mtgcn.settings import Ge, Le, Settings
from mtgcn.splits import MOST_RUNS

AUTHORS_SETTINGS = {"checkpoint": "best-training"}


@dataclass(frozen=True)
class Selection(Settings):
    """What a person asked for; None: everything the paper has or, where one is named, the suite."""

    suite: str | None = None
    tables: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    runs: Annotated[int, Ge(1), Le(MOST_RUNS)] | None = None
    seed: Annotated[int, Ge(0)] = 0
    protocol: Protocol = "ours"
    ablation: bool = False
    backbones: bool = False
    curves: bool = False  # also of the training, at the lowest and the highest label rate of each dataset
    device: str = "cpu"
    threads: Annotated[int, Ge(1), Le(MAX_THREADS)] = 1

    def __post_init__(self) -> None:
        for what, given, known in (
            ("suite", None if self.suite is None else (self.suite,), SUITES),
            ("table", self.tables, (COUNTS_TABLE, *TABLES)),
            ("dataset", self.datasets, SUITES[self.suite].datasets if self.suite in SUITES else _DATASETS),
            ("method", self.methods, METHODS),
            ("protocol", (self.protocol,), PROTOCOL_TITLES),
        ):
            for name in given or ():
                if name not in known:
                    raise unknown_name(what, name, known)
        super().__post_init__()
        if self.suite is not None:
            self._check_suite()
        if self.ablation and self.backbones:
            raise InputError("an ablation and a comparison of backbones are two sweeps; ask for one after the other")
        for asked, what in ((self.ablation, "an ablation"), (self.backbones, "a comparison of backbones")):
            if asked and (self.methods or self.protocol != "ours"):
                raise InputError(f"{what} is of {REFERENCE}, in our protocol; leave --methods and --protocol out")

    def _check_suite(self) -> None:
        for asked, option in (
            (self.tables is not None, "--table"),
            (self.protocol != "ours", f"--protocol {self.protocol}"),
            (self.ablation, "--ablation"),
            (self.backbones, "--backbones"),
            (self.curves, "--curves"),
        ):
            if asked:
                raise InputError(
                    f"--suite {self.suite} is not for {option}, which is for the paper's tables; leave it out"
                )
        for name in self.methods or ():
            if METHODS[name].uses_validation:
                raise InputError(
                    f"{name} chooses its epoch on validation nodes and the suite {self.suite} sets none aside; "
                    f"leave {name} out"
                )


_DATASETS = tuple(dict.fromkeys(cell.dataset for table in TABLES.values() for cell in table.cells))


@dataclass(frozen=True)
class PlannedUnit:
    """A unit, and the place in a table that it fills."""

    unit: Unit
    place: Place


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
        if selection.suite is None
        and (selection.tables is None or COUNTS_TABLE in selection.tables)
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
    entries = {cell: _entries_of(cell, places, selection) for _, cell in places}
    units = [
        _planned(Place(table, cell, selection.protocol, entry.title), entry.settings, selection)
        for table, cell in places
        for entry in entries[cell]
        if entry.method in METHODS
    ]
    missing = dict.fromkeys(entry.method for some in entries.values() for entry in some if entry.method not in METHODS)
    return Plan(selection, counted, tuple(units), tuple(missing))


def _tables(selection: Selection) -> Sequence[Table]:
    if selection.suite is not None:
        return SUITES[selection.suite].tables
    if selection.tables is not None:
        return [TABLES[name] for name in selection.tables if name != COUNTS_TABLE]
    # A dataset that the paper does not have is run only if it is asked for.
    beyond = [table for table in TABLES.values() if table not in PAPER_TABLES] if selection.datasets else []
    return [*PAPER_TABLES, *beyond]


def _is_selected(cell: Cell, selection: Selection) -> bool:
    if selection.datasets is not None and cell.dataset not in selection.datasets:
        return False
    return cell.split == RANDOM or selection.protocol == "ours"  # the authors draw all their splits themselves


def _entries_of(cell: Cell, places: Iterable[tuple[Table, Cell]], selection: Selection) -> list[Entry]:
    """What to run in a cell: the entries it lists, or those of the methods asked for.

    A method asked for runs in the cells that list it, and one that none of them lists on all random splits.
    """
    listed = list(cell.entries)
    if selection.protocol == "paper":
        listed = [entry for entry in listed if _reads_peers(entry.method)]
        for name in selection.methods or ():
            if not _reads_peers(name):
                raise InputError(f"--protocol paper takes the better of two peers and {name} has none; leave it out")
    if selection.methods is None:
        return listed
    anywhere = {entry.method for _, other in places for entry in other.entries}
    chosen = []
    for name in selection.methods:
        chosen += [entry for entry in listed if entry.method == name]
        chosen += [Entry(name)] if name not in anywhere and cell.split != PUBLIC else []
    return chosen


def _reads_peers(method: str) -> bool:
    return method in METHODS and set(AUTHORS_SETTINGS) <= set(METHODS[method].__dataclass_fields__)


def _variants(table: Table, cell: Cell, selection: Selection) -> Iterator[PlannedUnit]:
    if selection.ablation and table not in PAPER_TABLES:
        raise InputError(f"an ablation turns the paper's t, which it does not give for {cell.dataset}; leave it out")
    for variant in BACKBONES if selection.backbones else ABLATION:
        place = Place(table, cell, selection.protocol, variant.title)
        yield _planned(place, variant.settings(cell.dataset), selection)


def _planned(place: Place, changes: Mapping[str, object], selection: Selection) -> PlannedUnit:
    cell, method = place.cell, place.entry.method
    authors = selection.protocol == "paper"
    averages = AVERAGES if authors else 1
    unit = Unit(
        protocol=selection.protocol,
        dataset=cell.dataset,
        labels_per_class=cell.labels_per_class,
        split=cell.split,
        validation=0 if authors else cell.validation,
        method=method,
        settings=create(method, **changes, **(AUTHORS_SETTINGS if authors else {})),
        runs=averages * (selection.runs or cell.runs),
        averages=averages,
        seed=selection.seed,
        device=selection.device,
        threads=selection.threads,
    )
    return PlannedUnit(unit, place)


def _listed(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names)
