"""Charts: to scale and complete; SVG elements; matplotlib figures; colours distinct and readable."""

import os
import pickle
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from mtgcn.report import charts, fit_page
from mtgcn.report.comparisons import comparison_figure
from mtgcn.report.fit_page import Map, fit_figure, fit_view
from mtgcn.report.pages import DARK, LIGHT, class_colours, class_variables, colour_variables


def elements(chart, path):
    return ElementTree.fromstring(str(chart.svg())).findall(path)


def texts(chart):
    return [one.text for one in elements(chart, ".//text")]


def bar_sizes(chart):
    """Width and height of every rectangle."""
    paths = [re.findall(r"(-?[\d.]+),(-?[\d.]+)", one.get("d")) for one in elements(chart, "path[title]")]
    return np.ptp(np.array(paths, dtype=float), axis=1)


def dots_on(chart):
    """Colour, layers and number of each group of dots."""
    return [
        (one.get("class").split()[1], len(one.findall("path")), one.find("path").get("d").count("M"))
        for one in elements(chart, "g[@class]")
    ]


def test_histogram_is_to_scale():
    heights = bar_sizes(fit_page.confidence_chart(np.array([0.26, 0.26, 0.99]), classes=4))[:, 1]
    assert heights[0] == pytest.approx(2 * heights[-1])
    assert heights[-1] > 0
    assert sum(heights > 0) == 2
    assert len(bar_sizes(fit_page.confidence_chart(np.empty(0), 2)))


def test_curves_are_named_after_the_peers():
    values = np.ones((5, 2))
    history = {"loss": values, "never": np.full((5, 2), np.nan)}
    for peers, names in ((("features", "<b>"), ["features", "<b>"]), (("1", "2", "3"), ["peer 1", "peer 2"])):
        (chart,) = fit_page.history_charts(history, peers)
        assert chart.title == "loss"
        assert [one.text for one in elements(chart, "g/title")] == names


@pytest.mark.parametrize(("series", "bands"), [(3, 3), (4, 0)])
def test_intervals_are_drawn_for_few_curves(series, bands):
    band = np.array([[1.0, 2.0], [0.5, 1.5], [1.5, 2.5]])
    chart = charts.curve_chart([10, 20], {f"s{number}": band for number in range(series)}, "")
    assert len(elements(chart, "g/path[@opacity='0.16']")) == bands


def test_map_shows_every_node_once(fitted_model):
    view = fit_view(fitted_model)
    dots = [one for one in dots_on(fit_page.map_chart(view.map, view.class_names)) if one[0] != "paper"]
    assert sum(count for *_, count in dots) == 60
    assert [count for *_, count in dots[-3:]] == [2, 2, 2]  # labelled


def test_map_marks_confidence():
    shown = Map(
        nodes=np.arange(4),
        places=np.array([[0, 0], [1, 0], [0, 0.5], [1, 0.5]]),
        predicted=np.array([0, 0, 0, 1]),
        confidence=np.array([0.4, 0.6, 0.9, 0.9]),
        given=np.array([-1, -1, -1, 1]),
        suggested=np.array([0]),
    )
    chart = fit_page.map_chart(shown, ["yes", "7"])
    strokes = [re.findall(r"--(\w+)\)", one.get("stroke"))[0] for one in elements(chart, "g/path")]
    assert strokes == ["k0", "paper", "k0", "k0", "ink", "k1", "ink", "paper"]  # unsure, fair, sure, given, suggested
    fair, sure = (float(re.search(r"calc\(([\d.]+)", one.get("style"))[1]) for one in elements(chart, "g/path")[2:4])
    assert fair < sure
    assert texts(chart) == ["1", "yes", "class 7"]  # 7 is not a suggestion
    assert chart.height < fit_page.MAP_WIDTH


def test_map_text_does_not_overlap():
    shown = Map(
        nodes=np.arange(300),
        places=np.random.default_rng(0).random((300, 2)) * [1, 0.8],
        predicted=np.arange(300) % 3,
        confidence=np.full(300, 0.9),
        given=np.full(300, -1),
        suggested=np.arange(8),
    )
    written = elements(fit_page.map_chart(shown, ["first name", "second name", "third name"]), "text")
    assert len(written) == 11
    for number, one in enumerate(written):
        for other in written[number + 1 :]:
            longest = max(len(one.text), len(other.text))
            x, y = (abs(float(one.get(axis)) - float(other.get(axis))) for axis in "xy")
            assert longest <= 2 or y >= 18 or x > 5 * longest


def test_svg_has_a_label():
    assert (
        'viewBox="0 0 100 50" role="img" aria-label="A &lt;chart&gt;"' in charts.Chart("A <chart>", 100, 50, ()).svg()
    )


