"""Tables from stored rows: rows are grouped by place, summarised as lines, and compared with their reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtgcn.errors import InputError
from mtgcn.experiments import protocol as paper
from mtgcn.experiments.plan import DECISIVE_VERSIONS, Place, place_of
from mtgcn.experiments.scoring import CellSummary, compared_cells, summarise_cell
from mtgcn.experiments.statistics import PairedTest
from mtgcn.experiments.store import Rows, StoredRow

NETWORK_ALONE = "the network alone"  # the rival of every taught backbone


@dataclass(frozen=True)
class Line(CellSummary):
    """A method or variant in its place in a table."""

    labels_per_class: int
    place: Place
    rows: Rows
    averages: tuple[float, ...]  # the authors print the largest; our protocol has one, the mean
    against_rival: PairedTest | None = None  # None without a rival

    @property
    def rival(self) -> str:
        """Description of what the lines of the table are compared with."""
        return NETWORK_ALONE if self.title in paper.BACKBONE_TITLES else self.place.table.reference

    @property
    def title(self) -> str:
        return self.place.title

    @property
    def printed(self) -> float | None:
        """The paper's accuracy in per cent; None if it is not printed."""
        return self.place.entry.printed

    @property
    def note(self) -> str:
        return self.place.entry.note

    @property
    def reported(self) -> float:
        """Accuracy in per cent: the mean or, in the authors' protocol, the largest average."""
        return 100 * max(self.averages)

    @property
    def difference(self) -> float | None:
        """Difference from the paper's accuracy in points; None if it is not printed."""
        return None if self.printed is None else self.reported - self.printed

    @property
    def seconds_per_run(self) -> float:
        return self.seconds / self.runs


@dataclass(frozen=True)
class Evidence:
    """The lines of the tables of a folder of rows, in order. All rows have the same seed; most share device, threads
    and versions."""

    ours: tuple[Line, ...]
    optimistic: tuple[Line, ...]  # lines in the authors' protocol
    ablation: tuple[Line, ...]
    backbones: tuple[Line, ...]
    made: StoredRow  # a row with the most frequent device, threads and versions
    made_elsewhere: tuple[StoredRow, ...]  # a row for every other combination
    units_shown: int
    units_left_out: int
    suite: paper.Suite | None = None  # None: the paper's tables

    @property
    def reference(self) -> str:
        """Title of the line that the others are compared with."""
        return self.suite.reference if self.suite else paper.REFERENCE

    def elsewhere(self, line: Line) -> str:
        """The device of a line from another environment than most; "" for the other lines."""
        if making(line.rows[0]) == making(self.made):
            return ""
        return line.device if line.device != self.made.device else "other versions or threads"


def of_sweeps(units: Mapping[str, Rows]) -> dict[str, Rows]:
    """The units of the paper's tables and suites, without those of comparisons and of the arena."""
    return {name: rows for name, rows in units.items() if rows[0].table not in ("", paper.ARENA_TABLE)}


def suites_in(units: Mapping[str, Rows]) -> list[paper.Suite | None]:
    """The suites with rows in a folder; None stands for the paper's tables."""
    found = set(map(_suite_of, of_sweeps(units).values()))
    return [suite for suite in (None, *paper.SUITES.values()) if suite in found] or [None]


def _suite_of(rows: Rows) -> paper.Suite | None:
    place = place_of(rows[0])
    return paper.SUITES[place.table.suite] if place and place.table.suite else None


