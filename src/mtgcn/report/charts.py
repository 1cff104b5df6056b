"""The figures of pages and notebooks, drawn by matplotlib, and their SVG for pages.

Figures use the light colours of the palette. Pages define these as CSS variables, so that their charts follow light and
dark mode. A method has the same colour, marker and line style in every chart. Sizes are in points; on pages, a point is
a pixel. Matplotlib is imported when the first figure is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from re import sub
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from xml.etree import ElementTree

import numpy as np
from markupsafe import Markup

from mtgcn.errors import printable
from mtgcn.experiments.statistics import PairedTest, RankComparison, SampleSummary
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Number = TypeVar("Number", int, np.ndarray)

_PALETTE = {  # name: (light, dark)
    "paper": ("#fdfdfb", "#16181c"),
    "panel": ("#f4f4f0", "#1f2228"),
    "ink": ("#1d1f23", "#e8e8e4"),
    "soft": ("#5c6068", "#a4a8b0"),
    "rule": ("#d9d9d2", "#3a3e46"),
    "accent": ("#9b2c1f", "#ff9a85"),
    "warning": ("#fff3d6", "#3a2f14"),
    "warning-ink": ("#6a4a00", "#f3d891"),
    "reference": ("#111111", "#ffffff"),
    "c0": ("#0067a8", "#5ab4f0"),
    "c1": ("#c24e00", "#ff8f52"),
    "c2": ("#00805c", "#35c99c"),
    "c3": ("#a8407f", "#e79bc9"),
    "c4": ("#8a6a00", "#e2bc52"),
    "c5": ("#2f8fc9", "#9ad6f7"),
    "c6": ("#6a6a6a", "#b4b4b4"),
}
LIGHT, DARK = ({name: pair[side] for name, pair in _PALETTE.items()} for side in (0, 1))
# (light, dark) of each class. Any two differ by at least 10 (CIE76), also with red-green colour blindness.
_CLASS_COLOURS = (
    *(("#1f77b4", "#7bb2f0"), ("#db7902", "#f79c3b"), ("#218c5c", "#53cb95"), ("#b1093d", "#e2586f")),
    *(("#7756cb", "#9c87f2"), ("#28a0af", "#64e5f9"), ("#88571e", "#ce9768"), ("#ce619b", "#b6669c")),
    *(("#8e9441", "#d2d867"), ("#415472", "#9faacc")),
)
# Classes beyond the palette repeat its colours in other shapes: their swatches are clipped to these polygons.
CLASS_SHAPES = (
    "none",  # a disc
    "polygon(13% 13%,87% 13%,87% 87%,13% 87%)",
    "polygon(50% 0,97% 82%,3% 82%)",
    "polygon(50% 0,100% 50%,50% 100%,0 50%)",
    "polygon(35% 0,65% 0,65% 35%,100% 35%,100% 65%,65% 65%,65% 100%,35% 100%,35% 65%,0 65%,0 35%,35% 35%)",
)
SERIES_COLOURS = 7  # c0 to c6; the reference has its own
LINE_STYLES = ("-", (0, (7, 3)), (0, (2, 3)), (0, (9, 3, 2, 3)), (0, (4, 2)))
MARKERS = "s^Dv*<p"  # each is used twice, filled and hollow; the reference has a disc
MAX_BANDS = 3  # intervals in one chart; more would hide each other
MAX_POINTS = 200  # points of a curve
FONT = "DejaVu Sans"  # included in matplotlib; pages replace it
STYLE: Any = {
    "font.family": FONT,
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.axisbelow": True,
    "axes.edgecolor": LIGHT["rule"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": LIGHT["rule"],
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 8,
    "lines.scale_dashes": False,
    "text.color": LIGHT["ink"],
    "text.parse_math": False,
    "xtick.color": LIGHT["rule"],
    "xtick.labelcolor": LIGHT["ink"],
    "xtick.major.pad": 6,
    "xtick.major.size": 0,
    "ytick.color": LIGHT["rule"],
    "ytick.labelcolor": LIGHT["ink"],
    "ytick.major.pad": 6,
    "ytick.major.size": 0,
    "svg.fonttype": "none",
    "svg.hashsalt": "mtgcn",
}
_DRAWING = RLock()
_SVG = "{http://www.w3.org/2000/svg}"


def class_colours(count: int) -> tuple[list[str], list[str]]:
    """One light and one dark colour per class, repeated beyond the palette."""
    light, dark = zip(*(_CLASS_COLOURS[number % len(_CLASS_COLOURS)] for number in range(count)), strict=True)
    return [*light], [*dark]


def class_shape(number: Number) -> Number:
    """The shape number of a class: disc, square, triangle, diamond or cross."""
    return number // len(_CLASS_COLOURS) % len(CLASS_SHAPES)


@dataclass(frozen=True)
class Styles:
    """Line styles of the methods of a page. Colours and markers follow their order; the reference has its own style."""

    titles: Sequence[str]
    reference: str

    def look(self, title: str) -> dict[str, Any]:
        """Colour, line style and marker, as keywords of matplotlib."""
        if title == self.reference:
            return {"color": LIGHT["reference"], "marker": "o"}
        others = [one for one in self.titles if one != self.reference]
        number = others.index(title) if title in others else len(others) + sum(map(ord, title))
        colour, hollow = LIGHT[f"c{number % SERIES_COLOURS}"], number // len(MARKERS) % 2
        return {
            "color": colour,
            "linestyle": LINE_STYLES[number % len(LINE_STYLES)],
            "marker": MARKERS[number % len(MARKERS)],
            "markerfacecolor": LIGHT["paper"] if hollow else colour,
        }


@contextmanager
def chart_style() -> Iterator[None]:
    """The style of all figures, whatever the style of the user; also a decorator. Matplotlib has one style for all
    threads, so that one figure is drawn at a time."""
    from matplotlib.style import context

    with _DRAWING, context(["default", STYLE]):
        yield


def new_figure(width: float, height: float, title: str = "") -> Figure:
    """An empty figure that notebooks can show, made without pyplot, which would choose a backend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    figure.set_label(title)
    setattr(figure, "_repr_png_", partial(_png, figure))  # noqa: B010
    return figure


