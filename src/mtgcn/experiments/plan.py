"""The units of work that a command asks for, their places in the tables, and their execution."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any

import torch
from threadpoolctl import threadpool_limits

from mtgcn import datasets, environment
from mtgcn.environment import MAX_THREADS
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments.protocol import (
    ABLATION,
    ABLATION_TITLES,
    ALL_TABLES,
    AVERAGES,
    BACKBONE_TITLES,
    BACKBONES,
    COUNTS_TABLE,
    OVER_ALL,
    PAPER_TABLES,
    PROTOCOL_TITLES,
    PUBLIC,
    RANDOM,
    REFERENCE,
    SUITES,
    TABLE_1,
    TABLES,
    TAUGHT_GCN,
    VARIANTS,
    Cell,
    Entry,
    Protocol,
    Table,
    authors_splits,
    labels_title,
    with_unknown_as_first_class,
)
from mtgcn.experiments.run import run_cell
from mtgcn.experiments.scoring import score, score_better_peer
from mtgcn.experiments.store import StoredRow
from mtgcn.graph import Graph
from mtgcn.memory import CPU_BUDGET
from mtgcn.methods import METHODS, Method, create
from mtgcn.settings import Ge, Le, Settings
from mtgcn.splits import MOST_RUNS, Split, draw_over_all, draw_splits

# Results depend on how runs are divided into stacks, so the budget must not depend on the free memory of a GPU.
CUDA_BUDGET = 4 * 2**30
# Results may change with any of these, but not with the version of Python.
DECISIVE_VERSIONS = ("mtgcn", "torch", "numpy", "scipy")
AUTHORS_SETTINGS = {"checkpoint": "best-training"}
_DATASETS = tuple(dict.fromkeys(cell.dataset for table in TABLES.values() for cell in table.cells))


@dataclass(frozen=True)
class Selection(Settings):
    """The options of `mtgcn reproduce`; None: everything the paper, or the suite, has."""

    suite: str | None = None
    tables: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    methods: Sequence[str] | None = None
    runs: Annotated[int, Ge(1), Le(MOST_RUNS)] | None = None
    seed: Annotated[int, Ge(0)] = 0
    protocol: Protocol = "ours"
    ablation: bool = False
    backbones: bool = False
    curves: bool = False
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
        of_paper = {
            "--table": self.tables is not None,
            f"--protocol {self.protocol}": self.protocol != "ours",
            "--ablation": self.ablation,
            "--backbones": self.backbones,
            "--curves": self.curves,
        }
        if self.suite is not None:
            for option in (option for option, given in of_paper.items() if given):
                raise InputError(f"--suite {self.suite} excludes {option}, an option of the paper's tables; omit it")
            for name in (name for name in self.methods or () if METHODS[name].uses_validation):
                raise InputError(
                    f"{name} chooses its epoch on validation nodes and the suite {self.suite} has none; omit {name}"
                )
        if self.ablation and self.backbones:
            raise InputError("an ablation and a comparison of backbones are two sweeps; ask for one after the other")
        for asked, what in ((self.ablation, "an ablation"), (self.backbones, "a comparison of backbones")):
            if asked and (self.methods or self.protocol != "ours"):
                raise InputError(f"{what} is of {REFERENCE}, in our protocol; leave --methods and --protocol out")


@dataclass(frozen=True)
class Unit:
    """One method on one cell, all runs together: everything that decides the numbers, and the place in the tables."""

    protocol: Protocol
    dataset: str
    labels_per_class: int
    split: str
    validation: int  # nodes set aside and not scored
    method: str
    settings: Method
    runs: int
    averages: int  # 1 except for the authors' way of reporting
    seed: int
    device: str  # "cpu", or "cuda" with the model of the GPU
    threads: int
    table: str = ""  # name of the table and title of the line
    line: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Units with equal identities have equal rows except for the seconds."""
        parts = {**asdict(self), "versions": decisive_versions()}
        del parts["table"], parts["line"]
        return json.loads(json.dumps(parts))  # tuples as lists, as in the store

    @cached_property
    def id(self) -> str:
        """Hash of the identity."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        return f"{self.method} on {self.dataset}, {labels_title(self.labels_per_class, self.split)}"


@dataclass(frozen=True)
class Place:
    """A line in a cell of a table, in one protocol."""

    table: Table
    cell: Cell
    protocol: Protocol
    title: str  # of the entry or variant

    @property
    def is_variant(self) -> bool:
        return self.title in VARIANTS

    @property
    def entry(self) -> Entry:
        """The entry of the cell; without a printed accuracy for a variant."""
        if self.title == TAUGHT_GCN:
            return self.cell.entry(REFERENCE)
        return Entry(REFERENCE) if self.is_variant else self.cell.entry(self.title)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sorts places by table, cell and line."""
        known = [*(entry.title for entry in self.cell.entries), *ABLATION_TITLES, *BACKBONE_TITLES]
        return (
            list(ALL_TABLES).index(self.table.name),
            self.table.cells.index(self.cell),
            known.index(self.title) if self.title in known else len(known),
        )


