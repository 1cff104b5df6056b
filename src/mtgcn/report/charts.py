"""All charts: of measured tables, of training curves and of one fit.

A method has the same colour, marker and dashes in every chart, and its name is beside its line, so that no chart
depends on colour alone. Accuracies and differences are given as shares and shown in per cent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mtgcn.experiments.compare import Comparison
from mtgcn.experiments.statistics import PairedTest, RankComparison, SampleSummary
from mtgcn.report.figures import (
    Area,
    Chart,
    Dots,
    Group,
    Line,
    Mark,
    Scale,
    Text,
    padded,
    rectangle,
    segments,
    spaced_out,
    x_labels,
    y_axis,
)
from mtgcn.report.fit_view import SURE, UNSURE, Map, histogram
from mtgcn.report.styles import DASHES, PAPER_STYLES, SERIES_COLOURS, Styles
from mtgcn.shapes import Float, Int
from mtgcn.uncertainty.peer_weights import PeerContribution

LINE_HEIGHT = 18.0  # of text
LINE_GAP = 16.0  # between the names at the ends of lines
MAX_BANDS = 3  # more intervals in one chart hide each other
MAX_POINTS = 200  # of a curve
MAX_CLASSES = 40  # with a bar each
MAX_NAMES_ON_MAP = 20
MAX_NAME_LENGTH = 24  # characters
MAP_WIDTH, MAP_MARGIN = 640.0, 18.0
MIN_MAP_RATIO = 0.5  # height / width
MAX_DOT, MIN_DOT = 7.0, 2.6
NODES_WITH_MAX_DOT = 1_500  # more nodes have smaller dots, so that about the same share of the map stays empty


def label_rate_chart(
    series: Mapping[str, Mapping[int, SampleSummary]], *, title: str, styles: Styles = PAPER_STYLES
) -> Chart:
    """Mean and interval of each method over labels per class; methods are shifted side by side at each rate."""
    right = max(118, 10 * max(len(styles.name(method)) for method in series) - 12)
    width, height, left, top, bottom = 422 + right, 420, 34, 14, 50
    rates = sorted({rate for samples in series.values() for rate in samples})
    limits = [100 * end for samples in series.values() for sample in samples.values() for end in sample.ci95]
    y = Scale(*padded(limits), height - bottom, top)
    spacing = (width - right - left) / len(rates)  # even: on a true scale 18 and 20 would coincide
    x_of = {rate: left + (place + 0.5) * spacing for place, rate in enumerate(rates)}
    step = min(7.0, 0.75 * spacing / len(series))
    marks = y_axis(y, left, width - right, y.ticks())
    marks += x_labels(
        lambda rate: x_of[int(rate)], height - bottom, rates, "labels per class", (left + width - right) / 2
    )
    last = [100 * samples[max(samples)].mean for samples in series.values()]
    name_heights = spaced_out([y(mean) for mean in last], gap=LINE_GAP, low=top + 6, high=height - bottom)
    groups = []
    for order, ((method, samples), name_y) in enumerate(zip(series.items(), name_heights, strict=True)):
        name, colour, is_reference = styles.name(method), styles.colour(method), method == styles.reference
        shift = (order - (len(series) - 1) / 2) * step
        shown = [(rate, samples[rate]) for rate in sorted(samples)]
        xs = np.array([x_of[rate] + shift for rate, _ in shown])
        means = np.array([y(100 * sample.mean) for _, sample in shown])
        lows, highs = np.array([[y(100 * end) for end in sample.ci95] for _, sample in shown]).T
        end = np.array([width - right + 20, name_y])
        parts: list[Mark] = [
            Line(np.stack([xs, means], 1), colour, 3.0 if is_reference else 1.6, styles.dashes(method)),
            segments(np.stack([xs, lows], 1), np.stack([xs, highs], 1), colour, 1.3),
            Line(np.array([[xs[-1] + 6, means[-1]], end - [6, 0]]), colour, 0.7, opacity=0.5),
        ]
        outline, hollow = styles.marker(method)
        for place, (rate, sample) in zip(np.stack([xs, means], 1), shown, strict=True):
            low, high = sample.ci95
            hint = f"{name}, {rate} labels per class: {_percent(sample.mean)} ({_percent(low)} to {_percent(high)})"
            parts.append(Area(outline + place, colour, hollow=hollow, hint=hint))
        parts.append(Area(outline + end, colour, hollow=hollow))
        parts.append(Text(end[0] + 10, name_y + 4, name, bold=is_reference))
        groups.append((is_reference, Group(parts)))
    marks += [group for _, group in sorted(groups, key=lambda group: group[0])]  # the reference on top
    return Chart(title, width, height, marks, min_scale=0.66)


def curve_chart(
    epochs: Sequence[int] | np.ndarray,
    series: Mapping[str, Float[np.ndarray, "parts epochs"]],
    *,
    title: str,
    teaching_from: int = 0,
) -> Chart:
    """Lines over epochs: of each series the mean and, where `parts` is 3, its interval if the series are few. Series
    without a value are left out; a chart whose values all begin after `teaching_from` begins there."""
    width, height, left, top, bottom = 430, 270, 46, 22, 44
    series = {name: values for name, values in series.items() if np.isfinite(values[0]).any()}
    right = 30 + 7 * max(len(name) for name in series)
    steps = np.unique(np.linspace(0, len(epochs) - 1, min(len(epochs), MAX_POINTS)).astype(int))
    at = np.asarray(epochs)[steps]
    with_bands = len(series) <= MAX_BANDS
    parts_shown = slice(None) if with_bands else slice(1)
    y = Scale(
        *padded(np.concatenate([values[parts_shown].ravel() for values in series.values()])), height - bottom, top
    )
    begin = min(np.asarray(epochs)[np.isfinite(values[0])].min() for values in series.values())
    first = teaching_from if begin > teaching_from else 0
    x = Scale(first, max(int(np.max(epochs)), first + 1), left, width - right)
    marks = y_axis(y, left, width - right, y.ticks(5))
    marks += x_labels(x, height - bottom, x.ticks(4), "epoch", (left + width - right) / 2)
    if first < teaching_from < x.high:
        moment = x(float(teaching_from))
        marks.append(Line(np.array([[moment, top - 6], [moment, height - bottom]]), "soft", 1.0, (3, 3)))
        marks.append(Text(moment, top - 9, "teaching begins", "middle"))
    ends = [y(float(values[0][np.isfinite(values[0])][-1])) for values in series.values()]
    name_heights = spaced_out(ends, gap=LINE_GAP, low=top + 6, high=height - bottom)
    for order, ((name, values), end, name_y) in enumerate(zip(series.items(), ends, name_heights, strict=True)):
        colour, places = f"c{order % SERIES_COLOURS}", x(at.astype(float))
        parts: list[Mark] = []
        if with_bands and len(values) == 3:
            known = np.isfinite(values[:, steps]).all(axis=0)
            low, high = (np.stack([places, y(values[part, steps])], 1)[known] for part in (1, 2))
            parts.append(Area(np.concatenate([low, high[::-1]]), colour, opacity=0.16))
        corners = np.stack([places, y(values[0, steps])], 1)
        parts += [
            Line(corners, colour, dashes=DASHES[order % len(DASHES)]),
            Line(np.array([[width - right + 1, end], [width - right + 18, name_y]]), colour, 0.7, opacity=0.5),
            Text(width - right + 22, name_y + 4, name),
        ]
        marks.append(Group(parts, name))
    return Chart(title, width, height, marks, min_scale=0.7)


def history_charts(history: Mapping[str, Float[np.ndarray, "epochs peers"]], peers: Sequence[str] = ()) -> list[Chart]:
    """One chart per recorded value, one line per peer."""
    charts = []
    for name, values in history.items():
        if np.isfinite(values).any():
            count = values.shape[1]
            names = peers if len(peers) == count else [f"peer {peer + 1}" for peer in range(count)]
            lines = {shortened(peer): line[None] for peer, line in zip(names, values.T, strict=True)}
            charts.append(curve_chart(np.arange(1, len(values) + 1), lines, title=name))
    return charts


def difference_chart(
    rows: Sequence[tuple[str, Sequence[PairedTest | None]]],
    columns: Sequence[str],
    *,
    title: str,
    caption: str = "",
    styles: Styles = PAPER_STYLES,
) -> Chart:
    """One panel per column; per row a difference with its interval, filled if it is significant."""
    caption = caption or f"points above or below {styles.name(styles.reference)}"
    panel, gap, row_height, top = 150, 28, 24, 34
    names_width = 40 + 7 * max(len(styles.name(name)) for name, _ in rows)
    width = max(names_width + len(columns) * (panel + gap), 7 * len(caption))
    base = top + len(rows) * row_height
    limits = [100 * end for _, row in rows for test in row if test for end in test.difference.ci95]
    low, high = padded([0.0, *limits])
    starts = [names_width + place * (panel + gap) for place in range(len(columns))]
    scales = [Scale(low, high, start, start + panel) for start in starts]
    marks: list[Mark] = [Text(width / 2, base + 36, caption, "middle")]
    for scale, heading in zip(scales, columns, strict=True):
        marks.append(Text(scale.start + panel / 2, 16, heading, "middle", bold=True))
        for tick in scale.ticks(4):
            x = scale(tick)
            marks.append(Line(np.array([[x, top - 8], [x, base]]), "rule" if tick else "soft", 1.0))
            marks.append(Text(x, base + 16, f"{tick:+g}" if tick else "0", "middle"))
    for number, (name, row) in enumerate(rows):
        y = top + (number + 0.5) * row_height
        marks.append(Text(names_width - 14, y + 4, styles.name(name), "end"))
        for scale, heading, test in zip(scales, columns, row, strict=True):
            if test:
                start, end = (scale(100 * limit) for limit in test.difference.ci95)
                marks.append(Line(np.array([[start, y], [end, y]]), "c0", 1.3))
                place = np.array([[scale(100 * test.difference.mean), y]])
                hint = f"{styles.name(name)}, {heading}: {_percent(test.difference.mean, '+.1f')}"
                marks.append(Dots(place, "c0", 8, "filled" if test.is_significant else "hollow", hint=hint))
    return Chart(title, width, base + 40, marks)


def rank_chart(ranks: RankComparison, *, title: str, styles: Styles = PAPER_STYLES) -> Chart:
    """Demšar's critical-difference diagram: average ranks, with bars that join methods that do not differ."""
    side = max(150, 52 + round(7.5 * max(len(styles.name(method)) for method in ranks.methods)))
    width, axis, row_height = 420 + 2 * side, 62, 22
    count, half = len(ranks.methods), math.ceil(len(ranks.methods) / 2)
    names_from = axis + 26 + 9 * len(ranks.groups)
    x = Scale(1, count, side, width - side)

    def line(*corners: tuple[float, float], colour: str = "soft", thickness: float = 1.0) -> Line:
        return Line(np.array(corners, dtype=float), colour, thickness)

    marks: list[Mark] = [line((x.start, axis), (x.end, axis))]
    for tick in range(1, count + 1):
        marks += [line((x(tick), axis), (x(tick), axis - 6)), Text(x(tick), axis - 11, str(tick), "middle")]
    end = min(x(1 + ranks.critical_difference), float(width))
    marks.append(line((x.start, 18), (end, 18), colour="ink", thickness=4))
    marks.append(Text(x.start, 12, f"critical difference {ranks.critical_difference:.2f}"))
    for place, (method, rank) in enumerate(zip(ranks.methods, ranks.average_ranks, strict=True)):
        on_left, name, bold = place < half, styles.name(method), method == styles.reference
        y = names_from + 8 + row_height * (place if on_left else count - 1 - place)
        edge = side - 10 if on_left else width - side + 10
        marks.append(line((x(rank), axis), (x(rank), y), (edge, y)))
        if on_left:
            marks.append(Text(edge - 5, y + 4, f"{name} {rank:.1f}", "end", bold=bold))
        else:
            marks.append(Text(edge + 5, y + 4, f"{rank:.1f} {name}", bold=bold))
    rank_of = dict(zip(ranks.methods, ranks.average_ranks, strict=True))
    for level, group in enumerate(ranks.groups):
        y = axis + 12 + 9 * level
        marks.append(line((x(rank_of[group[0]]) - 4, y), (x(rank_of[group[-1]]) + 4, y), colour="ink", thickness=4))
    return Chart(title, width, names_from + half * row_height + 8, marks)


