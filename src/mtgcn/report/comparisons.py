"""Comparisons of methods as tables (terminal, Markdown, CSV, LaTeX), as a figure and as an HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import OVER_ALL, PUBLIC, RANDOM
from mtgcn.experiments.statistics import PairedTest, SampleSummary
from mtgcn.experiments.tables import CellSummary
from mtgcn.report.charts import difference_chart, label_rate_chart, run_chart
from mtgcn.report.figures import figure
from mtgcn.report.pages import render
from mtgcn.report.styles import Styles, light_colours
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
    p_value,
    percent,
    seconds,
)
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    return f"{cell.dataset or 'the graph'}, {labels_given(cell)}, {cell.runs} run{'s' if cell.runs > 1 else ''}"


def labels_given(cell: CellSummary) -> str:
    """The number of labels of a run, and where the splits come from unless they are random."""
    counts = cell.labels_per_class
    if isinstance(counts, tuple):
        labels = f"{', '.join(map(str, counts))} labels of the classes in turn"
    elif counts is None:
        labels = "labels that differ from run to run"
    else:
        labels = f"{counts} label{'s' if counts != 1 else ''} per class"
    if cell.split == RANDOM:
        return labels
    sources = {OVER_ALL: " drawn over all nodes", PUBLIC: ", public split"}
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
    measures = {
        "accuracy %": cell.accuracy,
        "macro F1 %": cell.macro_f1,
        "calibration error %": cell.calibration_error,
    }
    rows = [
        (measure, percent(sample.mean), percent(sample.std), interval(sample)) for measure, sample in measures.items()
    ]
    caption = f"{cell.seconds:.1f} s, {_made_on(cell)}"
    columns = ["measure", "mean", "std", "95 % interval"]
    return Table.of_text(columns, rows, title=f"{cell.method} on {cell_title(cell)}", caption=caption)


def comparison_table(comparison: Comparison) -> Table:
    """One row per method; differences are paired by split."""
    rows = []
    for cell in comparison.cells:
        against = ["", "", ""]
        if difference := comparison.differences.get(cell.method):
            p = p_value(comparison.p_values[cell.method])
            against = [percent(difference.mean, SIGNED), interval(difference, SIGNED), p]
        measured = [cell.method, percent(cell.accuracy.mean), interval(cell.accuracy)]
        rows.append([*measured, *against, percent(cell.macro_f1.mean), f"{cell.seconds:.1f}"])
    columns = ["method", "mean", "95 % interval", f"minus {comparison.reference}", "95 % interval", "p (Holm)"]
    first = comparison.cells[0]
    title, caption = f"Accuracy % on {cell_title(first)}", _made_on(first)
    return Table.of_text([*columns, "macro F1", "seconds"], rows, title=title, caption=caption)


def _made_on(cell: CellSummary) -> str:
    threads = f"{cell.threads} thread{'s' if cell.threads > 1 else ''}"
    return f"seed {cell.seed}, {cell.device}, {threads}, torch {cell.versions.get('torch', 'unknown')}"


def markdown(comparisons: Sequence[Comparison]) -> str:
    """All comparisons, one after the other."""
    lines = []
    for comparison in comparisons:
        lines += [f"## Accuracy on {cell_title(comparison.cells[0])}", "", f"{graph_title(comparison)}. Per cent.", ""]
        lines += [*markdown_lines(comparison_table(comparison)), ""]
        lines += [f"Warning: {warning}.\n" for warning in comparison.warnings]
    return "\n".join(lines)


def comma_separated(comparisons: Sequence[Comparison]) -> str:
    """One line per method and comparison; shares instead of per cent."""
    return csv_text([_record(comparison, cell) for comparison in comparisons for cell in comparison.cells])


def _record(comparison: Comparison, cell: CellSummary) -> dict[str, object]:
    difference = comparison.differences.get(cell.method)
    counts = cell.labels_per_class
    return {
        "dataset": cell.dataset,
        "labels_per_class": " ".join(map(str, counts)) if isinstance(counts, tuple) else counts,
        "split": cell.split,
        "method": cell.method,
        "runs": cell.runs,
        "seed": cell.seed,
        "scored_nodes": comparison.scored_nodes,
        "accuracy_mean": cell.accuracy.mean,
        "accuracy_std": cell.accuracy.std,
        "accuracy_low": cell.accuracy.ci95[0],
        "accuracy_high": cell.accuracy.ci95[1],
        "macro_f1_mean": cell.macro_f1.mean,
        "calibration_error_mean": cell.calibration_error.mean,
        "reference": comparison.reference,
        "minus_reference_mean": difference and difference.mean,
        "minus_reference_low": difference and difference.ci95[0],
        "minus_reference_high": difference and difference.ci95[1],
        "p_value_holm": comparison.p_values.get(cell.method),
        "seconds": cell.seconds,
        "device": cell.device,
        "threads": cell.threads,
    }


def comparison_tables(comparisons: Sequence[Comparison]) -> str:
    """LaTeX: one table per comparison, preceded by an overview of each graph with several comparisons."""
    by_graph: dict[tuple[object, ...], list[Comparison]] = {}
    for comparison in comparisons:
        by_graph.setdefault((comparison.cells[0].dataset, *comparison.graph.values()), []).append(comparison)
    overviews = [_overview(some) for some in by_graph.values() if len(some) > 1]
    return "\n".join([LATEX_PREAMBLE, *overviews, *map(_latex_table, comparisons)])


def _latex_table(comparison: Comparison) -> str:
    caption = f"Accuracy on {cell_title(comparison.cells[0])} ({graph_title(comparison)}). Per cent, 95 % intervals."
    columns = ["method", "accuracy", "macro F1"]
    if comparison.differences:
        caption += " Differences are paired by split; p: Wilcoxon signed-rank test with Holm correction."
        caption += " Bold: best mean, and p below 5 %."
        columns += [f"minus {comparison.reference}", "p"]
    rows = [
        Row(cell.method, [_accuracy(comparison, cell), Entry(percent(cell.macro_f1.mean)), *_against(comparison, cell)])
        for cell in comparison.cells
    ]
    return latex(Table(columns, rows), caption)


def _overview(comparisons: Sequence[Comparison]) -> str:
    """The accuracies of several comparisons on one graph, side by side."""
    found = {
        (place, cell.method): _accuracy(comparison, cell)
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
    caption = f"Accuracy on {cells[0].dataset or 'the graph'}. Per cent, 95 % intervals. Bold: best mean of a column."
    return latex(Table(["method", *columns], rows), caption)


def _accuracy(comparison: Comparison, cell: CellSummary) -> Entry:
    return Entry.mean(cell.accuracy, bold=comparison.is_best(cell.method))


def _against(comparison: Comparison, cell: CellSummary) -> list[Entry]:
    """The difference from the reference and its p-value; nothing where no method is compared."""
    if not comparison.differences:
        return []
    difference = comparison.differences.get(cell.method)
    if difference is None:
        return [Entry(), Entry()]
    p = p_value(comparison.p_values[cell.method])
    return [Entry.mean(difference, SIGNED), Entry(p, bold=comparison.is_significant(cell.method))]


def comparison_figure(comparison: Comparison) -> Figure:
    """A matplotlib figure: the accuracy of every run, and for each method its mean with the 95 % interval."""
    chart = run_chart(comparison, title=cell_title(comparison.cells[0]), styles=_styles([comparison]))
    return figure([[[chart]]], light_colours())


def comparison_page(comparisons: Sequence[Comparison], *, command: str = "", notes: Sequence[str] = ()) -> str:
    """The page; `command` made it, `notes` are remarks of reading the files."""
    styles = _styles(comparisons)
    datasets = dict.fromkeys(comparison.cells[0].dataset or "a graph" for comparison in comparisons)
    several = any(len(comparison.cells) > 1 for comparison in comparisons)
    title = "Comparison of methods" if several else f"Evaluation of {comparisons[0].cells[0].method}"
    return render(
        "comparison.html",
        title=f"{title} on {', '.join(datasets)}",
        command=command,
        notes=notes,
        rates=_label_rate_charts(comparisons, styles),
        sections=[
            {
                "comparison": comparison,
                "title": cell_title(comparison.cells[0]),
                "graph": graph_title(comparison),
                "made": comparison.cells[0],
                "table": _page_table(comparison),
                "chart": _difference_chart(comparison, styles),
                "runs": _run_table(comparison),
                "settings": {
                    cell.method: ", ".join(f"{key}={value}" for key, value in cell.settings.items()) or "none"
                    for cell in comparison.cells
                },
                "runs_share": any(cell.groups for cell in comparison.cells),
            }
            for comparison in comparisons
        ],
    )


def _page_table(comparison: Comparison) -> Table:
    against = [f"minus {comparison.reference}", "p"] if comparison.differences else []
    rows = [
        Row(
            cell.method,
            [
                _accuracy(comparison, cell),
                *_against(comparison, cell),
                Entry.mean(cell.macro_f1),
                Entry.mean(cell.calibration_error),
                Entry(seconds(cell.seconds / cell.runs)),
            ],
            style="reference" if cell.method == comparison.reference else "",
        )
        for cell in comparison.cells
    ]
    return Table(["method", "accuracy", *against, "macro F1", "calibration error", "seconds per run"], rows)


def _run_table(comparison: Comparison) -> Table:
    cells = comparison.cells
    rows = [
        [str(run), *(percent(cell.accuracy.per_run[run]) for cell in cells)] for run in range(comparison.cells[0].runs)
    ]
    return Table.of_text(["run", *(cell.method for cell in cells)], rows)


def _styles(comparisons: Sequence[Comparison]) -> Styles:
    names = dict.fromkeys(cell.method for comparison in comparisons for cell in comparison.cells)
    return Styles({name: name for name in names}, comparisons[0].reference)


def _difference_chart(comparison: Comparison, styles: Styles) -> Markup | None:
    p_values = comparison.p_values
    rows = [
        (method, [PairedTest(difference, p_values[method], p_values[method])])
        for method, difference in comparison.differences.items()
    ]
    title = f"Accuracy minus that of {comparison.reference}"
    caption = f"points above or below {comparison.reference}"
    return difference_chart(rows, [""], title=title, caption=caption, styles=styles).svg() if rows else None


def _label_rate_charts(comparisons: Sequence[Comparison], styles: Styles) -> list[tuple[str, Markup]]:
    """Accuracy over labels per class, for each graph with several label rates."""
    found: dict[tuple[object, ...], dict[str, dict[int, SampleSummary]]] = {}
    for comparison in comparisons:
        for cell in comparison.cells:
            if cell.split == RANDOM and isinstance(cell.labels_per_class, int):
                of_methods = found.setdefault((cell.dataset, *comparison.graph.values()), {})
                of_methods.setdefault(cell.method, {})[cell.labels_per_class] = cell.accuracy
    charts = []
    for (dataset, *_), of_methods in found.items():
        if len({rate for samples in of_methods.values() for rate in samples}) > 1:
            title = f"Accuracy on {dataset} over labels per class"
            charts.append((title, label_rate_chart(of_methods, title=title, styles=styles).svg()))
    return charts
