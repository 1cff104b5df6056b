r"""Measured tables as LaTeX, for `\input`; they need the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import PROTOCOL_TITLES
from mtgcn.experiments.statistics import SampleSummary
from mtgcn.experiments.tables import CellSummary, Evidence, Line
from mtgcn.report.comparison_text import cell_title, graph_title, labels_given
from mtgcn.report.grids import Grid, GridRow, ablation_grids, backbone_grids, result_grids
from mtgcn.report.numbers import SIGNED, number, p_value, percent

PREAMBLE = "% Needs \\usepackage{booktabs}."

_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
    }
)


def latex_tables(evidence: Evidence) -> str:
    """The tables of the paper, or of a suite, and, if there are any, the ablation and other networks."""
    results = [_result_table(grid) for grid in result_grids(evidence)]
    ablation = [_ablation_table(grid) for grid in ablation_grids(evidence)]
    backbones = [_backbone_table(grid) for grid in backbone_grids(evidence)]
    return "\n".join([PREAMBLE, *results, *ablation, *backbones])


def comparison_tables(comparisons: Sequence[Comparison]) -> str:
    """Comparisons of methods, a table each; before them, where a graph was compared on several times, its accuracies
    side by side."""
    by_graph: dict[tuple[object, ...], list[Comparison]] = {}
    for comparison in comparisons:
        by_graph.setdefault((comparison.cells[0].dataset, *comparison.graph.values()), []).append(comparison)
    overviews = [_overview_table(some) for some in by_graph.values() if len(some) > 1]
    return "\n".join([PREAMBLE, *overviews, *map(_comparison_table, comparisons)])


def escaped(text: str) -> str:
    r"""Text that LaTeX sets as it stands.

    >>> escaped("without L_pl, 95 %")
    'without L\\_pl, 95 \\%'
    """
    return text.translate(_ESCAPES)


def _result_table(grid: Grid) -> str:
    caption = f"{grid.heading}. Per cent; {PROTOCOL_TITLES['ours']}; with 95 % intervals. Bold: the best of a cell."
    if any(row.optimistic for row in grid.rows):
        caption += f" Optimistic rows: {PROTOCOL_TITLES['paper']}."
    caption = " ".join([caption, *grid.notes])
    rows = [
        [escaped(_row_name(row)), *(part for line in row.lines for part in _result_cells(grid, row, line))]
        for row in grid.rows
    ]
    return _table(caption, grid.columns, ("paper", "ours", "diff.") if grid.has_printed else ("accuracy",), rows)


def _row_name(row: GridRow) -> str:
    return f"{row.name} (optimistic)" if row.optimistic else row.name


def _result_cells(grid: Grid, row: GridRow, line: Line | None) -> list[str]:
    if line is None:
        return ["", "", ""] if grid.has_printed else [""]
    mean = number(line.reported)
    if grid.is_best(line) and not row.optimistic:
        mean = rf"\textbf{{{mean}}}"
    ours = mean if row.optimistic else f"{mean} {_interval(line.accuracy)}"
    if not grid.has_printed:
        return [ours]
    printed = "" if line.printed is None else number(line.printed)
    difference = "" if line.difference is None else f"${number(line.difference, SIGNED)}$"
    return [printed, ours, difference]


def _backbone_table(grid: Grid) -> str:
    caption = (
        f"Mutual teaching with other networks, {grid.title}. What teaching adds to the same peers alone, in points"
    )
    return _difference_table(f"{caption}, with 95 % intervals and corrected p.", grid)


def _ablation_table(grid: Grid) -> str:
    caption = f"Ablation, {grid.title}. Points of accuracy gained or lost, with 95 % intervals and corrected p."
    return _difference_table(caption, grid)


def _difference_table(caption: str, grid: Grid) -> str:
    rows = [
        [escaped(row.name), *(part for line in row.lines for part in _difference_cells(line))]
        for row in grid.compared_rows
    ]
    return _table(caption, grid.columns, ("difference", "p"), rows)


def _difference_cells(line: Line | None) -> list[str]:
    test = line.against_rival if line else None
    if test is None:
        return ["", ""]
    difference = f"${percent(test.difference.mean, SIGNED)}$ {_interval(test.difference, SIGNED)}"
    return [difference, f"{test.p_corrected:.2g}"]


def _interval(sample: SampleSummary, form: str = ".1f") -> str:
    if len(sample.per_run) == 1:
        return ""  # which says nothing about another run
    low, high = (percent(end, form) for end in sample.ci95)
    return rf"{{\scriptsize $[{low}, {high}]$}}"


def _comparison_table(comparison: Comparison) -> str:
    caption = f"Accuracy on {cell_title(comparison.cells[0])} ({graph_title(comparison)}). Per cent, 95 % intervals."
    parts = ["accuracy", "macro F1"]
    if comparison.differences:
        caption += (
            " Bold: the best mean. Differences are paired, split by split; p by Wilcoxon's signed-rank test, "
            "corrected by Holm."
        )
        parts += [f"minus {comparison.reference}", "p"]
    rows = []
    for cell in comparison.cells:
        difference = comparison.differences.get(cell.method)
        row = [escaped(cell.method), _accuracy(comparison, cell), percent(cell.macro_f1.mean)]
        if difference:
            row.append(f"${percent(difference.mean, SIGNED)}$ {_interval(difference, SIGNED)}")
            row.append(f"${p_value(comparison.p_values[cell.method])}$")
        elif comparison.differences:
            row += ["", ""]
        rows.append(row)
    return _tabular(caption, len(parts), [_row(["method", *map(escaped, parts)])], rows)


def _overview_table(comparisons: Sequence[Comparison]) -> str:
    methods = dict.fromkeys(cell.method for comparison in comparisons for cell in comparison.cells)
    found = {
        (number, cell.method): _accuracy(comparison, cell)
        for number, comparison in enumerate(comparisons)
        for cell in comparison.cells
    }
    rows = [
        [escaped(method), *(found.get((number, method), "") for number in range(len(comparisons)))]
        for method in methods
    ]
    first = comparisons[0].cells[0]
    caption = f"Accuracy on {first.dataset or 'the graph'}. Per cent, 95 % intervals. Bold: the best mean of a column."
    several_seeds = len({comparison.cells[0].seed for comparison in comparisons}) > 1
    columns = [
        escaped(labels_given(cell) + (f", seed {cell.seed}" if several_seeds else ""))
        for cell in (comparison.cells[0] for comparison in comparisons)
    ]
    return _tabular(caption, len(columns), [_row(["method", *columns])], rows)


def _accuracy(comparison: Comparison, cell: CellSummary) -> str:
    mean = percent(cell.accuracy.mean)
    shown = rf"\textbf{{{mean}}}" if comparison.is_best(cell.method) else mean
    return f"{shown} {_interval(cell.accuracy)}".strip()


def _table(caption: str, columns: Sequence[str], parts: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below two lines of headings: the cells, and in each the same parts."""
    width = len(parts)
    spans = [rf"\multicolumn{{{width}}}{{c}}{{{escaped(column)}}}" for column in columns]
    rules = [rf"\cmidrule(lr){{{2 + width * n}-{1 + width * (n + 1)}}}" for n in range(len(columns))]
    headings = [
        _row(["", *spans]),
        "".join(rules),
        _row(["method", *(part for _ in columns for part in parts)]),
    ]
    return _tabular(caption, width * len(columns), headings, rows)


def _tabular(caption: str, width: int, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows below lines of headings: a name, and so many numbers."""
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * width}}}",
        r"\toprule",
        *headings,
        r"\midrule",
        *map(_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"
