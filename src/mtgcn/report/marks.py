"""What a picture is made of. A page draws it as SVG (`marks_svg.py`), a figure by matplotlib (`fit_figure.py`).

Coordinates are those of the picture: x to the right, y downwards. Colours are names from `colours.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mtgcn.shapes import Float

TEXT_SIZE = 13.0


@dataclass(frozen=True, eq=False)
class Bar:
    """A rectangle; the hint is shown to whoever points at it."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Line:
    """A line through the corners; it breaks off where one is NaN."""

    corners: Float[np.ndarray, "corners 2"]
    colour: str
    width: float = 1.6
    dashes: tuple[float, ...] = ()
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Dots:
    """Equal dots, as large as `size` across: filled, hollow, rings around nothing, or filled with a ring around."""

    places: Float[np.ndarray, "dots 2"]
    colour: str
    size: float
    look: Literal["filled", "hollow", "ring", "ringed"] = "filled"
    opacity: float = 1.0
    hint: str = ""


@dataclass(frozen=True, eq=False)
class Words:
    """A line of text that starts at, is centred on or ends at a place, or beside it by a part of its size."""

    x: float
    y: float
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    colour: str = "ink"
    size: float = TEXT_SIZE
    shift: tuple[float, float] = (0.0, 0.0)
    bold: bool = False
    halo: bool = False  # of the colour of the paper, so that it can be read on top of something


Mark = Bar | Line | Dots | Words


@dataclass(frozen=True, eq=False)
class Picture:
    title: str
    width: float
    height: float
    marks: Sequence[Mark]
    smallest: float = 0.8  # of its size; on narrower pages it is scrolled instead
