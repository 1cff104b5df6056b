"""Comparisons of methods as tables (terminal, Markdown, CSV, LaTeX) and as an HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import RANDOM, labels_title
from mtgcn.experiments.scoring import SCORE_TITLES, SCORES, CellSummary
from mtgcn.experiments.statistics import PairedTest, SampleSummary
from mtgcn.report import tables as writers
from mtgcn.report.charts import LIGHT, Styles, chart_style, difference_chart, label_rate_chart, line_look, new_figure
from mtgcn.report.pages import render
from mtgcn.report.tables import SIGNED, Entry, Row, Table, counted, percent
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_comparisons(folder: Path, comparisons: Sequence[Comparison]) -> list[Path]:
    """Write summaries, HTML page and LaTeX tables to the folder of the rows."""
    return [
        write_file(folder / "summary-comparison.md", markdown(comparisons)),
        write_file(folder / "summary-comparison.csv", comma_separated(comparisons)),
        write_file(folder / "report-comparison.html", comparison_page(comparisons)),
        write_file(folder / "tables-comparison.tex", comparison_tables(comparisons)),
    ]


def cell_title(cell: CellSummary) -> str:
    """Dataset, labels and runs."""
    return (
        f"{cell.dataset or 'the graph'}, {labels_title(cell.labels_per_class, cell.split)}, {counted(cell.runs, 'run')}"
    )


def graph_title(comparison: Comparison) -> str:
    """The size of the graph and the number of scored nodes in a run."""
    counts = comparison.graph
    return (
        f"{counts['nodes']} nodes, {counts['edges']} edges, {counts['features']} features, "
        f"{counts['classes']} classes; {comparison.scored_nodes} nodes scored in a run"
    )


def measures_of(cell: CellSummary) -> dict[str, SampleSummary]:
    """All known measures of a cell, by title."""
    titles = SCORE_TITLES | {"calibration_error": "calibration error"}
    samples = {title: getattr(cell, name.replace("-", "_")) for name, title in titles.items()}
    return {title: sample for title, sample in samples.items() if sample is not None}


def cell_table(cell: CellSummary) -> Table:
    """The table of one cell, with one row per measure."""
    rows = [
        (f"{name} %", percent(sample.mean), percent(sample.std), writers.interval(sample))
        for name, sample in measures_of(cell).items()
    ]
    title, caption = f"{cell.method} on {cell_title(cell)}", f"{cell.seconds:.1f} s, {_made_on(cell)}"
    return Table.of_text(["measure", "mean", "std", "95 % interval"], rows, title=title, caption=caption)


def score_title(comparison: Comparison) -> str:
    """The score at the beginning of a sentence."""
    title = SCORE_TITLES[comparison.score]
    return title[0].upper() + title[1:]


def comparison_table(comparison: Comparison) -> Table:
    """A table with one row per method; differences are paired by split."""
    minus, other = f"minus {comparison.reference}", "macro-f1" if comparison.score == SCORES[0] else SCORES[0]
    columns = ["mean", *([minus, "p (Holm)"] if comparison.differences else []), SCORE_TITLES[other], "seconds"]
    rows = []
    for cell in comparison.cells:
        entries = [Entry.mean(cell.by(comparison.score), bold=comparison.is_best(cell.method))]
        if difference := comparison.differences.get(cell.method):
            p = writers.p_value(comparison.p_values[cell.method])
            entries += [Entry.mean(difference, SIGNED), Entry(p, bold=comparison.is_significant(cell.method))]
        elif comparison.differences:
            entries += [Entry()] * 2
        entries += [Entry.mean(cell.by(other)), Entry(f"{cell.seconds:.1f}")]
        rows.append(Row(cell.method, entries, style="reference" if cell.method == comparison.reference else ""))
    first = comparison.cells[0]
    title = f"{score_title(comparison)} % on {cell_title(first)}"
    return Table(["method", *columns], rows, title=title, caption=_made_on(first), wide=("mean", minus))


def _made_on(cell: CellSummary) -> str:
    torch_version = cell.versions.get("torch", "unknown")
    return f"seed {cell.seed}, {cell.device}, {counted(cell.threads, 'thread')}, torch {torch_version}"


def markdown(comparisons: Sequence[Comparison]) -> str:
    """All comparisons as Markdown."""
    lines = []
    for comparison in comparisons:
        title = f"{score_title(comparison)} on {cell_title(comparison.cells[0])}"
        lines += [f"## {title}", "", f"{graph_title(comparison)}. Per cent.", ""]
        lines += [*writers.markdown_lines(comparison_table(comparison)), ""]
        lines += [f"Warning: {warning}.\n" for warning in comparison.warnings]
    return "\n".join(lines)


def comma_separated(comparisons: Sequence[Comparison]) -> str:
    """CSV with one line per method and comparison; scores are between 0 and 1."""
    record: dict[str, object]
    records = []
    for comparison, cell in ((one, cell) for one in comparisons for cell in one.cells):
        counts = cell.labels_per_class
        record = {"dataset": cell.dataset}
        record |= {"labels_per_class": " ".join(map(str, counts)) if isinstance(counts, tuple) else counts}
        record |= {name: getattr(cell, name) for name in ("split", "method", "runs", "seed")}
        record |= {name: getattr(comparison, name) for name in ("scored_nodes", "reference", "score")}
        record |= writers.sample_fields("accuracy", cell.accuracy)
        record |= writers.sample_fields("minus_reference", comparison.differences.get(cell.method))
        record |= {"p_value_holm": comparison.p_values.get(cell.method)}
        for name in ("macro_f1", "balanced_accuracy", "roc_auc", "average_precision", "calibration_error"):
            record |= writers.sample_fields(name, getattr(cell, name))
        record |= {"seconds": cell.seconds, "seconds_per_run": cell.seconds / cell.runs}
        records.append(record | {"device": cell.device, "threads": cell.threads})
    return writers.csv_text(records)


def comparison_tables(comparisons: Sequence[Comparison]) -> str:
    """LaTeX with one table per comparison, preceded by an overview of each graph with several comparisons."""
    texts = [writers.LATEX_PREAMBLE, *(_overview(some) for some in _by_graph(comparisons) if len(some) > 1)]
    for one in comparisons:
        caption = f"{score_title(one)} on {cell_title(one.cells[0])} ({graph_title(one)}). Per cent, 95 % intervals."
        if one.differences:
            caption += " Differences are paired by split; p: Wilcoxon signed-rank test with Holm correction."
            caption += " Bold: best mean, and p below 5 %."
        texts.append(writers.latex(comparison_table(one), caption))
    return "\n".join(texts)


def _by_graph(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    found = defaultdict(list)
    for comparison in comparisons:
        found[comparison.cells[0].dataset, *comparison.graph.values()].append(comparison)
    return list(found.values())


def _overview(comparisons: Sequence[Comparison]) -> str:
    """The scores of several comparisons on one graph, side by side."""
    found = [
        {cell.method: Entry.mean(cell.by(one.score), bold=one.is_best(cell.method)) for cell in one.cells}
        for one in comparisons
    ]
    methods = dict.fromkeys(method for column in found for method in column)
    rows = [Row(method, [column.get(method, Entry()) for column in found]) for method in methods]
    cells = [comparison.cells[0] for comparison in comparisons]
    columns = [labels_title(cell.labels_per_class, cell.split) for cell in cells]
    if len({cell.seed for cell in cells}) > 1:
        columns = [f"{column}, seed {cell.seed}" for column, cell in zip(columns, cells, strict=True)]
    on = f"{score_title(comparisons[0])} on {cells[0].dataset or 'the graph'}"
    caption = f"{on}. Per cent, 95 % intervals. Bold: best mean of a column."
    return writers.latex(Table(["method", *columns], rows), caption)


def comparison_page(comparisons: Sequence[Comparison], *, command: str = "", notes: Sequence[str] = ()) -> str:
    """The HTML page. `command` produced it; `notes` are remarks from reading the files."""
    names = dict.fromkeys(cell.method for comparison in comparisons for cell in comparison.cells)
    styles = Styles([*names], comparisons[0].reference)
    datasets = dict.fromkeys(comparison.cells[0].dataset or "a graph" for comparison in comparisons)
    several = any(len(comparison.cells) > 1 for comparison in comparisons)
    title = "Comparison of methods" if several else f"Evaluation of {comparisons[0].cells[0].method}"
    return render(
        "comparison.html",
        title=f"{title} on {', '.join(datasets)}",
        command=command,
        notes=notes,
        rates=_label_rate_charts(comparisons, styles),
        sections=[_section(one) for one in comparisons],
        score=score_title(comparisons[0]),
    )


def _section(comparison: Comparison) -> dict[str, Any]:
    """The section of the page for one comparison."""
    cells, reference, p_values = comparison.cells, comparison.reference, comparison.p_values
    measures = {cell.method: measures_of(cell) for cell in cells}
    known = [title for title in measures[reference] if all(title in one for one in measures.values())]
    shares = zip(*(cell.by(comparison.score).per_run for cell in cells), strict=True)
    runs = [[str(run), *map(percent, of_run)] for run, of_run in enumerate(shares)]
    chart = None
    if comparison.differences:
        tests = [
            (method, [PairedTest(difference, p_values[method], p_values[method])])
            for method, difference in comparison.differences.items()
        ]
        title = f"{score_title(comparison)} minus that of {reference}"
        chart = difference_chart(tests, [""], title, f"points above or below {reference}")
    return {
        "comparison": comparison,
        "title": cell_title(cells[0]),
        "graph": graph_title(comparison),
        "made": cells[0],
        "table": comparison_table(comparison),
        "measures": Table(
            ["method", *known],
            [Row(method, [Entry.mean(one[title]) for title in known]) for method, one in measures.items()],
        ),
        "chart": chart,
        "settings": [
            (cell.method, ", ".join(f"{key}={value}" for key, value in cell.settings.items()) or "none")
            for cell in cells
        ],
        "runs": Table.of_text(["run", *(cell.method for cell in cells)], runs),
    }


def _label_rate_charts(comparisons: Sequence[Comparison], styles: Styles) -> list[tuple[str, Figure]]:
    """Charts of the score over labels per class, one for each graph with several label rates."""
    charts = []
    for some in _by_graph(comparisons):
        samples: dict[str, dict[int, SampleSummary]] = defaultdict(dict)
        for comparison, cell in ((one, cell) for one in some for cell in one.cells):
            if cell.split == RANDOM and isinstance(cell.labels_per_class, int):
                samples[cell.method][cell.labels_per_class] = cell.by(comparison.score)
        if len({rate for of_method in samples.values() for rate in of_method}) > 1:
            title = f"{score_title(some[0])} on {some[0].cells[0].dataset} over labels per class"
            charts.append((title, label_rate_chart(samples, title, styles)))
    return charts


@chart_style()
def comparison_figure(comparison: Comparison) -> Figure:
    """The score of every run as a dot, and for each method its mean with the 95 % interval."""
    cells = comparison.cells
    figure = new_figure(560, 90 + 34 * len(cells))
    axes = figure.subplots()
    for place, cell in enumerate(cells):
        colour = LIGHT["reference"] if cell.method == comparison.reference else line_look(place)["color"]
        sample = cell.by(comparison.score)
        shares = 100 * np.asarray(sample.per_run)
        heights = place + 0.3 * (np.arange(len(shares)) / max(len(shares) - 1, 1) - 0.5)  # separates equal runs
        axes.plot(shares, heights, ".", color=colour, alpha=0.35, markersize=5)
        axes.plot(100 * np.array(sample.ci95), [place, place], color=colour, linewidth=2)
        axes.plot([100 * sample.mean], [place], "o", color=colour, markersize=7)
    axes.set_yticks(range(len(cells)), [cell.method for cell in cells])
    score = SCORE_TITLES[comparison.score]
    axes.set(xlabel=f"{score} in %: each run, the mean and its 95 % interval", title=cell_title(cells[0]))
    axes.invert_yaxis()  # first method on top, as in the table
    axes.grid(axis="x")
    return figure