def test_svg_lines_are_interrupted_at_nan():
    values = np.array([[0, np.nan], [1, 1], [2, 2], [3, np.nan], [4, 3]])
    found = charts.series([charts.line(values, "c0", dashes=(2, 3))], "<b>")
    assert re.findall(r' d="([^"]*)"', found) == ["M1.0,1.0L2.0,2.0M4.0,3.0"]
    assert 'stroke-dasharray="2 3"' in found
    assert '<g class="series"><title>&lt;b&gt;</title>' in found


def test_svg_dots_are_strokes_without_length():
    places = np.array([[1.0, 2.0], [3.0, 4.0]])
    layers = r'stroke="var\(--(\w+)\)" style="stroke-width:calc\(([\d.]+)px'
    assert charts.dots(places, "k3", 5).count("M1.0,2.0h0M3.0,4.0h0") == 1
    assert re.findall(layers, charts.dots(places, "k3", 5, "hollow")) == [("k3", "5.00"), ("paper", "2.75")]
    assert re.findall(layers, charts.dots(places, "k3", 5, "ringed")) == [("ink", "9.00"), ("k3", "5.00")]
    assert charts.dots(np.empty((0, 2)), "k0", 5) == ""


def test_svg_areas_and_text():
    assert charts.rectangle(1.0, 2, 3, 4, "k0", "five & six") == (
        '<path fill="var(--k0)" opacity="1" d="M1.0,2.0L4.0,2.0L4.0,6.0L1.0,6.0Z"><title>five &amp; six</title></path>'
    )
    assert charts.text(7, 8, "a < b", "end", bold=True, shift=(0.5, -1)) == (
        '<text x="7.0" y="8.0" text-anchor="end" class="strong" dx="0.5em" dy="-1em">a &lt; b</text>'
    )


def test_figure_of_a_comparison(compared):
    figure = comparison_figure(compared())
    (axes,) = figure.axes
    assert axes.get_title() == "edges_1.csv, 3 labels per class, 4 runs"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lp", "my_gcn <b>", "mt-plus"]
    assert [len(line.get_xdata()) for line in axes.lines] == [4, 2, 1] * 3  # runs, interval and mean of each method
    np.testing.assert_allclose([line.get_xdata()[0] for line in axes.lines[2::3]], [50, 60, 70])
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_figure_of_a_fit(fitted_model):
    from matplotlib.colors import to_hex

    figure = fit_figure(fitted_model)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[:3] == ["Map of the nodes", "Confidence", "Classes (labels given)"]
    assert set(titles[3:]) == {"supervised", "pseudo-label", "consistency", "pseudo labels", "agreement"}
    places, confidence, classes, curve = figure.axes[:4]
    (nodes,) = places.collections
    assert len(nodes.get_offsets()) == 60
    assert {str(rank) for rank in range(1, 11)} < {text.get_text() for text in places.texts}
    assert confidence.patches[0].get_data().values.sum() == 54
    predicted = np.bincount(fitted_model.label_distributions_[6:].argmax(1), minlength=3)
    order = np.argsort(-predicted, kind="stable")
    assert [bar.get_width() for bar in classes.patches] == predicted[order].tolist()
    assert [to_hex(bar.get_facecolor()) for bar in classes.patches] == [class_colours(3)[0][one] for one in order]
    assert r"<b>&\$x (2)" in [label.get_text() for label in classes.get_yticklabels()]
    assert [len(line.get_xdata()) for line in curve.lines] == [20, 20]
    picture = figure._repr_png_()  # which a notebook shows
    assert (picture[:4], len(picture) > 10_000) == (b"\x89PNG", True)
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)


@pytest.mark.slow
def test_pages_import_neither_matplotlib_nor_sklearn():
    code = "import mtgcn.report.fit_page, sys; print('matplotlib' in sys.modules, 'sklearn' in sys.modules)"
    environment = {**os.environ, "MPLBACKEND": "no such backend"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["False", "False"]


def luminance(colour):
    """Relative luminance by the Web Content Accessibility Guidelines."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("count", [1, 2, 10, 11, 40])
def test_class_colours_are_distinct(count):
    for colours in class_colours(count):
        assert len(set(colours)) == count
        assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_contrast():
    light, dark = class_colours(10)
    assert min(contrast(colour, LIGHT["paper"]) for colour in light) > 2.7
    assert min(contrast(colour, DARK["paper"]) for colour in dark) > 5
    for colours in (LIGHT, DARK):
        assert contrast(colours["ink"], colours["paper"]) > 10
        assert contrast(colours["soft"], colours["paper"]) > 4.5
        assert contrast(colours["warning-ink"], colours["warning"]) > 4.5


def test_variables_define_every_colour():
    variables = str(colour_variables() + class_variables(3))
    classes = {f"k{number}": colour for number, colour in enumerate(class_colours(3)[0])}
    assert all(f"--{name}:{colour};" in variables for name, colour in (LIGHT | classes).items())
    assert set(DARK) == set(LIGHT)
