"""The figure: the pictures of the page, drawn by matplotlib in the same colours."""

import os
import subprocess
import sys

import numpy as np
import pytest

from mtgcn.report.colours import light_colours
from mtgcn.report.fit_figure import drawn, plot
from mtgcn.report.marks import Bar, Dots, Line, Picture, Words


@pytest.fixture(scope="module")
def figure(fitted_model):
    return plot(fitted_model)


def test_the_figure_has_a_panel_for_every_picture(figure, tmp_path):
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles[:3] == [
        "Map of the nodes",
        "Nodes without a label, by the probability of their class",
        "Nodes of each class",
    ]
    assert set(titles[3:]) == {"supervised", "pseudo-label", "consistency", "pseudo labels", "agreement"}
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_panels_do_not_overlap_and_lie_on_the_sheet(figure):
    boxes = [panel.get_position() for panel in figure.axes]
    for number, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= 1
        assert box.y1 <= 1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def test_every_node_is_on_the_map(figure):
    dots = sum(len(collection.get_offsets()) for collection in figure.axes[0].collections)
    assert dots == 60 + 10  # and a ring around each that is worth a look


def test_marks_have_the_colours_and_places_of_the_page():
    from matplotlib.colors import to_hex

    colours = light_colours(2)
    marks = [
        Bar(10, 20, 30, 40, "k1"),
        Line(np.array([[0, 0], [5, np.nan], [9, 9]]), "c2", dashes=(2, 3)),
        Dots(np.array([[50.0, 60.0]]), "k0", 8, "ringed"),
        Words(5, 95, "$5 & $6", "end"),
    ]
    (panel,) = drawn([(Picture("One", 100, 100, marks), 0, 0)], 100, 100, colours).axes
    (bar,) = panel.patches
    assert (bar.get_xy(), bar.get_width(), bar.get_height()) == ((10, 20), 30, 40)
    assert to_hex(bar.get_facecolor()) == colours["k1"]
    assert panel.lines[0].get_color() == colours["c2"]
    (dots,) = panel.collections
    assert to_hex(dots.get_facecolor()[0]) == colours["k0"]
    assert to_hex(dots.get_edgecolor()[0]) == colours["ink"]
    (words,) = panel.texts
    assert (words.get_text(), words.get_parse_math(), words.get_ha()) == ("$5 & $6", False, "right")
    assert panel.get_ylim() == (100, 0)  # y grows downwards, as on the page


@pytest.mark.slow
def test_the_figure_needs_no_screen():
    code = "import mtgcn.report.fit_page, sys; print('matplotlib' in sys.modules, 'sklearn' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MPLBACKEND": "no such backend"},
    )
    assert done.stdout.split() == ["False", "False"]
