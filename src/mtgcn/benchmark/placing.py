"""Which place in the tables something fills: a unit that is planned, or rows that lie in a folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from mtgcn.benchmark.protocol import ABLATION, BACKBONES, PAPER_TABLES, REFERENCE, TABLES, Cell, Entry, Protocol, Table
from mtgcn.benchmark.rows import StoredRow
from mtgcn.benchmark.units import DECISIVE_VERSIONS

Rows = Sequence[StoredRow]  # of one unit

ABLATION_TITLES = tuple(variant.title for variant in ABLATION if variant.title != REFERENCE)
BACKBONE_TITLES = tuple(variant.title for variant in BACKBONES)
[TAUGHT_GCN] = [variant.title for variant in BACKBONES if not variant.changes]  # the reference, among backbones


@dataclass(frozen=True)
class Place:
    """One method in one cell of a table, reported in one way."""

    table: Table
    cell: Cell
    protocol: Protocol
    title: str  # the method; of the reference with something taken out or turned, the variant

    @property
    def is_variant(self) -> bool:
        return self.title in ABLATION_TITLES or self.title in BACKBONE_TITLES

    @property
    def entry(self) -> Entry:
        """What the paper prints there; of a variant, nothing."""
        if self.title == TAUGHT_GCN:
            return self.cell.entry(REFERENCE)
        return Entry(REFERENCE) if self.is_variant else self.cell.entry(self.title)

    @property
    def order(self) -> tuple[int, int, int]:
        """Places sorted by this stand as in the paper: tables, in each the cells, and in each cell the methods."""
        known = [*(entry.method for entry in self.cell.entries), *ABLATION_TITLES, *BACKBONE_TITLES]
        return (
            list(TABLES).index(self.table.name),
            self.table.cells.index(self.cell),
            known.index(self.title) if self.title in known else len(known),
        )


def place_of(row: StoredRow) -> Place | None:
    """Where a row belongs; None if that is in no table."""
    where = row.dataset, row.labels_per_class, row.split
    for table in TABLES.values():
        for cell in table.cells:
            if (cell.dataset, cell.labels_per_class, cell.split) == where:
                return Place(table, cell, cast("Protocol", row.protocol), _title(row, table))
    return None


def making(row: StoredRow) -> tuple[object, ...]:
    """How a row was made: two that were made alike may be compared without a word."""
    return row.seed, row.device, row.threads, *(row.versions[name] for name in DECISIVE_VERSIONS)


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


def _title(row: StoredRow, table: Table) -> str:
    """The method; of the reference with something taken out or turned, the variant."""
    if row.method == REFERENCE and row.protocol == "ours":
        for variant in (*BACKBONES, *(ABLATION if table in PAPER_TABLES else ())):
            changes = variant.settings(row.dataset)
            if changes and all(row.settings.get(name) == value for name, value in changes.items()):
                return variant.title
    return row.method