def run_chart(comparison: Comparison, *, title: str, styles: Styles) -> Chart:
    """The accuracy of every run as a dot, and the mean of each method with its 95 % interval."""
    cells = comparison.cells
    left, top, row_height, panel = 30 + 7.5 * max(len(cell.method) for cell in cells), 8, 38, 460
    base = top + row_height * len(cells)
    values = [100 * one for cell in cells for one in (*cell.accuracy.per_run, *cell.accuracy.ci95)]
    x = Scale(*padded(values), left, left + panel)
    ticks = x.ticks(8)
    places = np.array([(x(tick), top) for tick in ticks])
    marks: list[Mark] = [segments(places, places + np.array([0, base - top]), "rule")]
    marks += x_labels(x, base, ticks, "accuracy in %: each run, the mean and its 95 % interval", left + panel / 2)
    for number, cell in enumerate(cells):
        y, colour = top + (number + 0.5) * row_height, styles.colour(cell.method)
        accuracy = np.array([x(100 * one) for one in cell.accuracy.per_run])
        spread = 0.3 * row_height * (np.arange(len(accuracy)) / max(len(accuracy) - 1, 1) - 0.5)  # equal runs differ
        low, high = (x(100 * end) for end in cell.accuracy.ci95)
        marks += [
            Text(left - 12, y + 4, cell.method, "end"),
            Dots(np.stack([accuracy, y + spread], 1), colour, 5, opacity=0.4),
            Line(np.array([[low, y], [high, y]]), colour, 2.5),
            Dots(np.array([[x(100 * cell.accuracy.mean), y]]), colour, 9),
        ]
    return Chart(title, left + panel + 20, base + 44, marks)


