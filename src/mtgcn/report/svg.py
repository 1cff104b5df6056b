"""SVG elements, axes and label placement, of which `charts.py` builds the charts of the pages.

Coordinates are those of the chart: x to the right, y downwards. Colours are names of `styles.py`, which pages define as
CSS variables, so charts follow light and dark mode. Matplotlib's SVG of the same charts is four times as large (40 kB
for a label-rate chart, 2 MB for a map of 20 000 nodes), and its dots cannot keep their size when the map zooms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal, TypeVar

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike

RING_WIDTH = 2.0  # of ringed dots
HOLE = 0.55  # of the size of a hollow dot


@dataclass(frozen=True, eq=False)
class Chart:
    """SVG elements as one chart, which templates show by its name."""

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
    corners: ArrayLike,
    colour: str,
    width: float = 1.6,
    dashes: tuple[float, ...] = (),
    opacity: float = 1.0,
) -> str:
    """A line through the corners, interrupted where a corner is NaN."""
    dashed = f' stroke-dasharray="{" ".join(f"{dash:g}" for dash in dashes)}"' if dashes else ""
    thickness = f' stroke-width="{width:g}"' if width != 1 else ""
    style = f'fill="none" stroke="var(--{colour})"{thickness}{dashed}{_opacity(opacity)}'
    return f'<path {style} d="{_path(corners)}"/>'


def segments(starts: np.ndarray, ends: np.ndarray, colour: str, width: float = 1.0) -> str:
    """Separate straight segments as one line with gaps."""
    return line(np.stack([starts, ends, np.full_like(starts, np.nan)], axis=1).reshape(-1, 2), colour, width)


def polygon(corners: ArrayLike, colour: str, *, opacity: float = 1.0, hollow: bool = False, hint: str = "") -> str:
    """A filled polygon, or an outline; the hint is a tooltip."""
    outline = f' stroke="var(--{colour})" stroke-width="1.4"' if hollow else ""
    style = f'fill="var(--{"paper" if hollow else colour})"{outline}{_opacity(opacity)}'
    return f'<path {style} d="{_path(corners)}Z"{f">{_tooltip(hint)}</path>" if hint else "/>"}'


def rectangle(x: float, y: float, width: float, height: float, colour: str, hint: str) -> str:
    corners = np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]])
    return polygon(corners, colour, hint=hint)


def dots(
    places: ArrayLike,
    colour: str,
    size: float,
    look: Literal["filled", "hollow", "ring", "ringed"] = "filled",
    opacity: float = 1.0,
    hint: str = "",
) -> str:
    """Discs of diameter `size`: filled, hollow, rings, or filled with a ring around.

    Discs are zero-length strokes with round caps, a tenth of the text of circles. Their size is multiplied by --zoom,
    so that zooming into the map separates dots instead of enlarging them; --zoom is 1 unless the page sets it.
    """
    points = np.asarray(places, dtype=float)
    if not len(points):
        return ""
    if look == "ring":
        circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size / 2:g}"/>' for x, y in points)
        style = f'fill="none" stroke="var(--{colour})" stroke-width="{RING_WIDTH:g}"'
        return f"<g {style}>{_tooltip(hint)}{circles}</g>"
    path = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in points)
    layers = {
        "filled": [(colour, size)],
        "hollow": [(colour, size), ("paper", HOLE * size)],
        "ringed": [("ink", size + 2 * RING_WIDTH), (colour, size)],
    }[look]
    strokes = "".join(
        f'<path stroke="var(--{layer})" style="stroke-width:calc({width:.2f}px*var(--zoom,1))" d="{path}"/>'
        for layer, width in layers
    )
    return f'<g class="dots {colour}" stroke-linecap="round"{_opacity(opacity)}>{_tooltip(hint)}{strokes}</g>'


def text(
    x: float,
    y: float,
    content: str,
    anchor: Literal["start", "middle", "end"] = "start",
    *,
    size: float | None = None,
    shift: tuple[float, float] | None = None,
    bold: bool = False,
    halo: bool = False,
) -> str:
    """A line of text. `shift` moves it by multiples of its size; a halo separates it from dots below. Text with a size
    of its own, as on the map, scales with --zoom and with --reading, so that it is legible on small screens."""
    classes = " ".join(name for name, wanted in (("strong", bold), ("halo", halo)) if wanted)
    attributes = "" if anchor == "start" else f' text-anchor="{anchor}"'
    attributes += f' class="{classes}"' if classes else ""
    attributes += f' style="font-size:calc({size:g}px*var(--zoom,1)*var(--reading,1))"' if size else ""
    attributes += f' dx="{shift[0]:g}em" dy="{shift[1]:g}em"' if shift else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(content)}</text>'


def series(marks: Iterable[str], hint: str = "") -> str:
    """The marks of one series; pages dim the other series while the pointer is on one."""
    return f'<g class="series">{_tooltip(hint)}{"".join(marks)}</g>'


def _path(corners: ArrayLike) -> str:
    steps, drawing = [], False
    for x, y in np.asarray(corners, dtype=float):
        known = math.isfinite(x) and math.isfinite(y)
        if known:
            steps.append(f"{'L' if drawing else 'M'}{x:.1f},{y:.1f}")
        drawing = known
    return "".join(steps)


def _opacity(opacity: float) -> str:
    return f' opacity="{opacity:g}"' if opacity < 1 else ""


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
