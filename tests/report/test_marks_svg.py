"""Marks as SVG."""

import re

import numpy as np

from mtgcn.report.marks import Bar, Dots, Line, Picture, Words
from mtgcn.report.marks_svg import svg


def drawn(*marks):
    return svg(Picture("A <picture>", 100, 50, marks))


def test_a_picture_says_what_it_is():
    page = drawn()
    assert 'viewBox="0 0 100 50" role="img" aria-label="A &lt;picture&gt;"' in page


def test_a_line_breaks_off_where_nothing_is_known():
    values = np.array([[0, np.nan], [1, 1], [2, 2], [3, np.nan], [4, 3]])
    page = drawn(Line(values, "c0", dashes=(2, 3), hint="<b>"))
    (line,) = re.findall(r' d="([^"]*)"', page)
    assert line == "M1.0,1.0L2.0,2.0M4.0,3.0"
    assert 'stroke-dasharray="2 3"' in page
    assert "<title>&lt;b&gt;</title>" in page


def test_dots_are_strokes_without_length():
    places = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert drawn(Dots(places, "k3", 5)).count("M1.0,2.0h0M3.0,4.0h0") == 1
    hollow = re.findall(
        r'stroke="var\(--(\w+)\)" style="stroke-width:calc\(([\d.]+)px', drawn(Dots(places, "k3", 5, "hollow"))
    )
    assert hollow == [("k3", "5.00"), ("paper", "2.75")]
    ringed = re.findall(r'stroke="var\(--(\w+)\)"', drawn(Dots(places, "k3", 5, "ringed")))
    assert ringed == ["ink", "k3"]
    assert drawn(Dots(places, "c2", 12, "ring")).count('r="6"') == 2
    assert drawn(Dots(np.empty((0, 2)), "k0", 5)) == drawn()


def test_bars_and_words_keep_their_places():
    page = drawn(Bar(1, 2, 3, 4, "k0", "five & six"), Words(7, 8, "a < b", "end", bold=True, shift=(0.5, -1)))
    assert (
        '<rect fill="var(--k0)" x="1.0" y="2.0" width="3.0" height="4.0"><title>five &amp; six</title></rect>' in page
    )
    assert '<text x="7.0" y="8.0" text-anchor="end" class="strong" dx="0.5em" dy="-1em">a &lt; b</text>' in page
