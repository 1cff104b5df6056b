"""The pictures of a fit by matplotlib: the same marks in the same colours as on the page, by day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.report import fit_charts
from mtgcn.report.colours import light_colours
from mtgcn.report.fit_view import fit_view
from mtgcn.report.marks import Bar, Dots, Line, Mark, Picture, Words
from mtgcn.report.marks_svg import HOLE, RING
from mtgcn.report.page_progress import page_progress
from mtgcn.uncertainty.peer_weights import FittedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNITS_PER_INCH = 90.0  # a picture's unit is a little less than a point, so that its text is of the usual size
POINTS = 72 / UNITS_PER_INCH
GAP, HEADING = 30.0, 34.0  # between pictures, and above each for its title
CURVES_IN_A_ROW = 3
Placed = tuple[Picture, float, float]  # a picture and the place of its upper left corner


def plot(model: FittedModel) -> Figure:
    """The map, how sure the model is, of what, and how it learnt: one figure, a panel for each picture."""
    with page_progress("drawing the figure") as progress:
        view = fit_view(model, progress=progress)
    names = () if model.peer_report_ is None else model.peer_report_.names
    placed, width, height = _arranged(
        fit_charts.map_chart(view.map, view.class_names),
        [
            fit_charts.confidence_chart(view.confidence, len(view.class_names)),
            fit_charts.class_chart(view.class_names, view.given_counts, view.predicted_counts),
        ],
        fit_charts.history_charts(view.history, names),
    )
    return drawn(placed, width, height, light_colours(len(view.class_names)))


def drawn(placed: list[Placed], width: float, height: float, colours: Mapping[str, str]) -> Figure:
    """Pictures on a sheet of this size, all to the same scale."""
    from matplotlib.figure import Figure  # without pyplot, so that no window and no backend is asked for

    figure = Figure(figsize=(width / UNITS_PER_INCH, height / UNITS_PER_INCH), facecolor=colours["paper"])
    for picture, x, y in placed:
        room = (x / width, 1 - (y + picture.height) / height, picture.width / width, picture.height / height)
        panel = figure.add_axes(room)
        panel.set(xlim=(0, picture.width), ylim=(picture.height, 0))
        panel.set_title(picture.title, loc="left", fontsize=15 * POINTS, fontweight="bold", color=colours["ink"])
        panel.set_axis_off()
        for depth, mark in enumerate(picture.marks):
            _draw(panel, mark, colours, depth)
    return figure


def _arranged(chart: Picture, beside: list[Picture], below: list[Picture]) -> tuple[list[Placed], float, float]:
    """The large picture to the left, others in a column beside it, small ones in rows below; and the size of it all."""
    placed: list[Placed] = [(chart, GAP, HEADING)]
    x, y = 2 * GAP + chart.width, HEADING
    for picture in beside:
        placed.append((picture, x, y))
        y += picture.height + HEADING
    width = x + max(picture.width for picture in beside) + GAP
    y = max(y, HEADING + chart.height + HEADING)
    for start in range(0, len(below), CURVES_IN_A_ROW):
        row = below[start : start + CURVES_IN_A_ROW]
        placed += [(picture, GAP + place * (picture.width + GAP), y) for place, picture in enumerate(row)]
        width = max(width, *(at + picture.width + GAP for picture, at, _ in placed[-len(row) :]))
        y += max(picture.height for picture in row) + HEADING
    return placed, width, y


def _draw(panel: Axes, mark: Mark, colours: Mapping[str, str], depth: int) -> None:
    if isinstance(mark, Bar):
        panel.bar(
            mark.x, mark.height, mark.width, mark.y, align="edge", color=colours[mark.colour], zorder=depth, linewidth=0
        )
    elif isinstance(mark, Line):
        dashes = (0, mark.dashes) if mark.dashes else "solid"
        panel.plot(
            *mark.corners.T,
            color=colours[mark.colour],
            linewidth=mark.width * POINTS,
            linestyle=dashes,
            zorder=depth,
            label=mark.hint or "_",
        )
    elif isinstance(mark, Dots):
        _draw_dots(panel, mark, colours, depth)
    else:
        _write(panel, mark, colours, depth)


def _draw_dots(panel: Axes, mark: Dots, colours: Mapping[str, str], depth: int) -> None:
    colour, paper, ink = colours[mark.colour], colours["paper"], colours["ink"]
    inside, edge, width = {
        "filled": (colour, "none", 0.0),
        "hollow": (paper, colour, (1 - HOLE) / 2 * mark.size),
        "ring": ("none", colour, RING),
        "ringed": (colour, ink, RING),
    }[mark.look]
    # Matplotlib measures a dot from the middle of its edge to the middle of its edge.
    across = mark.size + {"hollow": -width, "ringed": width}.get(mark.look, 0.0)
    panel.scatter(
        mark.places[:, 0],
        mark.places[:, 1],
        s=(across * POINTS) ** 2,
        facecolors=inside,
        edgecolors=edge,
        linewidths=width * POINTS,
        alpha=mark.opacity,
        zorder=depth,
        clip_on=False,
    )


def _write(panel: Axes, mark: Words, colours: Mapping[str, str], depth: int) -> None:
    from matplotlib.patheffects import withStroke

    align = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
    x, y = np.array([mark.x, mark.y]) + mark.size * np.array(mark.shift)
    panel.text(
        x,
        y,
        mark.text,
        ha=align,
        va="baseline",
        size=mark.size * POINTS,
        weight="bold" if mark.bold else "normal",
        color=colours[mark.colour],
        zorder=depth,
        parse_math=False,  # what stands between dollar signs is part of a name
        path_effects=[withStroke(linewidth=4 * POINTS, foreground=colours["paper"])] if mark.halo else None,
    )