def confidence_chart(confidence: Float[np.ndarray, "nodes"], classes: int) -> Chart:
    """A histogram of the probability of the predicted class."""
    counts, edges = histogram(confidence, classes)
    width, height, left, right, top, bottom = 540, 300, 46, 12, 14, 48
    y = Scale(0, max(1, int(counts.max(initial=0))), height - bottom, top)
    x = Scale(100 * edges[0], 100, left, width - right)
    marks = y_axis(y, left, width - right, [tick for tick in y.ticks(5) if tick == int(tick)])
    for count, low, high in zip(counts, 100 * edges[:-1], 100 * edges[1:], strict=True):
        hint = f"{count} nodes between {low:.0f} and {high:.0f} %"
        marks.append(rectangle(x(low) + 1, y(count), x(high) - x(low) - 2, y.start - y(count), "c0", hint))
    caption = "probability of the predicted class, per cent"
    marks += x_labels(x, height - bottom, x.ticks(), caption, (left + width - right) / 2)
    return Chart("Unlabelled nodes by the probability of their predicted class", width, height, marks, min_scale=0.58)


def class_chart(
    names: Sequence[str], given: Int[np.ndarray, "classes"], predicted: Int[np.ndarray, "classes"]
) -> Chart:
    """Per class a bar for the predicted nodes, and the numbers of predicted nodes and given labels."""
    order = np.argsort(-predicted, kind="stable")[:MAX_CLASSES]
    left, right, top, row = 16 + 7.5 * _longest([names[number] for number in order]), 118, 28, 24
    width = max(540.0, left + right + 180)
    x = Scale(0, max(1, int(predicted.max(initial=0))), left, width - right)
    ends = (width - right + 62, width - 4)
    marks: list[Mark] = [Text(ends[0], 16, "predicted", "end"), Text(ends[1], 16, "given", "end")]
    for place, number in enumerate(order):
        y = top + row * place
        hint = f"{names[number]}: {predicted[number]} predicted, {given[number]} given"
        marks += [
            Text(left - 8, y + 15, shortened(names[number]), "end"),
            rectangle(left, y + 4, max(1.0, x(float(predicted[number])) - left), row - 8, f"k{number}", hint),
            Text(ends[0], y + 15, str(predicted[number]), "end"),
            Text(ends[1], y + 15, str(given[number]), "end"),
        ]
    return Chart("Nodes of each class", width, top + row * len(order) + 8, marks, min_scale=0.6)


