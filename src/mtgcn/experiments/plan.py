"""The units of work that a command asks for, their places in the tables, and their execution."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Annotated, Any

import torch

from mtgcn import datasets, environment
from mtgcn.environment import MAX_THREADS, fixed_threads
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments import protocol as paper
from mtgcn.experiments.protocol import OVER_ALL, RANDOM, REFERENCE, VALIDATED, Cell, Entry, Protocol, Table
from mtgcn.experiments.scoring import plain_settings, run_cell, score, score_better_peer
from mtgcn.experiments.store import StoredRow
from mtgcn.graph import Graph
from mtgcn.memory import CPU_BUDGET
from mtgcn.methods import METHODS, Method, create
from mtgcn.settings import Ge, Le, Settings
from mtgcn.splits import MOST_RUNS, Split, draw_over_all, draw_splits

# Results depend on how runs are divided into stacks, so the budget must not depend on the free memory of a GPU.
CUDA_BUDGET = 4 * 2**30
# Versions of these packages may change results; the version of Python does not.
DECISIVE_VERSIONS = ("mtgcn", "torch", "numpy", "scipy")
AUTHORS_SETTINGS = {"checkpoint": "best-training"}
_DATASETS = tuple(dict.fromkeys(cell.dataset for table in paper.TABLES.values() for cell in table.cells))


@dataclass(frozen=True)
class Selection(Settings):
    """The options of `mtgcn reproduce`. None selects everything in the paper or the suite."""

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
            ("suite", None if self.suite is None else (self.suite,), paper.SUITES),
            ("table", self.tables, (paper.COUNTS_TABLE, *paper.TABLES)),
            ("dataset", self.datasets, paper.SUITES[self.suite].datasets if self.suite in paper.SUITES else _DATASETS),
            ("method", self.methods, METHODS),
            ("protocol", (self.protocol,), paper.PROTOCOL_TITLES),
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
                raise InputError(f"{name} needs validation nodes, which suite {self.suite} does not have; omit it")
        if self.ablation and self.backbones:
            raise InputError("--ablation and --backbones exclude each other; run one after the other")
        for asked, what in ((self.ablation, "an ablation"), (self.backbones, "a comparison of backbones")):
            if asked and (self.methods or self.protocol != "ours"):
                raise InputError(f"{what} applies to {REFERENCE} in our protocol only; omit --methods and --protocol")

    @property
    def kind(self) -> str:
        """The field of `tables.Evidence` that this fills."""
        if self.protocol == "paper":
            return "optimistic"
        return "ablation" if self.ablation else "backbones" if self.backbones else "ours"


@dataclass(frozen=True)
class Unit:
    """One method on one cell, all runs together: everything that decides the numbers, and the place in the tables."""

    protocol: Protocol
    dataset: str
    labels_per_class: int
    split: str
    validation: int  # nodes set aside and not scored; number per class if `split` is VALIDATED
    method: str
    settings: Method
    runs: int
    averages: int  # 1 except in the authors' protocol
    seed: int
    device: str  # "cpu", or "cuda" with the model of the GPU
    threads: int
    table: str = ""  # name of the table and title of the line
    line: str = ""

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What decides the rows: units with equal identities have equal rows except for the seconds."""
        parts = {**asdict(self), "settings": plain_settings(self.settings), "versions": decisive_versions()}
        del parts["table"], parts["line"]
        if source := source_of(self.settings):
            parts["source"] = source
        return parts

    @cached_property
    def id(self) -> str:
        """Hash of the identity."""
        return hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def title(self) -> str:
        return f"{self.method} on {self.dataset}, {paper.labels_title(self.labels_per_class, self.split)}"


Outcome = tuple[Unit, list[StoredRow] | InputError]  # an error of one unit does not stop the others


@dataclass(frozen=True)
class Place:
    """A line in a cell of a table, in one protocol."""

    table: Table
    cell: Cell
    protocol: Protocol
    title: str  # title of the entry or variant

    @property
    def is_variant(self) -> bool:
        return self.title in paper.VARIANTS

    @property
    def entry(self) -> Entry:
        """The entry of the cell; a variant has no printed accuracy."""
        if self.is_variant and self.title != paper.TAUGHT_GCN:
            return Entry(REFERENCE)
        return self.cell.entry(REFERENCE if self.is_variant else self.title)

    @property
    def order(self) -> tuple[int, int, int]:
        """Sort key by table, cell and line."""
        known = [*(entry.title for entry in self.cell.entries), *paper.ABLATION_TITLES, *paper.BACKBONE_TITLES]
        return (
            list(paper.ALL_TABLES).index(self.table.name),
            self.table.cells.index(self.cell),
            known.index(self.title) if self.title in known else len(known),
        )


def place_of(one: Unit | StoredRow) -> Place | None:
    """The place of a unit or of its rows; None if it is not in a table, as in a comparison."""
    for table in (table for name, table in paper.ALL_TABLES.items() if name == one.table):
        for cell in table.cells:
            if (cell.dataset, cell.labels_per_class, cell.split) == (one.dataset, one.labels_per_class, one.split):
                return Place(table, cell, one.protocol, one.line)
    return None


@dataclass(frozen=True)
class Plan:
    """The units of a selection."""

    selection: Selection
    counted: tuple[str, ...]  # datasets whose line of table 1 is requested
    units: tuple[Unit, ...]


