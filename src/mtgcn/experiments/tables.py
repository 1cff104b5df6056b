"""From stored rows to tables: rows are grouped by place, summarised into lines, and compared with their reference."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtgcn.datasets import Description
from mtgcn.errors import InputError
from mtgcn.experiments import protocol as paper
from mtgcn.experiments.plan import DECISIVE_VERSIONS, Place, Plan, place_of
from mtgcn.experiments.scoring import CellSummary, summarise_cell
from mtgcn.experiments.statistics import PairedTest, paired_tests
from mtgcn.experiments.store import Rows, StoredRow

NETWORK_ALONE = "the network alone"  # the rival of every taught backbone


Summaries = dict[str, CellSummary]  # by unit; filled by the functions below, so that each unit is summarised once


@dataclass(frozen=True)
class Line(CellSummary):
    """A method or variant in its place in a table."""

    labels_per_class: int
    place: Place
    rows: Rows
    averages: tuple[float, ...]  # the authors print the largest; one, the mean, in our protocol
    against_rival: PairedTest | None = None  # None: nothing to compare with

    @property
    def title(self) -> str:
        return self.place.title

    @property
    def printed(self) -> float | None:
        """The paper's accuracy in per cent; None if it prints none."""
        return self.place.entry.printed

    @property
    def note(self) -> str:
        return self.place.entry.note

    @property
    def reported(self) -> float:
        """Per cent: the mean or, in the authors' way of reporting, the largest of the averages."""
        return 100 * max(self.averages)

    @property
    def difference(self) -> float | None:
        """Points above the paper's accuracy; None if it prints none."""
        return None if self.printed is None else self.reported - self.printed

    @property
    def seconds_per_run(self) -> float:
        return self.seconds / self.runs


@dataclass(frozen=True)
class MeasuredTable:
    """A table of the paper or of a suite, or a part of it."""

    name: str
    title: str
    protocol: paper.Protocol
    lines: tuple[Line, ...]
    rival: str = paper.REFERENCE  # description of what its lines are compared with


@dataclass(frozen=True)
class Evidence:
    """The tables of a folder of rows. All rows have the same seed; most share device, threads and versions."""

    ours: tuple[MeasuredTable, ...]
    optimistic: tuple[MeasuredTable, ...]  # the authors' way of reporting
    ablation: tuple[MeasuredTable, ...]
    backbones: tuple[MeasuredTable, ...]
    made: StoredRow  # a row with the most frequent device, threads and versions
    made_elsewhere: tuple[StoredRow, ...]  # a row of every other combination
    units_shown: int
    units_left_out: int
    suite: paper.Suite | None = None  # None: the paper's tables

    @property
    def reference(self) -> str:
        """Title of the line that the others are compared with."""
        return self.suite.reference if self.suite else paper.REFERENCE

    def elsewhere(self, line: Line) -> str:
        """The device of a line that was made in another environment than most; "" for the others."""
        if making(line.rows[0]) == making(self.made):
            return ""
        return line.device if line.device != self.made.device else "other versions or threads"


def measured_tables(
    plan: Plan, units: Mapping[str, Rows], summaries: Summaries | None = None
) -> tuple[MeasuredTable, ...]:
    """The tables of a plan; units that are not stored are left out."""
    found = {place: units[unit.id] for unit in plan.units if unit.id in units and (place := place_of(unit))}
    summaries = {} if summaries is None else summaries
    if not plan.selection.backbones:
        return _tables(found, summaries)
    return _tables({_titled(place, paper.TAUGHT_GCN): rows for place, rows in found.items()}, summaries, NETWORK_ALONE)


def of_sweeps(units: Mapping[str, Rows]) -> dict[str, Rows]:
    """The units of the paper's tables and suites, without those of comparisons and of the arena."""
    return {name: rows for name, rows in units.items() if rows[0].table not in ("", paper.ARENA_TABLE)}


def suites_in(units: Mapping[str, Rows]) -> list[paper.Suite | None]:
    """The suites that a folder holds rows of; None stands for the paper's tables."""
    found = set(map(_suite_of, of_sweeps(units).values()))
    return [suite for suite in (None, *paper.SUITES.values()) if suite in found] or [None]


def _suite_of(rows: Rows) -> paper.Suite | None:
    place = place_of(rows[0])
    return paper.SUITES[place.table.suite] if place and place.table.suite else None