def place_of(one: Unit | StoredRow) -> Place | None:
    """The place of a unit or of its rows; None if it is in no table, as in a comparison."""
    if one.table not in ALL_TABLES:
        return None
    table = ALL_TABLES[one.table]
    where = one.dataset, one.labels_per_class, one.split
    cells = [cell for cell in table.cells if (cell.dataset, cell.labels_per_class, cell.split) == where]
    return Place(table, cells[0], one.protocol, one.line) if cells else None


@dataclass(frozen=True)
class Plan:
    """The units of a selection."""

    selection: Selection
    counted: tuple[str, ...]  # datasets whose line of table 1 is asked for
    units: tuple[Unit, ...]
    missing_methods: tuple[str, ...]  # in the tables, but not in this version


def plan(selection: Selection) -> Plan:
    """List the units of a selection, in the order of the tables."""
    cells = _selected_cells(selection)
    counted = tuple(
        printed.dataset
        for printed in TABLE_1
        if selection.suite is None
        and (selection.tables is None or COUNTS_TABLE in selection.tables)
        and (selection.datasets is None or printed.dataset in selection.datasets)
    )
    if not cells and not counted:
        tables, chosen = (", ".join(names or ("any",)) for names in (selection.tables, selection.datasets))
        raise InputError(f"no cell of table {tables} is on dataset {chosen}; leave --table or --datasets out")
    if selection.ablation or selection.backbones:
        units = [unit for table, cell in cells if cell.split == RANDOM for unit in _variants(table, cell, selection)]
        return Plan(selection, counted, tuple(units), ())
    entries = [(table, cell, entry) for table, cell in cells for entry in _entries_of(cell, cells, selection)]
    units = [
        _unit(table, cell, selection, entry.method, entry.title, entry.settings)
        for table, cell, entry in entries
        if entry.method in METHODS
    ]
    missing = dict.fromkeys(entry.method for *_, entry in entries if entry.method not in METHODS)
    return Plan(selection, counted, tuple(units), tuple(missing))


def _selected_cells(selection: Selection) -> list[tuple[Table, Cell]]:
    tables: Sequence[Table]
    if selection.suite is not None:
        tables = SUITES[selection.suite].tables
    elif selection.tables is not None:
        tables = [TABLES[name] for name in selection.tables if name != COUNTS_TABLE]
    else:  # a dataset that is not in the paper only runs on request
        tables = list(TABLES.values()) if selection.datasets else PAPER_TABLES
    return [
        (table, cell)
        for table in tables
        for cell in table.cells
        if (selection.datasets is None or cell.dataset in selection.datasets)
        and (cell.split == RANDOM or selection.protocol == "ours")  # the authors draw all their splits
    ]


