"""Pictures of measured tables as SVG, to stand inside a page whose style sheet gives them their colours.

A method has the same colour, marker and dash in every picture, and its name stands at the end of its line, so that
nothing is told by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from mtgcn.experiments.statistics import PairedTest, RankComparison
from mtgcn.report.styles import COLOURS, DASHES, PAPER_STYLES, Styles
from mtgcn.report.svg import horizontal_grid, picture, text


@dataclass(frozen=True)
class Point:
    """One cell of a line, in per cent."""

    labels_per_class: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """One method at several label rates."""

    method: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Estimate:
    """A difference with its interval, in per cent; it is drawn filled if it counts as one."""

    difference: float
    low: float
    high: float
    significant: bool


def label_rate_chart(series: Sequence[Series], *, title: str, styles: Styles = PAPER_STYLES) -> str:
    """Lines over labels per class, with intervals; methods stand side by side at each rate, so none hides another."""
    right = max(118, 10 * max(len(styles.shown_name(one.method)) for one in series) - 12)  # room for the longest name
    width, height, left, top, bottom = 422 + right, 420, 34, 14, 50
    rates = sorted({point.labels_per_class for one in series for point in one.points})
    low, high = padded([value for one in series for point in one.points for value in (point.low, point.high)])
    ticks = round_numbers(low, high)
    room = (width - right - left) / len(rates)  # rates stand evenly, since 18 and 20 would be one on any true scale
    places = {rate: left + (place + 0.5) * room for place, rate in enumerate(rates)}
    step = min(7.0, 0.75 * room / len(series))

    def vertical(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - bottom - top)

    parts = [horizontal_grid(ticks, vertical, left, width - right)]
    parts += [text(places[rate], height - bottom + 20, str(rate), "middle") for rate in rates]
    parts.append(text((left + width - right) / 2, height - 10, "labels per class", "middle"))
    ends = spaced_out([vertical(one.points[-1].mean) for one in series], gap=16, low=top + 6, high=height - bottom)
    drawn = []
    for order, (one, end) in enumerate(zip(series, ends, strict=True)):
        shift = (order - (len(series) - 1) / 2) * step
        dots = [(places[point.labels_per_class] + shift, point) for point in one.points]
        corners = "L".join(f"{x:.1f},{vertical(point.mean):.1f}" for x, point in dots)
        body = f'<path class="line" d="M{corners}"{styles.dash(one.method)}/>'
        for x, point in dots:
            body += f'<path class="whisker" d="M{x:.1f},{vertical(point.low):.1f}V{vertical(point.high):.1f}"/>'
            hint = f"{styles.shown_name(one.method)}, {point.labels_per_class} labels per class: {_ranged(point)}"
            body += styles.marker(one.method, x, vertical(point.mean), hint)
        last_x, last_y = dots[-1][0], vertical(dots[-1][1].mean)
        body += f'<path class="leader" d="M{last_x + 6:.1f},{last_y:.1f}L{width - right + 14},{end:.1f}"/>'
        body += styles.marker(one.method, width - right + 20, end)
        body += text(width - right + 30, end + 4, styles.shown_name(one.method), "start")
        drawn.append((one.method == styles.reference, f'<g class="series {styles.colour(one.method)}">{body}</g>'))
    parts += [group for _, group in sorted(drawn, key=lambda entry: entry[0])]  # the reference lies on top
    return picture(width, height, title, parts, smallest=0.66)  # a phone shows all of it


@dataclass(frozen=True)
class EpochSeries:
    """Something that changes with the epochs, and how well its mean is known; None where there is nothing."""

    name: str
    mean: Sequence[float | None]
    low: Sequence[float | None]
    high: Sequence[float | None]


MOST_BANDS = 3  # more intervals in one picture hide each other


def epoch_chart(epochs: Sequence[int], series: Sequence[EpochSeries], *, teaching_from: int, title: str) -> str:
    """Lines over epochs and, if they are few, their intervals; and the moment when teaching begins. What there is only
    since then is shown since then."""
    width, height, left, top, bottom = 460, 300, 38, 22, 44
    right = 30 + 7 * max(len(one.name) for one in series)
    with_bands = len(series) <= MOST_BANDS
    parts_of = [(one.low, one.high) if with_bands else (one.mean,) for one in series]
    low, high = padded([value for drawn in parts_of for part in drawn for value in part if value is not None])
    shown = [epoch for one in series for epoch, mean in zip(epochs, one.mean, strict=True) if mean is not None]
    first, last = (teaching_from if min(shown) > teaching_from else 0), max(epochs)

    def horizontal(epoch: float) -> float:
        return left + (epoch - first) / (last - first) * (width - left - right)

    def vertical(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - bottom - top)

    parts = [horizontal_grid(round_numbers(low, high, wanted=5), vertical, left, width - right)]
    parts += [
        text(horizontal(tick), height - bottom + 18, f"{tick:g}", "middle")
        for tick in round_numbers(first, last, wanted=4)
    ]
    parts.append(text((left + width - right) / 2, height - 8, "epoch", "middle"))
    if first < teaching_from < last:
        x = horizontal(teaching_from)
        parts.append(f'<path class="moment" d="M{x:.1f},{top - 6}V{height - bottom}"/>')
        parts.append(text(x, top - 9, "teaching begins", "middle"))
    places = [vertical(next(value for value in reversed(one.mean) if value is not None)) for one in series]
    ends = spaced_out(places, gap=16, low=top + 6, high=height - bottom)
    for order, (one, place, end) in enumerate(zip(series, places, ends, strict=True)):
        points = [
            (horizontal(epoch), vertical(mean), vertical(below), vertical(above))
            for epoch, mean, below, above in zip(epochs, one.mean, one.low, one.high, strict=True)
            if mean is not None and below is not None and above is not None
        ]
        line = "L".join(f"{x:.1f},{mean:.1f}" for x, mean, _, _ in points)
        around = [f"{x:.1f},{below:.1f}" for x, _, below, _ in points]
        around += [f"{x:.1f},{above:.1f}" for x, _, _, above in reversed(points)]
        dash = DASHES[order % len(DASHES)]
        body = f"<title>{escape(one.name)}</title>"
        body += f'<path class="band" d="M{"L".join(around)}Z"/>' if with_bands else ""
        body += f'<path class="line" d="M{line}"' + (f' stroke-dasharray="{dash}"/>' if dash else "/>")
        body += f'<path class="leader" d="M{width - right + 1},{place:.1f}L{width - right + 18},{end:.1f}"/>'
        body += text(width - right + 22, end + 4, one.name, "start")
        parts.append(f'<g class="series c{order % COLOURS}">{body}</g>')
    return picture(width, height, title, parts, smallest=0.7)


def difference_chart(
    rows: Sequence[tuple[str, Sequence[Estimate | None]]],
    columns: Sequence[str],
    *,
    title: str,
    caption: str | None = None,
    styles: Styles = PAPER_STYLES,
) -> str:
    """For each cell a panel, for each row a difference with its interval; all panels share one scale."""
    caption = caption or f"points above or below {styles.shown_name(styles.reference)}"
    panel, gap, row_height, top = 150, 28, 24, 34
    name_width = 40 + 7 * max(len(styles.shown_name(name)) for name, _ in rows)
    width = max(name_width + len(columns) * (panel + gap), 7 * len(caption))
    height = top + len(rows) * row_height + 40
    estimates = [estimate for _, row in rows for estimate in row if estimate]
    low, high = padded([0.0, *(value for estimate in estimates for value in (estimate.low, estimate.high))])
    ticks = round_numbers(low, high, wanted=4)
    base = top + len(rows) * row_height

    def horizontal(column: int, value: float) -> float:
        start = name_width + column * (panel + gap)
        return start + (value - low) / (high - low) * panel

    parts = []
    for column, heading in enumerate(columns):
        parts.append(text(horizontal(column, low) + panel / 2, 16, heading, "middle", "strong"))
        for tick in ticks:
            x = horizontal(column, tick)
            parts.append(f'<path class="{"zero" if tick == 0 else "grid"}" d="M{x:.1f},{top - 8}V{base}"/>')
            parts.append(text(x, base + 16, f"{tick:+g}" if tick else "0", "middle"))
    parts.append(text(width / 2, height - 4, caption, "middle"))
    for index, (name, row) in enumerate(rows):
        y = top + (index + 0.5) * row_height
        parts.append(text(name_width - 14, y + 4, styles.shown_name(name), "end"))
        for column, estimate in enumerate(row):
            if estimate:
                first, x, last = (
                    horizontal(column, value) for value in (estimate.low, estimate.difference, estimate.high)
                )
                look = "" if estimate.significant else " hollow"
                hint = f"{styles.shown_name(name)}, {columns[column]}: {estimate.difference:+.1f}"
                parts.append(
                    f'<g class="estimate"><title>{escape(hint)}</title>'
                    f'<path class="whisker" d="M{first:.1f},{y}H{last:.1f}"/>'
                    f'<circle class="mark{look}" cx="{x:.1f}" cy="{y}" r="3.5"/></g>'
                )
    return picture(width, height, title, parts)


def rank_chart(ranks: RankComparison, *, title: str, styles: Styles = PAPER_STYLES) -> str:
    """Demšar's critical-difference picture: average ranks on a line, bars join methods that do not differ."""
    side = max(150, 52 + round(7.5 * max(len(styles.shown_name(method)) for method in ranks.methods)))
    width, left, right, axis, line_height = 420 + 2 * side, side, side, 62, 22
    count = len(ranks.methods)
    half = math.ceil(count / 2)
    bars = len(ranks.groups)
    names_from = axis + 26 + 9 * bars
    height = names_from + half * line_height + 8

    def horizontal(rank: float) -> float:
        return left + (rank - 1) / (count - 1) * (width - left - right)

    parts = [f'<path class="axis" d="M{horizontal(1):.1f},{axis}H{horizontal(count):.1f}"/>']
    for tick in range(1, count + 1):
        parts.append(f'<path class="axis" d="M{horizontal(tick):.1f},{axis}V{axis - 6}"/>')
        parts.append(text(horizontal(tick), axis - 11, str(tick), "middle"))
    end = min(horizontal(1 + ranks.critical_difference), float(width))
    parts.append(f'<path class="bar" d="M{horizontal(1):.1f},18H{end:.1f}"/>')
    parts.append(text(horizontal(1), 12, f"critical difference {ranks.critical_difference:.2f}", "start"))
    for place, (method, rank) in enumerate(zip(ranks.methods, ranks.average_ranks, strict=True)):
        on_left = place < half
        y = names_from + 8 + line_height * (place if on_left else count - 1 - place)
        x, edge = horizontal(rank), (left - 10 if on_left else width - right + 10)
        parts.append(f'<path class="elbow" d="M{x:.1f},{axis}V{y:.1f}H{edge}"/>')
        name = styles.shown_name(method)
        label = f"{name} {rank:.1f}" if on_left else f"{rank:.1f} {name}"
        style = "strong" if method == styles.reference else ""
        parts.append(text(edge + (-5 if on_left else 5), y + 4, label, "end" if on_left else "start", style))
    rank_of = dict(zip(ranks.methods, ranks.average_ranks, strict=True))
    for level, group in enumerate(ranks.groups):
        first, last = horizontal(rank_of[group[0]]), horizontal(rank_of[group[-1]])
        parts.append(f'<path class="bar" d="M{first - 4:.1f},{axis + 12 + 9 * level}H{last + 4:.1f}"/>')
    return picture(width, height, title, parts)


def padded(values: Sequence[float]) -> tuple[float, float]:
    """An axis that holds all values and a little more.

    >>> padded([10, 60, 30])
    (8.0, 62.0)
    >>> padded([3])
    (2.0, 4.0)
    """
    low, high = min(values), max(values)
    margin = 0.04 * (high - low) or 1.0
    return low - margin, high + margin


def round_numbers(low: float, high: float, wanted: int = 6) -> list[float]:
    """About so many round numbers, evenly spaced, within a range.

    >>> round_numbers(41.3, 68.2)
    [45, 50, 55, 60, 65]
    """
    rough = (high - low) / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= 0.99 * rough)
    return [round(number * step, 9) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def spaced_out(wanted: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in the same order, at least `gap` apart and, if that is possible, within limits.

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
    floor = low
    for index in order:
        places[index] = max(places[index], floor)
        floor = places[index] + gap
    return places


def estimate_of(test: PairedTest) -> Estimate:
    """A paired difference as it is drawn."""
    low, high = test.difference.ci95
    return Estimate(100 * test.difference.mean, 100 * low, 100 * high, test.is_significant)


def _ranged(point: Point) -> str:
    return f"{point.mean:.1f} ({point.low:.1f} to {point.high:.1f})"
