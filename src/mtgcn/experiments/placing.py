"""Which place in the tables something fills: a unit that is planned, or rows that lie in a folder."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mtgcn.experiments.protocol import (
    ABLATION,
    BACKBONES,
    PAPER_TABLES,
    REFERENCE,
    Cell,
    Entry,
    Protocol,
    Table,
    Variant,
)
from mtgcn.experiments.rows import ComparedRow, StoredRow
from mtgcn.experiments.suite import ALL_TABLES, suite_of
from mtgcn.experiments.units import DECISIVE_VERSIONS

Rows = Sequence[StoredRow]  # of one unit

ABLATION_TITLES = tuple(variant.title for variant in ABLATION if variant.title != REFERENCE)
BACKBONE_TITLES = tuple(variant.title for variant in BACKBONES)
_METHOD_OF_VARIANT = {
    variant.title: variant.method for variant in (*ABLATION, *BACKBONES) if variant.title != variant.method
}
[TAUGHT_GCN] = [variant.title for variant in BACKBONES if not variant.changes]  # the reference, among backbones


@dataclass(frozen=True)
class Place:
    """One line in one cell of a table, reported in one way."""

    table: Table
    cell: Cell
    protocol: Protocol
    title: str  # the entry of the cell; of a method with something taken out or turned, the variant

    @property
    def is_variant(self) -> bool:
        return self.title in _METHOD_OF_VARIANT

    @property
    def entry(self) -> Entry:
        """What the paper prints there; of a variant, nothing."""
        if self.title == TAUGHT_GCN:
            return self.cell.entry(REFERENCE)
        return Entry(_METHOD_OF_VARIANT[self.title]) if self.is_variant else self.cell.entry(self.title)

    @property
    def order(self) -> tuple[int, int, int]:
        """Places sorted by this stand as in the paper: tables, in each the cells, and in each cell the methods."""
        known = [*(entry.title for entry in self.cell.entries), *ABLATION_TITLES, *BACKBONE_TITLES]
        return (
            list(ALL_TABLES).index(self.table.name),
            self.table.cells.index(self.cell),
            known.index(self.title) if self.title in known else len(known),
        )


def place_of(row: StoredRow) -> Place | None:
    """Where a row belongs; None if that is in no table, as rows of a comparison are."""
    if isinstance(row, ComparedRow):
        return None
    where = row.dataset, row.labels_per_class, row.split
    for table in ALL_TABLES.values():
        for cell in table.cells:
            if (cell.dataset, cell.labels_per_class, cell.split) == where and _sets_aside(row, table, cell):
                return Place(table, cell, cast("Protocol", row.protocol), _title(row, table, cell))
    return None


def _sets_aside(row: StoredRow, table: Table, cell: Cell) -> bool:
    """Whether a row sets as many nodes aside as the cell, which tells the cells of a suite from the paper's. The
    authors set none aside, and their protocol is for tables of the paper's kind alone."""
    return suite_of(table) is None if row.protocol == "paper" else row.validation == cell.validation


def making(row: StoredRow) -> tuple[object, ...]:
    """How a row was made: two that were made alike may be compared without a word."""
    return row.seed, row.device, row.threads, *(row.versions.get(name, "") for name in DECISIVE_VERSIONS)


def most_frequent_making(units: Iterable[Rows]) -> StoredRow:
    """A row of the largest set of units that were made alike."""
    firsts = [rows[0] for rows in units]
    counts = Counter(map(making, firsts))
    return max(reversed(firsts), key=lambda row: counts[making(row)])  # of equally large sets the latest


def placed(units: Iterable[Rows], made: StoredRow) -> dict[Place, Rows]:
    """The rows of every place that some fill: those made like `made`, then the largest other sets.

    Rows of different seeds or releases of this program are never mixed. Of two units for one place the later counts.
    """
    groups: defaultdict[tuple[object, ...], list[Rows]] = defaultdict(list)
    for rows in units:
        if (rows[0].seed, rows[0].versions["mtgcn"]) == (made.seed, made.versions["mtgcn"]):
            groups[making(rows[0])].append(rows)
    in_order = sorted(groups, key=lambda one: (one != making(made), -len(groups[one])))
    found: dict[Place, Rows] = {}
    for one in in_order:
        runs = {(place.cell, place.protocol): len(rows) for place, rows in found.items()}
        found |= {
            place: rows
            for place, rows in dict(_with_equal_runs(groups[one])).items()
            if place not in found and runs.get((place.cell, place.protocol), len(rows)) == len(rows)
        }
    return found


def _with_equal_runs(units: Iterable[Rows]) -> Iterator[tuple[Place, Rows]]:
    """Each unit with its place. Comparisons are run by run, so if a cell was filled with several numbers of runs, the
    number that most of its methods have counts."""
    with_places = [(place, rows) for rows in units if (place := place_of(rows[0]))]
    numbers: defaultdict[tuple[Cell, Protocol], Counter[int]] = defaultdict(Counter)
    for place, runs in {(place, len(rows)) for place, rows in with_places}:
        numbers[place.cell, place.protocol][runs] += 1
    for place, rows in with_places:
        counts = numbers[place.cell, place.protocol]
        if len(rows) == max(counts, key=lambda runs: (counts[runs], runs)):
            yield place, rows


def _title(row: StoredRow, table: Table, cell: Cell) -> str:
    """The entry of the cell, or the method with something taken out or turned, that has the row's method and most of
    its settings; without any, the method."""
    if row.protocol != "ours":
        return row.method
    titles = [
        (entry.title, entry.settings)
        for entry in cell.entries
        if entry.method == row.method and _has_settings(row, entry.settings)
    ]
    titles += [
        (variant.title, settings)
        for variant in _variants(table)
        if variant.method == row.method and _has_settings(row, settings := variant.settings(row.dataset)) and settings
    ]
    return max(titles, key=lambda found: len(found[1]), default=(row.method, {}))[0]


def _variants(table: Table) -> tuple[Variant, ...]:
    """Those that are run in a table."""
    if suite_of(table):
        return ()
    return (*BACKBONES, *(ABLATION if table in PAPER_TABLES else ()))


def _has_settings(row: StoredRow, settings: Mapping[str, Any]) -> bool:
    return all(_as_stored(row.settings.get(name)) == _as_stored(value) for name, value in settings.items())


def _as_stored(value: object) -> object:
    """A setting as it reads after being stored, where a tuple has become a list."""
    return json.loads(json.dumps(value))