def _entries_of(cell: Cell, cells: Iterable[tuple[Table, Cell]], selection: Selection) -> list[Entry]:
    """The entries of a cell or, with --methods, those of these methods.

    A method that no cell lists runs on all random splits.
    """
    listed = list(cell.entries)
    if selection.protocol == "paper":
        listed = [entry for entry in listed if _has_checkpoints(entry.method)]
        for name in selection.methods or ():
            if not _has_checkpoints(name):
                raise InputError(f"--protocol paper takes the better of two peers and {name} has none; leave it out")
    if selection.methods is None:
        return listed
    anywhere = {entry.method for _, other in cells for entry in other.entries}
    chosen = []
    for name in selection.methods:
        chosen += [entry for entry in listed if entry.method == name]
        chosen += [Entry(name)] if name not in anywhere and cell.split != PUBLIC else []
    return chosen


def _has_checkpoints(method: str) -> bool:
    return method in METHODS and set(AUTHORS_SETTINGS) <= set(METHODS[method].__dataclass_fields__)


def _variants(table: Table, cell: Cell, selection: Selection) -> Iterator[Unit]:
    if selection.ablation and table not in PAPER_TABLES:
        raise InputError(f"an ablation turns the paper's t, which it does not give for {cell.dataset}; leave it out")
    for variant in BACKBONES if selection.backbones else ABLATION:
        # Without changes it is the paper's method, which fills its own line.
        settings = variant.settings(cell.dataset)
        yield _unit(table, cell, selection, REFERENCE, variant.title if settings else REFERENCE, settings)


def _unit(
    table: Table, cell: Cell, selection: Selection, method: str, line: str, changes: Mapping[str, object]
) -> Unit:
    authors = selection.protocol == "paper"
    averages = AVERAGES if authors else 1
    return Unit(
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
        table=table.name,
        line=line,
    )


# ------------------------------------------------------------------------------------------------------------ execution
@dataclass(frozen=True, eq=False)
class Data:
    """The input of a unit, which one machine may read and another process."""

    graph: Graph
    public_split: Split | None  # None: the unit draws its splits


def data_of(unit: Unit) -> Data:
    """Load the input of a unit."""
    fixed = unit.protocol == "ours" and unit.split not in (OVER_ALL, RANDOM)
    return Data(datasets.load(unit.dataset), datasets.public_split(unit.dataset) if fixed else None)


def decisive_versions() -> dict[str, str]:
    """The versions that results depend on."""
    versions = environment.versions()
    return {name: versions[name] for name in DECISIVE_VERSIONS}


def execute(unit: Unit, data: Data | None = None) -> list[StoredRow]:
    """Fit and score a unit in this process; without `data`, load them."""
    device = torch.device(unit.device.split()[0])
    with limited_threads(unit.threads):
        graph, splits = _graph_and_splits(unit, data or data_of(unit))
        rows = run_cell(
            graph,
            splits,
            unit.settings,
            name=unit.method,
            seed=unit.seed,
            split_source=unit.split,
            device=device,
            memory_budget=CUDA_BUDGET if device.type == "cuda" else CPU_BUDGET,
            scorer=score_better_peer if unit.protocol == "paper" else score,
        )
    kept = {name: getattr(unit, name) for name in ("protocol", "validation", "runs", "averages", "table", "line")}
    return [StoredRow(**vars(row), unit=unit.id, **kept) for row in rows]


def _graph_and_splits(unit: Unit, data: Data) -> tuple[Graph, tuple[Split, ...]]:
    graph = data.graph
    if data.public_split is not None:
        return graph, (data.public_split,) * unit.runs
    if unit.protocol == "paper":
        graph = with_unknown_as_first_class(graph)
        return graph, authors_splits(graph, unit.labels_per_class, unit.runs, unit.seed)
    draw = draw_over_all if unit.split == OVER_ALL else draw_splits
    return graph, draw(graph, unit.labels_per_class, unit.runs, unit.seed, unit.validation)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Fix the number of threads of torch and BLAS: the rounding of sums depends on it."""
    before = torch.get_num_threads()
    with threadpool_limits(limits=threads):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
