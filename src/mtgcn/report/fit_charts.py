"""Pictures of one fit, for the page and the figure alike: how sure, of what, where, and how it came to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from mtgcn.report.charts import padded, round_numbers
from mtgcn.report.fit_view import SURE, UNSURE, Map, histogram
from mtgcn.report.marks import Bar, Dots, Line, Mark, Picture, Words
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import PeerContribution

MOST_CLASSES = 40  # that have a bar of their own
MOST_LABELS_ON_MAP = 20  # names; more would lie on each other
LONGEST_NAME = 24  # characters
MOST_POINTS = 200  # of a curve
PEER_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 3), (2, 3), (9, 3, 2, 3))
PEER_COLOURS = 7  # c0 to c6
MAP_WIDTH, MAP_MARGIN = 640.0, 18.0
LINE_HEIGHT = 18.0  # of what is written on the map
FLATTEST_MAP = 0.5  # of its width
LARGEST_DOT, SMALLEST_DOT = 7.0, 2.6
NODES_OF_LARGEST_DOTS = 1_500  # more are drawn smaller, so that about as much of the paper is left


def confidence_chart(confidence: Float[np.ndarray, "nodes"], classes: int) -> Picture:
    """A histogram of how probable the predicted class is."""
    counts, edges = histogram(confidence, classes)
    width, height, left, right, top, bottom = 540, 300, 46, 12, 14, 48
    highest = max(1, int(counts.max(initial=0)))
    room = (width - left - right) / len(counts)

    def vertical(value: float) -> float:
        return height - bottom - value / highest * (height - bottom - top)

    def horizontal(probability: float) -> float:
        return left + (probability - edges[0]) / (1 - edges[0]) * (width - left - right)

    marks = _horizontal_grid(_whole_numbers(highest), vertical, left, width - right)
    for place, count in enumerate(counts):
        hint = f"{count} nodes between {100 * edges[place]:.0f} and {100 * edges[place + 1]:.0f} %"
        x, y = left + place * room, vertical(count)
        marks.append(Bar(x + 1, y, room - 2, height - bottom - y, "c0", hint))
    for tick in round_numbers(100 * edges[0], 100, wanted=6):
        marks.append(Words(horizontal(tick / 100), height - bottom + 18, f"{tick:g}", "middle"))
    caption = "probability of the predicted class, per cent"
    marks.append(Words((left + width - right) / 2, height - 8, caption, "middle"))
    return Picture("Nodes without a label, by the probability of their class", width, height, marks, smallest=0.58)


def class_chart(
    names: Sequence[str], given: Int[np.ndarray, "classes"], predicted: Int[np.ndarray, "classes"]
) -> Picture:
    """For each class two numbers, labels given and nodes predicted, and a bar for the latter."""
    order = np.argsort(-predicted, kind="stable")[:MOST_CLASSES]
    longest = min(LONGEST_NAME, max(len(names[number]) for number in order))
    left, right, top, row = 16 + 7.5 * longest, 118, 28, 24
    width = max(540.0, left + right + 180)
    height = top + row * len(order) + 8
    scale = (width - left - right) / max(1, int(predicted.max(initial=0)))
    ends = (width - right + 62, width - 4)
    marks: list[Mark] = [Words(ends[0], 16, "predicted", "end"), Words(ends[1], 16, "given", "end")]
    for place, number in enumerate(order):
        y = top + row * place
        hint = f"{names[number]}: {predicted[number]} predicted, {given[number]} given"
        marks.append(Words(left - 8, y + 15, shortened(names[number]), "end"))
        marks.append(Bar(left, y + 4, max(1.0, scale * predicted[number]), row - 8, f"k{number}", hint))
        marks.append(Words(ends[0], y + 15, str(predicted[number]), "end"))
        marks.append(Words(ends[1], y + 15, str(given[number]), "end"))
    return Picture("Nodes of each class", width, height, marks, smallest=0.6)


def peer_chart(peers: Sequence[PeerContribution]) -> Picture:
    """For each peer a bar: its vote, a dot: its accuracy on held-out labels, a ring: its agreement with the answer."""
    longest = min(LONGEST_NAME, max(len(peer.name) for peer in peers))
    left, right, top, row, bottom = 16 + 7.5 * longest, 16, 6, 26, 42
    width = max(540.0, left + right + 240)
    end = top + row * len(peers)

    def horizontal(share: float) -> float:
        return left + share * (width - left - right)

    marks: list[Mark] = []
    for tick in range(0, 101, 20):
        x = horizontal(tick / 100)
        marks += [_stroke(x, top, x, end), Words(x, end + 16, str(tick), "middle")]
    marks.append(Words(horizontal(0.5), end + 35, "per cent", "middle"))
    for place, peer in enumerate(peers):
        y = top + row * (place + 0.5)
        vote, name = f"{peer.name}: {100 * peer.weight:.1f} % of the vote", shortened(peer.name)
        marks.append(Words(left - 8, y + 4, name, "end"))
        marks.append(Bar(left, y - 8, max(1.0, horizontal(peer.weight) - left), 16, "c0", vote))
        agrees = f"{peer.name}: agrees with the answer on {100 * peer.agreement:.1f} % of nodes"
        marks.append(Dots(np.array([[horizontal(peer.agreement), y]]), "c2", 12, "ring", hint=agrees))
        if peer.held_out_accuracy is not None:
            right_on = f"{peer.name}: {100 * peer.held_out_accuracy:.1f} % of held-out labels"
            marks.append(Dots(np.array([[horizontal(peer.held_out_accuracy), y]]), "c1", 8, hint=right_on))
    return Picture("Votes of the peers", width, end + bottom, marks, smallest=0.6)


def map_chart(shown: Map, names: Sequence[str]) -> Picture:
    """Nodes by where they lie, coloured by class; large ones are sure, hollow ones in doubt, ringed ones given, and
    numbers the nodes most worth a look."""
    where, height = map_places(shown)
    crowding = np.sqrt(NODES_OF_LARGEST_DOTS / max(1, len(where)))
    size = float(np.clip(LARGEST_DOT * crowding, SMALLEST_DOT, LARGEST_DOT))
    free = shown.given < 0
    doubtful, sure = shown.confidence < UNSURE, shown.confidence >= SURE
    marks: list[Mark] = []
    for number in range(len(names)):
        of_class = free & (shown.predicted == number)
        marks += [
            Dots(where[of_class & doubtful], f"k{number}", size, "hollow", opacity=0.75),
            Dots(where[of_class & ~doubtful & ~sure], f"k{number}", 0.7 * size, opacity=0.8),
            Dots(where[of_class & sure], f"k{number}", size, opacity=0.8),
        ]
    for number in range(len(names)):
        marks.append(Dots(where[shown.given == number], f"k{number}", max(7.0, size + 1), "ringed"))
    for rank, (x, y) in enumerate(where[shown.suggested], start=1):
        marks.append(Dots(np.array([[x, y]]), "paper", 6, "ringed"))
        marks.append(Words(x, y, str(rank), size=13.5, shift=(0.45, -0.25), bold=True, halo=True))
    return Picture("Map of the nodes", MAP_WIDTH, height, [*marks, *_names_on_map(shown, where, names)], smallest=0.3)


def _names_on_map(shown: Map, where: Float[np.ndarray, "shown 2"], names: Sequence[str]) -> Iterator[Words]:
    """The names of the classes, each where many of its nodes are and nothing else is written, if there is such a
    place."""
    if len(names) > MOST_LABELS_ON_MAP:
        return
    taken = [(x + 8, y, 12.0) for x, y in where[shown.suggested]]  # the middle of what is written, and half its width
    for number, name in enumerate(names):
        of_class = where[shown.predicted == number]
        if len(of_class):
            written = shortened(f"class {name}" if name.isdigit() else name)  # other numbers mark nodes
            half = 6 + 5.2 * len(written)
            places = [(min(max(x, half), MAP_WIDTH - half), y) for x, y in _densest_places(of_class)]
            free = [one for one in places if not any(_overlap((*one, half), other) for other in taken)]
            x, y = (free or places)[0]
            taken.append((x, y, half))
            yield Words(x, y, written, "middle", size=15, bold=True, halo=True)


def _overlap(one: tuple[float, float, float], other: tuple[float, float, float]) -> bool:
    return abs(one[0] - other[0]) < one[2] + other[2] and abs(one[1] - other[1]) < LINE_HEIGHT


def map_places(shown: Map) -> tuple[Float[np.ndarray, "shown 2"], float]:
    """Where the nodes lie on the map, and how high it is."""
    where = MAP_MARGIN + shown.places * (MAP_WIDTH - 2 * MAP_MARGIN)
    needed = float(where[:, 1].max()) + MAP_MARGIN
    height = max(needed, FLATTEST_MAP * MAP_WIDTH)
    return where + np.array([0, (height - needed) / 2]), height


def history_charts(
    history: Mapping[str, Float[np.ndarray, "epochs peers"]], peers: Sequence[str] = ()
) -> list[Picture]:
    """One small picture for each thing that was written down in every epoch, a line for each peer; those without names
    are numbered."""
    return [
        _history_chart(name, values, peers if len(peers) == values.shape[1] else _numbered(values.shape[1]))
        for name, values in history.items()
        if np.isfinite(values).any()
    ]


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _numbered(peers: int) -> list[str]:
    return [f"peer {peer + 1}" for peer in range(peers)]


def _history_chart(name: str, values: Float[np.ndarray, "epochs peers"], peers: Sequence[str]) -> Picture:
    width, height, left, right, top, bottom = 400, 220, 52, 14, 12, 42
    epochs = len(values)
    low, high = padded([float(np.nanmin(values)), float(np.nanmax(values))])
    kept = np.unique(np.linspace(0, epochs - 1, min(epochs, MOST_POINTS)).astype(int))

    def horizontal(epoch: np.ndarray | float) -> np.ndarray | float:
        return left + epoch / max(1, epochs) * (width - left - right)

    def vertical(value: float) -> float:
        return height - bottom - (value - low) / (high - low) * (height - bottom - top)

    marks = _horizontal_grid(round_numbers(low, high, wanted=4), vertical, left, width - right)
    marks += [
        Words(float(horizontal(tick)), height - bottom + 18, f"{tick:g}", "middle")
        for tick in round_numbers(0, max(1, epochs), wanted=5)
    ]
    marks.append(Words((left + width - right) / 2, height - 6, "epoch", "middle"))
    for peer, title in enumerate(peers):
        heights = np.array([vertical(value) for value in values[kept, peer]])
        corners = np.stack([np.asarray(horizontal(kept + 1.0)), heights], axis=1)
        look = f"c{peer % PEER_COLOURS}", 1.6, PEER_DASHES[peer % len(PEER_DASHES)]
        marks.append(Line(corners, *look, hint=title))
    return Picture(name, width, height, marks, smallest=0.7)


def _horizontal_grid(
    ticks: Iterable[float], vertical: Callable[[float], float], start: float, end: float
) -> list[Mark]:
    marks: list[Mark] = []
    for tick in ticks:
        marks.append(_stroke(start, vertical(tick), end, vertical(tick)))
        marks.append(Words(start - 8, vertical(tick) + 4, f"{tick:g}", "end"))
    return marks


def _stroke(x: float, y: float, to_x: float, to_y: float) -> Line:
    return Line(np.array([[x, y], [to_x, to_y]]), "rule", 1.0)


def _densest_places(places: Float[np.ndarray, "some 2"]) -> Float[np.ndarray, "few 2"]:
    """A few hundred of them, those with the nearest neighbours first."""
    some = places[:: max(1, len(places) // 200)]
    distance = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    near = np.sort(distance, axis=1)[:, : max(2, len(some) // 4)].mean(axis=1)
    return some[np.argsort(near, kind="stable")]


def _whole_numbers(highest: int) -> list[float]:
    return [tick for tick in round_numbers(0, highest, wanted=5) if tick == int(tick)]
