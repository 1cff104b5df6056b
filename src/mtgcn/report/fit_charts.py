"""Pictures of one fit as SVG: how sure, of what, where, and how it came to be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape

import numpy as np

from mtgcn.report.charts import padded, round_numbers
from mtgcn.report.fit_view import SURE, UNSURE, Map, histogram
from mtgcn.report.svg import horizontal_grid, picture, text
from mtgcn.shapes import Float, Int
from mtgcn.trust.peer_votes import PeerContribution

MOST_CLASSES = 40  # that have a bar of their own
MOST_LABELS_ON_MAP = 20  # names; more would lie on each other
LONGEST_NAME = 24  # characters
MOST_POINTS = 200  # of a curve
PEER_DASHES = ("", "6 3", "2 3", "9 3 2 3")


def confidence_chart(confidence: Float[np.ndarray, "nodes"], classes: int) -> str:
    """A histogram of how probable the predicted class is."""
    counts, edges = histogram(confidence, classes)
    width, height, left, right, top, bottom = 540, 300, 46, 12, 14, 48
    highest = max(1, int(counts.max(initial=0)))
    room = (width - left - right) / len(counts)

    def vertical(value: float) -> float:
        return height - bottom - value / highest * (height - bottom - top)

    def horizontal(probability: float) -> float:
        return left + (probability - edges[0]) / (1 - edges[0]) * (width - left - right)

    parts = [horizontal_grid(_whole_numbers(highest), vertical, left, width - right)]
    for place, count in enumerate(counts):
        hint = f"{count} nodes between {100 * edges[place]:.0f} and {100 * edges[place + 1]:.0f} %"
        x, y = left + place * room, vertical(count)
        parts.append(
            f'<rect class="filled" x="{x + 1:.1f}" y="{y:.1f}" width="{room - 2:.1f}" '
            f'height="{height - bottom - y:.1f}"><title>{hint}</title></rect>'
        )
    for tick in round_numbers(100 * edges[0], 100, wanted=6):
        parts.append(text(horizontal(tick / 100), height - bottom + 18, f"{tick:g}", "middle"))
    parts.append(text((left + width - right) / 2, height - 8, "probability of the predicted class, per cent", "middle"))
    return picture(width, height, "Confidence of the predictions", parts, smallest=0.58)


def class_chart(names: Sequence[str], given: Int[np.ndarray, "classes"], predicted: Int[np.ndarray, "classes"]) -> str:
    """For each class two numbers, and a bar for the larger one: labels given, nodes predicted."""
    order = np.argsort(-predicted, kind="stable")[:MOST_CLASSES]
    longest = min(LONGEST_NAME, max(len(names[number]) for number in order))
    left, right, top, row = 16 + 7.5 * longest, 118, 28, 24
    width = max(480.0, left + right + 180)
    height = top + row * len(order) + 8
    scale = (width - left - right) / max(1, int(predicted.max(initial=0)))
    parts = [text(width - right + 62, 16, "predicted", "end"), text(width - 4, 16, "given", "end")]
    for place, number in enumerate(order):
        y = top + row * place
        parts.append(text(left - 8, y + 15, _shortened(names[number]), "end"))
        parts.append(
            f'<g class="k{number}"><rect class="filled" x="{left:.1f}" y="{y + 4}" '
            f'width="{max(1.0, scale * predicted[number]):.1f}" height="{row - 8}">'
            f"<title>{escape(names[number])}: {predicted[number]} predicted, {given[number]} given</title></rect></g>"
        )
        parts.append(text(width - right + 62, y + 15, str(predicted[number]), "end"))
        parts.append(text(width - 4, y + 15, str(given[number]), "end"))
    return picture(width, height, "Sizes of the classes", parts, smallest=0.6)


def peer_chart(peers: Sequence[PeerContribution]) -> str:
    """For each peer a bar: its vote, a dot: its accuracy on held-out labels, a ring: its agreement with the answer."""
    longest = min(LONGEST_NAME, max(len(peer.name) for peer in peers))
    left, right, top, row, bottom = 16 + 7.5 * longest, 16, 6, 26, 42
    width = max(480.0, left + right + 240)
    end = top + row * len(peers)

    def horizontal(share: float) -> float:
        return left + share * (width - left - right)

    parts = []
    for tick in range(0, 101, 20):
        parts.append(f'<path class="grid" d="M{horizontal(tick / 100):.1f},{top}V{end}"/>')
        parts.append(text(horizontal(tick / 100), end + 16, str(tick), "middle"))
    parts.append(text(horizontal(0.5), end + 35, "per cent", "middle"))
    for place, peer in enumerate(peers):
        y = top + row * (place + 0.5)
        parts.append(text(left - 8, y + 4, _shortened(peer.name), "end"))
        parts.append(
            f'<g class="c0"><rect class="filled" x="{left:.1f}" y="{y - 8:.1f}" '
            f'width="{max(1.0, horizontal(peer.weight) - left):.1f}" height="16"><title>{escape(peer.name)}: '
            f"{100 * peer.weight:.1f} % of the vote</title></rect></g>"
        )
        parts.append(
            f'<g class="c2"><circle class="ring" cx="{horizontal(peer.agreement):.1f}" cy="{y:.1f}" r="6"><title>'
            f"{escape(peer.name)}: agrees with the answer on {100 * peer.agreement:.1f} % of nodes</title></circle></g>"
        )
        if peer.held_out_accuracy is not None:
            parts.append(
                f'<g class="c1"><circle class="filled" cx="{horizontal(peer.held_out_accuracy):.1f}" cy="{y:.1f}" '
                f'r="4"><title>{escape(peer.name)}: {100 * peer.held_out_accuracy:.1f} % of held-out labels</title>'
                "</circle></g>"
            )
    return picture(width, end + bottom, "Votes of the peers", parts, smallest=0.7)


def map_chart(shown: Map, names: Sequence[str]) -> str:
    """Nodes by where they lie, coloured by class; large ones are sure, hollow ones in doubt, rings are given, and
    numbers the nodes most worth a look."""
    size, margin = 640, 16
    where = margin + shown.places * (size - 2 * margin)
    parts = []
    free = shown.given < 0
    levels = (
        ("unsure", free & (shown.confidence < UNSURE)),
        ("fair", free & (shown.confidence >= UNSURE) & (shown.confidence < SURE)),
        ("sure", free & (shown.confidence >= SURE)),
    )
    for look, chosen in levels:
        for number in range(len(names)):
            dots = _dots(where[chosen & (shown.predicted == number)])
            if dots:
                hollow = f'<path class="hole" d="{dots}"/>' if look == "unsure" else ""
                parts.append(f'<g class="k{number}"><path class="dot {look}" d="{dots}"/>{hollow}</g>')
    for (x, y), given in zip(where[~free], shown.given[~free], strict=True):
        parts.append(
            f'<g class="k{given}"><circle class="given" cx="{x:.1f}" cy="{y:.1f}" r="5.5">'
            f"<title>given: {escape(names[given])}</title></circle></g>"
        )
    if len(names) <= MOST_LABELS_ON_MAP:
        for number, name in enumerate(names):
            of_class = where[shown.predicted == number]
            if len(of_class):
                x, y = _densest_place(of_class)
                parts.append(text(min(max(x, 60), size - 60), y, name, "middle", "on-map"))
    for rank, (x, y) in enumerate(where[shown.suggested], start=1):
        parts.append(f'<path class="target" d="M{x - 5:.1f},{y:.1f}h10M{x:.1f},{y - 5:.1f}v10"/>')
        parts.append(text(x + 7, y - 3, str(rank), "start", "number"))
    return picture(size, size, "Map of the nodes", parts, smallest=0.5)


def history_charts(
    history: Mapping[str, Float[np.ndarray, "epochs peers"]], peers: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """One small picture for each thing that was written down in every epoch, a line for each peer; those without names
    are numbered."""
    return [
        (
            name,
            _history_chart(name, values, peers if len(peers) == values.shape[1] else _numbered(values.shape[1])),
        )
        for name, values in history.items()
        if np.isfinite(values).any()
    ]


def _numbered(peers: int) -> list[str]:
    return [f"peer {peer + 1}" for peer in range(peers)]


def _history_chart(name: str, values: Float[np.ndarray, "epochs peers"], peers: Sequence[str]) -> str:
    width, height, left, right, top, bottom = 400, 220, 52, 14, 12, 42
    epochs = len(values)
    low, high = padded([float(np.nanmin(values)), float(np.nanmax(values))])
    kept = np.unique(np.linspace(0, epochs - 1, min(epochs, MOST_POINTS)).astype(int))

    def horizontal(epoch: float) -> float:
        return left + epoch / max(1, epochs) * (width - left - right)

    def vertical(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - bottom - top)

    parts = [horizontal_grid(round_numbers(low, high, wanted=4), vertical, left, width - right)]
    parts += [
        text(horizontal(tick), height - bottom + 18, f"{tick:g}", "middle")
        for tick in round_numbers(0, max(1, epochs), wanted=5)
    ]
    parts.append(text((left + width - right) / 2, height - 6, "epoch", "middle"))
    for peer, title in enumerate(peers):
        corners = _corners(kept, values[kept, peer], horizontal, vertical)
        dash = PEER_DASHES[peer % len(PEER_DASHES)]
        style = f' stroke-dasharray="{dash}"' if dash else ""
        parts.append(
            f'<g class="series c{peer % 7}"><title>{escape(title)}</title><path class="line" d="{corners}"{style}/></g>'
        )
    return picture(width, height, f"{name} over the epochs", parts, smallest=0.7)


def _corners(
    epochs: np.ndarray, values: np.ndarray, horizontal: Callable[[float], float], vertical: Callable[[float], float]
) -> str:
    """A line through what is known; it breaks off where nothing was written down."""
    drawn, pen_down = [], False
    for epoch, value in zip(epochs, values, strict=True):
        if np.isfinite(value):
            drawn.append(f"{'L' if pen_down else 'M'}{horizontal(epoch + 1):.1f},{vertical(value):.1f}")
        pen_down = bool(np.isfinite(value))
    return "".join(drawn)


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _dots(places: Float[np.ndarray, "some 2"]) -> str:
    """Strokes of no length, which round ends make dots: a tenth of the text that circles would take."""
    return "".join(f"M{x:.1f},{y:.1f}h0" for x, y in places)


def _densest_place(places: Float[np.ndarray, "some 2"]) -> tuple[float, float]:
    """Where most of them are: of a few tens of them, the one with the nearest neighbours."""
    some = places[:: max(1, len(places) // 200)]
    distance = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    near = np.sort(distance, axis=1)[:, : max(2, len(some) // 4)].mean(axis=1)
    x, y = some[near.argmin()]
    return float(x), float(y)


def _whole_numbers(highest: int) -> list[float]:
    return [tick for tick in round_numbers(0, highest, wanted=5) if tick == int(tick)]
