"""Summaries as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from mtgcn.benchmark.split_choice import OVER_ALL
from mtgcn.benchmark.statistics import SampleSummary
from mtgcn.benchmark.summary import CellSummary, Comparison
from mtgcn.datasets import Description

PIPED_WIDTH = 200  # columns when standard output is no terminal and has no width of its own
_COUNTS = (
    *("nodes", "edges listed", "edges", "self-edges", "classes", "features", "components", "unlabelled"),
    "repeated",  # nodes
)


def print_table(table: Table) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(table)


def dataset_table(descriptions: Iterable[Description], absent: Iterable[str] = ()) -> Table:
    """The paper's table 1, what it leaves out, and where the data lie; last, the datasets that are not here."""
    table = Table()
    table.add_column("dataset")
    for heading in _COUNTS:
        table.add_column(heading, justify="right")
    table.add_column("lies in", overflow="fold")
    for dataset in descriptions:
        counts = (
            dataset.nodes,
            dataset.edges_listed,
            dataset.edges,
            dataset.self_loops,
            dataset.classes,
            dataset.features,
            dataset.components,
            dataset.nodes_without_label,
            dataset.repeated_nodes,
        )
        table.add_row(dataset.name, *map(str, counts), str(dataset.location or "nowhere any more"))
    for name in absent:
        table.add_row(name, *[""] * len(_COUNTS), "not here; fetched when first used")
    return table


def cell_table(cell: CellSummary) -> Table:
    """One cell, one line per measure."""
    table = Table(title=f"{cell.method} on {_cell_title(cell)}", caption=_made_on(cell))
    for heading in ("", "mean", "std", "95 % interval"):
        table.add_column(heading, justify="left" if not heading else "right")
    for measure, sample in (
        ("accuracy %", cell.accuracy),
        ("macro F1 %", cell.macro_f1),
        ("calibration error %", cell.calibration_error),
    ):
        table.add_row(measure, _percent(sample.mean), _percent(sample.std), _interval(sample))
    return table


def comparison_table(comparison: Comparison) -> Table:
    """One line per method; differences are paired, split by split."""
    first = comparison.cells[0]
    table = Table(title=f"Accuracy % on {_cell_title(first)}", caption=_made_on(first, with_seconds=False))
    table.add_column("method")
    for heading in ("mean", "95 % interval", f"minus {comparison.reference}", "95 % interval", "macro F1 %", "seconds"):
        table.add_column(heading, justify="right")
    for cell in comparison.cells:
        difference = comparison.differences.get(cell.method)
        table.add_row(
            cell.method,
            _percent(cell.accuracy.mean),
            _interval(cell.accuracy),
            _percent(difference.mean, signed=True) if difference else "",
            _interval(difference, signed=True) if difference else "",
            _percent(cell.macro_f1.mean),
            f"{cell.seconds:.1f}",
        )
    return table


def _cell_title(cell: CellSummary) -> str:
    counts = cell.labels_per_class
    if isinstance(counts, tuple):
        labels = f"{', '.join(map(str, counts))} labels of the classes in turn"
    else:
        labels = "labels that differ from run to run" if counts is None else f"{counts} labels per class"
    if cell.split == OVER_ALL:
        labels += " drawn over all nodes"
    return f"{cell.dataset}, {labels}, {cell.runs} run{'s' if cell.runs > 1 else ''}"


def _made_on(cell: CellSummary, with_seconds: bool = True) -> str:
    seconds = f"{cell.seconds:.1f} s, " if with_seconds else ""
    return f"{seconds}seed {cell.seed}, {cell.device}, {cell.threads} threads, torch {cell.versions['torch']}"


def _percent(share: float, signed: bool = False) -> str:
    return f"{100 * share:+.1f}" if signed else f"{100 * share:.1f}"


def _interval(sample: SampleSummary, signed: bool = False) -> str:
    if len(sample.per_run) == 1:
        return "one run"  # says nothing about another run
    return " to ".join(_percent(end, signed) for end in sample.ci95)
