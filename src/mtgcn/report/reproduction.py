"""Results of a reproduction: summaries in Markdown and CSV, LaTeX tables and the HTML page."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.datasets import Description, describe, where
from mtgcn.experiments import protocol as paper
from mtgcn.experiments import statistics
from mtgcn.experiments.curves import Band, Curves, read_curves
from mtgcn.experiments.reproduce import Reproduction
from mtgcn.experiments.tables import Evidence, Line, by_table
from mtgcn.report import tables as writers
from mtgcn.report.charts import Styles, curve_chart, difference_chart, label_rate_chart, rank_chart
from mtgcn.report.pages import render
from mtgcn.report.tables import SIGNED, Entry, Row, Table, number, p_value, percent, with_minus_sign
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_reproduction(folder: Path, reproduction: Reproduction) -> tuple[str, list[Path]]:
    """Write summaries, page and LaTeX tables; returns the Markdown and the files.

    Each plan (our protocol, the authors', the ablation, the backbones, each suite) has its own summary files. Page and
    LaTeX tables cover all rows of the folder that belong to the paper, or to the suite.
    """
    selection = reproduction.plan.selection
    kind = selection.suite or {"ours": "", "optimistic": "paper"}.get(selection.kind, selection.kind)
    name = f"summary-{kind}" if kind else "summary"
    text = markdown(reproduction.lines, reproduction.counts)
    files = [write_file(folder / f"{name}.md", text)]
    files += [reproduction.curves] if reproduction.curves else []
    if reproduction.evidence:
        files.append(write_file(folder / f"{name}.csv", comma_separated(reproduction.lines)))
        files += write_report(folder, reproduction.evidence)
    return text, files


def write_report(folder: Path, evidence: Evidence) -> list[Path]:
    """Write page and LaTeX tables from stored rows; downloads nothing."""
    shown = dict.fromkeys(line.dataset for line in (*evidence.ours, *evidence.optimistic))
    counts = [describe(name) for name in shown if where(name)]
    curves = [] if evidence.suite else read_curves(folder)  # curves exist for the paper's cells only
    suffix = f"-{evidence.suite.name}" if evidence.suite else ""
    return [
        write_file(folder / f"report{suffix}.html", html_page(evidence, counts, curves)),
        write_file(folder / f"tables{suffix}.tex", latex_tables(evidence)),
    ]


def markdown(measured: Sequence[Line], counts: Sequence[Description] = ()) -> str:
    """All tables as Markdown."""
    lines = []
    if sizes := counts_table(counts):
        lines = [f"## {sizes.title}", "", *writers.markdown_lines(sizes), ""]
    for some in by_table(measured):
        table, protocol = some[0].place.table, some[0].place.protocol
        heading = f"Table {table.name}: {table.title}" if table.name.isdigit() else table.title
        notes = dict.fromkeys(f"{line.title}: {line.note}.\n" for line in some if line.note)
        lines += [
            f"## {heading}{' (optimistic)' if protocol == 'paper' else ''}",
            "",
            f"Per cent; {paper.PROTOCOL_TITLES[protocol]}.",
            "",
            *writers.markdown_lines(_summary(some)),
            "",
            *notes,
        ]
    return "\n".join(lines)


def counts_table(counts: Sequence[Description]) -> Table | None:
    """The paper's table 1 with counted and printed sizes; None without any of its datasets."""
    found = {description.name: description for description in counts}
    rows = [
        [name, *(f"{getattr(found[name], part.replace(' ', '_'))} ({size} printed)" for part, size in printed.items())]
        for name, printed in paper.TABLE_1.items()
        if name in found
    ]
    headings = ["dataset", *paper.TABLE_1["cora"]]
    return Table.of_text(headings, rows, title="Table 1: the datasets") if rows else None


def _summary(lines: Sequence[Line]) -> Table:
    optimistic, minus = lines[0].place.protocol == "paper", f"minus {lines[0].rival}"
    printed = optimistic or any(line.printed is not None for line in lines)
    accuracy = ["largest average (optimistic)", "mean of the averages"] if optimistic else ["mean"]
    columns = ["cell", "method", *accuracy, *(["printed", "difference"] if printed else [])]
    columns += [] if optimistic else [minus, "p (Holm)", "calibration error", "s per run"]
    splits = {paper.PUBLIC: ", public split", paper.OVER_ALL: " on average, over all"}
    rows = []
    for line in lines:
        entries = [Entry(line.title), Entry.mean(line.accuracy)]
        if optimistic:
            entries[1:] = [Entry(number(line.reported)), Entry(percent(line.accuracy.mean))]
        entries += map(Entry, _printed(line) if printed else [])
        if not optimistic:
            entries += _difference(line, ".2g") or [Entry()] * 2
            entries += [Entry(percent(line.calibration_error.mean)), Entry(f"{line.seconds_per_run:.2f}")]
        rows.append(Row(f"{line.dataset} {line.labels_per_class}{splits.get(line.split, '')}", entries))
    return Table(columns, rows, wide=("mean", minus))


def _printed(line: Line) -> list[str]:
    if line.printed is None or line.difference is None:
        return ["", ""]
    return [number(line.printed), number(line.difference, SIGNED)]


def comma_separated(lines: Sequence[Line]) -> str:
    """CSV with one line per method and cell; scores are between 0 and 1 except in columns named `_percent`."""
    records = []
    for line in lines:
        test = line.against_rival
        samples = {name: getattr(line, name) for name in ("accuracy", "macro_f1", "calibration_error")}
        samples["minus_reference"] = test.difference if test else None
        records.append(
            {
                "table": line.place.table.name,
                "protocol": "paper (optimistic)" if line.place.protocol == "paper" else line.place.protocol,
                **{name: getattr(line, name) for name in ("dataset", "labels_per_class", "split", "method")},
                "variant": line.title,
                **{name: getattr(line, name) for name in ("runs", "seed")},
                **{f"{name}_percent": getattr(line, name) for name in ("reported", "printed", "difference")},
                **{key: one for name in samples for key, one in writers.sample_fields(name, samples[name]).items()},
                "p_value": test and test.p_value,
                "p_value_holm": test and test.p_corrected,
                **{name: getattr(line, name) for name in ("seconds_per_run", "device", "threads", "note")},
            }
        )
    return writers.csv_text(records)


def latex_tables(evidence: Evidence) -> str:
    """LaTeX tables of the paper or of a suite, with the ablation and other networks if there are any."""
    points = "points of accuracy, with 95 % intervals and corrected p"
    texts = [writers.LATEX_PREAMBLE]
    for grid in grids(evidence, [*evidence.ours, *evidence.optimistic]):
        caption = f"{grid.heading}. Per cent; {paper.PROTOCOL_TITLES['ours']}; with 95 % intervals."
        caption += " Bold: the best of a cell."
        if any(optimistic for _, optimistic in grid.rows):
            caption += f" Optimistic rows: {paper.PROTOCOL_TITLES['paper']}."
        texts.append(writers.latex(grid.results(), f"{caption} {grid.notes}".rstrip()))
    for grid in grids(evidence, evidence.ablation):
        texts.append(writers.latex(grid.differences(), f"Ablation, {grid.title}. Differences in {points}."))
    for grid in grids(evidence, evidence.backbones):
        caption = f"Other networks, {grid.title}. Gain by mutual teaching in {points}."
        texts.append(writers.latex(grid.differences("gain"), caption))
    return "\n".join(texts)


def html_page(evidence: Evidence, counts: Sequence[Description] = (), curves: Sequence[Curves] = ()) -> str:
    """The HTML page. `counts` describe the datasets on this machine; curves of other seeds are left out."""
    curves = [one for one in curves if one.made["seed"] == evidence.made.seed]
    ranking = ranks(evidence)
    return render(
        "reproduction.html",
        title=evidence.suite.title if evidence.suite else "MT-GCN, reproduced",
        evidence=evidence,
        suite=evidence.suite,
        made=evidence.made,
        commands=commands(evidence, with_curves=bool(curves)),
        final=evidence.made.seed in paper.FINAL_SEEDS,
        findings=findings(evidence),
        protocols=paper.PROTOCOL_TITLES,
        reference=evidence.reference,
        runs_share=any(line.groups for line in evidence.ours),
        counts=None if evidence.suite else counts_table(counts),
        results=[grid.results() for grid in grids(evidence, [*evidence.ours, *evidence.optimistic])],
        differences=[table for grid in grids(evidence, evidence.ours) if (table := grid.with_chart()).rows],
        ablation=[table for grid in grids(evidence, evidence.ablation) if (table := grid.with_chart()).rows],
        backbones=[grid.with_chart("gain") for grid in grids(evidence, evidence.backbones)],
        gains=gain_table(evidence),
        accuracy_charts=_label_rate_charts(evidence, "accuracy"),
        calibration_charts=_label_rate_charts(evidence, "calibration_error"),
        curves=[_curve_charts(one) for one in curves],
        ranks=ranking,
        rank_chart=ranking and rank_chart(ranking, evidence_styles(evidence)),
        ranked_cells=len(random_cells(evidence)),
    )


def evidence_styles(evidence: Evidence) -> Styles:
    """Line styles in the order of the tables."""
    return Styles(paper.titles_of(evidence.suite.tables if evidence.suite else paper.PAPER_TABLES), evidence.reference)


def _label_rate_charts(evidence: Evidence, measure: str) -> list[tuple[str, Figure]]:
    """Charts of a measure over labels per class, one per dataset."""
    samples: dict[str, dict[str, dict[int, statistics.SampleSummary]]] = defaultdict(lambda: defaultdict(dict))
    for title, line in (item for cell in random_cells(evidence) for item in cell.items()):
        if line.split == paper.RANDOM:
            samples[line.dataset][title][line.labels_per_class] = getattr(line, measure)
    styles, name = evidence_styles(evidence), measure.replace("_", " ").capitalize()
    return [
        (dataset, label_rate_chart(of_methods, f"{name} on {dataset} over labels per class", styles))
        for dataset, of_methods in samples.items()
    ]


def _curve_charts(curves: Curves) -> tuple[str, str, list[tuple[str, Figure]]]:
    """Heading, remark and charts of one training."""
    heading = f"{curves.made['dataset']}, {paper.labels_title(curves.made['labels_per_class'])}"
    remark = f"Mean of {curves.made['runs']} runs on {curves.made['device']}."
    classes = [f"class {name}" if name.isdigit() else name.replace("_", " ") for name in curves.class_names]
    parts: tuple[tuple[str, dict[str, Band], int], ...] = (
        ("Test accuracy, per cent", {"accuracy": curves.accuracy}, 100),
        ("Training losses", curves.losses, 1),
        ("Precision of pseudo labels, per cent", dict(zip(classes, curves.precision, strict=True)), 100),
    )
    charts = []
    for title, bands, factor in parts:
        values = {name: factor * np.array([one.mean, one.low, one.high], dtype=float) for name, one in bands.items()}
        if any(np.isfinite(one).any() for one in values.values()):
            chart = curve_chart(curves.epochs, values, f"{title}: {heading}", curves.teaching_from)
            charts.append((title, chart))
    return heading, remark, charts


def commands(evidence: Evidence, *, with_curves: bool = False) -> list[str]:
    """The commands that reproduce these rows."""
    suite, texts = evidence.suite, []
    alike: dict[tuple[str, tuple[str, ...]], list[Line]] = defaultdict(list)
    for kind, measured in (
        ("", evidence.ours),
        ("--protocol paper", evidence.optimistic),
        ("--ablation", evidence.ablation),
        ("--backbones", evidence.backbones),
    ):
        for line in measured:
            runs = line.runs // len(line.averages)
            run_options = ["--runs", str(runs)] if runs != line.place.cell.runs else []
            run_options += ["--final"] if line.seed in paper.FINAL_SEEDS else []
            run_options += ["--seed", str(line.seed)] if line.seed not in (0, paper.FINAL_SEEDS[0]) else []
            run_options += ["--threads", str(line.threads)] if line.threads != 1 else []
            alike[kind, (*run_options, "--device", line.device.split()[0])].append(line)
    for (kind, device_options), lines in alike.items():
        tables = dict.fromkeys(line.place.table for line in lines)
        cells = [cell for table in (suite.tables if suite else tables) for cell in table.cells]
        datasets = dict.fromkeys(line.dataset for line in lines)
        methods = dict.fromkeys(line.method for line in lines)
        options = ["--suite", suite.name] if suite else []
        if not suite and set(tables) != set(paper.PAPER_TABLES):
            options += ["--table", ",".join(table.name for table in tables)]
        if set(datasets) != {cell.dataset for cell in cells}:
            options += ["--datasets", ",".join(datasets)]
        listed = {entry.method for cell in cells if cell.dataset in datasets for entry in cell.entries}
        if not kind and set(methods) != listed:
            options += ["--methods", ",".join(methods)]
        texts.append(shlex.join(["mtgcn", "reproduce", *options, *kind.split(), *device_options]))
    return [f"{texts[0]} --curves", *texts[1:]] if with_curves else texts


@dataclass(frozen=True)
class Grid:
    """A table of the paper or of a suite, for random splits or the public one: a row per method, a column per cell."""

    evidence: Evidence
    lines: Sequence[Line]

    @property
    def title(self) -> str:
        return f"{self.lines[0].place.table.title}{', public split' if self.lines[0].split == paper.PUBLIC else ''}"

    @property
    def heading(self) -> str:
        name = self.lines[0].place.table.name
        return f"Table {name}: {self.title}" if name.isdigit() else self.title

    @property
    def notes(self) -> str:
        """Remarks on printed values, from the protocol."""
        notes = (f"{line.title}: {line.note}." for line in self.lines if line.note)
        return " ".join(dict.fromkeys(notes))

    @cached_property
    def cells(self) -> list[paper.Cell]:
        return list(dict.fromkeys(line.place.cell for line in self.lines))

    @cached_property
    def rows(self) -> dict[tuple[str, bool], dict[paper.Cell, Line]]:
        """Lines by title and cell; the authors' protocol (True) has separate rows."""
        rows: dict[tuple[str, bool], dict[paper.Cell, Line]] = defaultdict(dict)
        for line in self.lines:
            rows[line.title, line.place.protocol == "paper"][line.place.cell] = line
        return rows

    def columns(self, *, short: bool = False) -> list[str]:
        if len({cell.dataset for cell in self.lines[0].place.table.cells}) > 1:  # table 5, at one label rate
            return [cell.dataset for cell in self.cells]
        return [
            f"{cell.labels_per_class} on average, over all"
            if short and cell.split == paper.OVER_ALL
            else paper.labels_title(cell.labels_per_class, paper.RANDOM if short else cell.split)
            for cell in self.cells
        ]

    def results(self) -> Table:
        """Accuracy with interval and, if the paper prints a value, that value and the difference."""
        printed = any(line.printed is not None for line in self.lines)
        of_cells: dict[paper.Cell, list[float]] = defaultdict(list)
        for line in self.lines:
            of_cells[line.place.cell] += [line.reported] if line.place.protocol == "ours" else []

        def entries(line: Line) -> list[Entry]:
            paper_value, difference = _printed(line)
            if line.place.protocol == "paper":
                ours = Entry(number(line.reported), note=f"mean {percent(line.accuracy.mean)}")
            else:
                of_cell = of_cells[line.place.cell]
                ours = Entry.mean(line.accuracy, bold=len(of_cell) > 1 and line.reported == max(of_cell))
            return [Entry(paper_value, style="printed"), ours, Entry(difference)] if printed else [ours]

        parts = ["paper", "ours", "diff."] if printed else []
        return replace(self._table(self.heading, entries, parts), caption=self.notes)

    def differences(self, heading: str = "", *, with_mean: bool = False) -> Table:
        """Paired differences from the reference, with corrected p-values."""
        parts = ["mean"] * with_mean + [heading or f"minus {self.evidence.reference}", "p"]

        def entries(line: Line) -> list[Entry]:
            difference = _difference(line)
            return [Entry.mean(line.accuracy), *(difference or [Entry()] * 2)] if with_mean else difference

        return self._table(self.title, entries, parts)

    def with_chart(self, gain: str = "") -> Table:
        """The table of differences, or of means and gains, with its chart above."""
        tests = {
            method: [lines[cell].against_rival if cell in lines else None for cell in self.cells]
            for (method, _), lines in self.rows.items()
        }
        compared = [(method, row) for method, row in tests.items() if any(row)]
        reference = self.evidence.reference
        caption = "points gained or lost by mutual teaching" if gain else f"points above or below {reference}"
        title = f"{self.title}, {gain or f'minus {reference}'}"
        chart = difference_chart(compared, self.columns(short=True), title, caption) if compared else None
        return replace(self.differences(gain, with_mean=bool(gain)), chart=chart)

    def _table(self, title: str, entries: Callable[[Line], list[Entry]], parts: Sequence[str]) -> Table:
        """One row per title with entries; `parts`, if any, are subheadings of each cell."""
        rows = []
        for (method, by_authors), lines in self.rows.items():
            of_cells = [entries(lines[cell]) if cell in lines else [] for cell in self.cells]
            if not any(of_cells):
                continue
            elsewhere = ", ".join(dict.fromkeys(filter(None, map(self.evidence.elsewhere, lines.values()))))
            notes = ["optimistic"] * by_authors + [f"on {elsewhere}"] * bool(elsewhere)
            style = "optimistic" if by_authors else "reference" if method == self.evidence.reference else ""
            filled = [entry for some in of_cells for entry in some or [Entry()] * (len(parts) or 1)]
            rows.append(Row(method, filled, "; ".join(notes), style))
        columns = ["method", *(list(parts) * len(self.cells) or self.columns())]
        return Table(columns, rows, title=title, groups=self.columns() if parts else ())


def _difference(line: Line, p_form: str = "") -> list[Entry]:
    """The paired difference from the rival and its corrected p-value; empty without a test."""
    if not (test := line.against_rival):
        return []
    p = format(test.p_corrected, p_form) if p_form else p_value(test.p_corrected)
    return [Entry.mean(test.difference, SIGNED), Entry(p, bold=test.is_significant)]


def grids(evidence: Evidence, lines: Sequence[Line]) -> list[Grid]:
    """The tables as grids; the public split has a separate grid."""
    found = []
    for table in by_table(lines):
        for public in (False, True):
            some = [line for line in table if (line.split == paper.PUBLIC) == public]
            found += [Grid(evidence, some)] if some else []
    return found


def random_cells(evidence: Evidence) -> list[dict[str, Line]]:
    """The lines of each cell with random splits, by title."""
    cells: dict[paper.Cell, dict[str, Line]] = defaultdict(dict)
    for line in evidence.ours:
        if line.split != paper.PUBLIC:
            cells[line.place.cell][line.title] = line
    return list(cells.values())


def ranks(evidence: Evidence) -> statistics.RankComparison | None:
    """Ranks of the methods with results in every cell; None with fewer than 2 cells or 3 methods."""
    cells = random_cells(evidence)
    titles = [title for title in (cells[0] if cells else ()) if all(title in cell for cell in cells)]
    if len(cells) < 2 or len(titles) < 3:
        return None
    return statistics.compare_ranks(np.array([[cell[title].reported for title in titles] for cell in cells]), titles)


def gain_table(evidence: Evidence) -> Table | None:
    """Gain of each network by mutual teaching over all cells; None without such networks."""
    rows = []
    for name in paper.BACKBONE_NAMES:
        tests = [
            line.against_rival
            for line in evidence.backbones
            if line.title == f"{name} {paper.TAUGHT}" and line.against_rival
        ]
        if tests:
            means = [test.difference.mean for test in tests]
            gains = [percent(mean, SIGNED) for mean in (float(np.mean(means)), min(means), max(means))]
            rows.append([name, str(len(tests)), *gains, *map(str, _significant(tests))])
    columns = ["network", "cells", "mean gain", "smallest", "largest", "significantly better", "significantly worse"]
    return Table.of_text(columns, rows) if rows else None


def _significant(tests: Sequence[statistics.PairedTest]) -> tuple[int, int]:
    """The number of significant differences above and below zero."""
    means = [test.difference.mean for test in tests if test.is_significant]
    return sum(mean > 0 for mean in means), sum(mean < 0 for mean in means)


def findings(evidence: Evidence) -> list[str]:
    """Sentences that summarise all tables."""
    reference, sentences = evidence.reference, []
    differences = [line.difference for line in evidence.ours if line.difference is not None]
    if differences:
        mean = with_minus_sign(number(float(np.mean(differences)), SIGNED))
        sentences.append(
            f"{len(differences)} results have a printed counterpart. The mean absolute difference is "
            f"{np.mean(np.abs(differences)):.1f} points, the mean difference {mean} points."
        )
    cells = [cell for cell in random_cells(evidence) if reference in cell and len(cell) > 1]
    if cells:
        best = sum(cell[reference].reported >= max(line.reported for line in cell.values()) for cell in cells)
        sentences.append(f"{reference} has the highest mean in {best} of {len(cells)} cells with random splits.")
    margins = {
        f"{mine.dataset}, {paper.labels_title(mine.labels_per_class, mine.split)}": statistics.margin_over_best(
            {title: line.accuracy.per_run for title, line in cell.items()},
            reference,
            {title: line.groups for title, line in cell.items()},
        )
        for cell in cells
        if evidence.suite and (mine := cell[reference])
    }
    sentences += [margin_sentence(reference, margins)] if margins else []
    tests = [line.against_rival for line in evidence.ours if line.against_rival]
    if tests:
        ahead, behind = _significant(tests)
        sentences.append(
            f"{len(tests)} comparisons with {reference}: the other method is significantly worse in {behind} and "
            f"significantly better in {ahead} (5 % level, Holm correction)."
        )
    return sentences


def margin_sentence(reference: str, margins: Mapping[str, statistics.Margin]) -> str:
    """A sentence on the margins of a method over the best other method; `margins` are by title of the cell."""
    worst = min(margins, key=lambda place: margins[place].difference.mean)
    gaps = np.array([one.difference.mean for one in margins.values()])
    low, high = np.array([one.difference.ci95 for one in margins.values()]).T
    several = np.array([len(one.difference.per_run) > 1 for one in margins.values()])
    counts = [one.opponents for one in margins.values()]
    others = " to ".join(map(str, sorted({min(counts), max(counts)})))
    mean, median, least = (
        with_minus_sign(percent(float(gap), SIGNED)) for gap in (gaps.mean(), np.median(gaps), gaps.min())
    )
    return (
        f"{reference} against the best of the {others} others, which is known "
        f"only afterwards: above it in {(gaps > 0).sum()} of {len(gaps)} cells; the 95 % interval of the "
        f"difference is above 0 in {(several & (low > 0)).sum()} and below 0 in {(several & (high < 0)).sum()}; mean "
        f"margin {mean} points, median {median}, smallest {least} ({margins[worst].opponent} on {worst})."
    )
