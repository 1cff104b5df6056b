"""The figure of a comparison shows every run, and means where the table has them."""

import io

import numpy as np

from mtgcn.report.comparison_figure import comparison_figure


def test_every_run_is_a_dot_and_every_mean_stands_in_its_interval(compared):
    comparison = compared()
    figure = comparison_figure(comparison)
    [axes] = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lp", "my_gcn <b>", "mt-plus"]
    lines = iter(axes.lines)
    for cell in comparison.cells:
        runs, interval, mean = next(lines), next(lines), next(lines)
        np.testing.assert_allclose(runs.get_xdata(), 100 * np.array(cell.accuracy.per_run))
        np.testing.assert_allclose(interval.get_xdata(), 100 * np.array(cell.accuracy.ci95))
        assert mean.get_xdata()[0] == 100 * cell.accuracy.mean
    assert axes.get_title() == "edges_1.csv, 3 labels per class, 4 runs"
    drawn = io.BytesIO()
    figure.savefig(drawn)
    assert drawn.getvalue().startswith(b"\x89PNG")


def test_a_single_run_is_drawn_too(compared):
    comparison = compared((("lp", 0.5),))
    assert len(comparison_figure(comparison).axes[0].lines) == 3
