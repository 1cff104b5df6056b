"""A comparison as a figure of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtgcn.experiments.compare import Comparison
from mtgcn.report.comparison_text import cell_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def comparison_figure(comparison: Comparison) -> Figure:
    """The accuracy of every run as a dot, and for each method its mean with the 95 % interval."""
    from matplotlib.figure import Figure  # without pyplot, so that no window and no backend is asked for

    methods = len(comparison.cells)
    figure = Figure(figsize=(7, 1.4 + 0.45 * methods), layout="constrained")
    axes = figure.subplots()
    for place, cell in enumerate(comparison.cells):
        colour = "black" if cell.method == comparison.reference else f"C{place}"
        accuracy = 100 * np.asarray(cell.accuracy.per_run)
        # Runs of equal accuracy would hide each other; their own number puts them apart, the same way every time.
        heights = place + 0.3 * (np.arange(len(accuracy)) / max(len(accuracy) - 1, 1) - 0.5)
        axes.plot(accuracy, heights, ".", color=colour, alpha=0.35, markersize=5)
        low, high = (100 * end for end in cell.accuracy.ci95)
        axes.plot([low, high], [place, place], color=colour, linewidth=2)
        axes.plot([100 * cell.accuracy.mean], [place], "o", color=colour, markersize=7)
    axes.set_yticks(range(methods), [cell.method for cell in comparison.cells])
    axes.set_ylim(methods - 0.5, -0.5)  # the first on top, as in the table
    axes.set_xlabel("accuracy in %: each run, the mean and its 95 % interval")
    axes.set_title(cell_title(comparison.cells[0]))
    axes.grid(axis="x", alpha=0.3)
    return figure