def stored_evidence(
    units: Mapping[str, Rows],
    like: StoredRow | None = None,
    suite: paper.Suite | None = None,
    summaries: Summaries | None = None,
) -> Evidence:
    """The paper's tables, or those of a suite, from stored rows.

    Rows of different seeds or releases of mtgcn are never mixed. Rows from the environment of `like` are preferred, by
    default the most frequent one. Places without such rows are filled from other devices or library versions.
    """
    units = {name: rows for name, rows in of_sweeps(units).items() if _suite_of(rows) == suite}
    if not units:
        raise InputError("no unit is finished yet; run mtgcn reproduce into the same folder first")
    firsts = [rows[0] for rows in units.values()]
    counts = Counter(map(making, firsts))
    made = like or max(reversed(firsts), key=lambda row: counts[making(row)])  # the latest of equally frequent ones
    summaries = {} if summaries is None else summaries
    placed = _placed(units.values(), made)
    found = {place: placed[place] for place in sorted(placed, key=lambda place: place.order)}
    ours = {place: rows for place, rows in found.items() if place.protocol == "ours" and not place.is_variant}

    def with_reference(titles: Sequence[str], name: str) -> dict[Place, Rows]:
        """The lines with these titles, and in their cells the reference under this name, in the order of the tables."""
        variants = {place: rows for place, rows in found.items() if place.title in titles}
        cells = {place.cell for place in variants}
        references = {
            _titled(place, name): rows
            for place, rows in ours.items()
            if place.title == paper.REFERENCE and place.cell in cells
        }
        return dict(sorted((references | variants).items(), key=lambda item: item[0].order))

    return Evidence(
        ours=_tables(ours, summaries),
        optimistic=_tables({place: rows for place, rows in found.items() if place.protocol == "paper"}, summaries),
        ablation=_tables(with_reference(paper.ABLATION_TITLES, paper.REFERENCE), summaries),
        backbones=_tables(with_reference(paper.BACKBONE_TITLES, paper.TAUGHT_GCN), summaries, NETWORK_ALONE),
        made=made,
        made_elsewhere=tuple(
            {making(rows[0]): rows[0] for rows in placed.values() if making(rows[0]) != making(made)}.values()
        ),
        units_shown=len(found),
        units_left_out=len(units) - len(found),
        suite=suite,
    )


def making(row: StoredRow) -> tuple[object, ...]:
    """Seed, device, threads and versions: rows that agree in them are comparable without remark."""
    return row.seed, row.device, row.threads, *(row.versions.get(name, "") for name in DECISIVE_VERSIONS)


def _placed(units: Iterable[Rows], made: StoredRow) -> dict[Place, Rows]:
    """The rows of every place: those made like `made` first, then the most frequent others."""
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
    """Units with their places. Lines of a cell are paired run by run, so the most frequent number of runs counts."""
    with_places = [(place, rows) for rows in units if (place := place_of(rows[0]))]
    numbers: defaultdict[tuple[paper.Cell, paper.Protocol], Counter[int]] = defaultdict(Counter)
    for place, runs in {(place, len(rows)) for place, rows in with_places}:
        numbers[place.cell, place.protocol][runs] += 1
    for place, rows in with_places:
        counts = numbers[place.cell, place.protocol]
        if len(rows) == max(counts, key=lambda runs: (counts[runs], runs)):
            yield place, rows


def _titled(place: Place, reference: str) -> Place:
    """The place, with this title if it is that of the reference."""
    return replace(place, title=reference) if place.title == paper.REFERENCE else place


def _tables(found: Mapping[Place, Rows], summaries: Summaries, rival: str | None = None) -> tuple[MeasuredTable, ...]:
    """Tables and lines in the order of the places."""
    lines: dict[str, list[Line]] = {}
    for place, rows in found.items():
        summary = summaries.get(rows[0].unit) or summaries.setdefault(rows[0].unit, summarise_cell(rows))
        averages = np.reshape(summary.accuracy.per_run, (rows[0].averages, -1)).mean(axis=1)
        line = Line(**vars(summary), place=place, rows=tuple(rows), averages=tuple(map(float, averages)))
        lines.setdefault(place.table.name, []).append(line)
    found_tables = []
    for some in lines.values():
        table, protocol = some[0].place.table, some[0].place.protocol
        found_tables.append(MeasuredTable(table.name, table.title, protocol, _compared(some), rival or table.reference))
    return tuple(found_tables)


def _compared(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Lines tested against their rival in the same cell, with p-values corrected for all tests of the table."""
    by_place = {(line.title, line.place.cell): line for line in lines}
    tested = [
        (line, rival)
        for line in lines
        if (title := paper.rival_of(line.title, line.place.table.reference))
        and (rival := by_place.get((title, line.place.cell)))
    ]
    tests = paired_tests(
        [line.accuracy.per_run for line, _ in tested],
        [rival.accuracy.per_run for _, rival in tested],
        [(line.groups, rival.groups) for line, rival in tested],
    )
    found = {id(line): test for (line, _), test in zip(tested, tests, strict=True)}
    return tuple(replace(line, against_rival=found.get(id(line))) for line in lines)


def table_1(found: Iterable[Description]) -> dict[str, dict[str, tuple[int, int]]]:
    """Printed and counted sizes of the datasets in the paper's table 1, by dataset and heading."""
    ours = {description.name: description for description in found if description.name in paper.TABLE_1}
    return {
        dataset: {heading: (count, getattr(ours[dataset], heading.replace(" ", "_"))) for heading, count in row.items()}
        for dataset, row in paper.TABLE_1.items()
        if dataset in ours
    }
