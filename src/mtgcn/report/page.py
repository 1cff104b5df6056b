"""Everything a folder of rows says as one HTML page that needs nothing but itself."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mtgcn.benchmark.curves import Band, Curves
from mtgcn.benchmark.evidence import Evidence
from mtgcn.benchmark.measured import Line
from mtgcn.benchmark.protocol import (
    ALONE,
    BACKBONE_NAMES,
    FINAL_SEEDS,
    PAPER_TABLES,
    PROTOCOL_TITLES,
    REFERENCE,
    TABLE_1,
    TABLES,
    TAUGHT,
    Cell,
)
from mtgcn.benchmark.split_choice import RANDOM
from mtgcn.benchmark.statistics import RankComparison, SampleSummary, compare_ranks
from mtgcn.datasets import Description
from mtgcn.report import charts
from mtgcn.report.charts import shown_name
from mtgcn.report.grids import Grid, GridRow, ablation_grids, backbone_grids, result_grids

SIGNIFICANT_BELOW = 0.05  # corrected p-values


def html_page(evidence: Evidence, counts: Sequence[Description] = (), curves: Sequence[Curves] = ()) -> str:
    """The page. `counts` are of those datasets that lie on this machine; curves of other seeds are left out."""
    curves = [one for one in curves if one.made["seed"] == evidence.made.seed]
    environment = Environment(
        loader=PackageLoader("mtgcn.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": _percent, "interval": _interval, "p_value": _p_value, "seconds": _seconds}
    results, ablation = result_grids(evidence), ablation_grids(evidence)
    ranks = _ranks(evidence)
    return environment.get_template("page.html").render(
        evidence=evidence,
        made=evidence.made,
        commands=commands(evidence, with_curves=bool(curves)),
        elsewhere=lambda row: _elsewhere(evidence, row),
        made_elsewhere=_made_elsewhere(evidence),
        final=evidence.made.seed in FINAL_SEEDS,
        findings=_findings(evidence),
        protocols=PROTOCOL_TITLES,
        reference=shown_name(REFERENCE),
        shown_name=shown_name,
        significant_below=SIGNIFICANT_BELOW,
        counts=_counts(counts),
        results=results,
        accuracy_charts=_label_rate_charts(evidence, "accuracy"),
        calibration_charts=_label_rate_charts(evidence, "calibration_error"),
        compared=_with_difference_charts(results),
        ablation=_with_difference_charts(ablation),
        backbones=_backbones(evidence),
        gains=_gains(evidence),
        curves=[_curve_charts(one) for one in curves],
        ranks=ranks,
        rank_chart=Markup(charts.rank_chart(ranks, title="Average ranks over all cells")) if ranks else None,
        ranked_cells=len(_random_cells(evidence)),
    )


def commands(evidence: Evidence, *, with_curves: bool = False) -> list[str]:
    """What to type to make these rows anew; several lines if one command cannot."""
    lines = []
    for tables, kind in (
        (evidence.ours, []),
        (evidence.optimistic, ["--protocol", "paper"]),
        (evidence.ablation, ["--ablation"]),
        (evidence.backbones, ["--backbones"]),
    ):
        alike: dict[tuple[str, ...], dict[str, list[Line]]] = {}
        for table in tables:
            for line in table.lines:
                alike.setdefault(_how_it_was_made(line), {}).setdefault(table.name, []).append(line)
        for options, some in alike.items():
            lines.append(shlex.join(["mtgcn", "reproduce", *_narrowed(some, kind), *kind, *options]))
    return [f"{lines[0]} --curves", *lines[1:]] if with_curves else lines


def _how_it_was_made(line: Line) -> tuple[str, ...]:
    """The options that ask for the runs, the seed, the threads and the device of a line, where they are unusual."""
    row, runs = line.rows[0], _unusual_runs(line)
    options = ["--runs", str(runs)] if runs else []
    options += ["--final"] if row.seed in FINAL_SEEDS else []
    options += ["--seed", str(row.seed)] if row.seed not in (0, FINAL_SEEDS[0]) else []
    options += ["--threads", str(row.threads)] if row.threads != 1 else []
    return (*options, "--device", row.device.split()[0])


def _elsewhere(evidence: Evidence, row: GridRow) -> str:
    """Where a row was made, if not where most were."""
    return ", ".join(dict.fromkeys(mark for line in row.lines if line and (mark := evidence.elsewhere(line))))


def _made_elsewhere(evidence: Evidence) -> list[str]:
    """In words, every other way in which some rows were made."""
    return [
        f"{row.device}, {row.threads} thread{'s' if row.threads > 1 else ''} per unit of work; "
        + ", ".join(f"{name} {version}" for name, version in row.versions.items())
        for row in evidence.made_elsewhere
    ]


def _narrowed(lines: dict[str, list[Line]], kind: Sequence[str]) -> list[str]:
    """The options that ask for these tables, datasets and methods, as far as they are not all there are."""
    cells = [cell for name in lines for cell in TABLES[name].cells]
    options = [] if {table.name for table in PAPER_TABLES} == set(lines) else ["--table", ",".join(lines)]
    datasets = list(dict.fromkeys(line.dataset for line in chain(*lines.values())))
    if set(datasets) != {cell.dataset for cell in cells}:
        options += ["--datasets", ",".join(datasets)]
    methods = list(dict.fromkeys(line.title for line in chain(*lines.values())))
    listed = {entry.method for cell in cells if cell.dataset in datasets for entry in cell.entries}
    if not kind and set(methods) != listed:
        options += ["--methods", ",".join(methods)]
    return options


def _unusual_runs(line: Line) -> int | None:
    """How many runs were asked for, if not as many as the paper has."""
    runs = len(line.rows) // line.rows[0].averages
    return None if runs == _cell_of(line).runs else runs


def _cell_of(line: Line) -> Cell:
    where = line.dataset, line.labels_per_class, line.split
    cells = chain(*(table.cells for table in TABLES.values()))
    return next(cell for cell in cells if (cell.dataset, cell.labels_per_class, cell.split) == where)


def _findings(evidence: Evidence) -> list[str]:
    """What the tables say in a sentence each."""
    lines = [line for table in evidence.ours for line in table.lines]
    findings = []
    printed = [line.difference for line in lines if line.difference is not None]
    if printed:
        with_sign = _signed(float(np.mean(printed)), "+.1f")
        findings.append(
            f"{len(printed)} measured values have a printed one beside them; they differ from it by "
            f"{np.mean(np.abs(printed)):.1f} points on average, {with_sign} with their sign."
        )
    cells = [cell for cell in _random_cells(evidence) if REFERENCE in cell and len(cell) > 1]
    if cells:
        best = sum(cell[REFERENCE].reported >= max(line.reported for line in cell.values()) for cell in cells)
        findings.append(f"{shown_name(REFERENCE)} is the best in {best} of {len(cells)} cells of random splits.")
    tests = [line.against_rival for line in lines if line.against_rival]
    if tests:
        sure = [test.difference.mean for test in tests if test.p_corrected < SIGNIFICANT_BELOW]
        behind, ahead = sum(mean < 0 for mean in sure), sum(mean > 0 for mean in sure)
        findings.append(
            f"Of {len(tests)} comparisons with {shown_name(REFERENCE)}, {behind} show the other method behind it and "
            f"{ahead} ahead of it, at 5 % after Holm's correction."
        )
    return findings


def _random_cells(evidence: Evidence) -> list[dict[str, Line]]:
    """What was measured in each cell of random splits, by method."""
    cells: dict[tuple[str, int], dict[str, Line]] = {}
    for table in evidence.ours:
        for line in table.lines:
            if line.split == RANDOM:
                cells.setdefault((line.dataset, line.labels_per_class), {})[line.title] = line
    return list(cells.values())


def _ranks(evidence: Evidence) -> RankComparison | None:
    """The ranks of the methods that ran in every cell; None if there are too few of either to compare."""
    cells = _random_cells(evidence)
    everywhere = [title for title in (cells[0] if cells else ()) if all(title in cell for cell in cells)]
    if len(cells) < 2 or len(everywhere) < 3:
        return None
    return compare_ranks(np.array([[cell[title].reported for title in everywhere] for cell in cells]), everywhere)


def _label_rate_charts(evidence: Evidence, measure: str) -> list[tuple[str, Markup]]:
    """For each dataset, how a measure follows the labels on random splits."""
    by_dataset: dict[str, dict[str, list[charts.Point]]] = {}
    for cell in _random_cells(evidence):
        for title, line in cell.items():
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
        drawn.append((dataset, Markup(charts.label_rate_chart(series, title=name))))
    return drawn


def _estimates(row: GridRow) -> list[charts.Estimate | None]:
    return [
        charts.estimate_of(line.against_rival.difference, line.against_rival.p_corrected, SIGNIFICANT_BELOW)
        if line and line.against_rival
        else None
        for line in row.lines
    ]


def _with_difference_charts(grids: Sequence[Grid]) -> list[tuple[Grid, Markup]]:
    drawn = []
    for grid in grids:
        rows = [(row.title, _estimates(row)) for row in grid.compared_rows]
        if rows:
            title = f"{grid.title}, minus {shown_name(REFERENCE)}"
            drawn.append((grid, Markup(charts.difference_chart(rows, grid.columns, title=title))))
    return drawn


@dataclass(frozen=True)
class _BackboneGrid:
    """A table of networks, each alone and taught in every cell."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, list[tuple[Line | None, Line | None]]]]  # by the name of the network
    chart: Markup | None


