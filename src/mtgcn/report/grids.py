"""Measured tables as the paper sets them, methods down and cells across, and results over all tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mtgcn.experiments.protocol import ALL_TABLES, ALONE, BACKBONE_NAMES, OVER_ALL, PUBLIC, TAUGHT, Cell, labels_title
from mtgcn.experiments.statistics import PairedTest, RankComparison, compare_ranks
from mtgcn.experiments.tables import Evidence, Line, MeasuredTable
from mtgcn.report.styles import styles_of
from mtgcn.report.tables import SIGNED, Entry, Row, Table, number, p_value, percent, with_minus_sign


@dataclass(frozen=True)
class GridRow:
    """One method or variant; None where it was not run."""

    title: str
    name: str  # as displayed
    lines: tuple[Line | None, ...]
    optimistic: bool = False  # reported by the authors' protocol
    elsewhere: str = ""  # where it was run, if not where most rows were

    @property
    def tests(self) -> list[PairedTest | None]:
        """The comparison with the reference in each cell."""
        return [line.against_rival if line else None for line in self.lines]


@dataclass(frozen=True)
class Grid:
    """A table of the paper or of a suite, either of its random splits or of the public one."""

    number: str  # of the paper's table, or empty
    title: str
    columns: tuple[str, ...]
    short_columns: tuple[str, ...]  # for charts
    rows: tuple[GridRow, ...]
    reference: str  # as displayed

    @property
    def heading(self) -> str:
        return f"Table {self.number}: {self.title}" if self.number else self.title

    @property
    def notes(self) -> str:
        """Remarks of the protocol on printed values."""
        notes = (f"{row.name}: {line.note}." for row in self.rows for line in row.lines if line and line.note)
        return " ".join(dict.fromkeys(notes))

    @property
    def compared_rows(self) -> list[GridRow]:
        """Rows that are compared with the reference in some cell."""
        return [row for row in self.rows if not row.optimistic and any(row.tests)]

    def results(self) -> Table:
        """Accuracy with interval; beside it the printed value and the difference, where the paper prints any."""
        rows = [self._row(row, (self._result(row, line) for line in row.lines)) for row in self.rows]
        if any(line and line.printed is not None for row in self.rows for line in row.lines):
            return self._table(self.heading, rows, ["paper", "ours", "diff."], caption=self.notes)
        ours = [Row(row.name, row.entries[1::3], row.note, row.style) for row in rows]
        return self._table(self.heading, ours, caption=self.notes)

    def differences(self, heading: str = "") -> Table:
        """Paired differences from the reference, with corrected p-values."""
        rows = [self._row(row, map(_difference, row.tests)) for row in self.compared_rows]
        return self._table(self.title, rows, [heading or f"minus {self.reference}", "p"])

    def measure(self, name: str, entry: Callable[[Line], Entry]) -> Table:
        """One entry per cell, without the optimistic rows."""
        rows = [
            self._row(row, ([entry(line) if line else Entry()] for line in row.lines))
            for row in self.rows
            if not row.optimistic
        ]
        return self._table(self.title.replace("Accuracy", name), rows)

    def backbones(self) -> Table:
        """Networks alone and taught by mutual teaching."""
        by_title = {row.title: row for row in self.rows}
        empty = GridRow("", "", (None,) * len(self.columns))
        rows = []
        for key, name in BACKBONE_NAMES.items():
            alone, taught = (by_title.get(f"{key} {how}", empty) for how in (ALONE, TAUGHT))
            if any(alone.lines) or any(taught.lines):
                entries: list[Entry] = []
                for *lines, test in zip(alone.lines, taught.lines, taught.tests, strict=True):
                    entries += [Entry.mean(line.accuracy) if line else Entry() for line in lines]
                    entries += _difference(test)
                rows.append(Row(name, entries))
        return self._table(self.title, rows, ["alone", "taught", "gain", "p"], first="network")

    def _table(
        self, title: str, rows: list[Row], parts: Sequence[str] = (), *, first: str = "method", caption: str = ""
    ) -> Table:
        """Each column has the parts, if any, below its heading."""
        columns = [first, *(list(parts) * len(self.columns) or self.columns)]
        return Table(columns, rows, title=title, caption=caption, groups=self.columns if parts else ())

    def _row(self, row: GridRow, entries: Iterable[Sequence[Entry]]) -> Row:
        style = "optimistic" if row.optimistic else "reference" if row.name == self.reference else ""
        notes = ["optimistic"] if row.optimistic else []
        notes += [f"on {row.elsewhere}"] if row.elsewhere else []
        return Row(row.name, [entry for of_cell in entries for entry in of_cell], "; ".join(notes), style)

    def _result(self, row: GridRow, line: Line | None) -> list[Entry]:
        """The printed accuracy, ours and the difference."""
        if line is None:
            return [Entry()] * 3
        if row.optimistic:
            ours = Entry(number(line.reported), note=f"mean {percent(line.accuracy.mean)}")
        else:
            of_mean = Entry.mean(line.accuracy)
            ours = Entry(number(line.reported), of_mean.ends, of_mean.note, bold=self._is_best(line))
        paper = "" if line.printed is None else number(line.printed)
        difference = "" if line.difference is None else number(line.difference, SIGNED)
        return [Entry(paper, style="printed"), ours, Entry(difference)]

    def _is_best(self, line: Line) -> bool:
        """Whether no method measured by our protocol is better in the cell of the line."""
        measured = [other for row in self.rows if not row.optimistic for other in row.lines if other]
        column = [other.reported for other in measured if other.place.cell == line.place.cell]
        return len(column) > 1 and line.reported == max(column)


def _difference(test: PairedTest | None) -> list[Entry]:
    """A paired difference and its corrected p-value; empty without a test."""
    if test is None:
        return [Entry(), Entry()]
    return [Entry.mean(test.difference, SIGNED), Entry(p_value(test.p_corrected), bold=test.is_significant)]


def grids(evidence: Evidence, *kinds: Sequence[MeasuredTable]) -> list[Grid]:
    """The tables of these kinds as grids; tables of the same name share one."""
    by_name = defaultdict(list)
    for table in (table for tables in kinds for table in tables):
        by_name[table.name].append(table)
    return [grid for name in sorted(by_name, key=list(ALL_TABLES).index) for grid in _grids(evidence, by_name[name])]


def _grids(evidence: Evidence, tables: Sequence[MeasuredTable]) -> list[Grid]:
    """One grid for random splits and one for the public split, where there are rows."""
    first, styles = tables[0], styles_of(evidence.suite)
    lines = [(line, table.protocol == "paper") for table in tables for line in table.lines]
    of_datasets = len({cell.dataset for cell in ALL_TABLES[first.name].cells}) > 1  # table 5, at one label rate
    found = []
    for public in dict.fromkeys(line.split == PUBLIC for line, _ in lines):
        some = [(line, optimistic) for line, optimistic in lines if (line.split == PUBLIC) == public]
        cells = list(dict.fromkeys(line.place.cell for line, _ in some))
        columns = [labels_title(cell.labels_per_class, cell.split) for cell in cells]
        short = [
            f"{cell.labels_per_class} on average, over all"
            if cell.split == OVER_ALL
            else labels_title(cell.labels_per_class)
            for cell in cells
        ]
        if of_datasets:
            columns = short = [cell.dataset for cell in cells]
        rows = []
        for title, optimistic in dict.fromkeys((line.title, optimistic) for line, optimistic in some):
            own = {line.place.cell: line for line, authors in some if (line.title, authors) == (title, optimistic)}
            elsewhere = ", ".join(dict.fromkeys(filter(None, map(evidence.elsewhere, own.values()))))
            rows.append(GridRow(title, styles.name(title), tuple(map(own.get, cells)), optimistic, elsewhere))
        found.append(
            Grid(
                number=first.name if first.name.isdigit() else "",
                title=f"{first.title}{', public split' if public else ''}",
                columns=tuple(columns),
                short_columns=tuple(short),
                rows=tuple(rows),
                reference=styles.name(evidence.reference),
            )
        )
    return found


def random_cells(evidence: Evidence) -> list[dict[str, Line]]:
    """The lines of each cell with random splits, by title."""
    cells: dict[Cell, dict[str, Line]] = defaultdict(dict)
    for line in (line for table in evidence.ours for line in table.lines):
        if line.split != PUBLIC:
            cells[line.place.cell][line.title] = line
    return list(cells.values())


def ranks(evidence: Evidence) -> RankComparison | None:
    """Ranks of the methods with results in every cell; None for fewer than 2 cells or 3 methods."""
    cells = random_cells(evidence)
    everywhere = [title for title in (cells[0] if cells else ()) if all(title in cell for cell in cells)]
    if len(cells) < 2 or len(everywhere) < 3:
        return None
    return compare_ranks(np.array([[cell[title].reported for title in everywhere] for cell in cells]), everywhere)


def gain_table(evidence: Evidence) -> Table | None:
    """The gain by mutual teaching of each network over all cells; None without any."""
    rows = []
    lines = [line for table in evidence.backbones for line in table.lines]
    for key, name in BACKBONE_NAMES.items():
        tests = [line.against_rival for line in lines if line.title == f"{key} {TAUGHT}" and line.against_rival]
        if tests:
            means = [test.difference.mean for test in tests]
            gains = [percent(mean, SIGNED) for mean in (float(np.mean(means)), min(means), max(means))]
            rows.append([name, str(len(tests)), *gains, *map(str, _significant(tests))])
    columns = ["network", "cells", "mean gain", "smallest", "largest", "significantly better", "significantly worse"]
    return Table.of_text(columns, rows) if rows else None


def _significant(tests: Sequence[PairedTest]) -> tuple[int, int]:
    """The number of significant differences above and below zero."""
    means = [test.difference.mean for test in tests if test.is_significant]
    return sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)


def findings(evidence: Evidence) -> list[str]:
    """One sentence per result over all tables."""
    lines = [line for table in evidence.ours for line in table.lines]
    reference = styles_of(evidence.suite).name(evidence.reference)
    sentences = []
    differences = [line.difference for line in lines if line.difference is not None]
    if differences:
        mean = with_minus_sign(number(float(np.mean(differences)), SIGNED))
        sentences.append(
            f"{len(differences)} results have a printed counterpart. The mean absolute difference is "
            f"{np.mean(np.abs(differences)):.1f} points, the mean difference {mean} points."
        )
    cells = [cell for cell in random_cells(evidence) if evidence.reference in cell and len(cell) > 1]
    if cells:
        best = sum(cell[evidence.reference].reported >= max(line.reported for line in cell.values()) for cell in cells)
        sentences.append(f"{reference} has the highest mean in {best} of {len(cells)} cells with random splits.")
    sentences += _against_plain_methods(evidence)
    tests = [line.against_rival for line in lines if line.against_rival]
    if tests:
        ahead, behind = _significant(tests)
        sentences.append(
            f"{len(tests)} comparisons with {reference}: the other method is significantly worse in {behind} and "
            f"significantly better in {ahead} (5 % level, Holm correction)."
        )
    return sentences


def _against_plain_methods(evidence: Evidence) -> list[str]:
    """The reference of a suite against the best plain method of each cell."""
    suite, cells = evidence.suite, random_cells(evidence)
    if suite is None:
        return []
    gaps: list[tuple[float, Line]] = []
    for cell in cells:
        plain = [cell[title].reported for title in suite.plain if title in cell]
        if plain and suite.reference in cell:
            gaps.append((cell[suite.reference].reported - max(plain), cell[suite.reference]))
    if not gaps:
        return []
    above = sum(gap > 0 for gap, _ in gaps)
    within = sum(gap >= -suite.margin for gap, _ in gaps)
    worst, line = min(gaps, key=lambda one: one[0])
    where = f"{line.dataset}, {labels_title(line.labels_per_class, line.split)}"
    sentences = [
        f"The mean of {suite.reference} is above that of the best plain method in {above} of {len(gaps)} cells and at "
        f"most {suite.margin:g} point below it in {within}; the largest deficit is "
        f"{with_minus_sign(number(worst, SIGNED))} ({where}). Plain methods: {'; '.join(suite.plain)}."
    ]
    missing = sorted({title for title in suite.plain if any(title not in cell for cell in cells)})
    return [*sentences, *([f"Not run in all of these cells: {'; '.join(missing)}."] if missing else [])]
