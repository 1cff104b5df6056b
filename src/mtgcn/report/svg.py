"""The strokes all pictures are made of. Colours come from the style sheet of the page they stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape


def picture(width: float, height: float, title: str, parts: Iterable[str], smallest: float = 0.8) -> str:
    """A picture that grows and shrinks with the page; below `smallest` of its size it is scrolled instead."""
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}" '
        f'style="max-width:{1.3 * width:.0f}px;min-width:{smallest * width:.0f}px">{"".join(parts)}</svg>'
    )


def text(x: float, y: float, content: str, anchor: str, style: str = "") -> str:
    look = f' class="{style}"' if style else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{look}>{escape(content)}</text>'


def horizontal_grid(ticks: Iterable[float], vertical: Callable[[float], float], start: float, end: float) -> str:
    lines = [
        f'<path class="grid" d="M{start},{vertical(tick):.1f}H{end}"/>'
        + text(start - 8, vertical(tick) + 4, f"{tick:g}", "end")
        for tick in ticks
    ]
    return "".join(lines)
