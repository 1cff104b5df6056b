"""The charts of the pages as SVG: elements, axes and label placement, and the charts of measured tables.

Coordinates are those of the chart: x to the right, y downwards. Colours are names of `pages.py`, which pages define as
CSS variables, so charts follow light and dark mode. A method has the same colour, marker and dashes in every chart, and
its name is beside its line, so that no chart depends on colour alone. Matplotlib's SVG of a label-rate chart is four
times as large (40 kB).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

from mtgcn.experiments.statistics import PairedTest, RankComparison, SampleSummary
from mtgcn.report.pages import DASHES, DISC, PAPER_STYLES, SERIES_COLOURS, Styles
from mtgcn.report.tables import SIGNED, percent
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINE_GAP = 16.0  # between the names at the ends of lines
MAX_BANDS = 3  # more intervals in one chart hide each other
MAX_RANKS = 20  # numbers on the axis of ranks
MAX_POINTS = 200  # of a curve


@dataclass(frozen=True, eq=False)
class Chart:
    """SVG elements as one chart, which templates render by `{{ chart }}`."""

    title: str
    width: float
    height: float
    marks: Sequence[str]
    min_scale: float = 0.8  # narrower pages scroll the chart

    def __html__(self) -> Markup:
        return Markup(f'<div class="chart" tabindex="0">{self.svg()}</div>')

    def svg(self) -> Markup:
        """An SVG that scales with the page."""
        return Markup(
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(self.title)}" '
            f'style="max-width:{1.3 * self.width:.0f}px;min-width:{self.min_scale * self.width:.0f}px">'
            f"{''.join(self.marks)}</svg>"
        )


def line(
    corners: ArrayLike, colour: str, width: float = 1.6, dashes: tuple[float, ...] = (), opacity: float = 1.0
) -> str:
    """A line through the corners, interrupted where a corner is NaN."""
    dashed = f' stroke-dasharray="{" ".join(f"{dash:g}" for dash in dashes)}"' if dashes else ""
    style = f'fill="none" stroke="var(--{colour})" stroke-width="{width:g}" opacity="{opacity:g}"{dashed}'
    return f'<path {style} d="{_path(corners)}"/>'


def segments(starts: np.ndarray, ends: np.ndarray, colour: str, width: float = 1.0) -> str:
    """Separate straight segments as one line with gaps."""
    return line(np.stack([starts, ends, np.full_like(starts, np.nan)], axis=1).reshape(-1, 2), colour, width)


def polygon(corners: ArrayLike, colour: str, *, opacity: float = 1.0, hollow: bool = False, hint: str = "") -> str:
    """A filled polygon, or an outline; the hint is a tooltip."""
    outline = f' stroke="var(--{colour})" stroke-width="1.4"' if hollow else ""
    style = f'fill="var(--{"paper" if hollow else colour})"{outline} opacity="{opacity:g}"'
    return f'<path {style} d="{_path(corners)}Z"{f">{_tooltip(hint)}</path>" if hint else "/>"}'


def rectangle(x: float, y: float, width: float, height: float, colour: str, hint: str) -> str:
    corners = np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]])
    return polygon(corners, colour, hint=hint)


def text(
    x: float,
    y: float,
    content: str,
    anchor: Literal["start", "middle", "end"] = "start",
    bold: bool = False,
) -> str:
    attributes = "" if anchor == "start" else f' text-anchor="{anchor}"'
    attributes += ' class="strong"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(content)}</text>'


def series(marks: Iterable[str], hint: str = "") -> str:
    """The marks of one series; pages dim the other series while the pointer is on one."""
    return f'<g class="series">{_tooltip(hint)}{"".join(marks)}</g>'


def _path(corners: ArrayLike) -> str:
    steps, letter = [], "M"
    for x, y in np.asarray(corners, dtype=float):
        if known := math.isfinite(x + y):
            steps.append(f"{letter}{x:.1f},{y:.1f}")
        letter = "L" if known else "M"
    return "".join(steps)


def new_figure(width: float, height: float) -> Figure:
    """An empty matplotlib figure that notebooks show; without pyplot, which would choose a backend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010
    return figure


