"""Colours: distinct, and readable on their background."""

import re

import pytest

from mtgcn.report.pages import DARK, LIGHT, class_colours, class_variables, colour_variables


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
