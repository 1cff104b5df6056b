"""Summaries as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtgcn.benchmark.split_choice import OVER_ALL
from mtgcn.benchmark.tables import CellSummary, Comparison
from mtgcn.datasets import Description
from mtgcn.report.numbers import SIGNED, interval, percent
from mtgcn.settings import SettingDescription

PIPED_WIDTH = 200  # columns when standard output is no terminal and has no width of its own


def print_table(table: Table) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(table)


_COUNTS = (
    *("nodes", "edges listed", "edges", "self-loops", "classes", "features", "components", "unlabelled"),
    "repeated",  # nodes
)


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


def method_table(titles: Mapping[str, str]) -> Table:
    """Methods by the name people type, each in a sentence."""
    table = Table("method", "what it is")
    for name, title in titles.items():
        table.add_row(Text(name), Text(title))
    return table


def setting_table(settings: Iterable[SettingDescription]) -> Table:
    """The settings of one method."""
    table = Table("setting", "default", "limits", "meaning")
    for one in settings:
        table.add_row(*map(Text, (one.name, one.default, one.limits, one.meaning)))
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
        table.add_row(measure, percent(sample.mean), percent(sample.std), interval(sample))
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
            percent(cell.accuracy.mean),
            interval(cell.accuracy),
            percent(difference.mean, SIGNED) if difference else "",
            interval(difference, SIGNED) if difference else "",
            percent(cell.macro_f1.mean),
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
