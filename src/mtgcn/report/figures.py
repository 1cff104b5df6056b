"""Charts as a list of marks, drawn as SVG for pages or by matplotlib for `plot()`.

Coordinates are those of the chart: x to the right, y downwards. Colours are names of `styles.py`; on a page they are
CSS variables, so charts follow light and dark mode. Matplotlib's own SVG of the same charts is four times as large
(40 kB for a label-rate chart, 2 MB for a map of 20 000 nodes), and its dots cannot keep their size when the map zooms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np
from markupsafe import Markup

from mtgcn.shapes import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEXT_SIZE = 13.0
RING_WIDTH = 2.0  # of ringed dots
HOLE = 0.55  # of the size of a hollow dot


@dataclass(frozen=True, eq=False)
class Line:
    """A line through the corners, interrupted where a corner is NaN."""

    corners: Float[np.ndarray, "corners 2"]
    colour: str
    width: float = 1.6
    dashes: tuple[float, ...] = ()
    opacity: float = 1.0


@dataclass(frozen=True, eq=False)
class Area:
    """A filled polygon; a hollow one has an outline only. Pages show the hint as a tooltip."""

    corners: Float[np.ndarray, "corners 2"]
    colour: str
    opacity: float = 1.0
    hollow: bool = False
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Dots:
    """Equal discs of diameter `size`: filled, hollow, rings, or filled with a ring around."""

    places: Float[np.ndarray, "dots 2"]
    colour: str
    size: float
    look: Literal["filled", "hollow", "ring", "ringed"] = "filled"
    opacity: float = 1.0
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Text:
    """A line of text; `shift` moves it by a multiple of its size."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    size: float = TEXT_SIZE
    shift: tuple[float, float] = (0.0, 0.0)
    bold: bool = False
    halo: bool = False  # in the colour of the paper, for text on top of dots


@dataclass(frozen=True, eq=False)
class Group:
    """Marks of one series; pages dim the other series while the pointer is on one."""

    marks: Sequence[Mark]
    hint: str = ""


Mark = Line | Area | Dots | Text | Group


@dataclass(frozen=True, eq=False)
class Chart:
    title: str
    width: float
    height: float
    marks: Sequence[Mark]
    min_scale: float = 0.8  # narrower pages scroll the chart

    def svg(self) -> Markup:
        """An SVG element that scales with the page."""
        return Markup(
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" role="img" aria-label="{escape(self.title)}" '
            f'style="max-width:{1.3 * self.width:.0f}px;min-width:{self.min_scale * self.width:.0f}px">'
            f"{''.join(map(_svg, self.marks))}</svg>"
        )


def rectangle(x: float, y: float, width: float, height: float, colour: str, hint: str = "") -> Area:
    corners = np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]])
    return Area(corners, colour, hint=hint)


def segments(starts: np.ndarray, ends: np.ndarray, colour: str, width: float = 1.0) -> Line:
    """Separate straight segments as one line with gaps."""
    corners = np.stack([starts, ends, np.full_like(starts, np.nan)], axis=1).reshape(-1, 2)
    return Line(corners, colour, width)


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


def y_axis(scale: Scale, start: float, end: float, ticks: Iterable[float]) -> list[Mark]:
    """Horizontal grid lines from x = start to end, with tick labels on the left."""
    places = [scale(tick) for tick in ticks]
    grid = segments(np.array([(start, y) for y in places]), np.array([(end, y) for y in places]), "rule")
    return [grid, *(Text(start - 8, scale(tick) + 4, f"{tick:g}", "end") for tick in ticks)]


def x_labels(
    scale: Callable[[float], float], y: float, ticks: Iterable[float], title: str, centre: float
) -> list[Mark]:
    """Tick labels below y, and the title of the axis."""
    labels: list[Mark] = [Text(scale(tick), y + 18, f"{tick:g}", "middle") for tick in ticks]
    return [*labels, Text(centre, y + 38, title, "middle")]


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