@chart_style()
def _png(figure: Figure) -> bytes:
    content = BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()


@chart_style()
def svg(figure: Figure) -> Markup:
    """The figure as an SVG element that scales with the page and is labelled with the title of the figure."""
    content = BytesIO()
    no_metadata = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(content, format="svg", metadata=no_metadata, transparent=True)
    root = ElementTree.fromstring(content.getvalue())
    markers = {one.get("id"): one.get("d", "") for one in root.iter(f"{_SVG}path")}
    for one in root.iter():
        for definitions in one.findall(f"{_SVG}defs"):
            one.remove(definitions)
        one.tag, one.text, one.tail = one.tag.removeprefix(_SVG), (one.text or "").strip(), None
        name = one.attrib.pop("id", "")  # ids are not unique on a page
        one.attrib.pop("clip-path", None)
        if name.startswith("series"):
            one.set("class", f"series {name}")
        if one.tag == "use":
            one.tag, marker = "path", one.attrib.pop("{http://www.w3.org/1999/xlink}href").lstrip("#")
            one.set("d", markers[marker])
            one.set("transform", f"translate({one.attrib.pop('x')} {one.attrib.pop('y')})")
        for key in {"d", "style", "transform", "x", "y"} & set(one.attrib):
            value = sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.1f}", " ".join(one.attrib[key].split()))
            for colour, light in LIGHT.items():
                value = value.replace(light, f"var(--{colour})")
            one.set(key, value.replace(f"'{FONT}'", "inherit"))
    width, height = 72 * figure.get_size_inches()
    root.attrib = {"viewBox": f"0 0 {width:.0f} {height:.0f}", "role": "img", "aria-label": str(figure.get_label())}
    root.set("style", f"max-width:{1.3 * width:.0f}px;min-width:{0.7 * width:.0f}px")  # scrolls on narrower pages
    return Markup(f'<div class="chart" tabindex="0">{ElementTree.tostring(root, encoding="unicode")}</div>')


