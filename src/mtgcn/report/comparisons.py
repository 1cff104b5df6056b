"""Comparisons of methods as tables (terminal, Markdown, CSV, LaTeX) and as an HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import GIVEN, OVER_ALL, PUBLIC, RANDOM
from mtgcn.experiments.scoring import SCORE_TITLES, SCORES, CellSummary
from mtgcn.experiments.statistics import PairedTest, SampleSummary
from mtgcn.report import tables as writers
from mtgcn.report.charts import LIGHT, Styles, chart_style, difference_chart, label_rate_chart, line_look, new_figure
from mtgcn.report.pages import render
from mtgcn.report.tables import SIGNED, Entry, Row, Table, counted, percent
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TEXT, LATEX, PAGE = "text", "LaTeX", "page"  # formats of the comparison table; text also serves Markdown and notebooks


def write_comparisons(folder: Path, comparisons: Sequence[Comparison]) -> list[Path]:
    """Write summaries, page and LaTeX tables beside the rows of the comparisons."""
    return [
        write_file(folder / "summary-comparison.md", markdown(comparisons)),
        write_file(folder / "summary-comparison.csv", comma_separated(comparisons)),
        write_file(folder / "report-comparison.html", comparison_page(comparisons)),
        write_file(folder / "tables-comparison.tex", comparison_tables(comparisons)),
    ]


def cell_title(cell: CellSummary) -> str:
    """Dataset, labels and runs."""
    return f"{cell.dataset or 'the graph'}, {labels_given(cell)}, {counted(cell.runs, 'run')}"


def labels_given(cell: CellSummary) -> str:
    """The number of labels of a run, and where the splits come from unless they are random."""
    counts = cell.labels_per_class
    if isinstance(counts, tuple):
        labels = f"{', '.join(map(str, counts))} labels of the classes in turn"
    elif counts is None:
        labels = "labels that differ from run to run"
    else:
        labels = f"{counted(counts, 'label')} per class"
    sources = {RANDOM: "", OVER_ALL: " drawn over all nodes", PUBLIC: ", public split", GIVEN: ", given splits"}
    return labels + sources.get(cell.split, f", splits of {Path(cell.split).name}")


def graph_title(comparison: Comparison) -> str:
    """The size of the graph, and the number of nodes that score a run."""
    counts = comparison.graph
    return (
        f"{counts['nodes']} nodes, {counts['edges']} edges, {counts['features']} features, "
        f"{counts['classes']} classes; {comparison.scored_nodes} nodes scored in a run"
    )


def cell_table(cell: CellSummary) -> Table:
    """One cell, one row per measure."""
    measures = {SCORE_TITLES[score]: getattr(cell, score.replace("-", "_")) for score in SCORES}
    rows = [
        (f"{name} %", percent(sample.mean), percent(sample.std), writers.interval(sample))
        for name, sample in (measures | {"calibration error": cell.calibration_error}).items()
        if sample is not None
    ]
    title, caption = f"{cell.method} on {cell_title(cell)}", f"{cell.seconds:.1f} s, {_made_on(cell)}"
    return Table.of_text(["measure", "mean", "std", "95 % interval"], rows, title=title, caption=caption)


# Headings of the columns of each format: the score that is compared, and beside it macro F1 or accuracy.
HEADINGS = {
    TEXT: {
        "score": "mean",
        "score interval": "95 % interval",
        "difference": "minus {reference}",
        "difference interval": "95 % interval",
        "p": "p (Holm)",
        "other": "{other}",
        "seconds": "seconds",
    },
    LATEX: {"score": "{score}", "difference": "minus {reference}", "p": "p", "other": "{other}"},
}
HEADINGS[PAGE] = HEADINGS[LATEX] | {"calibration error": "calibration error", "seconds per run": "seconds per run"}


def _entries(comparison: Comparison, cell: CellSummary) -> dict[str, Entry]:
    """The entries of a method, by column."""
    score = cell.by(comparison.score)
    entries = {
        "score": Entry.mean(score, bold=comparison.is_best(cell.method)),
        "score interval": Entry(writers.interval(score)),
        "other": Entry.mean(cell.by(_other_score(comparison))),
        "calibration error": Entry.mean(cell.calibration_error),
        "seconds": Entry(f"{cell.seconds:.1f}"),
        "seconds per run": Entry(writers.seconds(cell.seconds / cell.runs)),
    }
    if difference := comparison.differences.get(cell.method):
        p = writers.p_value(comparison.p_values[cell.method])
        entries |= {
            "difference": Entry.mean(difference, SIGNED),
            "difference interval": Entry(writers.interval(difference, SIGNED)),
            "p": Entry(p, bold=comparison.is_significant(cell.method)),
        }
    return entries


def _other_score(comparison: Comparison) -> str:
    return "macro-f1" if comparison.score == SCORES[0] else SCORES[0]


def score_title(comparison: Comparison) -> str:
    """The score at the beginning of a sentence."""
    title = SCORE_TITLES[comparison.score]
    return title[0].upper() + title[1:]


def comparison_table(comparison: Comparison, form: str = TEXT) -> Table:
    """One row per method; differences are paired by split."""
    entries = {cell.method: _entries(comparison, cell) for cell in comparison.cells}
    columns = [name for name in HEADINGS[form] if any(name in row for row in entries.values())]
    rows = []
    for method, row in entries.items():
        shown = [row.get(name, Entry()) for name in columns]
        style = "reference" if form == PAGE and method == comparison.reference else ""
        rows.append(Row(method, [Entry(entry.text) for entry in shown] if form == TEXT else shown, style=style))
    titles = {"score": SCORE_TITLES[comparison.score], "other": SCORE_TITLES[_other_score(comparison)]}
    headings = [HEADINGS[form][name].format(reference=comparison.reference, **titles) for name in columns]
    first = comparison.cells[0]
    caption = _made_on(first) if form == TEXT else ""
    return Table(
        ["method", *headings], rows, title=f"{score_title(comparison)} % on {cell_title(first)}", caption=caption
    )


def _made_on(cell: CellSummary) -> str:
    torch_version = cell.versions.get("torch", "unknown")
    return f"seed {cell.seed}, {cell.device}, {counted(cell.threads, 'thread')}, torch {torch_version}"


def markdown(comparisons: Sequence[Comparison]) -> str:
    """All comparisons, one after the other."""
    lines = []
    for comparison in comparisons:
        title = f"{score_title(comparison)} on {cell_title(comparison.cells[0])}"
        lines += [f"## {title}", "", f"{graph_title(comparison)}. Per cent.", ""]
        lines += [*writers.markdown_lines(comparison_table(comparison)), ""]
        lines += [f"Warning: {warning}.\n" for warning in comparison.warnings]
    return "\n".join(lines)


def comma_separated(comparisons: Sequence[Comparison]) -> str:
    """One line per method and comparison; shares instead of per cent."""
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
    """LaTeX: one table per comparison, preceded by an overview of each graph with several comparisons."""
    texts = [writers.LATEX_PREAMBLE, *(_overview(some) for some in _by_graph(comparisons) if len(some) > 1)]
    for one in comparisons:
        caption = f"{score_title(one)} on {cell_title(one.cells[0])} ({graph_title(one)}). Per cent, 95 % intervals."
        if one.differences:
            caption += " Differences are paired by split; p: Wilcoxon signed-rank test with Holm correction."
            caption += " Bold: best mean, and p below 5 %."
        texts.append(writers.latex(comparison_table(one, LATEX), caption))
    return "\n".join(texts)


def _by_graph(comparisons: Sequence[Comparison]) -> list[list[Comparison]]:
    found = defaultdict(list)
    for comparison in comparisons:
        found[comparison.cells[0].dataset, *comparison.graph.values()].append(comparison)
    return list(found.values())


def _overview(comparisons: Sequence[Comparison]) -> str:
    """The scores of several comparisons on one graph, side by side."""
    found = {
        (place, cell.method): _entries(comparison, cell)["score"]
        for place, comparison in enumerate(comparisons)
        for cell in comparison.cells
    }
    rows = [
        Row(method, [found.get((place, method), Entry()) for place in range(len(comparisons))])
        for method in dict.fromkeys(method for _, method in found)
    ]
    cells = [comparison.cells[0] for comparison in comparisons]
    several_seeds = len({cell.seed for cell in cells}) > 1
    columns = [labels_given(cell) + (f", seed {cell.seed}" if several_seeds else "") for cell in cells]
    on = f"{score_title(comparisons[0])} on {cells[0].dataset or 'the graph'}"
    caption = f"{on}. Per cent, 95 % intervals. Bold: best mean of a column."
    return writers.latex(Table(["method", *columns], rows), caption)


def comparison_page(comparisons: Sequence[Comparison], *, command: str = "", notes: Sequence[str] = ()) -> str:
    """The page; `command` made it, `notes` are remarks of reading the files."""
    names = dict.fromkeys(cell.method for comparison in comparisons for cell in comparison.cells)
    styles = Styles({name: name for name in names}, comparisons[0].reference)
    datasets = dict.fromkeys(comparison.cells[0].dataset or "a graph" for comparison in comparisons)
    several = any(len(comparison.cells) > 1 for comparison in comparisons)
    title = "Comparison of methods" if several else f"Evaluation of {comparisons[0].cells[0].method}"
    sections = []
    for one in comparisons:
        shares = zip(*(cell.by(one.score).per_run for cell in one.cells), strict=True)
        runs = [[str(run), *map(percent, of_run)] for run, of_run in enumerate(shares)]
        sections.append(
            {
                "comparison": one,
                "title": cell_title(one.cells[0]),
                "graph": graph_title(one),
                "made": one.cells[0],
                "table": comparison_table(one, PAGE),
                "chart": _difference_chart(one, styles),
                "settings": [
                    (cell.method, ", ".join(f"{key}={value}" for key, value in cell.settings.items()) or "none")
                    for cell in one.cells
                ],
                "runs": Table.of_text(["run", *(cell.method for cell in one.cells)], runs),
            }
        )
    return render(
        "comparison.html",
        title=f"{title} on {', '.join(datasets)}",
        command=command,
        notes=notes,
        rates=_label_rate_charts(comparisons, styles),
        sections=sections,
        score=score_title(comparisons[0]),
    )


def _difference_chart(comparison: Comparison, styles: Styles) -> Figure | None:
    p_values, title = comparison.p_values, f"{score_title(comparison)} minus that of {comparison.reference}"
    rows = [
        (method, [PairedTest(difference, p_values[method], p_values[method])])
        for method, difference in comparison.differences.items()
    ]
    caption = f"points above or below {comparison.reference}"
    return difference_chart(rows, [""], title, caption=caption, styles=styles) if rows else None


def _label_rate_charts(comparisons: Sequence[Comparison], styles: Styles) -> list[tuple[str, Figure]]:
    """The score over labels per class, for each graph with several label rates."""
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
        heights = place + 0.3 * (np.arange(len(shares)) / max(len(shares) - 1, 1) - 0.5)  # equal runs differ
        axes.plot(shares, heights, ".", color=colour, alpha=0.35, markersize=5)
        axes.plot(100 * np.array(sample.ci95), [place, place], color=colour, linewidth=2)
        axes.plot([100 * sample.mean], [place], "o", color=colour, markersize=7)
    axes.set_yticks(range(len(cells)), [cell.method for cell in cells])
    score = SCORE_TITLES[comparison.score]
    axes.set(xlabel=f"{score} in %: each run, the mean and its 95 % interval", title=cell_title(cells[0]))
    axes.invert_yaxis()  # the first on top, as in the table
    axes.grid(axis="x")
    return figure
