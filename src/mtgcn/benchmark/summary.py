"""What a cell's rows say together, and what two methods' rows on the same splits say about each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtgcn.benchmark.rows import ResultRow
from mtgcn.benchmark.statistics import SampleSummary, paired_difference, summarise


@dataclass(frozen=True)
class CellSummary:
    """All runs of one method on one dataset at one label rate."""

    dataset: str
    labels_per_class: int | tuple[int, ...] | None  # None: not the same in every run
    split: str  # where the splits are from
    method: str
    settings: Mapping[str, Any]
    runs: int
    seed: int
    accuracy: SampleSummary
    macro_f1: SampleSummary
    calibration_error: SampleSummary
    seconds: float  # wall time of fitting all runs, data loading excluded
    device: str
    threads: int
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same splits; every other one is measured against the reference."""

    reference: str
    cells: tuple[CellSummary, ...]
    differences: Mapping[str, SampleSummary]  # accuracy of each other method minus the reference's


def summarise_cell(rows: Sequence[ResultRow]) -> CellSummary:
    """The rows of one cell as one line of a table."""
    first = rows[0]
    label_counts = {row.labels_per_class for row in rows}
    return CellSummary(
        dataset=first.dataset,
        labels_per_class=first.labels_per_class if len(label_counts) == 1 else None,
        split=first.split,
        method=first.method,
        settings=first.settings,
        runs=len(rows),
        seed=first.seed,
        accuracy=summarise([row.accuracy for row in rows]),
        macro_f1=summarise([row.macro_f1 for row in rows]),
        calibration_error=summarise([row.calibration_error for row in rows]),
        seconds=sum(row.seconds for row in rows),
        device=first.device,
        threads=first.threads,
        versions=first.versions,
    )


def compare_cells(cells: Sequence[CellSummary], reference: str) -> Comparison:
    """Each cell's accuracy against that of the method called `reference`, split by split."""
    [base] = [cell for cell in cells if cell.method == reference]
    differences = {
        cell.method: paired_difference(cell.accuracy.per_run, base.accuracy.per_run)
        for cell in cells
        if cell is not base
    }
    return Comparison(reference, tuple(cells), differences)
