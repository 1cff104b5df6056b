"""Self-contained HTML pages: templates, colours for light and dark mode, and the style of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mtgcn.experiments.protocol import PRINTED_NAMES, REFERENCE, Suite
from mtgcn.report.tables import Table, counted, p_value, percent, with_minus_sign

_PALETTE = {  # name: (light, dark)
    "paper": ("#fdfdfb", "#16181c"),
    "panel": ("#f4f4f0", "#1f2228"),
    "ink": ("#1d1f23", "#e8e8e4"),
    "soft": ("#5c6068", "#a4a8b0"),
    "rule": ("#d9d9d2", "#3a3e46"),
    "accent": ("#9b2c1f", "#ff9a85"),
    "warning": ("#fff3d6", "#3a2f14"),
    "warning-ink": ("#6a4a00", "#f3d891"),
    "reference": ("#111111", "#ffffff"),
    "c0": ("#0067a8", "#5ab4f0"),
    "c1": ("#c24e00", "#ff8f52"),
    "c2": ("#00805c", "#35c99c"),
    "c3": ("#a8407f", "#e79bc9"),
    "c4": ("#8a6a00", "#e2bc52"),
    "c5": ("#2f8fc9", "#9ad6f7"),
    "c6": ("#6a6a6a", "#b4b4b4"),
}
Number = TypeVar("Number", int, np.ndarray)
LIGHT, DARK = ({name: pair[side] for name, pair in _PALETTE.items()} for side in (0, 1))
# (light, dark) of each class. Any two differ by at least 10 (CIE76), also with red-green colour blindness.
_CLASS_COLOURS = (
    *(("#1f77b4", "#7bb2f0"), ("#db7902", "#f79c3b"), ("#218c5c", "#53cb95"), ("#b1093d", "#e2586f")),
    *(("#7756cb", "#9c87f2"), ("#28a0af", "#64e5f9"), ("#88571e", "#ce9768"), ("#ce619b", "#b6669c")),
    *(("#8e9441", "#d2d867"), ("#415472", "#9faacc")),
)
# Of the classes beyond the palette, which repeat its colours: swatches are clipped to these polygons.
_SHAPES = (
    "none",  # a disc
    "polygon(13% 13%,87% 13%,87% 87%,13% 87%)",
    "polygon(50% 0,97% 82%,3% 82%)",
    "polygon(50% 0,100% 50%,50% 100%,0 50%)",
    "polygon(35% 0,65% 0,65% 35%,100% 35%,100% 65%,65% 65%,65% 100%,35% 100%,35% 65%,0 65%,0 35%,35% 35%)",
)
SERIES_COLOURS = 7  # c0 to c6; the reference has its own
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 3), (9, 3, 2, 3), (4, 2))


def class_colours(count: int) -> tuple[list[str], list[str]]:
    """One light and one dark colour per class, repeated beyond the palette."""
    light, dark = zip(*(_CLASS_COLOURS[number % len(_CLASS_COLOURS)] for number in range(count)), strict=True)
    return [*light], [*dark]


def class_shape(number: Number) -> Number:
    """The shape of classes: disc, square, triangle, diamond or cross."""
    return number // len(_CLASS_COLOURS) % len(_SHAPES)


def colour_variables() -> Markup:
    """The palette as CSS variables, for light and dark mode."""
    return Markup(":root{color-scheme:light dark}\n") + _variables(LIGHT, DARK)


def class_variables(classes: int) -> Markup:
    """The class colours as the CSS variables k0, k1, …, for light and dark mode, and their shapes as s0, s1, …"""
    light, dark = ({f"k{number}": one for number, one in enumerate(colours)} for colours in class_colours(classes))
    return _variables(light | {f"s{number}": _SHAPES[class_shape(number)] for number in range(classes)}, dark)


def _variables(light: dict[str, str], dark: dict[str, str]) -> Markup:
    day, night = ("".join(f"--{name}:{colour};" for name, colour in colours.items()) for colours in (light, dark))
    return Markup(f":root{{{day}}}\n@media (prefers-color-scheme: dark){{:root{{{night}}}}}")


def _outline(corners: int, turn: float, inner: float = 1.0) -> np.ndarray:
    """A regular polygon around the origin; with an inner radius below 1, a star."""
    angles = 2 * np.pi * (np.arange(2 * corners) / (2 * corners) + turn)
    radii = np.where(np.arange(2 * corners) % 2, inner * np.cos(np.pi / corners) if inner == 1 else inner, 1.0)
    return 6 * (radii * np.array([np.cos(angles), np.sin(angles)])).T


# Each marker is drawn filled and, for another method, hollow; the reference has a disc.
MARKERS = (
    _outline(4, 1 / 8),  # square
    _outline(3, -1 / 4),  # triangle
    _outline(4, 0),  # diamond
    _outline(3, 1 / 4),  # triangle pointing down
    _outline(4, 0, 0.45),  # star with four points
    _outline(3, 1 / 2),  # triangle pointing left
    _outline(5, -1 / 4, 0.45),  # star with five points
)
DISC = 0.85 * _outline(12, 0)


@dataclass(frozen=True)
class Styles:
    """Styles of the methods of a page; their order decides colours and markers, the reference has its own."""

    names: Mapping[str, str]  # displayed name by title
    reference: str

    def name(self, title: str) -> str:
        return self.names.get(title, title)

    def look(self, title: str) -> tuple[str, tuple[float, ...], np.ndarray, bool]:
        """Colour, dashes, the outline of the marker, and whether it is hollow."""
        if title == self.reference:
            return "reference", (), DISC, False
        others = [name for name in self.names if name != self.reference]
        number = others.index(title) if title in others else len(others) + sum(map(ord, title))
        hollow = bool(number // len(MARKERS) % 2)
        return f"c{number % SERIES_COLOURS}", DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)], hollow


PAPER_STYLES = Styles(PRINTED_NAMES, REFERENCE)  # names as in the paper


def styles_of(suite: Suite | None) -> Styles:
    """The styles of a suite, whose methods keep their command-line names, or of the paper's tables."""
    return Styles({title: title for title in suite.titles}, suite.reference) if suite else PAPER_STYLES


def render(template: str, **content: Any) -> str:
    """A page. All content is escaped; a missing name is an error."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    options: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=PackageLoader("mtgcn.report"), undefined=StrictUndefined, **options)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.globals |= {"colour_variables": colour_variables, "class_variables": class_variables}
    environment.filters |= {"percent": percent, "p_value": p_value, "counted": counted, "minus": with_minus_sign}
    environment.filters["per_cent"] = lambda share: f"{100 * share:.0f}\u00a0%"
    return environment


def html(table: Table) -> str:
    """An HTML table; all text is escaped."""
    return str(_environment().get_template("macros.html").module.table(table))  # type: ignore[attr-defined]