def _png(figure: Figure) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


def plain_label(label: str) -> str:
    """The text for matplotlib, without mathematics."""
    return label.replace("$", r"\$")


def _tooltip(hint: str) -> str:
    return f"<title>{escape(hint)}</title>" if hint else ""


Values = TypeVar("Values", float, np.ndarray)


@dataclass(frozen=True)
class Scale:
    """A linear axis: data from `low` to `high` lie between the coordinates `start` and `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: Values) -> Values:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, count: int = 6) -> list[float]:
        return round_numbers(self.low, self.high, count)


def y_axis(y: Scale, start: float, end: float, ticks: Sequence[float]) -> list[str]:
    """Horizontal grid lines from x = start to end, with tick labels on the left."""
    left, right = (np.array([(x, y(tick)) for tick in ticks]) for x in (start, end))
    return [segments(left, right, "rule"), *(text(start - 8, y(tick) + 4, f"{tick:g}", "end") for tick in ticks)]


def x_axis(x: Scale, y: float, labels: Mapping[float, str] | Sequence[float], title: str) -> list[str]:
    """Tick labels below y, and the title of the axis."""
    named = labels if isinstance(labels, Mapping) else {tick: f"{tick:g}" for tick in labels}
    written = [text(x(tick), y + 18, label, "middle") for tick, label in named.items()]
    return [*written, text((x.start + x.end) / 2, y + 38, title, "middle")]


def padded(values: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The range of the values with a margin.

    >>> padded([10, 60, 30])
    (8.0, 62.0)
    >>> padded([3])
    (2.0, 4.0)
    """
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def round_numbers(low: float, high: float, count: int = 6) -> list[float]:
    """About `count` evenly spaced round numbers within a range.

    >>> round_numbers(41.3, 68.2)
    [45, 50, 55, 60, 65]
    """
    rough = (high - low) / count
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.99 * rough)
    return [round(number * step, 9) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def spaced_out(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Positions near the wanted ones, in the same order, at least `gap` apart and, if possible, within the limits.

    >>> spaced_out([10, 11, 50], gap=4, low=0, high=100)
    [10, 14, 50]
    >>> spaced_out([97, 99], gap=4, low=0, high=100)
    [96, 100]
    """
    order = sorted(range(len(wanted)), key=lambda index: wanted[index])
    places = list(wanted)
    for before, after in pairwise(order):
        places[after] = max(places[after], places[before] + gap)
    limit = high
    for index in reversed(order):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    limit = low
    for index in order:
        places[index] = max(places[index], limit)
        limit = places[index] + gap
    return places


def label_rate_chart(
    samples: Mapping[str, Mapping[int, SampleSummary]], title: str, styles: Styles = PAPER_STYLES
) -> Chart:
    """Mean and interval of each method over labels per class; methods are shifted side by side at each rate."""
    right = max(118, 10 * max(len(styles.name(method)) for method in samples) - 12)
    width, height, left, top, bottom = 422 + right, 420, 34, 14, 50
    rates = sorted({rate for of_method in samples.values() for rate in of_method})
    limits = [100 * end for of_method in samples.values() for sample in of_method.values() for end in sample.ci95]
    y = Scale(*padded(limits), height - bottom, top)
    x = Scale(-0.5, len(rates) - 0.5, left, width - right)  # even spacing: on a true scale 18 and 20 would coincide
    step = min(7.0, 0.75 * (x(1.0) - x(0.0)) / len(samples))
    marks = y_axis(y, left, width - right, y.ticks())
    marks += x_axis(x, height - bottom, dict(enumerate(map(str, rates))), "labels per class")
    last = [y(100 * of_method[max(of_method)].mean) for of_method in samples.values()]
    name_heights = spaced_out(last, gap=LINE_GAP, low=top + 6, high=height - bottom)
    groups = []
    for order, ((method, of_method), name_y) in enumerate(zip(samples.items(), name_heights, strict=True)):
        name, is_reference = styles.name(method), method == styles.reference
        colour, dashes, outline, hollow = styles.look(method)
        shown = sorted(of_method.items())
        xs = np.array([x(rates.index(rate)) for rate, _ in shown]) + (order - (len(samples) - 1) / 2) * step
        means, lows, highs = np.array([[y(100 * one) for one in (sample.mean, *sample.ci95)] for _, sample in shown]).T
        places, end = np.stack([xs, means], 1), np.array([width - right + 20, name_y])
        parts = [
            line(places, colour, 3.0 if is_reference else 1.6, dashes),
            segments(np.stack([xs, lows], 1), np.stack([xs, highs], 1), colour, 1.3),
            line(np.array([places[-1] + [6, 0], end - [6, 0]]), colour, 0.7, opacity=0.5),
        ]
        for place, (rate, sample) in zip(places, shown, strict=True):
            mean, low, high = map(percent, (sample.mean, *sample.ci95))
            hint = f"{name}, {rate} labels per class: {mean} ({low} to {high})"
            parts.append(polygon(outline + place, colour, hollow=hollow, hint=hint))
        parts.append(polygon(outline + end, colour, hollow=hollow))
        parts.append(text(end[0] + 10, name_y + 4, name, bold=is_reference))
        groups.append((is_reference, series(parts)))
    marks += [group for _, group in sorted(groups, key=lambda group: group[0])]  # the reference on top
    return Chart(title, width, height, marks, min_scale=0.66)


def curve_chart(
    epochs: Sequence[int] | np.ndarray,
    curves: Mapping[str, Float[np.ndarray, "parts epochs"]],
    title: str,
    teaching_from: int = 0,
) -> Chart:
    """Lines over epochs: of each curve the mean and, where `parts` is 3, its interval if the curves are few. Curves
    without a value are left out; a chart whose values all begin after `teaching_from` begins there."""
    width, height, left, top, bottom = 430, 270, 46, 22, 44
    curves = {name: values for name, values in curves.items() if np.isfinite(values[0]).any()}
    right = 30 + 7 * max(map(len, curves))
    steps = np.unique(np.linspace(0, len(epochs) - 1, min(len(epochs), MAX_POINTS)).astype(int))
    with_bands = len(curves) <= MAX_BANDS
    shown = np.concatenate([values if with_bands else values[:1] for values in curves.values()])
    y = Scale(*padded(shown), height - bottom, top)
    begin = min(np.asarray(epochs)[np.isfinite(values[0])].min() for values in curves.values())
    first = teaching_from if begin > teaching_from else 0
    x = Scale(first, max(int(np.max(epochs)), first + 1), left, width - right)
    marks = y_axis(y, left, width - right, y.ticks(5)) + x_axis(x, height - bottom, x.ticks(4), "epoch")
    if first < teaching_from < x.high:
        moment = x(float(teaching_from))
        marks.append(line([(moment, top - 6), (moment, height - bottom)], "soft", 1.0, (3, 3)))
        marks.append(text(moment, top - 9, "teaching begins", "middle"))
    ends = [y(float(values[0][np.isfinite(values[0])][-1])) for values in curves.values()]
    name_heights = spaced_out(ends, gap=LINE_GAP, low=top + 6, high=height - bottom)
    xs = x(np.asarray(epochs)[steps].astype(float))
    for order, ((name, values), end, name_y) in enumerate(zip(curves.items(), ends, name_heights, strict=True)):
        colour = f"c{order % SERIES_COLOURS}"
        mean, *ends_of_band = (np.stack([xs, y(part[steps])], 1) for part in values)
        parts = []
        if with_bands and ends_of_band:
            known = np.isfinite(values[:, steps]).all(axis=0)
            low, high = (part[known] for part in ends_of_band)
            parts.append(polygon(np.concatenate([low, high[::-1]]), colour, opacity=0.16))
        parts += [
            line(mean, colour, dashes=DASHES[order % len(DASHES)]),
            line([(width - right + 1, end), (width - right + 18, name_y)], colour, 0.7, opacity=0.5),
            text(width - right + 22, name_y + 4, name),
        ]
        marks.append(series(parts, name))
    return Chart(title, width, height, marks, min_scale=0.7)


def difference_chart(
    rows: Sequence[tuple[str, Sequence[PairedTest | None]]],
    columns: Sequence[str],
    title: str,
    *,
    caption: str = "",
    styles: Styles = PAPER_STYLES,
) -> Chart:
    """One panel per column; per row a difference with its interval, filled if it is significant."""
    caption = caption or f"points above or below {styles.name(styles.reference)}"
    panel, gap, row_height, top = 150, 28, 24, 34
    names_width = 40 + 7 * max(len(styles.name(name)) for name, _ in rows)
    width = max(names_width + len(columns) * (panel + gap), 7 * len(caption))
    base = top + len(rows) * row_height
    limits = [100 * end for _, row in rows for test in row if test for end in test.difference.ci95]
    starts = [names_width + place * (panel + gap) for place in range(len(columns))]
    scales = [Scale(*padded([0.0, *limits]), start, start + panel) for start in starts]
    marks = [text(width / 2, base + 36, caption, "middle")]
    for x, heading in zip(scales, columns, strict=True):
        marks.append(text(x.start + panel / 2, 16, heading, "middle", bold=True))
        for tick in x.ticks(4):
            marks.append(line([(x(tick), top - 8), (x(tick), base)], "rule" if tick else "soft", 1.0))
            marks.append(text(x(tick), base + 16, f"{tick:+g}" if tick else "0", "middle"))
    for number, (name, row) in enumerate(rows):
        y = top + (number + 0.5) * row_height
        marks.append(text(names_width - 14, y + 4, styles.name(name), "end"))
        for x, heading, test in zip(scales, columns, row, strict=True):
            if test:
                mean, (low, high) = test.difference.mean, test.difference.ci95
                hint = f"{styles.name(name)}, {heading}: {percent(mean, SIGNED)}"
                marks.append(line([(x(100 * low), y), (x(100 * high), y)], "c0", 1.3))
                marks.append(
                    polygon(DISC + np.array([x(100 * mean), y]), "c0", hollow=not test.is_significant, hint=hint)
                )
    return Chart(title, width, base + 40, marks)


def rank_chart(ranks: RankComparison, styles: Styles = PAPER_STYLES) -> Chart:
    """Demšar's critical-difference diagram: average ranks, with bars that join methods that do not differ."""
    side = max(150, 52 + round(7.5 * max(len(styles.name(method)) for method in ranks.methods)))
    width, axis, row_height = 420 + 2 * side, 62, 22
    count, half = len(ranks.methods), math.ceil(len(ranks.methods) / 2)
    names_from = axis + 26 + 9 * len(ranks.groups)
    x = Scale(1, count, side, width - side)
    marks = [line([(x.start, axis), (x.end, axis)], "soft", 1.0)]
    for tick in range(1, count + 1, math.ceil(count / MAX_RANKS)):
        marks.append(line([(x(tick), axis), (x(tick), axis - 6)], "soft", 1.0))
        marks.append(text(x(tick), axis - 11, str(tick), "middle"))
    end = min(x(1 + ranks.critical_difference), float(width))
    marks.append(line([(x.start, 18), (end, 18)], "ink", 4))
    marks.append(text(x.start, 12, f"critical difference {ranks.critical_difference:.2f}"))
    rank_of = dict(zip(ranks.methods, ranks.average_ranks, strict=True))
    for place, (method, rank) in enumerate(rank_of.items()):
        on_left, name, bold = place < half, styles.name(method), method == styles.reference
        y = names_from + 8 + row_height * (place if on_left else count - 1 - place)
        edge = side - 10 if on_left else width - side + 10
        marks.append(line([(x(rank), axis), (x(rank), y), (edge, y)], "soft", 1.0))
        if on_left:
            marks.append(text(edge - 5, y + 4, f"{name} {rank:.1f}", "end", bold=bold))
        else:
            marks.append(text(edge + 5, y + 4, f"{rank:.1f} {name}", bold=bold))
    for level, group in enumerate(ranks.groups):
        y = axis + 12 + 9 * level
        marks.append(line([(x(rank_of[group[0]]) - 4, y), (x(rank_of[group[-1]]) + 4, y)], "ink", 4))
    return Chart("Average ranks over all cells", width, names_from + half * row_height + 8, marks)
