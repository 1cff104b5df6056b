"""How a method looks, the same in every picture and table of a page: its name, colour, marker and dash."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from mtgcn.experiments.protocol import PRINTED_NAMES, REFERENCE, Suite

COLOURS = 7  # .c0 to .c6 in the style sheet; the reference has one of its own
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2")
# Outlines around the origin; each is drawn filled and, for another method, hollow.
MARKERS = (
    "M-4,-4H4V4H-4Z",  # square
    "M0,-5.5L5,3.5H-5Z",  # triangle
    "M0,-6L5,0L0,6L-5,0Z",  # diamond
    "M0,5.5L5,-3.5H-5Z",  # triangle upside down
    "M-5,-2H-2V-5H2V-2H5V2H2V5H-2V2H-5Z",  # cross
    "M-5.5,0L3.5,-5V5Z",  # triangle to the left
    "M0,-6L1.6,-1.9L6,-1.9L2.5,1L3.8,5.5L0,2.9L-3.8,5.5L-2.5,1L-6,-1.9L-1.6,-1.9Z",  # star
)
REFERENCE_MARKER = "M5,0A5,5 0 1 1 -5,0A5,5 0 1 1 5,0Z"  # circle


@dataclass(frozen=True)
class Styles:
    """The looks of a page: what its methods are called, in the order that decides which colours and markers they get,
    and the one that all others are compared with, which has a colour and a marker of its own."""

    names: Mapping[str, str]
    reference: str

    def shown_name(self, title: str) -> str:
        """What a line is called; one that the page does not know, as people type it."""
        return self.names.get(title, title)

    def colour(self, title: str) -> str:
        return "reference" if title == self.reference else f"c{self._number(title) % COLOURS}"

    def dash(self, title: str) -> str:
        dash = "" if title == self.reference else DASHES[self._number(title) % len(DASHES)]
        return f' stroke-dasharray="{dash}"' if dash else ""

    def marker(self, title: str, x: float, y: float, hint: str = "") -> str:
        number = self._number(title)
        outline = REFERENCE_MARKER if title == self.reference else MARKERS[number % len(MARKERS)]
        hollow = title != self.reference and number // len(MARKERS) % 2
        told = f"<title>{escape(hint)}</title>" if hint else ""
        return (
            f'<path class="mark{" hollow" if hollow else ""}" transform="translate({x:.1f} {y:.1f})" d="{outline}">'
            f"{told}</path>"
        )

    def _number(self, title: str) -> int:
        others = [name for name in self.names if name != self.reference]
        return others.index(title) if title in others else len(others) + sum(map(ord, title))


PAPER_STYLES = Styles(PRINTED_NAMES, REFERENCE)  # names as the paper writes them


def styles_of(suite: Suite | None) -> Styles:
    """Those of a suite, where all lines are called as people type them, or of the paper's tables."""
    return Styles({title: title for title in suite.titles}, suite.reference) if suite else PAPER_STYLES
