"""The colours of every picture, by day and by night: the page takes both, a figure those of the day."""

from __future__ import annotations

import colorsys

from markupsafe import Markup

LIGHT = {
    "paper": "#fdfdfb",
    "panel": "#f4f4f0",
    "ink": "#1d1f23",
    "soft": "#5c6068",
    "rule": "#d9d9d2",
    "accent": "#9b2c1f",
    "warning": "#fff3d6",
    "warning-ink": "#6a4a00",
    "reference": "#111111",
    "c0": "#0067a8",
    "c1": "#c24e00",
    "c2": "#00805c",
    "c3": "#a8407f",
    "c4": "#8a6a00",
    "c5": "#2f8fc9",
    "c6": "#6a6a6a",
}
DARK = {
    "paper": "#16181c",
    "panel": "#1f2228",
    "ink": "#e8e8e4",
    "soft": "#a4a8b0",
    "rule": "#3a3e46",
    "accent": "#ff9a85",
    "warning": "#3a2f14",
    "warning-ink": "#f3d891",
    "reference": "#ffffff",
    "c0": "#5ab4f0",
    "c1": "#ff8f52",
    "c2": "#35c99c",
    "c3": "#e79bc9",
    "c4": "#e2bc52",
    "c5": "#9ad6f7",
    "c6": "#b4b4b4",
}
# Of the classes, in an order in which any first few are easily told apart, also by most who see few colours.
CLASSES_LIGHT = (
    "#1f77b4",
    "#e07b00",
    "#1d8a5b",
    "#c8314d",
    "#7d55c7",
    "#0f9bb0",
    "#8c5a2b",
    "#d65fa3",
    "#83860f",
    "#56657a",
)
CLASSES_DARK = (
    "#64aef0",
    "#ffa347",
    "#4fcb93",
    "#ff7288",
    "#b394f5",
    "#4fd2e3",
    "#cf9b6d",
    "#f59aca",
    "#c9cc52",
    "#a7b4c9",
)


def class_colours(count: int) -> tuple[list[str], list[str]]:
    """A colour for each class, by day and by night; where there are more than have one chosen, a hue each."""
    if count <= len(CLASSES_LIGHT):
        return list(CLASSES_LIGHT[:count]), list(CLASSES_DARK[:count])
    hues = [(number / count, 0.12 * (number % 2)) for number in range(count)]
    return [_colour(hue, 0.32 + lift) for hue, lift in hues], [_colour(hue, 0.62 + lift) for hue, lift in hues]


def light_colours(classes: int) -> dict[str, str]:
    """Every colour by its name; those of the classes are k0, k1 and so on."""
    return LIGHT | _named(class_colours(classes)[0])


def colour_variables() -> Markup:
    """The colours that every page has, as variables of its style sheet."""
    return Markup(":root{color-scheme:light dark}\n") + _variables(LIGHT, DARK)


def class_variables(classes: int) -> Markup:
    """The colours of so many classes, as further variables."""
    light, dark = class_colours(classes)
    return _variables(_named(light), _named(dark))


def _named(colours: list[str]) -> dict[str, str]:
    return {f"k{number}": colour for number, colour in enumerate(colours)}


def _colour(hue: float, lightness: float) -> str:
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, lightness, 0.75))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _variables(light: dict[str, str], dark: dict[str, str]) -> Markup:
    day, night = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (light, dark))
    return Markup(f":root{{{day}}}\n@media (prefers-color-scheme: dark){{:root{{{night}}}}}")