# SVG. Sizes on a map are multiplied by --zoom, so that zooming in separates dots instead of enlarging them, and its
# text also by --reading, so that it is legible on small screens. Both are 1 unless the page sets them.


def _svg(mark: Mark) -> str:
    if isinstance(mark, Group):
        return f'<g class="series">{_tooltip(mark.hint)}{"".join(map(_svg, mark.marks))}</g>'
    if isinstance(mark, Line):
        dashes = f' stroke-dasharray="{" ".join(f"{dash:g}" for dash in mark.dashes)}"' if mark.dashes else ""
        width = f' stroke-width="{mark.width:g}"' if mark.width != 1 else ""
        style = f'fill="none" stroke="var(--{mark.colour})"{width}{dashes}{_opacity(mark)}'
        return f'<path {style} d="{_path(mark.corners)}"/>'
    if isinstance(mark, Area):
        outline = f' stroke="var(--{mark.colour})" stroke-width="1.4"' if mark.hollow else ""
        style = f'fill="var(--{"paper" if mark.hollow else mark.colour})"{outline}{_opacity(mark)}'
        return f'<path {style} d="{_path(mark.corners)}Z"{_closed("path", mark.hint)}'
    return _dots(mark) if isinstance(mark, Dots) else _text(mark)


def _path(corners: np.ndarray) -> str:
    steps, drawing = [], False
    for x, y in corners:
        known = math.isfinite(x) and math.isfinite(y)
        if known:
            steps.append(f"{'L' if drawing else 'M'}{x:.1f},{y:.1f}")
        drawing = known
    return "".join(steps)


def _dots(mark: Dots) -> str:
    """Zero-length strokes with round caps: a tenth of the text of circles."""
    if not len(mark.places):
        return ""
    if mark.look == "ring":
        circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark.size / 2:g}"/>' for x, y in mark.places)
        style = f'fill="none" stroke="var(--{mark.colour})" stroke-width="{RING_WIDTH:g}"'
        return f"<g {style}>{_tooltip(mark.hint)}{circles}</g>"
    places = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in mark.places)
    layers = {
        "filled": [(mark.colour, mark.size)],
        "hollow": [(mark.colour, mark.size), ("paper", HOLE * mark.size)],
        "ringed": [("ink", mark.size + 2 * RING_WIDTH), (mark.colour, mark.size)],
    }[mark.look]
    strokes = "".join(
        f'<path stroke="var(--{colour})" style="stroke-width:calc({size:.2f}px*var(--zoom,1))" d="{places}"/>'
        for colour, size in layers
    )
    return f'<g class="dots {mark.colour}" stroke-linecap="round"{_opacity(mark)}>{_tooltip(mark.hint)}{strokes}</g>'


def _text(mark: Text) -> str:
    classes = " ".join(name for name, wanted in (("strong", mark.bold), ("halo", mark.halo)) if wanted)
    attributes = f' class="{classes}"' if classes else ""
    if mark.size != TEXT_SIZE:
        attributes += f' style="font-size:calc({mark.size:g}px*var(--zoom,1)*var(--reading,1))"'
    if mark.shift != (0, 0):
        attributes += f' dx="{mark.shift[0]:g}em" dy="{mark.shift[1]:g}em"'
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    return f'<text x="{mark.x:.1f}" y="{mark.y:.1f}"{anchor}{attributes}>{escape(mark.text)}</text>'


def _opacity(mark: Line | Area | Dots) -> str:
    return f' opacity="{mark.opacity:g}"' if mark.opacity < 1 else ""


def _tooltip(hint: str) -> str:
    return f"<title>{escape(hint)}</title>" if hint else ""


def _closed(tag: str, hint: str) -> str:
    return f">{_tooltip(hint)}</{tag}>" if hint else "/>"


# Matplotlib

UNITS_PER_INCH = 90.0  # text then has its usual size
POINTS = 72 / UNITS_PER_INCH  # per chart unit
GAP, HEADING = 30.0, 34.0  # between charts, and above each for its title


