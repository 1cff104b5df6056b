"""Summaries as tables: drawn with lines for a terminal; where they are piped, columns with blanks between."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mtgcn.datasets import Description
from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.tables import CellSummary
from mtgcn.report.comparison_text import cell_title, compared_cells, headings
from mtgcn.report.numbers import interval, percent
from mtgcn.settings import SettingDescription

WIDEST = 100_000  # columns of a piped table, which is never wrapped: a program takes line by line


def print_table(table: Table) -> None:
    console = Console()
    if console.is_terminal:
        console.print(table)
    else:
        print(plain_text(table))


def plain_text(table: Table) -> str:
    """The table without lines or colours, its columns aligned, one row per line."""
    plain = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=table.show_header)
    plain.columns = [replace(column, header=str(column.header).replace("\n", " ")) for column in table.columns]
    plain.rows = table.rows
    console = Console(file=io.StringIO(), width=WIDEST, color_system=None, force_terminal=False, force_jupyter=False)
    with console.capture() as captured:
        console.print(plain)
    around = [[str(text)] if text else [] for text in (table.title, table.caption)]
    return "\n".join([*around[0], *(line.rstrip() for line in captured.get().splitlines()), *around[1]])


def dataset_table(descriptions: Iterable[Description]) -> Table:
    """The paper's table 1, with the edges that are left once repeated ones and self-loops are gone."""
    table = Table("dataset")
    for heading in ("nodes", "edges listed", "edges", "classes", "features"):
        table.add_column(heading, justify="right")
    for one in descriptions:
        counts = (one.nodes, one.edges_listed, one.edges, one.classes, one.features)
        table.add_row(one.name, *map(str, counts))
    return table


def description_table(description: Description) -> Table:
    """All that is known of one dataset."""
    table = Table(show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for what, value in (
        ("nodes", description.nodes),
        ("edges listed", f"{description.edges_listed}, repeated ones and self-loops counted, as the paper does"),
        ("edges", f"{description.edges} between two different nodes, each once"),
        ("self-loops", description.self_loops),
        ("classes", description.classes),
        ("features", description.features),
        ("components", description.components),
        ("nodes without a label", description.nodes_without_label),
        ("repeated nodes", f"{description.repeated_nodes} with the neighbours and the class of an earlier one"),
        ("lies in", description.location or "nowhere any more"),
    ):
        table.add_row(what, Text(str(value)))
    return table


def method_table(titles: Mapping[str, str], settings: Mapping[str, Sequence[str]]) -> Table:
    """Methods by the name people type, each in a sentence, and what its settings are called."""
    table = Table("method", "what it is", "settings", show_lines=True)  # so that one sees where a method ends
    for name, title in titles.items():
        table.add_row(Text(name), Text(title), Text(", ".join(settings[name])))
    return table


def setting_table(settings: Iterable[SettingDescription]) -> Table:
    """The settings of one method."""
    table = Table("setting", "default", "limits", "meaning")
    for one in settings:
        table.add_row(*map(Text, (one.name, one.default, one.limits, one.meaning)))
    return table


def cell_table(cell: CellSummary) -> Table:
    """One cell, one line per measure."""
    table = Table(title=f"{cell.method} on {cell_title(cell)}", caption=_made_on(cell))
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
    table = Table(
        title=f"Accuracy % on {cell_title(first)}",
        caption=_made_on(first, with_seconds=False),
        show_edge=False,
        box=SIMPLE_HEAD,  # all of it fits into 80 columns, unless names are long; then these are folded, no number is
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    method, *others = headings(comparison)
    table.add_column(method, overflow="fold")
    for heading in others:
        table.add_column("\n".join(heading.rsplit(" ", 1)), justify="right", no_wrap=True)
    for row in compared_cells(comparison):
        table.add_row(*map(Text, row))
    return table


def _made_on(cell: CellSummary, with_seconds: bool = True) -> str:
    seconds = f"{cell.seconds:.1f} s, " if with_seconds else ""
    threads = f"{cell.threads} thread{'s' if cell.threads > 1 else ''}"
    return f"{seconds}seed {cell.seed}, {cell.device}, {threads}, torch {cell.versions['torch']}"
