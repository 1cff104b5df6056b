"""The pictures of a page, drawn from its tables and curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from mtgcn.experiments.curves import Band, Curves
from mtgcn.experiments.protocol import ALONE, BACKBONE_NAMES, RANDOM, TAUGHT, labels_title
from mtgcn.experiments.statistics import SampleSummary
from mtgcn.experiments.tables import Evidence, Line
from mtgcn.report import charts
from mtgcn.report.findings import drawn_cells
from mtgcn.report.grids import Grid, GridRow, backbone_grids
from mtgcn.report.styles import Styles, styles_of


def label_rate_charts(evidence: Evidence, measure: str) -> list[tuple[str, Markup]]:
    """For each dataset, how a measure follows the labels, where each class has as many of them."""
    by_dataset: dict[str, dict[str, list[charts.Point]]] = {}
    for cell in drawn_cells(evidence):
        for title, line in cell.items():
            if line.split != RANDOM:
                continue
            sample: SampleSummary = getattr(line, measure)
            low, high = sample.ci95
            point = charts.Point(line.labels_per_class, 100 * sample.mean, 100 * low, 100 * high)
            by_dataset.setdefault(line.dataset, {}).setdefault(title, []).append(point)
    drawn = []
    for dataset, points in by_dataset.items():
        series = [
            charts.Series(title, tuple(sorted(some, key=lambda point: point.labels_per_class)))
            for title, some in points.items()
        ]
        name = f"{measure.replace('_', ' ')} on {dataset} against labels per class".capitalize()
        drawn.append((dataset, Markup(charts.label_rate_chart(series, title=name, styles=styles_of(evidence.suite)))))
    return drawn


def _estimates(row: GridRow) -> list[charts.Estimate | None]:
    return [charts.estimate_of(line.against_rival) if line and line.against_rival else None for line in row.lines]


def with_difference_charts(grids: Sequence[Grid], styles: Styles) -> list[tuple[Grid, Markup]]:
    drawn = []
    for grid in grids:
        rows = [(row.title, _estimates(row)) for row in grid.compared_rows]
        if rows:
            title = f"{grid.title}, minus {styles.shown_name(styles.reference)}"
            chart = charts.difference_chart(rows, grid.short_columns, title=title, styles=styles)
            drawn.append((grid, Markup(chart)))
    return drawn


@dataclass(frozen=True)
class BackboneTable:
    """A table of networks, each alone and taught in every cell."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, list[tuple[Line | None, Line | None]]]]  # by the name of the network
    chart: Markup | None


def backbone_tables(evidence: Evidence) -> list[BackboneTable]:
    found = []
    for grid in backbone_grids(evidence):
        by_title = {row.title: row for row in grid.rows}
        empty = GridRow("", "", (None,) * len(grid.columns))
        pairs = {
            name: (by_title.get(f"{key} {ALONE}", empty), by_title.get(f"{key} {TAUGHT}", empty))
            for key, name in BACKBONE_NAMES.items()
        }
        compared = [(name, _estimates(taught)) for name, (_, taught) in pairs.items()]
        compared = [(name, row) for name, row in compared if any(row)]
        title = f"{grid.title}: what mutual teaching adds"
        caption = "points gained or lost by mutual teaching"
        found.append(
            BackboneTable(
                title=grid.title,
                columns=grid.columns,
                rows=[
                    (name, list(zip(alone.lines, taught.lines, strict=True)))
                    for name, (alone, taught) in pairs.items()
                    if any(alone.lines) or any(taught.lines)
                ],
                chart=Markup(charts.difference_chart(compared, grid.columns, title=title, caption=caption))
                if compared
                else None,
            )
        )
    return found


def curve_charts(curves: Curves) -> tuple[str, str, list[tuple[str, Markup]]]:
    """Heading, remark and pictures of one training."""
    dataset, labels = curves.made["dataset"], curves.made["labels_per_class"]
    heading = f"{dataset}, {labels_title(labels)}"
    remark = f"Mean of {curves.made['runs']} runs on {curves.made['device']}."
    classes = [name.replace("_", " ") if not name.isdigit() else f"class {name}" for name in curves.class_names]
    parts = (
        ("Accuracy on test nodes, per cent", [_epochs("accuracy", curves.accuracy, 100)]),
        ("Training losses", [_epochs(name, band, 1) for name, band in curves.losses.items()]),
        (
            "Right pseudo labels, per cent",
            [_epochs(name, band, 100) for name, band in zip(classes, curves.precision, strict=True)],
        ),
    )
    drawn = []
    for title, every in parts:
        series = [one for one in every if any(value is not None for value in one.mean)]
        if series:
            chart = charts.epoch_chart(
                curves.epochs, series, teaching_from=curves.teaching_from, title=f"{title}: {heading}"
            )
            drawn.append((title, Markup(chart)))
    return heading, remark, drawn


def _epochs(name: str, band: Band, factor: float) -> charts.EpochSeries:
    scaled = (
        [None if value is None else factor * value for value in part] for part in (band.mean, band.low, band.high)
    )
    return charts.EpochSeries(name, *scaled)
