"""Comparisons as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.protocol import RANDOM
from mtgcn.report import charts
from mtgcn.report.comparison_text import cell_title, graph_title
from mtgcn.report.styles import Styles
from mtgcn.report.templating import rendered


def comparison_page(comparisons: Sequence[Comparison], *, command: str = "", notes: Sequence[str] = ()) -> str:
    """The page. `command` is what was typed to make it, `notes` what was remarked on the files it read."""
    styles = _styles(comparisons)
    return rendered(
        "comparison.html",
        title=_title(comparisons),
        command=command,
        notes=notes,
        rates=_label_rate_charts(comparisons, styles),
        sections=[
            {
                "comparison": comparison,
                "title": cell_title(comparison.cells[0]),
                "graph": graph_title(comparison),
                "made": comparison.cells[0],
                "chart": _difference_chart(comparison, styles),
                "settings": {cell.method: _settings(cell.settings) for cell in comparison.cells},
                "runs_share": any(cell.groups for cell in comparison.cells),
            }
            for comparison in comparisons
        ],
    )


def _title(comparisons: Sequence[Comparison]) -> str:
    datasets = dict.fromkeys(comparison.cells[0].dataset or "a graph" for comparison in comparisons)
    several = any(len(comparison.cells) > 1 for comparison in comparisons)
    what = "Methods compared" if several else f"{comparisons[0].cells[0].method} measured"
    return f"{what} on {', '.join(datasets)}"


def _settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "none"


def _styles(comparisons: Sequence[Comparison]) -> Styles:
    """Every method has one look on the whole page."""
    names = dict.fromkeys(cell.method for comparison in comparisons for cell in comparison.cells)
    return Styles({name: name for name in names}, comparisons[0].reference)


def _difference_chart(comparison: Comparison, styles: Styles) -> Markup | None:
    rows = [
        (
            method,
            [
                charts.Estimate(
                    100 * difference.mean,
                    100 * difference.ci95[0],
                    100 * difference.ci95[1],
                    comparison.is_significant(method),
                )
            ],
        )
        for method, difference in comparison.differences.items()
    ]
    if not rows:
        return None
    title = f"Accuracy minus that of {comparison.reference}"
    return Markup(
        charts.difference_chart(
            rows, [""], title=title, caption=f"points above or below {comparison.reference}", styles=styles
        )
    )


def _label_rate_charts(comparisons: Sequence[Comparison], styles: Styles) -> list[tuple[str, Markup]]:
    """How accuracy follows the labels, for each graph that was compared on at several label rates."""
    found: dict[tuple[object, ...], dict[str, dict[int, charts.Point]]] = {}
    for comparison in comparisons:
        for cell in comparison.cells:
            if cell.split == RANDOM and isinstance(cell.labels_per_class, int):
                low, high = cell.accuracy.ci95
                rate = cell.labels_per_class
                of_methods = found.setdefault((cell.dataset, *comparison.graph.values()), {})
                point = charts.Point(rate, 100 * cell.accuracy.mean, 100 * low, 100 * high)
                of_methods.setdefault(cell.method, {})[rate] = point
    drawn = []
    for (dataset, *_), of_methods in found.items():
        if len({rate for points in of_methods.values() for rate in points}) > 1:
            series = [
                charts.Series(method, tuple(points[rate] for rate in sorted(points)))
                for method, points in of_methods.items()
            ]
            title = f"Accuracy on {dataset} against labels per class"
            drawn.append((title, Markup(charts.label_rate_chart(series, title=title, styles=styles))))
    return drawn
