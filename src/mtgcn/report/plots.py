"""The matplotlib figures of `results.plot()` and `model.plot()`.

`Figure` is used without pyplot, which would choose a backend.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.experiments.compare import Comparison
from mtgcn.report.charts import MAX_CLASSES, MAX_NAMES_ON_MAP, curve_names, densest_first, shortened
from mtgcn.report.comparisons import cell_title
from mtgcn.report.fit_view import SURE, UNSURE, FitView, fit_view, histogram
from mtgcn.report.progress import page_progress
from mtgcn.report.styles import class_colours
from mtgcn.uncertainty.peer_weights import FittedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CURVES_PER_ROW = 3


def comparison_figure(comparison: Comparison) -> Figure:
    """The accuracy of every run as a dot, and for each method its mean with the 95 % interval."""
    from matplotlib.figure import Figure

    cells = comparison.cells
    figure = Figure(figsize=(7, 1.4 + 0.45 * len(cells)), layout="constrained")
    axes = figure.subplots()
    for place, cell in enumerate(cells):
        colour = "black" if cell.method == comparison.reference else f"C{place}"
        accuracy = 100 * np.asarray(cell.accuracy.per_run)
        heights = place + 0.3 * (np.arange(len(accuracy)) / max(len(accuracy) - 1, 1) - 0.5)  # equal runs differ
        axes.plot(accuracy, heights, ".", color=colour, alpha=0.35, markersize=5)
        axes.plot(100 * np.array(cell.accuracy.ci95), [place, place], color=colour, linewidth=2)
        axes.plot([100 * cell.accuracy.mean], [place], "o", color=colour, markersize=7)
    axes.set_yticks(range(len(cells)), [_label(cell.method) for cell in cells])
    axes.set(xlabel="accuracy in %: each run, the mean and its 95 % interval", title=_label(cell_title(cells[0])))
    axes.invert_yaxis()  # the first on top, as in the table
    axes.grid(axis="x", alpha=0.3)
    return figure


def fit_figure(model: FittedModel) -> Figure:
    """The map, confidence, class sizes and training curves of a fit."""
    from matplotlib.figure import Figure

    with page_progress("drawing the figure") as progress:
        view = fit_view(model, progress=progress)
    history = {name: values for name, values in view.history.items() if np.isfinite(values).any()}
    rows = 2 + math.ceil(len(history) / CURVES_PER_ROW)
    figure = Figure(figsize=(15, 3.6 * rows), layout="constrained")
    grid = figure.add_gridspec(rows, CURVES_PER_ROW)
    colours = class_colours(len(view.class_names))[0]
    _draw_map(figure.add_subplot(grid[:2, : CURVES_PER_ROW - 1]), view, colours)

    axes = figure.add_subplot(grid[0, -1])
    counts, edges = histogram(view.confidence, len(view.class_names))
    axes.stairs(counts, 100 * edges, fill=True)
    axes.set(title="Confidence", xlabel="probability of the predicted class in %", ylabel="unlabelled nodes")

    axes = figure.add_subplot(grid[1, -1])
    largest = np.argsort(-view.predicted_counts, kind="stable")[:MAX_CLASSES]
    axes.barh(range(len(largest)), view.predicted_counts[largest], color=[colours[number] for number in largest])
    names = [f"{shortened(view.class_names[number])} ({view.given_counts[number]})" for number in largest]
    axes.set_yticks(range(len(largest)), map(_label, names))
    axes.set(title="Classes (labels given)", xlabel="nodes predicted")
    axes.invert_yaxis()

    peers = () if model.peer_report_ is None else model.peer_report_.names
    for place, (name, values) in enumerate(history.items()):
        axes = figure.add_subplot(grid[2 + place // CURVES_PER_ROW, place % CURVES_PER_ROW])
        lines = axes.plot(np.arange(1, len(values) + 1), values)
        axes.legend(lines, map(_label, curve_names(values, peers)), fontsize="small")
        axes.set(title=_label(name), xlabel="epoch")
    return figure


def _draw_map(axes: Axes, view: FitView, colours: list[str]) -> None:
    """Large dots are confident predictions, hollow ones uncertain, ringed ones labelled; numbers are suggestions."""
    shown = view.map
    given, unsure, sure = shown.given >= 0, shown.confidence < UNSURE, shown.confidence >= SURE
    colour = np.array(colours)[np.where(given, shown.given, shown.predicted)]
    area = float(np.clip(40_000 / max(1, len(shown.nodes)), 4, 40))
    areas = np.where(given, max(50, area), np.where(sure | unsure, area, area / 2))
    face, edge = np.where(unsure & ~given, "white", colour), np.where(given, "black", colour)
    order = np.argsort(given, kind="stable")  # labelled nodes on top
    x, y = shown.places[order].T
    axes.scatter(x, y, s=areas[order], facecolors=face[order].tolist(), edgecolors=edge[order].tolist())
    for rank, place in enumerate(shown.places[shown.suggested], start=1):
        axes.annotate(str(rank), place, xytext=(4, 4), textcoords="offset points", weight="bold")
    if len(view.class_names) <= MAX_NAMES_ON_MAP:
        for number, name in enumerate(view.class_names):
            if (places := shown.places[shown.predicted == number]).size:
                box = {"boxstyle": "round", "facecolor": "white", "edgecolor": colours[number], "alpha": 0.8}
                x, y = densest_first(places)[0]
                axes.text(x, y, _label(shortened(name)), ha="center", weight="bold", bbox=box)
    axes.set(title="Map of the nodes", aspect="equal", xticks=[], yticks=[])
    axes.invert_yaxis()


def _label(text: str) -> str:
    return text.replace("$", r"\$")  # no mathematics