def peer_chart(peers: Sequence[PeerContribution]) -> Chart:
    """Per peer a bar for its weight, a dot for its held-out accuracy and a ring for its agreement with the ensemble."""
    left, right, top, row = 16 + 7.5 * _longest([peer.name for peer in peers]), 16, 6, 26
    width = max(540.0, left + right + 240)
    base = top + row * len(peers)
    x = Scale(0, 1, left, width - right)
    ticks = np.linspace(0, 1, 6)
    places = np.stack([x(ticks), np.full(6, float(top))], 1)
    marks: list[Mark] = [segments(places, places + np.array([0, base - top]), "rule")]
    marks += x_labels(lambda tick: x(tick / 100), base - 2, 100 * ticks, "per cent", x(0.5))
    for place, peer in enumerate(peers):
        y = top + row * (place + 0.5)
        hint = f"{peer.name}: weight {_percent(peer.weight)} %"
        marks.append(Text(left - 8, y + 4, shortened(peer.name), "end"))
        marks.append(rectangle(left, y - 8, max(1.0, x(peer.weight) - left), 16, "c0", hint))
        hint = f"{peer.name}: agrees with the ensemble on {_percent(peer.agreement)} % of nodes"
        marks.append(Dots(np.array([[x(peer.agreement), y]]), "c2", 12, "ring", hint=hint))
        if peer.held_out_accuracy is not None:
            hint = f"{peer.name}: held-out accuracy {_percent(peer.held_out_accuracy)} %"
            marks.append(Dots(np.array([[x(peer.held_out_accuracy), y]]), "c1", 8, hint=hint))
    return Chart("Weights of the peers", width, base + 42, marks, min_scale=0.6)