def figure(rows: Sequence[Sequence[Sequence[Chart]]], colours: Mapping[str, str]) -> Figure:
    """Charts on one figure: rows of columns of charts, all to the same scale."""
    from matplotlib.figure import Figure  # without pyplot, which would choose a backend

    placed: list[tuple[Chart, float, float]] = []
    width, y = 0.0, 0.0
    for row in rows:
        x, bottom = GAP, y
        for column in row:
            top = y + HEADING
            for chart in column:
                placed.append((chart, x, top))
                top += chart.height + HEADING
            bottom = max(bottom, top - HEADING)
            x += max(chart.width for chart in column) + GAP
        width, y = max(width, x), bottom
    height = y + GAP / 2
    made = Figure(figsize=(width / UNITS_PER_INCH, height / UNITS_PER_INCH), facecolor=colours["paper"])
    for chart, x, y in placed:
        axes = made.add_axes((x / width, 1 - (y + chart.height) / height, chart.width / width, chart.height / height))
        axes.set(xlim=(0, chart.width), ylim=(chart.height, 0))
        axes.set_title(
            chart.title, loc="left", fontsize=15 * POINTS, fontweight="bold", color=colours["ink"], parse_math=False
        )
        axes.set_axis_off()
        for order, mark in enumerate(chart.marks):
            _draw(axes, mark, colours, order)
    return made


def _draw(axes: Axes, mark: Mark, colours: Mapping[str, str], order: int) -> None:
    if isinstance(mark, Group):
        for part in mark.marks:
            _draw(axes, part, colours, order)
    elif isinstance(mark, Line):
        axes.plot(
            *mark.corners.T,
            color=colours[mark.colour],
            linewidth=mark.width * POINTS,
            linestyle=(0, mark.dashes) if mark.dashes else "solid",
            alpha=mark.opacity,
            zorder=order,
        )
    elif isinstance(mark, Area):
        face, edge = (colours["paper"], colours[mark.colour]) if mark.hollow else (colours[mark.colour], "none")
        axes.fill(*mark.corners.T, facecolor=face, edgecolor=edge, alpha=mark.opacity, zorder=order)
    elif isinstance(mark, Dots):
        _draw_dots(axes, mark, colours, order)
    else:
        _draw_text(axes, mark, colours, order)


def _draw_dots(axes: Axes, mark: Dots, colours: Mapping[str, str], order: int) -> None:
    colour = colours[mark.colour]
    face, edge, width = {
        "filled": (colour, "none", 0.0),
        "hollow": (colours["paper"], colour, (1 - HOLE) / 2 * mark.size),
        "ring": ("none", colour, RING_WIDTH),
        "ringed": (colour, colours["ink"], RING_WIDTH),
    }[mark.look]
    # Matplotlib's size is measured between the middles of the edge.
    diameter = mark.size + {"hollow": -width, "ringed": width}.get(mark.look, 0.0)
    axes.scatter(
        mark.places[:, 0],
        mark.places[:, 1],
        s=(diameter * POINTS) ** 2,
        facecolors=face,
        edgecolors=edge,
        linewidths=width * POINTS,
        alpha=mark.opacity,
        zorder=order,
        clip_on=False,
    )


def _draw_text(axes: Axes, mark: Text, colours: Mapping[str, str], order: int) -> None:
    from matplotlib.patheffects import withStroke

    axes.text(
        mark.x + mark.size * mark.shift[0],
        mark.y + mark.size * mark.shift[1],
        mark.text,
        ha={"start": "left", "middle": "center", "end": "right"}[mark.anchor],
        va="baseline",
        size=mark.size * POINTS,
        weight="bold" if mark.bold else "normal",
        color=colours["ink"],
        zorder=order,
        parse_math=False,  # dollar signs are part of names
        path_effects=[withStroke(linewidth=4 * POINTS, foreground=colours["paper"])] if mark.halo else None,
    )
