"""Measured tables as the paper sets them: methods down, cells across."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mtgcn.experiments.protocol import ALL_TABLES, OVER_ALL, PUBLIC, Cell, labels_title
from mtgcn.experiments.tables import Evidence, Line, MeasuredTable
from mtgcn.report.styles import Styles, styles_of


@dataclass(frozen=True)
class GridRow:
    """One method or variant; None where it was not run."""

    title: str
    name: str  # as it is shown
    lines: tuple[Line | None, ...]
    optimistic: bool = False  # reported in the authors' way


@dataclass(frozen=True)
class Grid:
    """A table of the paper, or one kind of splits of it."""

    number: str  # of the paper's table; empty if it is none of the paper's
    title: str
    columns: tuple[str, ...]
    short_columns: tuple[str, ...]  # for where there is little room
    rows: tuple[GridRow, ...]

    @property
    def heading(self) -> str:
        return f"Table {self.number}: {self.title}" if self.number else self.title

    @property
    def has_printed(self) -> bool:
        """Whether the paper prints anything of it."""
        return any(line and line.printed is not None for row in self.rows for line in row.lines)

    @property
    def notes(self) -> list[str]:
        """What the protocol remarks on printed values."""
        notes = (f"{row.name}: {line.note}." for row in self.rows for line in row.lines if line and line.note)
        return list(dict.fromkeys(notes))

    @property
    def compared_rows(self) -> list[GridRow]:
        """Those that were tested against the reference in some cell."""
        return [
            row for row in self.rows if not row.optimistic and any(line and line.against_rival for line in row.lines)
        ]

    def is_best(self, line: Line) -> bool:
        """Whether no method measured in our way is better in that cell."""
        column = [
            other.reported
            for row in self.rows
            if not row.optimistic
            for other in row.lines
            if other and other.place.cell == line.place.cell
        ]
        return len(column) > 1 and line.reported == max(column)


def result_grids(evidence: Evidence) -> list[Grid]:
    """The tables of the paper, or of a suite; what the authors' way of reporting adds stands in rows of its own, which
    say so."""
    names = dict.fromkeys(table.name for table in (*evidence.ours, *evidence.optimistic))
    ours = {table.name: table for table in evidence.ours}
    optimistic = {table.name: table for table in evidence.optimistic}
    return [
        grid
        for name in sorted(names, key=list(ALL_TABLES).index)
        for grid in _grids([table[name] for table in (ours, optimistic) if name in table], styles_of(evidence.suite))
    ]


def ablation_grids(evidence: Evidence) -> list[Grid]:
    return [grid for table in evidence.ablation for grid in _grids([table], styles_of(evidence.suite))]


def backbone_grids(evidence: Evidence) -> list[Grid]:
    return [grid for table in evidence.backbones for grid in _grids([table], styles_of(evidence.suite))]


def _grids(tables: Sequence[MeasuredTable], styles: Styles) -> list[Grid]:
    """One grid for splits that are drawn and one for the public split, if there is something of both."""
    first = tables[0]
    lines = [(line, table.protocol == "paper") for table in tables for line in table.lines]
    of_datasets = len({cell.dataset for cell in ALL_TABLES[first.name].cells}) > 1  # table 5, at one label rate
    grids = []
    for public in dict.fromkeys(line.split == PUBLIC for line, _ in lines):
        some = [(line, optimistic) for line, optimistic in lines if (line.split == PUBLIC) == public]
        cells = dict.fromkeys(line.place.cell for line, _ in some)
        grids.append(
            Grid(
                number=first.name if first.name.isdigit() else "",
                title=f"{first.title}{', public split' if public else ''}",
                columns=tuple(
                    cell.dataset if of_datasets else labels_title(cell.labels_per_class, cell.split) for cell in cells
                ),
                short_columns=tuple(cell.dataset if of_datasets else _short_title(cell) for cell in cells),
                rows=tuple(_rows(some, tuple(cells), styles)),
            )
        )
    return grids


def _rows(lines: Sequence[tuple[Line, bool]], cells: Sequence[Cell], styles: Styles) -> Iterable[GridRow]:
    for title, optimistic in dict.fromkeys((line.title, optimistic) for line, optimistic in lines):
        own = {line.place.cell: line for line, authors in lines if (line.title, authors) == (title, optimistic)}
        yield GridRow(title, styles.shown_name(title), tuple(own.get(cell) for cell in cells), optimistic)


def _short_title(cell: Cell) -> str:
    over_all = cell.split == OVER_ALL
    return f"{cell.labels_per_class} on average, over all" if over_all else labels_title(cell.labels_per_class)
