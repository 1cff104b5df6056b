"""Charts: to scale and complete; marks as SVG and by matplotlib."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest

from mtgcn.report.charts import (
    MAP_WIDTH,
    class_chart,
    confidence_chart,
    curve_chart,
    history_charts,
    map_chart,
    peer_chart,
)
from mtgcn.report.figures import Area, Chart, Dots, Group, Line, Text, figure, rectangle
from mtgcn.report.fit_page import plot
from mtgcn.report.fit_view import Map, fit_view
from mtgcn.report.styles import light_colours
from mtgcn.uncertainty.peer_weights import contributions
from weighted_peers import made_up_report


def of_kind(chart, kind):
    return [mark for mark in chart.marks if isinstance(mark, kind)]


def sizes(chart):
    return np.array([np.ptp(area.corners, axis=0) for area in of_kind(chart, Area)])


def svg(*marks):
    return str(Chart("A <chart>", 100, 50, marks).svg())


def test_peer_chart_is_to_scale():
    chart = peer_chart(contributions(made_up_report()))
    widths = sizes(chart)[:, 0]
    np.testing.assert_allclose(widths / widths[0], np.array([55, 30, 10, 5]) / 55, atol=1e-3)
    looks = [dots.look for dots in of_kind(chart, Dots)]
    assert (looks.count("ring"), looks.count("filled")) == (4, 3)  # one held-out accuracy is unknown


def test_histogram_is_to_scale():
    heights = sizes(confidence_chart(np.array([0.26, 0.26, 0.99]), classes=4))[:, 1]
    assert heights[0] == 2 * heights[-1] > 0
    assert sum(heights > 0) == 2
    assert len(sizes(confidence_chart(np.empty(0), 2)))


def test_curves_are_named_after_the_peers():
    values = np.ones((5, 2))
    (chart,) = history_charts({"loss": values, "never": np.full((5, 2), np.nan)}, ("features", "<b>"))
    assert (chart.title, [group.hint for group in of_kind(chart, Group)]) == ("loss", ["features", "<b>"])
    (chart,) = history_charts({"loss": values}, ("one", "two", "three"))
    assert [group.hint for group in of_kind(chart, Group)] == ["peer 1", "peer 2"]


@pytest.mark.parametrize(("series", "bands"), [(3, 3), (4, 0)])
def test_intervals_are_drawn_for_few_curves(series, bands):
    band = np.array([[1.0, 2.0], [0.5, 1.5], [1.5, 2.5]])
    chart = curve_chart([10, 20], {f"s{number}": band for number in range(series)}, title="")
    parts = [mark for group in of_kind(chart, Group) for mark in group.marks]
    assert sum(isinstance(part, Area) for part in parts) == bands


def test_map_shows_every_node_once(fitted_model):
    view = fit_view(fitted_model)
    dots = [mark for mark in of_kind(map_chart(view.map, view.class_names), Dots) if mark.colour != "paper"]
    assert sum(len(mark.places) for mark in dots if mark.look != "ringed") == 54
    assert sum(len(mark.places) for mark in dots if mark.look == "ringed") == 6
    assert all((mark.places >= 0).all() for mark in dots)


def test_map_marks_confidence():
    shown = Map(
        nodes=np.arange(4),
        places=np.array([[0, 0], [1, 0], [0, 0.5], [1, 0.5]]),
        predicted=np.array([0, 0, 0, 1]),
        confidence=np.array([0.4, 0.6, 0.9, 0.9]),
        given=np.array([-1, -1, -1, 1]),
        suggested=np.array([0]),
    )
    chart = map_chart(shown, ["yes", "7"])
    unsure, fair, sure, given, suggested = (mark for mark in of_kind(chart, Dots) if len(mark.places))
    assert [(mark.colour, mark.look) for mark in (unsure, given, suggested)] == [
        ("k0", "hollow"),
        ("k1", "ringed"),
        ("paper", "ringed"),
    ]
    assert sure.size > fair.size
    assert [text.text for text in of_kind(chart, Text)] == ["1", "yes", "class 7"]  # 7 is not a suggestion
    assert chart.height < MAP_WIDTH


def test_map_text_does_not_overlap():
    shown = Map(
        nodes=np.arange(300),
        places=np.random.default_rng(0).random((300, 2)) * [1, 0.8],
        predicted=np.arange(300) % 3,
        confidence=np.full(300, 0.9),
        given=np.full(300, -1),
        suggested=np.arange(8),
    )
    written = of_kind(map_chart(shown, ["first name", "second name", "third name"]), Text)
    for number, one in enumerate(written):
        for other in written[number + 1 :]:
            if len(one.text) > 2 or len(other.text) > 2:
                assert abs(one.y - other.y) >= 18 or abs(one.x - other.x) > 5 * max(len(one.text), len(other.text))


def test_long_names_are_shortened():
    chart = class_chart(["x" * 80, "y"], np.array([1, 1]), np.array([5, 4]))
    assert any(text.text.endswith("…") for text in of_kind(chart, Text))


def test_svg_has_a_label():
    assert 'viewBox="0 0 100 50" role="img" aria-label="A &lt;chart&gt;"' in svg()


def test_svg_lines_are_interrupted_at_nan():
    values = np.array([[0, np.nan], [1, 1], [2, 2], [3, np.nan], [4, 3]])
    page = svg(Group([Line(values, "c0", dashes=(2, 3))], "<b>"))
    assert re.findall(r' d="([^"]*)"', page) == ["M1.0,1.0L2.0,2.0M4.0,3.0"]
    assert 'stroke-dasharray="2 3"' in page
    assert '<g class="series"><title>&lt;b&gt;</title>' in page


def test_svg_dots_are_strokes_without_length():
    places = np.array([[1.0, 2.0], [3.0, 4.0]])
    layers = r'stroke="var\(--(\w+)\)" style="stroke-width:calc\(([\d.]+)px'
    assert svg(Dots(places, "k3", 5)).count("M1.0,2.0h0M3.0,4.0h0") == 1
    assert re.findall(layers, svg(Dots(places, "k3", 5, "hollow"))) == [("k3", "5.00"), ("paper", "2.75")]
    assert re.findall(layers, svg(Dots(places, "k3", 5, "ringed"))) == [("ink", "9.00"), ("k3", "5.00")]
    assert svg(Dots(places, "c2", 12, "ring")).count('r="6"') == 2
    assert svg(Dots(np.empty((0, 2)), "k0", 5)) == svg()


def test_svg_areas_and_text():
    page = svg(rectangle(1.0, 2, 3, 4, "k0", "five & six"), Text(7, 8, "a < b", "end", bold=True, shift=(0.5, -1)))
    assert 'fill="var(--k0)" d="M1.0,2.0L4.0,2.0L4.0,6.0L1.0,6.0Z"><title>five &amp; six</title></path>' in page
    assert '<text x="7.0" y="8.0" text-anchor="end" class="strong" dx="0.5em" dy="-1em">a &lt; b</text>' in page


def test_matplotlib_draws_the_same_marks():
    from matplotlib.colors import to_hex

    colours = light_colours(2)
    marks = [
        rectangle(10.0, 20, 30, 40, "k1"),
        Line(np.array([[0.0, 0], [5, np.nan], [9, 9]]), "c2", dashes=(2, 3)),
        Dots(np.array([[50.0, 60.0]]), "k0", 8, "ringed"),
        Text(5, 95, "$5 & $6", "end"),
    ]
    (axes,) = figure([[[Chart("One", 100, 100, marks)]]], colours).axes
    (bar,), (dots,), (words,) = axes.patches, axes.collections, axes.texts
    np.testing.assert_array_equal(bar.get_xy()[:4], [[10, 20], [40, 20], [40, 60], [10, 60]])
    assert to_hex(bar.get_facecolor()) == colours["k1"]
    assert axes.lines[0].get_color() == colours["c2"]
    assert (to_hex(dots.get_facecolor()[0]), to_hex(dots.get_edgecolor()[0])) == (colours["k0"], colours["ink"])
    assert (words.get_text(), words.get_parse_math(), words.get_ha()) == ("$5 & $6", False, "right")
    assert axes.get_ylim() == (100, 0)  # y grows downwards, as in SVG


def test_figure_of_a_fit(fitted_model, tmp_path):
    made = plot(fitted_model)
    titles = [axes.get_title(loc="left") for axes in made.axes]
    assert titles[:3] == [
        "Map of the nodes",
        "Unlabelled nodes by the probability of their predicted class",
        "Nodes of each class",
    ]
    assert set(titles[3:]) == {"supervised", "pseudo-label", "consistency", "pseudo labels", "agreement"}
    assert sum(len(dots.get_offsets()) for dots in made.axes[0].collections) == 60 + 10  # nodes and suggestions
    boxes = [axes.get_position() for axes in made.axes]
    for number, box in enumerate(boxes):
        assert min(box.x0, box.y0) >= 0
        assert max(box.x1, box.y1) <= 1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
    made.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_pages_import_neither_matplotlib_nor_sklearn():
    code = "import mtgcn.report.fit_page, sys; print('matplotlib' in sys.modules, 'sklearn' in sys.modules)"
    environment = {**os.environ, "MPLBACKEND": "no such backend"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "False"]
