"""The road from rows to tables: the cells of a comparison (which `comparisons.py` pairs), the tables of a plan, and all
that a folder of rows says, whichever commands made them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtgcn.datasets import Description
from mtgcn.errors import InputError
from mtgcn.experiments.placing import (
    ABLATION_TITLES,
    BACKBONE_TITLES,
    TAUGHT_GCN,
    Place,
    Rows,
    making,
    most_frequent_making,
    place_of,
    placed,
)
from mtgcn.experiments.plan import Plan
from mtgcn.experiments.protocol import REFERENCE, TABLE_1, Protocol, rival_of
from mtgcn.experiments.rows import ComparedRow, ResultRow, StoredRow
from mtgcn.experiments.statistics import PairedTest, SampleSummary, paired_tests, summarise_share
from mtgcn.experiments.suite import SUITES, Suite, suite_of

NETWORK_ALONE = "the network alone"  # the rival of each backbone that is taught


@dataclass(frozen=True)
class CellSummary:
    """All runs of one method on one dataset at one label rate."""

    dataset: str
    labels_per_class: int | tuple[int, ...] | None  # None: not the same in every run
    split: str  # where the labels of a run come from
    method: str
    settings: Mapping[str, Any]
    runs: int
    groups: tuple[int, ...] | None  # runs with the same number share random parts; None: none do
    seed: int
    accuracy: SampleSummary
    macro_f1: SampleSummary
    calibration_error: SampleSummary
    seconds: float  # wall time of fitting all runs, data loading excluded
    device: str
    threads: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Line(CellSummary):
    """One method, or one variant of an ablation, in its place in a table, beside what the paper prints there."""

    labels_per_class: int
    place: Place
    rows: tuple[StoredRow, ...]
    averages: tuple[float, ...]  # of which the authors print the largest; in our protocol a single one, the mean
    against_rival: PairedTest | None = None  # None: there is nothing to compare it with

    @property
    def title(self) -> str:
        return self.place.title

    @property
    def printed(self) -> float | None:
        """Per cent; None where the paper prints nothing."""
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
        """Per cent, from what the paper prints; None where it prints nothing."""
        return None if self.printed is None else self.reported - self.printed

    @property
    def seconds_per_run(self) -> float:
        return self.seconds / self.runs


@dataclass(frozen=True)
class MeasuredTable:
    """A table of the paper or of a suite, or as much of it as was asked for."""

    name: str
    title: str
    protocol: Protocol
    lines: tuple[Line, ...]
    rival: str = REFERENCE  # in words, what its lines are compared with


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
    suite: Suite | None = None  # that the tables are of; None: they are the paper's

    @property
    def reference(self) -> str:
        """The title of what the lines are compared with."""
        return self.suite.reference if self.suite else REFERENCE

    def elsewhere(self, line: Line) -> str:
        """On which device a line was made, if not where most were."""
        if making(line.rows[0]) == making(self.made):
            return ""
        return line.device if line.device != self.made.device else "other versions or threads"


@dataclass(frozen=True)
class CountsLine:
    """A dataset in table 1: of nodes, edges, classes and features what the paper prints, and how many there are."""

    dataset: str
    pairs: tuple[tuple[int, int], ...]


COUNTS = ("nodes", "edges listed", "classes", "features")  # the headings of those pairs


def summarise_cell(rows: Sequence[ResultRow]) -> CellSummary:
    """The rows of one cell as one line of a table."""
    first = rows[0]
    label_counts = {row.labels_per_class for row in rows}
    numbers = [row.group for row in rows if row.group is not None]
    groups = tuple(numbers) if len(numbers) == len(rows) else None
    return CellSummary(
        dataset=first.dataset,
        labels_per_class=first.labels_per_class if len(label_counts) == 1 else None,
        split=first.split,
        method=first.method,
        settings=first.settings,
        runs=len(rows),
        groups=groups,
        seed=first.seed,
        accuracy=summarise_share([row.accuracy for row in rows], groups),
        macro_f1=summarise_share([row.macro_f1 for row in rows], groups),
        calibration_error=summarise_share([row.calibration_error for row in rows], groups),
        seconds=sum(row.seconds for row in rows),
        device=first.device,
        threads=first.threads,
        versions=first.versions,
    )


def measured_tables(plan: Plan, units: Mapping[str, Rows]) -> tuple[MeasuredTable, ...]:
    """One table for each that the plan has something of; units that were not stored are left out."""
    found = {planned.place: units[planned.unit.id] for planned in plan.units if planned.unit.id in units}
    return _tables(found, rival=NETWORK_ALONE if plan.selection.backbones else None)


def suites_in(units: Mapping[str, Rows]) -> list[Suite | None]:
    """What stored rows are of: the paper's tables (None) or suites. A folder may hold both; each is read by itself."""
    found = set(map(_suite_of, of_sweeps(units).values()))
    return [suite for suite in (None, *SUITES.values()) if suite in found] or [None]


