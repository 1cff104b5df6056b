"""The results of a reproduction: summaries in Markdown and CSV, LaTeX tables and the HTML page."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from mtgcn.datasets import Description, describe, where
from mtgcn.experiments.curves import Band, Curves, read_curves
from mtgcn.experiments.plan import Selection
from mtgcn.experiments.protocol import (
    ALL_TABLES,
    BACKBONE_NAMES,
    FINAL_SEEDS,
    OVER_ALL,
    PAPER_TABLES,
    PROTOCOL_TITLES,
    PUBLIC,
    RANDOM,
    TAUGHT,
    Suite,
    labels_title,
)
from mtgcn.experiments.reproduce import Reproduction
from mtgcn.experiments.statistics import SampleSummary
from mtgcn.experiments.tables import Evidence, Line, MeasuredTable, table_1
from mtgcn.report.charts import curve_chart, difference_chart, label_rate_chart, rank_chart
from mtgcn.report.grids import Grid, findings, gain_table, grids, random_cells, ranks
from mtgcn.report.pages import render
from mtgcn.report.styles import Styles, styles_of
from mtgcn.report.svg import Chart
from mtgcn.report.tables import (
    LATEX_PREAMBLE,
    SIGNED,
    Entry,
    Row,
    Table,
    csv_text,
    interval,
    latex,
    markdown_lines,
    number,
    percent,
    sample_fields,
    seconds,
)
from mtgcn.storage.files import write_file


def write_reproduction(folder: Path, reproduction: Reproduction) -> tuple[str, list[Path]]:
    """Write summaries, page and LaTeX tables; returns the Markdown and the files.

    Each plan (our protocol, the authors', the ablation, the backbones, each suite) has its own summary files. Page and
    LaTeX tables cover all rows of the folder that belong to the paper, or to the suite.
    """
    name = f"summary{_suffix(reproduction.plan.selection)}"
    text = markdown(reproduction.tables, reproduction.counts)
    files = [write_file(folder / f"{name}.md", text)]
    files += [reproduction.curves] if reproduction.curves else []
    if reproduction.evidence:
        files.append(write_file(folder / f"{name}.csv", comma_separated(reproduction.tables)))
        files += write_report(folder, reproduction.evidence)
    return text, files


def write_report(folder: Path, evidence: Evidence) -> list[Path]:
    """Write page and LaTeX tables from stored rows; downloads nothing."""
    shown = dict.fromkeys(line.dataset for table in (*evidence.ours, *evidence.optimistic) for line in table.lines)
    counts = [describe(name) for name in shown if where(name)]
    curves = [] if evidence.suite else read_curves(folder)  # curves are of the paper's cells
    suffix = f"-{evidence.suite.name}" if evidence.suite else ""
    return [
        write_file(folder / f"report{suffix}.html", html_page(evidence, counts, curves)),
        write_file(folder / f"tables{suffix}.tex", latex_tables(evidence)),
    ]


def _suffix(selection: Selection) -> str:
    if selection.suite:
        return f"-{selection.suite}"
    kinds = (
        ("-ablation", selection.ablation),
        ("-backbones", selection.backbones),
        ("-paper", selection.protocol == "paper"),
    )
    return next((suffix for suffix, chosen in kinds if chosen), "")


# Markdown and CSV


def markdown(tables: Sequence[MeasuredTable], counts: Sequence[Description] = ()) -> str:
    """All tables, one after the other."""
    lines = []
    if sizes := table_1(counts):
        headings = ["dataset", *next(iter(sizes.values()))]
        rows = [
            [dataset, *(f"{counted} ({printed} printed)" for printed, counted in pairs.values())]
            for dataset, pairs in sizes.items()
        ]
        lines = ["## Table 1: the datasets", "", *markdown_lines(Table.of_text(headings, rows)), ""]
    for table in tables:
        optimistic = table.protocol == "paper"
        heading = f"Table {table.name}: {table.title}" if table.name.isdigit() else table.title
        notes = dict.fromkeys(f"{line.title}: {line.note}.\n" for line in table.lines if line.note)
        lines += [
            f"## {heading}{' (optimistic)' if optimistic else ''}",
            "",
            f"Per cent; {PROTOCOL_TITLES[table.protocol]}.",
            "",
            *markdown_lines(_optimistic_summary(table) if optimistic else _summary(table)),
            "",
            *notes,
        ]
    return "\n".join(lines)


def _summary(table: MeasuredTable) -> Table:
    printed = any(line.printed is not None for line in table.lines)
    columns = ["cell", "method", "mean", "95 % interval", *(("printed", "difference") if printed else ())]
    columns += [f"minus {table.rival}", "95 % interval", "p (Holm)", "calibration error", "s per run"]
    rows = []
    for line in table.lines:
        texts = [line.title, number(line.reported), interval(line.accuracy), *(_printed(line) if printed else ())]
        against = [Entry()] * 3
        if test := line.against_rival:
            difference = [percent(test.difference.mean, SIGNED), interval(test.difference, SIGNED)]
            against = [*map(Entry, difference), Entry(f"{test.p_corrected:.2g}", bold=test.is_significant)]
        cost = [percent(line.calibration_error.mean), f"{line.seconds_per_run:.2f}"]
        rows.append(Row(_cell_title(line), [*map(Entry, texts), *against, *map(Entry, cost)]))
    return Table(columns, rows)


def _optimistic_summary(table: MeasuredTable) -> Table:
    columns = ["cell", "method", "largest average (optimistic)", "mean of the averages", "printed", "difference"]
    rows = [
        [_cell_title(line), line.title, number(line.reported), percent(line.accuracy.mean), *_printed(line)]
        for line in table.lines
    ]
    return Table.of_text(columns, rows)


def _printed(line: Line) -> list[str]:
    if line.printed is None or line.difference is None:
        return ["", ""]
    return [number(line.printed), number(line.difference, SIGNED)]


def _cell_title(line: Line) -> str:
    splits = {PUBLIC: ", public split", OVER_ALL: " on average, over all"}
    return f"{line.dataset} {line.labels_per_class}{splits.get(line.split, '')}"


def comma_separated(tables: Sequence[MeasuredTable]) -> str:
    """One line per method and cell; shares, but per cent where the paper prints per cent."""
    return csv_text([_record(table, line) for table in tables for line in table.lines])


def _record(table: MeasuredTable, line: Line) -> dict[str, object]:
    test = line.against_rival
    return {
        "table": table.name,
        "protocol": "paper (optimistic)" if table.protocol == "paper" else table.protocol,
        **{name: getattr(line, name) for name in ("dataset", "labels_per_class", "split", "method")},
        "variant": line.title,
        **{name: getattr(line, name) for name in ("runs", "seed")},
        **{f"{name}_percent": getattr(line, name) for name in ("reported", "printed", "difference")},
        **sample_fields("accuracy", line.accuracy),
        **sample_fields("macro_f1", line.macro_f1),
        **sample_fields("calibration_error", line.calibration_error),
        **sample_fields("minus_reference", test.difference if test else None),
        "p_value": test and test.p_value,
        "p_value_holm": test and test.p_corrected,
        **{name: getattr(line, name) for name in ("seconds_per_run", "device", "threads", "note")},
    }


# LaTeX


def latex_tables(evidence: Evidence) -> str:
    """The tables of the paper or of a suite, and the ablation and other networks if there are any."""
    points = "points of accuracy, with 95 % intervals and corrected p"
    tables = [latex(grid.results(), _caption(grid)) for grid in grids(evidence, evidence.ours, evidence.optimistic)]
    tables += [
        latex(grid.differences(), f"Ablation, {grid.title}. Differences in {points}.")
        for grid in grids(evidence, evidence.ablation)
    ]
    tables += [
        latex(grid.differences("gain"), f"Other networks, {grid.title}. Gain by mutual teaching in {points}.")
        for grid in grids(evidence, evidence.backbones)
    ]
    return "\n".join([LATEX_PREAMBLE, *tables])


def _caption(grid: Grid) -> str:
    caption = f"{grid.heading}. Per cent; {PROTOCOL_TITLES['ours']}; with 95 % intervals. Bold: the best of a cell."
    if any(row.optimistic for row in grid.rows):
        caption += f" Optimistic rows: {PROTOCOL_TITLES['paper']}."
    return f"{caption} {grid.notes}".rstrip()


# Page


def html_page(evidence: Evidence, counts: Sequence[Description] = (), curves: Sequence[Curves] = ()) -> str:
    """The page. `counts` describe the datasets on this machine; curves of other seeds are left out."""
    curves = [one for one in curves if one.made["seed"] == evidence.made.seed]
    results = grids(evidence, evidence.ours, evidence.optimistic)
    ranking, styles = ranks(evidence), styles_of(evidence.suite)
    networks = Styles({f"{key} {TAUGHT}": name for key, name in BACKBONE_NAMES.items()}, "")
    return render(
        "reproduction.html",
        title=evidence.suite.title if evidence.suite else "MT-GCN, reproduced",
        evidence=evidence,
        suite=evidence.suite,
        made=evidence.made,
        commands=commands(evidence, with_curves=bool(curves)),
        final=evidence.made.seed in FINAL_SEEDS,
        findings=findings(evidence),
        protocols=PROTOCOL_TITLES,
        reference=styles.name(styles.reference),
        runs_share=any(line.groups for table in evidence.ours for line in table.lines),
        counts=None if evidence.suite else _counts_table(counts),
        # Tables with the chart above each, or None.
        results=[(None, grid.results()) for grid in results],
        calibration=[
            (None, grid.measure("Calibration error", lambda line: Entry.mean(line.calibration_error)))
            for grid in results
        ],
        time=[
            (None, grid.measure("Seconds per run", lambda line: Entry(seconds(line.seconds_per_run))))
            for grid in results
        ],
        differences=[(_difference_chart(grid, styles), grid.differences()) for grid in results if grid.compared_rows],
        ablation=[
            (_difference_chart(grid, styles), grid.differences())
            for grid in grids(evidence, evidence.ablation)
            if grid.compared_rows
        ],
        backbones=[
            (_difference_chart(grid, networks, "mutual teaching"), grid.backbones())
            for grid in grids(evidence, evidence.backbones)
        ],
        gains=gain_table(evidence),
        accuracy_charts=_label_rate_charts(evidence, "accuracy"),
        calibration_charts=_label_rate_charts(evidence, "calibration_error"),
        curves=[_curve_charts(one) for one in curves],
        ranks=ranking,
        rank_chart=ranking and rank_chart(ranking, styles),
        ranked_cells=len(random_cells(evidence)),
    )


def _counts_table(counts: Sequence[Description]) -> Table | None:
    sizes = table_1(counts)
    if not sizes:
        return None
    headings = list(next(iter(sizes.values())))
    rows = [[dataset, *(str(count) for pair in pairs.values() for count in pair)] for dataset, pairs in sizes.items()]
    return Table.of_text(["dataset", *["paper", "ours"] * len(headings)], rows, groups=headings)


def _label_rate_charts(evidence: Evidence, measure: str) -> list[tuple[str, Chart]]:
    """A measure over labels per class, one chart per dataset."""
    samples: dict[str, dict[str, dict[int, SampleSummary]]] = defaultdict(lambda: defaultdict(dict))
    for title, line in (item for cell in random_cells(evidence) for item in cell.items()):
        if line.split == RANDOM:
            samples[line.dataset][title][line.labels_per_class] = getattr(line, measure)
    styles, name = styles_of(evidence.suite), measure.replace("_", " ").capitalize()
    return [
        (dataset, label_rate_chart(of_methods, f"{name} on {dataset} over labels per class", styles))
        for dataset, of_methods in samples.items()
    ]


def _difference_chart(grid: Grid, styles: Styles, gain_by: str = "") -> Chart | None:
    """Differences from the reference, or the gain by something."""
    rows = [(row.title, row.tests) for row in grid.compared_rows]
    title = f"{grid.title}: gain by {gain_by}" if gain_by else f"{grid.title}, minus {grid.reference}"
    caption = f"points gained or lost by {gain_by}" if gain_by else ""
    return difference_chart(rows, grid.short_columns, title, caption=caption, styles=styles) if rows else None


def _curve_charts(curves: Curves) -> tuple[str, str, list[tuple[str, Chart]]]:
    """Heading, remark and charts of one training."""
    heading = f"{curves.made['dataset']}, {labels_title(curves.made['labels_per_class'])}"
    remark = f"Mean of {curves.made['runs']} runs on {curves.made['device']}."
    classes = [f"class {name}" if name.isdigit() else name.replace("_", " ") for name in curves.class_names]
    parts: tuple[tuple[str, dict[str, Band], int], ...] = (
        ("Test accuracy, per cent", {"accuracy": curves.accuracy}, 100),
        ("Training losses", curves.losses, 1),
        ("Precision of pseudo labels, per cent", dict(zip(classes, curves.precision, strict=True)), 100),
    )
    charts = []
    for title, bands, factor in parts:
        values = {
            name: factor * np.array([band.mean, band.low, band.high], dtype=float) for name, band in bands.items()
        }
        if any(np.isfinite(one).any() for one in values.values()):
            chart = curve_chart(curves.epochs, values, f"{title}: {heading}", curves.teaching_from)
            charts.append((title, chart))
    return heading, remark, charts


# Commands


def commands(evidence: Evidence, *, with_curves: bool = False) -> list[str]:
    """The commands that reproduce these rows."""
    lines = []
    for tables, kind in (
        (evidence.ours, []),
        (evidence.optimistic, ["--protocol", "paper"]),
        (evidence.ablation, ["--ablation"]),
        (evidence.backbones, ["--backbones"]),
    ):
        alike: dict[tuple[str, ...], dict[str, list[Line]]] = defaultdict(lambda: defaultdict(list))
        for table in tables:
            for line in table.lines:
                alike[_run_options(line)][table.name].append(line)
        for options, some in alike.items():
            selected = _selection_options(some, evidence.suite, with_methods=not kind)
            lines.append(shlex.join(["mtgcn", "reproduce", *selected, *kind, *options]))
    return [f"{lines[0]} --curves", *lines[1:]] if with_curves else lines


def _run_options(line: Line) -> tuple[str, ...]:
    """Options for runs, seed, threads and device, where they differ from the defaults."""
    runs = line.runs // len(line.averages)
    options = ["--runs", str(runs)] if runs != line.place.cell.runs else []
    options += ["--final"] if line.seed in FINAL_SEEDS else []
    options += ["--seed", str(line.seed)] if line.seed not in (0, FINAL_SEEDS[0]) else []
    options += ["--threads", str(line.threads)] if line.threads != 1 else []
    return (*options, "--device", line.device.split()[0])


def _selection_options(lines: dict[str, list[Line]], suite: Suite | None, *, with_methods: bool) -> list[str]:
    """Options for suite or tables, datasets and methods, where they are not all."""
    tables = suite.tables if suite else [ALL_TABLES[name] for name in lines]
    cells = [cell for table in tables for cell in table.cells]
    if suite:
        options = ["--suite", suite.name]
    else:
        options = [] if {table.name for table in PAPER_TABLES} == set(lines) else ["--table", ",".join(lines)]
    datasets = list(dict.fromkeys(line.dataset for line in chain(*lines.values())))
    if set(datasets) != {cell.dataset for cell in cells}:
        options += ["--datasets", ",".join(datasets)]
    methods = list(dict.fromkeys(line.method for line in chain(*lines.values())))
    listed = {entry.method for cell in cells if cell.dataset in datasets for entry in cell.entries}
    if with_methods and set(methods) != listed:
        options += ["--methods", ",".join(methods)]
    return options