def _backbones(evidence: Evidence) -> list[_BackboneGrid]:
    found = []
    for grid in backbone_grids(evidence):
        by_title = {row.title: row for row in grid.rows}
        empty = GridRow("", (None,) * len(grid.columns))
        pairs = {
            name: (by_title.get(f"{key} {ALONE}", empty), by_title.get(f"{key} {TAUGHT}", empty))
            for key, name in BACKBONE_NAMES.items()
        }
        compared = [(name, _estimates(taught)) for name, (_, taught) in pairs.items()]
        compared = [(name, row) for name, row in compared if any(row)]
        title = f"{grid.title}: what mutual teaching adds"
        caption = "points gained or lost by mutual teaching"
        found.append(
            _BackboneGrid(
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


@dataclass(frozen=True)
class _Gain:
    """What mutual teaching does to one kind of network, over all cells."""

    name: str
    cells: int
    mean: float  # a share
    smallest: float
    largest: float
    surely_better: int
    surely_worse: int


def _gains(evidence: Evidence) -> list[_Gain]:
    gains = []
    for key, name in BACKBONE_NAMES.items():
        lines = [line for table in evidence.backbones for line in table.lines if line.title == f"{key} {TAUGHT}"]
        tests = [line.against_rival for line in lines if line.against_rival]
        if tests:
            means = [test.difference.mean for test in tests]
            sure = [test.difference.mean for test in tests if test.p_corrected < SIGNIFICANT_BELOW]
            gains.append(
                _Gain(
                    name=name,
                    cells=len(tests),
                    mean=float(np.mean(means)),
                    smallest=min(means),
                    largest=max(means),
                    surely_better=sum(mean > 0 for mean in sure),
                    surely_worse=sum(mean < 0 for mean in sure),
                )
            )
    return gains


def _curve_charts(curves: Curves) -> tuple[str, str, list[tuple[str, Markup]]]:
    """Heading, remark and pictures of one training."""
    dataset, labels = curves.made["dataset"], curves.made["labels_per_class"]
    heading = f"{dataset}, {labels} label{'s' if labels > 1 else ''} per class"
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


def _counts(found: Sequence[Description]) -> list[tuple[str, list[tuple[int, int]]]]:
    """For each dataset the paper's and our number of nodes, edges, classes and features."""
    ours = {description.name: description for description in found}
    return [
        (
            printed.dataset,
            [
                (printed.nodes, counted.nodes),
                (printed.edges, counted.edges_listed),
                (printed.classes, counted.classes),
                (printed.features, counted.features),
            ],
        )
        for printed in TABLE_1
        if (counted := ours.get(printed.dataset))
    ]


def _percent(share: float, form: str = ".1f") -> str:
    return _signed(100 * share, form)


def _signed(value: float, form: str) -> str:
    """With a real minus sign, and none before a value that is shown as zero."""
    return format(round(value, 1) + 0.0, form).replace("-", "−")


def _interval(sample: SampleSummary, form: str = ".1f") -> str:
    if len(sample.per_run) == 1:
        return "one run"  # says nothing about another run
    return " to ".join(_percent(end, form) for end in sample.ci95)


def _p_value(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.2g}"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