def plan(selection: Selection) -> Plan:
    """List the units of a selection, in the order of the tables."""
    chosen, sweep = selection.datasets, selection.ablation or selection.backbones
    tables: Sequence[Table]
    if selection.suite is not None:
        tables = paper.SUITES[selection.suite].tables
    elif selection.tables is not None:
        tables = [paper.TABLES[name] for name in selection.tables if name != paper.COUNTS_TABLE]
    else:  # datasets that are not in the paper run only on request
        tables = list(paper.TABLES.values()) if chosen else paper.PAPER_TABLES
    # The authors draw all their splits at random, and so do sweeps of variants.
    cells = [
        (table, cell)
        for table in tables
        for cell in table.cells
        if (chosen is None or cell.dataset in chosen) and (cell.split == RANDOM or selection.protocol == "ours")
    ]
    counts = selection.suite is None and (selection.tables is None or paper.COUNTS_TABLE in selection.tables)
    counted = tuple(name for name in paper.TABLE_1 if counts and (chosen is None or name in chosen))
    if not cells and not counted:
        listed, names = (", ".join(names or ("any",)) for names in (selection.tables, chosen))
        raise InputError(f"no cell of table {listed} is on dataset {names}; omit --table or --datasets")
    units = []
    for table, cell in cells:
        if sweep and cell.split == RANDOM:
            if selection.ablation and table not in paper.PAPER_TABLES:
                raise InputError(
                    f"the paper gives no t for {cell.dataset}, so the ablation of t is undefined; omit this dataset"
                )
            for variant in paper.BACKBONES if selection.backbones else paper.ABLATION:
                settings = variant.settings(cell.dataset)
                title = variant.title if settings else REFERENCE  # a variant without changes is the paper's method
                units.append(_unit(table, cell, selection, REFERENCE, title, settings))
        for entry in () if sweep else _entries_of(cell, cells, selection):
            units.append(_unit(table, cell, selection, entry.method, entry.title, entry.settings))
    return Plan(selection, counted, tuple(units))


def _entries_of(cell: Cell, cells: Iterable[tuple[Table, Cell]], selection: Selection) -> list[Entry]:
    """The entries of a cell, or with --methods the entries of these methods.

    A method that no cell lists runs on all random splits.
    """
    listed = list(cell.entries)
    if selection.protocol == "paper":

        def has_checkpoints(method: str) -> bool:
            return set(AUTHORS_SETTINGS) <= set(METHODS[method].__dataclass_fields__)

        listed = [entry for entry in listed if has_checkpoints(entry.method)]
        for name in selection.methods or ():
            if not has_checkpoints(name):
                raise InputError(f"--protocol paper requires a method with peers, which {name} is not; omit it")
    if selection.methods is None:
        return listed
    anywhere = {entry.method for _, other in cells for entry in other.entries}
    chosen = []
    for name in selection.methods:
        chosen += [entry for entry in listed if entry.method == name]
        chosen += [Entry(name)] if name not in anywhere and cell.split != paper.PUBLIC else []
    return chosen


def _unit(table: Table, cell: Cell, selection: Selection, method: str, line: str, changes: Mapping[str, Any]) -> Unit:
    authors = selection.protocol == "paper"
    averages = paper.AVERAGES if authors else 1
    shared: dict[str, Any] = {name: getattr(cell, name) for name in ("dataset", "labels_per_class", "split")}
    shared |= {name: getattr(selection, name) for name in ("protocol", "seed", "device", "threads")}
    return Unit(
        **shared,
        validation=0 if authors else cell.validation,
        method=method,
        settings=create(method, **changes, **(AUTHORS_SETTINGS if authors else {})),
        runs=averages * (selection.runs or cell.runs),
        averages=averages,
        table=table.name,
        line=line,
    )


# The input of a unit, which may be read on one machine and used on another; without a split, the unit draws its splits.
Data = tuple[Graph, Split | None]


def data_of(unit: Unit) -> Data:
    """Load the input of a unit."""
    fixed = unit.protocol == "ours" and unit.split == paper.PUBLIC
    return datasets.load(unit.dataset), datasets.public_split(unit.dataset) if fixed else None


def source_of(method: Method) -> str:
    """The source of the module of a user-defined method; "" for ours, which the version of mtgcn covers."""
    module = type(method).__module__
    if module.split(".")[0] != "mtgcn" and module in sys.modules:
        with suppress(OSError, TypeError):  # defined in an interpreter
            return inspect.getsource(sys.modules[module])
    return ""


def decisive_versions() -> dict[str, str]:
    """The versions that results depend on."""
    versions = environment.versions()
    return {name: versions[name] for name in DECISIVE_VERSIONS}


def graph_and_splits(unit: Unit, data: Data) -> tuple[Graph, tuple[Split, ...]]:
    (graph, public_split), labels, runs, seed = data, unit.labels_per_class, unit.runs, unit.seed
    if public_split is not None:
        return graph, (public_split,) * runs
    if unit.protocol == "paper":
        graph = paper.with_unknown_as_first_class(graph)
        return graph, paper.authors_splits(graph, labels, runs, seed)
    if unit.split == VALIDATED:
        return graph, draw_splits(graph, labels, runs, seed, validation_per_class=unit.validation)
    draw = draw_over_all if unit.split == OVER_ALL else draw_splits
    return graph, draw(graph, labels, runs, seed, unit.validation)


def execute(unit: Unit, data: Data | None = None) -> list[StoredRow]:
    """Fit and score a unit in this process; without `data`, load them."""
    device = torch.device(unit.device.split()[0])
    with limited_threads(unit.threads):
        graph, splits = graph_and_splits(unit, data or data_of(unit))
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


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """Fix the number of threads of torch and BLAS: the rounding of sums depends on it."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # threadpoolctl is not installed; OPENBLAS_NUM_THREADS limits BLAS then
        threadpool_limits = nullcontext
    with threadpool_limits(threads), fixed_threads(threads):
        yield


def usable_cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