def add_legend(axes: Axes, lines: Mapping[str, Line2D], bold: str = "") -> None:
    """Add a legend next to the axes, sorted by last value, highest first. The elements of a series share an id; while
    the pointer is on one, pages dim the other series."""

    def end(name: str) -> float:
        values = np.asarray(lines[name].get_ydata(), dtype=float)
        return -float(values[np.isfinite(values)][-1])

    names = sorted(lines, key=end)
    numbers = map(str, range(len(names)))  # not names, since matplotlib hides names that begin with an underscore
    places: Any = {"loc": "center left", "bbox_to_anchor": (1, 0.5), "handlelength": 2.4}
    legend = axes.legend([lines[name] for name in names], numbers, **places)
    for name, handle, text in zip(names, legend.legend_handles, legend.get_texts(), strict=True):
        text.set(text=printable(name), fontweight="bold" if name == bold else "normal", gid=lines[name].get_gid())
        handle.set_gid(lines[name].get_gid())  # type: ignore[union-attr]


@chart_style()
def label_rate_chart(samples: Mapping[str, Mapping[int, SampleSummary]], title: str, styles: Styles) -> Figure:
    """Mean and interval of each method over labels per class. Methods are drawn side by side at each rate."""
    figure = new_figure(600, 420, title)
    axes = figure.subplots()
    rates = sorted({rate for of_method in samples.values() for rate in of_method})
    step, lines = min(0.07, 0.75 / len(samples)), {}
    for number, (method, of_method) in enumerate(samples.items()):
        shown = sorted(of_method)
        # Even spacing: on a true scale 18 and 20 labels would coincide.
        places = [rates.index(rate) + (number - (len(samples) - 1) / 2) * step for rate in shown]
        means, lows, highs = 100 * np.array([(of_method[rate].mean, *of_method[rate].ci95) for rate in shown]).T
        is_reference = method == styles.reference
        look = styles.look(method) | {"gid": f"series-{number}", "zorder": 4 if is_reference else 3}
        [lines[method]] = axes.plot(places, means, **look, linewidth=3 if is_reference else 1.6)
        axes.vlines(places, lows, highs, colors=[look["color"]], linewidth=1.3, gid=look["gid"])
    axes.set_xticks(range(len(rates)), map(str, rates))
    axes.set(xlabel="labels per class", xlim=(-0.5, len(rates) - 0.5))
    axes.grid(axis="y")
    add_legend(axes, lines, styles.reference)
    return figure