def of_sweeps(units: Mapping[str, Rows]) -> dict[str, Rows]:
    """The units that are of no comparison."""
    return {name: rows for name, rows in units.items() if not isinstance(rows[0], ComparedRow)}


def _suite_of(rows: Rows) -> Suite | None:
    place = place_of(rows[0])
    return suite_of(place.table) if place else None


def stored_evidence(units: Mapping[str, Rows], like: StoredRow | None = None, suite: Suite | None = None) -> Evidence:
    """Sort stored rows into the paper's tables, or into those of a suite.

    Rows of different seeds or releases of this program are never mixed. Those made like `like` are taken; without it,
    the largest set that was made alike. Places that these leave empty are filled with rows made on another device or
    with other versions of the libraries, which say so.
    """
    units = {name: rows for name, rows in of_sweeps(units).items() if _suite_of(rows) == suite}
    if not units:
        raise InputError("no unit is finished yet; run mtgcn reproduce into the same folder first")
    made = like or most_frequent_making(units.values())
    found = placed(units.values(), made)
    ours = {place: rows for place, rows in found.items() if place.protocol == "ours" and not place.is_variant}
    ablation, backbones = (
        {place: rows for place, rows in found.items() if place.title in titles}
        for titles in (ABLATION_TITLES, BACKBONE_TITLES)
    )
    return Evidence(
        ours=_tables(_as_in_the_paper(ours)),
        optimistic=_tables(_as_in_the_paper({p: rows for p, rows in found.items() if p.protocol == "paper"})),
        ablation=_tables(_as_in_the_paper(_references_for(ablation, ours, REFERENCE) | ablation)),
        backbones=_tables(_as_in_the_paper(_references_for(backbones, ours, TAUGHT_GCN) | backbones), NETWORK_ALONE),
        made=made,
        made_elsewhere=tuple(
            {making(rows[0]): rows[0] for rows in found.values() if making(rows[0]) != making(made)}.values()
        ),
        units_shown=len(found),
        units_left_out=len(units) - len(found),
        suite=suite,
    )


def table_1(found: Iterable[Description]) -> list[CountsLine]:
    """What was counted beside what the paper prints, of those datasets that it has."""
    ours = {description.name: description for description in found}
    return [
        CountsLine(
            printed.dataset,
            (
                (printed.nodes, counted.nodes),
                (printed.edges, counted.edges_listed),
                (printed.classes, counted.classes),
                (printed.features, counted.features),
            ),
        )
        for printed in TABLE_1
        if (counted := ours.get(printed.dataset))
    ]


def _references_for(variants: Mapping[Place, Rows], ours: Mapping[Place, Rows], title: str) -> dict[Place, Rows]:
    """The reference in the cells of variants, called what it is among them."""
    cells = {place.cell for place in variants}
    return {
        replace(place, title=title): rows
        for place, rows in ours.items()
        if place.title == REFERENCE and place.cell in cells
    }


def _as_in_the_paper(found: Mapping[Place, Rows]) -> dict[Place, Rows]:
    return {place: found[place] for place in sorted(found, key=lambda place: place.order)}


def _tables(found: Mapping[Place, Rows], rival: str | None = None) -> tuple[MeasuredTable, ...]:
    """One table for each that some place is in; tables and lines in the order of the places. Without a `rival`, in
    words, lines are compared with the reference of their table."""
    tables = {place.table.name: (place.table, place.protocol) for place in found}
    return tuple(
        MeasuredTable(
            name=table.name,
            title=table.title,
            protocol=protocol,
            lines=_compared([_line(place, rows) for place, rows in found.items() if place.table is table]),
            rival=rival or table.reference,
        )
        for table, protocol in tables.values()
    )


def _line(place: Place, rows: Rows) -> Line:
    summary = summarise_cell(rows)
    averages = np.reshape(summary.accuracy.per_run, (rows[0].averages, -1)).mean(axis=1)
    return Line(**vars(summary), place=place, rows=tuple(rows), averages=tuple(map(float, averages)))


def _compared(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Every line tested against its rival in the same cell, most often the reference. A table is read as a whole, so
    p-values are corrected for all comparisons in it."""
    by_place = {(line.title, line.place.cell): line for line in lines}
    pairs = [
        (line, by_place.get((rival, line.place.cell)))
        for line in lines
        if (rival := rival_of(line.title, line.place.table.reference))
    ]
    tested = [(line, rival) for line, rival in pairs if rival]
    tests = paired_tests(
        [line.accuracy.per_run for line, _ in tested],
        [rival.accuracy.per_run for _, rival in tested],
        [(line.groups, rival.groups) for line, rival in tested],
    )
    found = {id(line): test for (line, _), test in zip(tested, tests, strict=True)}
    return tuple(replace(line, against_rival=found.get(id(line))) for line in lines)
