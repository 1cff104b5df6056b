"""Figures, their SVG, and colours that are distinct and readable."""

import os
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest

from fitted_models import Model
from mtgcn.experiments.statistics import compare_ranks
from mtgcn.report import charts, fit_page
from mtgcn.report.charts import DARK, LIGHT, class_colours
from mtgcn.report.comparisons import comparison_figure
from mtgcn.report.fit_page import fit_figure
from mtgcn.report.pages import class_variables, colour_variables


def test_histogram():
    figures = (
        fit_page.confidence_chart(np.array([0.25, 0.26, 0.99, 1, 0.2499999]), 4),
        fit_page.confidence_chart(np.empty(0), 2),
    )
    some, none = ([bar.get_height() for bar in figure.axes[0].patches] for figure in figures)
    assert (some, none) == ([3, *[0] * 18, 2], [0] * 20)  # every node is counted once


def test_figures_of_several_threads_and_of_any_user_style():
    def draw(_):
        return charts.svg(fit_page.confidence_chart(np.array([0.3, 0.9]), classes=4))

    expected, style = draw(0), {"svg.fonttype": "path", "font.size": 30.0, "savefig.bbox": "tight"}
    with mpl.rc_context(style), ThreadPoolExecutor(4) as threads:
        assert {*threads.map(draw, range(12))} == {expected}
        assert {name: mpl.rcParams[name] for name in style} == style


def test_curves_are_named_after_the_peers():
    history = {"loss": np.ones((5, 2)), "never": np.full((5, 2), np.nan)}
    for peers, names in ((("_features", "<b>"), ["_features", "<b>"]), (("1", "2", "3"), ["peer 1", "peer 2"])):
        model = Model(None, peer_report_=SimpleNamespace(names=peers), history_=history)
        ((title, curves),) = fit_page.history_curves(model).items()
        chart = charts.curve_chart(*curves, title)
        assert title == "loss"
        assert [text.get_text() for text in chart.axes[0].get_legend().get_texts()] == names


@pytest.mark.parametrize(("series", "bands"), [(3, 3), (4, 0)])
def test_intervals_are_drawn_for_few_curves(series, bands):
    band = np.array([[1.0, 2.0], [0.5, 1.5], [1.5, 2.5]])
    chart = charts.curve_chart([10, 20], {f"s{number}": band for number in range(series)}, "")
    assert len(chart.axes[0].collections) == bands


def test_svg():
    figures = [charts.curve_chart([1, 2], {"<b>": np.array([[1.0, 2.0]])}, "A <chart>") for _ in range(2)]
    first, second = map(charts.svg, figures)
    assert first == second
    root = ElementTree.fromstring(str(first)).find("svg")
    assert (root.get("viewBox"), root.get("aria-label")) == ("0 0 430 270", "A <chart>")
    assert {one.tag for one in root.iter()} == {"svg", "g", "path", "text"}
    assert "<b>" in [one.text for one in root.iter("text")]
    assert root.find(".//g[@class='series series-0']/path").get("style").count("var(--c0)") == 1
    assert not re.search(r"#|url|http|\bid=", str(first))  # no ids, fixed colours or references
    assert "$x" in str(
        charts.svg(charts.rank_chart(compare_ranks(np.eye(3), ["$x$", "$y\x1b", "z"]), charts.Styles([], "")))
    )


@pytest.mark.slow
def test_figure_of_a_comparison(compared):
    figure = comparison_figure(compared())
    (axes,) = figure.axes
    assert axes.get_title() == "edges_1.csv, 3 labels per class, 4 runs"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lp", "my_gcn <b>", "mt-plus"]
    assert [len(line.get_xdata()) for line in axes.lines] == [4, 2, 1] * 3  # runs, interval and mean of each method
    np.testing.assert_allclose([line.get_xdata()[0] for line in axes.lines[2::3]], [50, 60, 70])


@pytest.mark.slow
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
    assert sum(bar.get_height() for bar in confidence.patches) == 54
    predicted = np.bincount(fitted_model.label_distributions_[6:].argmax(1), minlength=3)
    order = np.argsort(-predicted, kind="stable")
    assert [bar.get_width() for bar in classes.patches] == predicted[order].tolist()
    assert [to_hex(bar.get_facecolor()) for bar in classes.patches] == [class_colours(3)[0][one] for one in order]
    assert "<b>&$x (2)" in [label.get_text() for label in classes.get_yticklabels()]
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


# Linear RGB as seen with red-green colour blindness: Machado et al. (2009), severity 1, and Viénot et al. (1999).
VISION = {
    "normal": np.eye(3),
    "deutan": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "protan": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deutan, Viénot": [[0.2928, 0.7072, 0], [0.2928, 0.7072, 0], [-0.0223, 0.0223, 1]],
    "protan, Viénot": [[0.1124, 0.8876, 0], [0.1124, 0.8876, 0], [0.0040, -0.0040, 1]],
}
RGB_TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def linear_rgb(colours):
    parts = np.array([[int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)] for colour in colours])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(*colours):
    """Contrast of two colours by the Web Content Accessibility Guidelines."""
    low, high = sorted(linear_rgb(colours) @ RGB_TO_XYZ[1])
    return (high + 0.05) / (low + 0.05)


def lab(colours, vision):
    """CIELAB coordinates of colours as seen."""
    seen = np.clip(linear_rgb(colours) @ np.transpose(vision), 0, 1)
    xyz = seen @ (RGB_TO_XYZ / RGB_TO_XYZ.sum(axis=1, keepdims=True)).T
    x, y, z = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_ten_classes_differ_with_colour_blindness(scheme, vision):
    colours = [*class_colours(10)[scheme is DARK], scheme["soft"]]  # soft: nodes without a class
    places = lab(colours, VISION[vision])
    difference = np.linalg.norm(places[:, None] - places, axis=2)  # CIE76
    assert difference[~np.eye(11, dtype=bool)].min() >= 10


def test_fifty_classes_differ_by_colour_or_shape():
    variables = dict(re.findall(r"--([ks]\d+):([^;]*);", str(class_variables(50)).split("@media")[0]))
    assert len({(variables[f"k{number}"], variables[f"s{number}"]) for number in range(50)}) == 50


def test_contrast():
    light, dark = class_colours(10)
    assert min(contrast(colour, LIGHT["paper"]) for colour in light) > 3
    assert min(contrast(colour, DARK["paper"]) for colour in dark) > 3
    for colours in (LIGHT, DARK):
        assert contrast(colours["ink"], colours["paper"]) > 10
        assert contrast(colours["soft"], colours["paper"]) > 4.5
        assert contrast(colours["warning-ink"], colours["warning"]) > 4.5


def test_variables_define_every_colour():
    variables = str(colour_variables() + class_variables(3))
    classes = {f"k{number}": colour for number, colour in enumerate(class_colours(3)[0])}
    assert all(f"--{name}:{colour};" in variables for name, colour in (LIGHT | classes).items())
    assert set(DARK) == set(LIGHT)
