"""Pictures as SVG. Colours are variables of the page's style sheet, and so follow the reader's choice of light or dark.

Sizes of dots and of text on a map are multiplied by the variable `--zoom`, which is 1 unless the page changes it:
whoever looks closer sees dots apart, not larger dots. Such text also by `--reading`, to be legible on small screens.
"""

from __future__ import annotations

from html import escape

import numpy as np

from mtgcn.report.marks import TEXT_SIZE, Bar, Dots, Line, Mark, Picture, Words
from mtgcn.report.svg import picture as framed

RING = 2.0  # the width of the ring around a dot that has one
HOLE = 0.55  # of a hollow dot's size


def svg(picture: Picture) -> str:
    """The picture, which grows and shrinks with the page."""
    return framed(picture.width, picture.height, picture.title, map(_drawn, picture.marks), picture.smallest)


def _drawn(mark: Mark) -> str:
    if isinstance(mark, Bar):
        return (
            f'<rect fill="var(--{mark.colour})" x="{mark.x:.1f}" y="{mark.y:.1f}" width="{mark.width:.1f}" '
            f'height="{mark.height:.1f}">{_title(mark.hint)}</rect>'
        )
    if isinstance(mark, Line):
        return _line(mark)
    if isinstance(mark, Dots):
        return _dots(mark)
    return _words(mark)


def _line(mark: Line) -> str:
    steps, pen_down = [], False
    for x, y in mark.corners:
        known = bool(np.isfinite(x) and np.isfinite(y))
        if known:
            steps.append(f"{'L' if pen_down else 'M'}{x:.1f},{y:.1f}")
        pen_down = known
    dashes = f' stroke-dasharray="{" ".join(f"{dash:g}" for dash in mark.dashes)}"' if mark.dashes else ""
    path = (
        f'<path fill="none" stroke="var(--{mark.colour})" stroke-width="{mark.width:g}"{dashes} d="{"".join(steps)}"/>'
    )
    return f'<g class="series">{_title(mark.hint)}{path}</g>' if mark.hint else path


def _dots(mark: Dots) -> str:
    """Strokes of no length, which round ends make dots: a tenth of the text that circles would take."""
    if not len(mark.places):
        return ""
    places = "".join(f"M{x:.1f},{y:.1f}h0" for x, y in mark.places)
    layers = {
        "filled": [(mark.colour, mark.size)],
        "hollow": [(mark.colour, mark.size), ("paper", HOLE * mark.size)],
        "ringed": [("ink", mark.size + 2 * RING), (mark.colour, mark.size)],
    }
    if mark.look == "ring":
        circles = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{mark.size / 2:g}"/>' for x, y in mark.places)
        return f'<g fill="none" stroke="var(--{mark.colour})" stroke-width="{RING:g}">{_title(mark.hint)}{circles}</g>'
    strokes = "".join(
        f'<path stroke="var(--{colour})" style="stroke-width:calc({size:.2f}px*var(--zoom,1))" d="{places}"/>'
        for colour, size in layers[mark.look]
    )
    opacity = f' opacity="{mark.opacity:g}"' if mark.opacity < 1 else ""
    return f'<g class="dots {mark.colour}" stroke-linecap="round"{opacity}>{_title(mark.hint)}{strokes}</g>'


def _words(mark: Words) -> str:
    look = [name for name, wanted in (("strong", mark.bold), ("halo", mark.halo)) if wanted]
    attributes = f' class="{" ".join(look)}"' if look else ""
    if mark.colour != "ink":
        attributes += f' style="fill:var(--{mark.colour})"'
    elif mark.size != TEXT_SIZE:
        attributes += f' style="font-size:calc({mark.size:g}px*var(--zoom,1)*var(--reading,1))"'
    if mark.shift != (0, 0):
        attributes += f' dx="{mark.shift[0]:g}em" dy="{mark.shift[1]:g}em"'
    anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
    return f'<text x="{mark.x:.1f}" y="{mark.y:.1f}"{anchor}{attributes}>{escape(mark.text)}</text>'


def _title(hint: str) -> str:
    return f"<title>{escape(hint)}</title>" if hint else ""
