"""The paper's tables as measured: what the stored rows of a plan say, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mtgcn.benchmark.protocol import REFERENCE, Cell, Entry, Protocol
from mtgcn.benchmark.results import StoredRow
from mtgcn.benchmark.statistics import PairedTest, SampleSummary, paired_tests, summarise
from mtgcn.benchmark.sweep import Plan


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
    against_reference: PairedTest | None = None  # None: this is the reference, or there is none to compare with

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
    """Every line tested against the reference of its cell. A table is read as a whole, so p-values are corrected for
    all comparisons in it."""
    lines = tuple(lines)
    references = {_cell(line): line for line in lines if line.title == REFERENCE}
    others = [line for line in lines if line.title != REFERENCE and _cell(line) in references]
    tests = paired_tests(
        [line.accuracy.per_run for line in others], [references[_cell(line)].accuracy.per_run for line in others]
    )
    found = dict(zip(map(id, others), tests, strict=True))
    return tuple(replace(line, against_reference=found.get(id(line))) for line in lines)


def _cell(line: Line) -> tuple[str, int, str]:
    return line.dataset, line.labels_per_class, line.split