@chart_style()
def curve_chart(
    epochs: Sequence[int] | np.ndarray,
    curves: Mapping[str, Float[np.ndarray, "parts epochs"]],
    title: str,
    teaching_from: int = 0,
    axes: Axes | None = None,
) -> Figure:
    """Lines over epochs: the mean of each curve and, if `parts` is 3 and the curves are few, its interval. Curves
    without values are left out. A chart whose values all begin after `teaching_from` begins there."""
    axes = axes or new_figure(430, 270, title).subplots()
    curves = {name: values for name, values in curves.items() if np.isfinite(values[0]).any()}
    steps = np.unique(np.linspace(0, len(epochs) - 1, min(len(epochs), MAX_POINTS)).astype(int))
    shown = np.asarray(epochs)[steps]
    lines = {}
    for number, (name, (mean, *band)) in enumerate(curves.items()):
        look = line_look(number) | {"gid": f"series-{number}"}
        [lines[name]] = axes.plot(shown, mean[steps], **look)
        if band and len(curves) <= MAX_BANDS:
            low, high = (ends[steps] for ends in band)
            axes.fill_between(shown, low, high, color=look["color"], alpha=0.16, linewidth=0, gid=look["gid"])
    begin = min(np.asarray(epochs)[np.isfinite(values[0])].min() for values in curves.values())
    first = teaching_from if begin > teaching_from else 0
    axes.set(xlabel="epoch", xlim=(first, max(int(np.max(epochs)), first + 1)))
    if first < teaching_from < axes.get_xlim()[1]:
        axes.axvline(teaching_from, color=LIGHT["soft"], linestyle=":", linewidth=1)
        axes.annotate(
            "teaching begins", (teaching_from, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom"
        )
    axes.grid(axis="y")
    add_legend(axes, lines)
    return axes.figure  # type: ignore[return-value]  # not a part of one


def line_look(number: int) -> dict[str, Any]:
    """Colour and line style of a series without markers."""
    return {"color": LIGHT[f"c{number % SERIES_COLOURS}"], "linestyle": LINE_STYLES[number % len(LINE_STYLES)]}


@chart_style()
def difference_chart(
    rows: Sequence[tuple[str, Sequence[PairedTest | None]]], columns: Sequence[str], title: str, caption: str
) -> Figure:
    """One panel per column, with a difference and its interval per row; significant differences are filled."""
    names = [printable(name) for name, _ in rows]  # SVG does not allow control characters
    figure = new_figure(60 + 7 * max(map(len, names)) + 178 * len(columns), 74 + 24 * len(rows), title)
    panels = figure.subplots(1, len(columns), sharex=True, sharey=True, squeeze=False)[0]
    for place, (axes, heading) in enumerate(zip(panels, columns, strict=True)):
        axes.axvline(0, color=LIGHT["soft"], linewidth=1)
        for number, (_, tests) in enumerate(rows):
            if test := tests[place]:
                mean, ends = 100 * test.difference.mean, 100 * np.array(test.difference.ci95)
                face = LIGHT["c0" if test.is_significant else "paper"]
                axes.plot(ends, [number, number], color=LIGHT["c0"], linewidth=1.3)
                axes.plot([mean], [number], "o", color=LIGHT["c0"], markerfacecolor=face)
        axes.set_title(heading, fontweight="bold")
        axes.set_yticks(range(len(names)), names)
        axes.grid(axis="x")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        axes.locator_params(axis="x", nbins=4)
    figure.get_layout_engine().set(w_pad=0.15)  # type: ignore[union-attr, call-arg]
    panels[0].set_ylim(len(names) - 0.5, -0.5)  # first row on top, as in the table
    figure.supxlabel(printable(caption), fontsize=13)
    return figure


@chart_style()
def rank_chart(ranks: RankComparison, styles: Styles) -> Figure:
    """Average ranks, best on top, with the critical difference and bars that join methods that do not differ."""
    count = len(ranks.methods)
    figure = new_figure(640, 90 + 22 * count, "Average ranks over all cells")
    axes = figure.subplots()
    beside: Any = {"xytext": (8, 0), "textcoords": "offset points", "va": "center"}
    for place, (method, rank) in enumerate(zip(ranks.methods, ranks.average_ranks, strict=True)):
        colour = LIGHT["reference" if method == styles.reference else "c0"]
        axes.plot([rank], [place], "o", color=colour)
        axes.annotate(f"{rank:.1f}", (rank, place), **beside)
    for level, group in enumerate(ranks.groups, start=1):
        ends = [ranks.methods.index(group[0]) - 0.2, ranks.methods.index(group[-1]) + 0.2]
        axes.plot([count + 0.6 + 0.02 * count * level] * 2, ends, color=LIGHT["ink"], linewidth=4)
    critical = ranks.critical_difference
    axes.plot([1, 1 + critical], [-1, -1], color=LIGHT["ink"], linewidth=4)
    axes.annotate(f"critical difference {critical:.2f}", (1 + critical, -1), **beside)
    axes.set_yticks(range(count), map(printable, ranks.methods))
    for label, method in zip(axes.get_yticklabels(), ranks.methods, strict=True):
        label.set_fontweight("bold" if method == styles.reference else "normal")
    axes.set(xlabel="average rank", xlim=(0.5, None), ylim=(count - 0.5, -1.7))
    axes.grid(axis="x")
    axes.locator_params(axis="x", integer=True)
    return figure