def map_chart(shown: Map, names: Sequence[str]) -> Chart:
    """Nodes at their places, coloured by class: large dots are confident predictions, hollow ones uncertain, ringed
    ones labelled; numbers mark the suggested nodes."""
    where, height = map_places(shown)
    size = float(np.clip(MAX_DOT * np.sqrt(NODES_WITH_MAX_DOT / max(1, len(where))), MIN_DOT, MAX_DOT))
    unlabelled, unsure, sure = shown.given < 0, shown.confidence < UNSURE, shown.confidence >= SURE
    marks: list[Mark] = []
    for number in range(len(names)):
        of_class = unlabelled & (shown.predicted == number)
        marks += [
            Dots(where[of_class & unsure], f"k{number}", size, "hollow", opacity=0.75),
            Dots(where[of_class & ~unsure & ~sure], f"k{number}", 0.7 * size, opacity=0.8),
            Dots(where[of_class & sure], f"k{number}", size, opacity=0.8),
        ]
    for number in range(len(names)):
        marks.append(Dots(where[shown.given == number], f"k{number}", max(7.0, size + 1), "ringed"))
    for rank, (x, y) in enumerate(where[shown.suggested], start=1):
        marks.append(Dots(np.array([[x, y]]), "paper", 6, "ringed"))
        marks.append(Text(x, y, str(rank), size=13.5, shift=(0.45, -0.25), bold=True, halo=True))
    return Chart("Map of the nodes", MAP_WIDTH, height, [*marks, *_names_on_map(shown, where, names)], min_scale=0.3)


def map_places(shown: Map) -> tuple[Float[np.ndarray, "shown 2"], float]:
    """Coordinates of the nodes on the map, and its height."""
    where = MAP_MARGIN + shown.places * (MAP_WIDTH - 2 * MAP_MARGIN)
    needed = float(where[:, 1].max()) + MAP_MARGIN
    height = max(needed, MIN_MAP_RATIO * MAP_WIDTH)
    return where + np.array([0, (height - needed) / 2]), height


def _names_on_map(shown: Map, where: Float[np.ndarray, "shown 2"], names: Sequence[str]) -> Iterator[Text]:
    """Class names, each in a dense region of its class that is free of other text, if there is one."""
    if len(names) > MAX_NAMES_ON_MAP:
        return
    taken = [(x + 8, y, 12.0) for x, y in where[shown.suggested]]  # centre and half width of each text
    for number, name in enumerate(names):
        of_class = where[shown.predicted == number]
        if len(of_class):
            text = shortened(f"class {name}" if name.isdigit() else name)  # bare numbers mark suggestions
            half = 6 + 5.2 * len(text)
            places = [(min(max(x, half), MAP_WIDTH - half), y) for x, y in _densest_first(of_class)]
            free = (
                (x, y)
                for x, y in places
                if not any(abs(x - u) < half + other and abs(y - v) < LINE_HEIGHT for u, v, other in taken)
            )
            x, y = next(free, places[0])
            taken.append((x, y, half))
            yield Text(x, y, text, "middle", size=15, bold=True, halo=True)


def _densest_first(places: Float[np.ndarray, "some 2"]) -> Float[np.ndarray, "few 2"]:
    """A few hundred of the places, by the mean distance to their nearest quarter."""
    some = places[:: max(1, len(places) // 200)]
    distance = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    near = np.sort(distance, axis=1)[:, : max(2, len(some) // 4)].mean(axis=1)
    return some[np.argsort(near, kind="stable")]


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def _longest(names: Sequence[str]) -> int:
    return min(MAX_NAME_LENGTH, max(map(len, names)))


def _percent(share: float, form: str = ".1f") -> str:
    return format(100 * share, form)
