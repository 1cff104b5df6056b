"""The paper's tables as measured: what the stored rows of a plan say, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtgcn.benchmark.protocol import REFERENCE, Cell, Entry, Protocol, rival_of
from mtgcn.benchmark.rows import StoredRow
from mtgcn.benchmark.statistics import PairedTest, SampleSummary, paired_tests, summarise
from mtgcn.benchmark.sweep import Plan

NETWORK_ALONE = "the network alone"  # the rival of each backbone that is taught


@dataclass(frozen=True)
class Line:
    """One method, or one variant of an ablation, in one cell."""

    title: str
    dataset: str
    labels_per_class: int
    split: str
    rows: tuple[StoredRow, ...]
    printed: float | None  # per cent
    note: str
    accuracy: SampleSummary
    macro_f1: SampleSummary
    calibration_error: SampleSummary
    seconds_per_run: float
    averages: tuple[float, ...]  # of which the authors print the largest; in our protocol a single one, the mean
    against_rival: PairedTest | None = None  # None: there is nothing to compare it with

    @property
    def reported(self) -> float:
        """Per cent: the mean or, in the authors' way of reporting, the largest of the averages."""
        return 100 * max(self.averages)

    @property
    def difference(self) -> float | None:
        """Per cent, from what the paper prints; None where it prints nothing."""
        return None if self.printed is None else self.reported - self.printed


@dataclass(frozen=True)
class MeasuredTable:
    """A table of the paper, or as much of it as was asked for."""

    name: str
    title: str
    protocol: Protocol
    lines: tuple[Line, ...]
    rival: str = REFERENCE  # in words, what its lines are compared with


def measured_tables(plan: Plan, units: Mapping[str, Sequence[StoredRow]]) -> list[MeasuredTable]:
    """One table for each that the plan has something of; units that were not stored are left out."""
    stored = [planned for planned in plan.units if planned.unit.id in units]
    tables = {planned.table.name: planned.table for planned in stored}
    return [
        MeasuredTable(
            name=table.name,
            title=table.title,
            protocol=plan.selection.protocol,
            lines=compared(
                measured_line(planned.title, planned.cell, planned.entry, units[planned.unit.id])
                for planned in stored
                if planned.table is table
            ),
            rival=NETWORK_ALONE if plan.selection.backbones else REFERENCE,
        )
        for table in tables.values()
    ]


def measured_line(title: str, cell: Cell, entry: Entry, rows: Sequence[StoredRow]) -> Line:
    """What the rows of one unit say, beside what the paper prints there."""
    accuracy = summarise([row.accuracy for row in rows])
    averages = np.reshape(accuracy.per_run, (rows[0].averages, -1)).mean(axis=1)
    return Line(
        title=title,
        dataset=cell.dataset,
        labels_per_class=cell.labels_per_class,
        split=cell.split,
        rows=tuple(rows),
        printed=entry.printed,
        note=entry.note,
        accuracy=accuracy,
        macro_f1=summarise([row.macro_f1 for row in rows]),
        calibration_error=summarise([row.calibration_error for row in rows]),
        seconds_per_run=sum(row.seconds for row in rows) / len(rows),
        averages=tuple(map(float, averages)),
    )


def compared(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Every line tested against its rival in the same cell, most often the reference. A table is read as a whole, so
    p-values are corrected for all comparisons in it."""
    lines = tuple(lines)
    by_place: dict[tuple[object, ...], Line] = {(line.title, *_cell(line)): line for line in lines}
    pairs = [(line, by_place.get((rival_of(line.title), *_cell(line)))) for line in lines]
    tested = [(line, rival) for line, rival in pairs if rival]
    tests = paired_tests([line.accuracy.per_run for line, _ in tested], [rival.accuracy.per_run for _, rival in tested])
    found = {id(line): test for (line, _), test in zip(tested, tests, strict=True)}
    return tuple(replace(line, against_rival=found.get(id(line))) for line in lines)


def _cell(line: Line) -> tuple[str, int, str]:
    return line.dataset, line.labels_per_class, line.split