def stored_evidence(
    units: Mapping[str, Rows], like: StoredRow | None = None, suite: paper.Suite | None = None
) -> Evidence:
    """The paper's tables, or those of a suite, from stored rows.

    Rows of different seeds or releases of mtgcn are never mixed. Rows from the environment of `like`, by default
    the most frequent one, are preferred. Other places are filled from other devices or library versions.
    """
    chosen = [rows for rows in of_sweeps(units).values() if _suite_of(rows) == suite]
    if not chosen:
        raise InputError("no unit is finished yet; run mtgcn reproduce into the same folder first")
    counts = Counter(making(rows[0]) for rows in chosen)
    made = like or max((rows[0] for rows in reversed(chosen)), key=lambda row: counts[making(row)])
    placed = _placed(chosen, made)
    lines = {place: _line(place, placed[place]) for place in sorted(placed, key=lambda place: place.order)}
    ours = [line for place, line in lines.items() if place.protocol == "ours" and not place.is_variant]

    def with_reference(titles: Sequence[str], name: str) -> list[Line]:
        """The lines with these titles, and the reference of their cells under this name."""
        variants = [line for line in lines.values() if line.title in titles]
        cells = {line.place.cell for line in variants}
        references = [line for line in ours if line.title == paper.REFERENCE and line.place.cell in cells]
        return variants + [replace(line, place=replace(line.place, title=name)) for line in references]

    return Evidence(
        ours=_compared(ours),
        optimistic=_compared(line for line in lines.values() if line.place.protocol == "paper"),
        ablation=_compared(with_reference(paper.ABLATION_TITLES, paper.REFERENCE)),
        backbones=_compared(with_reference(paper.BACKBONE_TITLES, paper.TAUGHT_GCN)),
        made=made,
        made_elsewhere=tuple(
            {making(rows[0]): rows[0] for rows in placed.values() if making(rows[0]) != making(made)}.values()
        ),
        units_shown=len(placed),
        units_left_out=len(chosen) - len(placed),
        suite=suite,
    )


def making(row: StoredRow) -> tuple[object, ...]:
    """Seed, device, threads and versions; rows that agree in them need no remark on comparability."""
    return row.seed, row.device, row.threads, *(row.versions.get(name, "") for name in DECISIVE_VERSIONS)


def _placed(units: Sequence[Rows], made: StoredRow) -> dict[Place, Rows]:
    """The rows of every place, preferably from the environment of `made`, then from the most frequent others. Lines
    of a cell are paired run by run, so all have the number of runs of the first."""
    units = [rows for rows in reversed(units) if _release(rows[0]) == _release(made)]
    frequency = Counter(key for rows in units for key in (making(rows[0]), (making(rows[0]), len(rows))))

    def preference(rows: Rows) -> tuple[bool, int, int, int]:
        here, runs = making(rows[0]), len(rows)
        return here == making(made), frequency[here], frequency[here, runs], runs

    found: dict[Place, Rows] = {}
    runs: dict[tuple[paper.Cell, paper.Protocol], int] = {}
    for rows in sorted(units, key=preference, reverse=True):  # the latest of equal ones first
        place = place_of(rows[0])
        if place and len(rows) == runs.setdefault((place.cell, place.protocol), len(rows)):
            found.setdefault(place, rows)
    return found


def _release(row: StoredRow) -> tuple[int, str]:
    return row.seed, row.versions["mtgcn"]


def _line(place: Place, rows: Rows) -> Line:
    summary = summarise_cell(rows)
    averages = np.reshape(summary.accuracy.per_run, (rows[0].averages, -1)).mean(axis=1)
    return Line(**vars(summary), place=place, rows=tuple(rows), averages=tuple(map(float, averages)))


def by_table(lines: Iterable[Line]) -> list[list[Line]]:
    """The lines of each table, in the order of the tables."""
    found: defaultdict[paper.Table, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.place.order):
        found[line.place.table].append(line)
    return list(found.values())


def _compared(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines tested against their rival in the same cell, with p-values corrected for all tests of a table."""
    compared = []
    for table in by_table(lines):
        by_place = {(line.title, line.place.cell): line for line in table}
        rivals = [
            by_place.get((paper.rival_of(line.title, line.place.table.reference) or "", line.place.cell))
            for line in table
        ]
        tests = compared_cells(table, rivals)
        compared += [replace(line, against_rival=test) for line, test in zip(table, tests, strict=True)]
    return tuple(compared)
