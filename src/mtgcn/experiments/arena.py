"""The arena: methods on graphs and tables at several label rates, on the same random splits.

A unit is one method on one cell, a graph or table at a label rate. Graphs and tables are separate groups, each with its
own methods, label rates and ranks. Rows may come from several machines.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from mtgcn import datasets
from mtgcn.datasets import catalogue
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments.plan import Unit, decisive_versions, execute, source_of
from mtgcn.experiments.protocol import ARENA_TABLE, FINAL_SEEDS, RANDOM, VALIDATED
from mtgcn.experiments.scoring import SCORES, groups_of, plain_settings
from mtgcn.experiments.statistics import Margin, RankComparison, compare_ranks, margin_over_best
from mtgcn.experiments.store import Rows, StoredRow
from mtgcn.methods import METHODS, create, typed_method_class
from mtgcn.splits import check_runs

REFERENCE = "mt-plus"  # its margin over the best other method is shown
FAILURES_FILE = "failures.jsonl"
CHECKED_UNITS = 5
TOLERANCE = 0.01  # allowed difference in mean accuracy of a recomputed unit, since devices round differently

Cell = tuple[str, int]  # graph and labels per class


@dataclass(frozen=True)
class Group:
    """Datasets that are ranked together, and what is run by default."""

    name: str
    noun: str
    datasets: tuple[str, ...]
    final_datasets: tuple[str, ...]  # default with final seeds
    labels: tuple[int, ...]  # labels per class
    runs: int

    def methods(self, *, validation: bool = False) -> list[str]:
        """Every method of the group that needs no validation labels, or every one that does."""
        found = {name: kind for name, kind in METHODS.items() if self.name in kind.arena_groups}
        return [name for name, kind in found.items() if kind.uses_validation == validation]


GRAPHS = Group("graphs", "graph", catalogue.GRAPHS, catalogue.GRAPHS, (1, 2, 3, 5, 10, 20), 30)
TABLES = Group("tables", "table", catalogue.TABLES, catalogue.FINAL_TABLES, (3, 5, 20), 10)
GROUPS = {one.name: one for one in (GRAPHS, TABLES)}


def group_of(dataset: str) -> Group:
    return TABLES if dataset in (*TABLES.datasets, *TABLES.final_datasets) else GRAPHS


def arena_units(
    graphs: Sequence[str] = (GRAPHS.name,),
    methods: Sequence[str] | None = None,
    labels: Sequence[int] | None = None,
    *,
    runs: int | None = None,
    seed: int = 0,
    validation_per_class: int = 0,
    device: str = "cpu",
) -> list[Unit]:
    """The units of the named datasets and groups, dataset by dataset. Defaults are those of the group. No method sees
    validation labels unless `validation_per_class` are drawn; the default methods are then those that use them."""
    final = seed in FINAL_SEEDS
    chosen: dict[str, Group] = {}
    for name in graphs:
        if name in GROUPS:
            group = GROUPS[name]
            chosen |= dict.fromkeys(group.final_datasets if final else group.datasets, group)
        elif name not in datasets.NAMES:
            raise unknown_name("graph", name, (*GROUPS, *datasets.NAMES))
        elif name in catalogue.FINAL_TABLES and not final:
            raise InputError(f"{name} is reserved for final results; add --final, or choose another table")
        else:
            chosen[name] = group_of(name)
    for name in methods or ():
        if typed_method_class(name).uses_validation and not validation_per_class:
            raise InputError(f"{name} uses validation labels; add --validation-per-class 30")
    if labels and min(labels) < 1:
        raise InputError(f"{min(labels)} labels per class; give at least 1")
    if runs is not None:
        check_runs(runs, 1)
    shared: dict[str, Any] = {"protocol": "ours", "averages": 1, "threads": 1, "table": ARENA_TABLE}
    shared |= {"seed": seed, "device": device, "validation": validation_per_class}
    shared |= {"split": VALIDATED if validation_per_class else RANDOM}
    return [
        Unit(
            **shared,
            runs=runs or group.runs,
            dataset=name,
            labels_per_class=count,
            method=method,
            settings=create(method),
        )
        for name, group in chosen.items()
        for count in labels or group.labels
        for method in methods or group.methods(validation=validation_per_class > 0)
    ]


def missing_units(units: Iterable[Unit], stored: Mapping[str, Rows]) -> list[Unit]:
    """The units without rows. Rows of another device or of other library versions count, except for
    user-defined methods, whose source is covered by the id of a unit only."""
    done = {_recipe(rows[0]) for rows in stored.values()}
    return [unit for unit in units if unit.id not in stored and (source_of(unit.settings) or _recipe(unit) not in done)]


def _recipe(one: Unit | StoredRow) -> tuple[object, ...]:
    """Everything that decides the numbers, up to rounding."""
    settings = one.settings if isinstance(one, StoredRow) else plain_settings(one.settings)
    versions = one.versions if isinstance(one, StoredRow) else decisive_versions()
    place = one.table, one.dataset, one.labels_per_class, one.split, one.validation, one.method, one.runs, one.seed
    return *place, versions["mtgcn"], json.dumps(settings, sort_keys=True)


def record_failure(folder: Path, unit: Unit, error: Exception) -> None:
    """Store the reason of a failed unit, which the page shows for its empty cells."""
    reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    key = unit.dataset, unit.labels_per_class, title_of(unit)
    with (folder / FAILURES_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps([unit.seed, decisive_versions()["mtgcn"], *key, reason]) + "\n")


def title_of(one: Unit | StoredRow) -> str:
    """The name of the method, with the number of validation labels if it saw any."""
    return f"{one.method}, {one.validation} validation labels" if one.split == VALIDATED else one.method


def mean_of(rows: Rows, measure: str) -> float | None:
    """The mean of a score over runs; None without rows, or if some lack it."""
    values = values_of(rows, measure)
    return None if None in values or not values else float(np.mean(values))


@dataclass(frozen=True)
class Arena:
    """The results of one seed and release in a folder of rows."""

    cells: Mapping[Cell, Mapping[str, Rows]]  # rows by cell and title of the method
    failures: Mapping[tuple[Cell, str], str]
    units_left_out: int  # units of other seeds or releases, or with fewer runs than another unit of the same place
    score: str = SCORES[0]  # score that methods are ranked by

    @cached_property
    def groups(self) -> dict[Group, Arena]:
        """The results of each group; groups are ranked separately."""
        found = dict.fromkeys(group_of(graph) for graph, _ in self.cells)
        return {
            group: replace(
                self,
                cells={cell: rows for cell, rows in self.cells.items() if group_of(cell[0]) == group},
                failures={key: reason for key, reason in self.failures.items() if group_of(key[0][0]) == group},
            )
            for group in found
        }

    @cached_property
    def graphs(self) -> list[str]:
        return list(dict.fromkeys(graph for graph, _ in self.cells))

    @cached_property
    def labels(self) -> list[int]:
        return list(dict.fromkeys(labels for _, labels in self.cells))

    @cached_property
    def methods(self) -> list[str]:
        """Titles of the methods: first those ranked over all label rates, best first."""
        ranking = self.ranking()
        ranked = ranking.methods if ranking else ()
        found = {title for rows in self.cells.values() for title in rows} | {title for _, title in self.failures}
        return [*ranked, *sorted(found - set(ranked))]

    @property
    def reference(self) -> str:
        return REFERENCE if REFERENCE in self.methods else self.methods[0]

    @cached_property
    def compared(self) -> dict[Cell, dict[str, Rows]]:
        """The results that have the score and used no validation labels."""
        return {
            cell: {
                title: rows
                for title, rows in found.items()
                if rows[0].split != VALIDATED and mean_of(rows, self.score) is not None
            }
            for cell, found in self.cells.items()
        }

    def ranked_cells(self, labels: int | None = None) -> list[Cell]:
        """The cells of one or all label rates that, with the methods that have results in all of them, form the largest
        complete table."""
        methods = {cell: set(found) for cell, found in self.compared.items() if labels in (None, cell[1])}
        tables = []
        for least in {len(found) for found in methods.values()}:
            cells = [cell for cell, found in methods.items() if len(found) >= least]
            tables.append((len(set.intersection(*(methods[cell] for cell in cells))) * len(cells), cells))
        return max(tables, key=lambda table: (table[0], len(table[1])), default=(0, []))[1]

    def ranking(self, labels: int | None = None) -> RankComparison | None:
        """Ranks of the methods with results in all ranked cells; None with fewer than 2 cells or 3 methods."""
        cells = self.ranked_cells(labels)
        found = [self.compared[cell] for cell in cells]
        methods = [title for title in (found[0] if found else ()) if all(title in one for one in found)]
        if len(cells) < 2 or len(methods) < 3:
            return None
        means = np.array([[mean_of(one[title], self.score) for title in methods] for one in found], dtype=float)
        return compare_ranks(means, methods, [graph for graph, _ in cells])

    def margins(self) -> dict[Cell, Margin]:
        """The reference against the best other method of each cell."""
        found = {}
        for cell, here in self.compared.items():
            if self.reference in here and len(here) > 1:
                samples = {title: values_of(rows, self.score) for title, rows in here.items()}
                groups = {title: groups_of(rows) for title, rows in here.items()}
                found[cell] = margin_over_best(samples, self.reference, groups)
        return found


def values_of(rows: Rows, score: str) -> list[float]:
    return [getattr(row, score.replace("-", "_")) for row in rows]


def stored_arena(
    folder: Path, units: Mapping[str, Rows], seed: int | None = None, score: str = SCORES[0]
) -> Arena | None:
    """The arena in a folder of rows, of this seed and release, by default the most frequent ones; None without rows."""
    arena = [rows for rows in units.values() if rows[0].table == ARENA_TABLE]
    kinds = Counter((rows[0].seed, rows[0].versions["mtgcn"]) for rows in arena)
    kind = (seed, decisive_versions()["mtgcn"]) if seed is not None else max(kinds, key=kinds.__getitem__, default=None)
    found: dict[tuple[Cell, str], Rows] = {}
    for row, *_ in (rows for rows in arena if (rows[0].seed, rows[0].versions["mtgcn"]) == kind):
        key = (row.dataset, int(np.max(row.labels_per_class))), title_of(row)
        if row.runs >= len(found.get(key, ())):
            found[key] = units[row.unit]
    if not found:
        return None
    path, failures = folder / FAILURES_FILE, {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        its_seed, release, graph, labels, title, reason = json.loads(line)
        if (its_seed, release) == kind and ((graph, labels), title) not in found:
            failures[(graph, labels), title] = reason
    cells = {cell for cell, _ in (*found, *failures)}
    order = {name: place for place, name in enumerate(datasets.NAMES)}
    return Arena(
        {
            (graph, labels): {title: rows for (cell, title), rows in found.items() if cell == (graph, labels)}
            for graph in sorted({graph for graph, _ in cells}, key=lambda name: (order.get(name, len(order)), name))
            for labels in sorted({labels for other, labels in cells if group_of(other) == group_of(graph)})
        },
        failures,
        len(arena) - len(found),
        score,
    )


def recomputed(
    stored: Mapping[str, Rows], methods: Sequence[str], seed: int, device: str
) -> Iterator[tuple[str, float, float]]:
    """Recompute random units, of these methods if given: title, stored and recomputed mean accuracy."""
    for name in methods:
        typed_method_class(name)  # imports a `module:Class`, which rows alone must not
    found = [one for one in stored.values() if one[0].table == ARENA_TABLE and one[0].method in (methods or METHODS)]
    if not found:
        raise InputError("0 units of the arena to recompute; name methods that have rows there")
    for rows in Random(seed).sample(found, min(CHECKED_UNITS, len(found))):
        row = rows[0]
        shared: dict[str, Any] = {"runs": row.runs, "seed": row.seed, "validation_per_class": row.validation}
        labels = [int(np.max(row.labels_per_class))]
        [unit] = arena_units([row.dataset], [row.method], labels, device=device, **shared)
        if _recipe(unit) != _recipe(row):
            raise InputError(f"{unit.title} was computed with other settings or another release; use that release")
        accuracies = ([one.accuracy for one in some] for some in (rows, execute(unit)))
        before, here = (float(np.mean(values)) for values in accuracies)
        yield unit.title, before, here
