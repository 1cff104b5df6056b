"""All that a folder of rows says, whichever commands made them: each row is put back into its place in the tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from mtgcn.benchmark.measured import NETWORK_ALONE, Line, MeasuredTable, compared, measured_line
from mtgcn.benchmark.protocol import ABLATION, BACKBONES, PAPER_TABLES, REFERENCE, TABLES, Cell, Entry, Protocol, Table
from mtgcn.benchmark.rows import StoredRow
from mtgcn.benchmark.units import DECISIVE_VERSIONS
from mtgcn.errors import InputError

Rows = Sequence[StoredRow]


@dataclass(frozen=True)
class Evidence:
    """The tables that rows fill. All have the same seed; most were made alike: same device, threads and versions."""

    ours: tuple[MeasuredTable, ...]
    optimistic: tuple[MeasuredTable, ...]  # the authors' way of reporting
    ablation: tuple[MeasuredTable, ...]
    backbones: tuple[MeasuredTable, ...]
    made: StoredRow  # one of the rows, for what most of them share
    made_elsewhere: tuple[StoredRow, ...]  # one of the rows of every other way in which some were made
    units_shown: int
    units_left_out: int  # stored in the folder, but made otherwise or for no table

    def elsewhere(self, line: Line) -> str:
        """On which device a line was made, if not where most were."""
        row = line.rows[0]
        if _making(row) == _making(self.made):
            return ""
        return row.device if row.device != self.made.device else "other versions or threads"


@dataclass(frozen=True)
class _Place:
    """Where the rows of a unit belong."""

    table: Table
    cell: Cell
    protocol: Protocol
    title: str  # the method, or the variant of an ablation or of a comparison of backbones


def stored_evidence(units: Mapping[str, Rows], like: StoredRow | None = None) -> Evidence:
    """Sort stored rows into the tables.

    Rows of different seeds or releases of this program are never mixed. Those made like `like` are taken; without it,
    the largest set that was made alike. Places that these leave empty are filled with rows made on another device or
    with other versions of the libraries, which say so. Of two units for one place the later counts.
    """
    if not units:
        raise InputError("no unit is finished yet; run mtgcn reproduce into the same folder first")
    made = like or _most_frequent_making(units.values())
    found = _placed(units.values(), made)
    ours = {place: rows for place, rows in found.items() if place.protocol == "ours" and not _is_variant(place)}
    ablation, backbones = (
        {place: rows for place, rows in found.items() if place.title in titles}
        for titles in (_ABLATION_TITLES, _BACKBONE_TITLES)
    )
    return Evidence(
        ours=_tables(ours),
        optimistic=_tables({place: rows for place, rows in found.items() if place.protocol == "paper"}),
        ablation=_tables(_references_for(ablation, ours, REFERENCE) | ablation),
        backbones=_tables(_references_for(backbones, ours, _TAUGHT_GCN) | backbones, rival=NETWORK_ALONE),
        made=made,
        made_elsewhere=tuple(
            {_making(rows[0]): rows[0] for rows in found.values() if _making(rows[0]) != _making(made)}.values()
        ),
        units_shown=len(found),
        units_left_out=len(units) - len(found),
    )


def _references_for(variants: Mapping[_Place, Rows], ours: Mapping[_Place, Rows], title: str) -> dict[_Place, Rows]:
    """The reference in the cells of variants, called what it is among them."""
    cells = {place.cell for place in variants}
    return {
        replace(place, title=title): rows
        for place, rows in ours.items()
        if place.title == REFERENCE and place.cell in cells
    }


def _making(row: StoredRow) -> tuple[object, ...]:
    return row.seed, row.device, row.threads, *(row.versions[name] for name in DECISIVE_VERSIONS)


def _most_frequent_making(units: Iterable[Rows]) -> StoredRow:
    firsts = [rows[0] for rows in units]
    counts = Counter(map(_making, firsts))
    return max(reversed(firsts), key=lambda row: counts[_making(row)])  # of equally large sets the latest


def _placed(units: Iterable[Rows], made: StoredRow) -> dict[_Place, Rows]:
    """The rows of every place that some fill: those made like `made`, then the largest other sets."""
    groups: defaultdict[tuple[object, ...], list[Rows]] = defaultdict(list)
    for rows in units:
        if (rows[0].seed, rows[0].versions["mtgcn"]) == (made.seed, made.versions["mtgcn"]):
            groups[_making(rows[0])].append(rows)
    in_order = sorted(groups, key=lambda making: (making != _making(made), -len(groups[making])))
    found: dict[_Place, Rows] = {}
    for making in in_order:
        runs = {(place.cell, place.protocol): len(rows) for place, rows in found.items()}
        found |= {
            place: rows
            for place, rows in dict(_with_equal_runs(groups[making])).items()
            if place not in found and runs.get((place.cell, place.protocol), len(rows)) == len(rows)
        }
    return found


def _with_equal_runs(units: Iterable[Rows]) -> Iterator[tuple[_Place, Rows]]:
    """Each unit with its place. Comparisons are run by run, so if a cell was filled with several numbers of runs, the
    number that most of its methods have counts."""
    placed = [(place, rows) for rows in units if (place := _place(rows[0]))]
    numbers: defaultdict[tuple[Cell, Protocol], Counter[int]] = defaultdict(Counter)
    for place, runs in {(place, len(rows)) for place, rows in placed}:
        numbers[place.cell, place.protocol][runs] += 1
    for place, rows in placed:
        counts = numbers[place.cell, place.protocol]
        if len(rows) == max(counts, key=lambda runs: (counts[runs], runs)):
            yield place, rows


def _place(row: StoredRow) -> _Place | None:
    where = row.dataset, row.labels_per_class, row.split
    for table in TABLES.values():
        for cell in table.cells:
            if (cell.dataset, cell.labels_per_class, cell.split) == where:
                return _Place(table, cell, cast("Protocol", row.protocol), _title(row, table))
    return None


def _title(row: StoredRow, table: Table) -> str:
    """The method; of the reference with something taken out or turned, the variant."""
    if row.method == REFERENCE and row.protocol == "ours":
        for variant in (*BACKBONES, *(ABLATION if table in PAPER_TABLES else ())):
            changes = variant.settings(row.dataset)
            if changes and all(row.settings.get(name) == value for name, value in changes.items()):
                return variant.title
    return row.method


_ABLATION_TITLES = [variant.title for variant in ABLATION if variant.title != REFERENCE]
_BACKBONE_TITLES = [variant.title for variant in BACKBONES]
[_TAUGHT_GCN] = [variant.title for variant in BACKBONES if not variant.changes]


def _is_variant(place: _Place) -> bool:
    return place.title in _ABLATION_TITLES or place.title in _BACKBONE_TITLES


def _tables(found: Mapping[_Place, Rows], rival: str = REFERENCE) -> tuple[MeasuredTable, ...]:
    """The tables in the order of the paper; in each the cells, and in each cell the methods, in its order too."""
    return tuple(
        MeasuredTable(
            name=table.name,
            title=table.title,
            protocol=places[0].protocol,
            lines=compared(measured_line(place.title, place.cell, _entry(place), found[place]) for place in places),
            rival=rival,
        )
        for table in TABLES.values()
        if (places := sorted((place for place in found if place.table is table), key=_order))
    )


def _order(place: _Place) -> tuple[int, int]:
    known = [*(entry.method for entry in place.cell.entries), *_ABLATION_TITLES, *_BACKBONE_TITLES]
    return place.table.cells.index(place.cell), known.index(place.title) if place.title in known else len(known)


def _entry(place: _Place) -> Entry:
    if place.title == _TAUGHT_GCN:
        return place.cell.entry(REFERENCE)
    return Entry(REFERENCE) if _is_variant(place) else place.cell.entry(place.title)
