"""The charts of the pages: of measured tables, of training curves and of one fit.

A method has the same colour, marker and dashes in every chart, and its name is beside its line, so that no chart
depends on colour alone. Accuracies and differences are given as shares and shown in per cent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from mtgcn.experiments.statistics import PairedTest, RankComparison, SampleSummary
from mtgcn.report.fit_view import SURE, UNSURE, Map, histogram
from mtgcn.report.styles import DASHES, PAPER_STYLES, SERIES_COLOURS, Styles
from mtgcn.report.svg import (
    Chart,
    Scale,
    dots,
    line,
    padded,
    polygon,
    rectangle,
    segments,
    series,
    spaced_out,
    text,
    x_axis,
    y_axis,
)
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
    samples: Mapping[str, Mapping[int, SampleSummary]], title: str, styles: Styles = PAPER_STYLES
) -> Chart:
    """Mean and interval of each method over labels per class; methods are shifted side by side at each rate."""
    right = max(118, 10 * max(len(styles.name(method)) for method in samples) - 12)
    width, height, left, top, bottom = 422 + right, 420, 34, 14, 50
    rates = sorted({rate for of_method in samples.values() for rate in of_method})
    limits = [100 * end for of_method in samples.values() for sample in of_method.values() for end in sample.ci95]
    y = Scale(*padded(limits), height - bottom, top)
    x = Scale(-0.5, len(rates) - 0.5, left, width - right)  # even spacing: on a true scale 18 and 20 would coincide
    step = min(7.0, 0.75 * (x(1.0) - x(0.0)) / len(samples))
    marks = y_axis(y, left, width - right, y.ticks())
    marks += x_axis(x, height - bottom, dict(enumerate(map(str, rates))), "labels per class")
    last = [y(100 * of_method[max(of_method)].mean) for of_method in samples.values()]
    name_heights = spaced_out(last, gap=LINE_GAP, low=top + 6, high=height - bottom)
    groups = []
    for order, ((method, of_method), name_y) in enumerate(zip(samples.items(), name_heights, strict=True)):
        name, colour, is_reference = styles.name(method), styles.colour(method), method == styles.reference
        shown = sorted(of_method.items())
        xs = np.array([x(rates.index(rate)) for rate, _ in shown]) + (order - (len(samples) - 1) / 2) * step
        means, lows, highs = np.array([[y(100 * one) for one in (sample.mean, *sample.ci95)] for _, sample in shown]).T
        places, end = np.stack([xs, means], 1), np.array([width - right + 20, name_y])
        outline, hollow = styles.marker(method)
        parts = [
            line(places, colour, 3.0 if is_reference else 1.6, styles.dashes(method)),
            segments(np.stack([xs, lows], 1), np.stack([xs, highs], 1), colour, 1.3),
            line(np.array([places[-1] + [6, 0], end - [6, 0]]), colour, 0.7, opacity=0.5),
        ]
        for place, (rate, sample) in zip(places, shown, strict=True):
            mean, low, high = map(_percent, (sample.mean, *sample.ci95))
            hint = f"{name}, {rate} labels per class: {mean} ({low} to {high})"
            parts.append(polygon(outline + place, colour, hollow=hollow, hint=hint))
        parts.append(polygon(outline + end, colour, hollow=hollow))
        parts.append(text(end[0] + 10, name_y + 4, name, bold=is_reference))
        groups.append((is_reference, series(parts)))
    marks += [group for _, group in sorted(groups, key=lambda group: group[0])]  # the reference on top
    return Chart(title, width, height, marks, min_scale=0.66)


def curve_chart(
    epochs: Sequence[int] | np.ndarray,
    curves: Mapping[str, Float[np.ndarray, "parts epochs"]],
    title: str,
    teaching_from: int = 0,
) -> Chart:
    """Lines over epochs: of each curve the mean and, where `parts` is 3, its interval if the curves are few. Curves
    without a value are left out; a chart whose values all begin after `teaching_from` begins there."""
    width, height, left, top, bottom = 430, 270, 46, 22, 44
    curves = {name: values for name, values in curves.items() if np.isfinite(values[0]).any()}
    right = 30 + 7 * max(map(len, curves))
    steps = np.unique(np.linspace(0, len(epochs) - 1, min(len(epochs), MAX_POINTS)).astype(int))
    with_bands = len(curves) <= MAX_BANDS
    shown = np.concatenate([values if with_bands else values[:1] for values in curves.values()])
    y = Scale(*padded(shown), height - bottom, top)
    begin = min(np.asarray(epochs)[np.isfinite(values[0])].min() for values in curves.values())
    first = teaching_from if begin > teaching_from else 0
    x = Scale(first, max(int(np.max(epochs)), first + 1), left, width - right)
    marks = y_axis(y, left, width - right, y.ticks(5)) + x_axis(x, height - bottom, x.ticks(4), "epoch")
    if first < teaching_from < x.high:
        moment = x(float(teaching_from))
        marks.append(line([(moment, top - 6), (moment, height - bottom)], "soft", 1.0, (3, 3)))
        marks.append(text(moment, top - 9, "teaching begins", "middle"))
    ends = [y(float(values[0][np.isfinite(values[0])][-1])) for values in curves.values()]
    name_heights = spaced_out(ends, gap=LINE_GAP, low=top + 6, high=height - bottom)
    xs = x(np.asarray(epochs)[steps].astype(float))
    for order, ((name, values), end, name_y) in enumerate(zip(curves.items(), ends, name_heights, strict=True)):
        colour = f"c{order % SERIES_COLOURS}"
        mean, *ends_of_band = (np.stack([xs, y(part[steps])], 1) for part in values)
        parts = []
        if with_bands and ends_of_band:
            known = np.isfinite(values[:, steps]).all(axis=0)
            low, high = (part[known] for part in ends_of_band)
            parts.append(polygon(np.concatenate([low, high[::-1]]), colour, opacity=0.16))
        parts += [
            line(mean, colour, dashes=DASHES[order % len(DASHES)]),
            line([(width - right + 1, end), (width - right + 18, name_y)], colour, 0.7, opacity=0.5),
            text(width - right + 22, name_y + 4, name),
        ]
        marks.append(series(parts, name))
    return Chart(title, width, height, marks, min_scale=0.7)


def history_charts(history: Mapping[str, Float[np.ndarray, "epochs peers"]], peers: Sequence[str] = ()) -> list[Chart]:
    """One chart per recorded value, one line per peer."""
    charts = []
    for name, values in history.items():
        if np.isfinite(values).any():
            lines = dict(zip(curve_names(values, peers), values.T[:, None], strict=True))
            charts.append(curve_chart(np.arange(1, len(values) + 1), lines, name))
    return charts


def curve_names(values: Float[np.ndarray, "epochs peers"], peers: Sequence[str]) -> list[str]:
    """The names of the peers, or numbers where a value is recorded for another number of peers."""
    count = values.shape[1]
    return [*map(shortened, peers)] if len(peers) == count else [f"peer {peer + 1}" for peer in range(count)]


def difference_chart(
    rows: Sequence[tuple[str, Sequence[PairedTest | None]]],
    columns: Sequence[str],
    title: str,
    *,
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
    starts = [names_width + place * (panel + gap) for place in range(len(columns))]
    scales = [Scale(*padded([0.0, *limits]), start, start + panel) for start in starts]
    marks = [text(width / 2, base + 36, caption, "middle")]
    for x, heading in zip(scales, columns, strict=True):
        marks.append(text(x.start + panel / 2, 16, heading, "middle", bold=True))
        for tick in x.ticks(4):
            marks.append(line([(x(tick), top - 8), (x(tick), base)], "rule" if tick else "soft", 1.0))
            marks.append(text(x(tick), base + 16, f"{tick:+g}" if tick else "0", "middle"))
    for number, (name, row) in enumerate(rows):
        y = top + (number + 0.5) * row_height
        marks.append(text(names_width - 14, y + 4, styles.name(name), "end"))
        for x, heading, test in zip(scales, columns, row, strict=True):
            if test:
                mean, (low, high) = test.difference.mean, test.difference.ci95
                hint = f"{styles.name(name)}, {heading}: {_percent(mean, '+.1f')}"
                marks.append(line([(x(100 * low), y), (x(100 * high), y)], "c0", 1.3))
                filled = test.is_significant
                marks.append(dots([(x(100 * mean), y)], "c0", 8, "filled" if filled else "hollow", hint=hint))
    return Chart(title, width, base + 40, marks)


def rank_chart(ranks: RankComparison, styles: Styles = PAPER_STYLES) -> Chart:
    """Demšar's critical-difference diagram: average ranks, with bars that join methods that do not differ."""
    side = max(150, 52 + round(7.5 * max(len(styles.name(method)) for method in ranks.methods)))
    width, axis, row_height = 420 + 2 * side, 62, 22
    count, half = len(ranks.methods), math.ceil(len(ranks.methods) / 2)
    names_from = axis + 26 + 9 * len(ranks.groups)
    x = Scale(1, count, side, width - side)
    marks = [line([(x.start, axis), (x.end, axis)], "soft", 1.0)]
    for tick in range(1, count + 1):
        marks.append(line([(x(tick), axis), (x(tick), axis - 6)], "soft", 1.0))
        marks.append(text(x(tick), axis - 11, str(tick), "middle"))
    end = min(x(1 + ranks.critical_difference), float(width))
    marks.append(line([(x.start, 18), (end, 18)], "ink", 4))
    marks.append(text(x.start, 12, f"critical difference {ranks.critical_difference:.2f}"))
    rank_of = dict(zip(ranks.methods, ranks.average_ranks, strict=True))
    for place, (method, rank) in enumerate(rank_of.items()):
        on_left, name, bold = place < half, styles.name(method), method == styles.reference
        y = names_from + 8 + row_height * (place if on_left else count - 1 - place)
        edge = side - 10 if on_left else width - side + 10
        marks.append(line([(x(rank), axis), (x(rank), y), (edge, y)], "soft", 1.0))
        if on_left:
            marks.append(text(edge - 5, y + 4, f"{name} {rank:.1f}", "end", bold=bold))
        else:
            marks.append(text(edge + 5, y + 4, f"{rank:.1f} {name}", bold=bold))
    for level, group in enumerate(ranks.groups):
        y = axis + 12 + 9 * level
        marks.append(line([(x(rank_of[group[0]]) - 4, y), (x(rank_of[group[-1]]) + 4, y)], "ink", 4))
    return Chart("Average ranks over all cells", width, names_from + half * row_height + 8, marks)


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
    marks += x_axis(x, height - bottom, x.ticks(), "probability of the predicted class, per cent")
    return Chart("Unlabelled nodes by the probability of their predicted class", width, height, marks, min_scale=0.58)


def class_chart(
    names: Sequence[str], given: Int[np.ndarray, "classes"], predicted: Int[np.ndarray, "classes"]
) -> Chart:
    """Per class a bar for the predicted nodes, and the numbers of predicted nodes and given labels."""
    order = np.argsort(-predicted, kind="stable")[:MAX_CLASSES]
    left, right, top, row = _names_width(names[number] for number in order), 118, 28, 24
    width = max(540.0, left + right + 180)
    x = Scale(0, max(1, int(predicted.max(initial=0))), left, width - right)
    ends = (width - right + 62, width - 4)
    marks = [text(ends[0], 16, "predicted", "end"), text(ends[1], 16, "given", "end")]
    for place, number in enumerate(order):
        y = top + row * place
        hint = f"{names[number]}: {predicted[number]} predicted, {given[number]} given"
        marks += [
            text(left - 8, y + 15, shortened(names[number]), "end"),
            rectangle(left, y + 4, max(1.0, x(float(predicted[number])) - left), row - 8, f"k{number}", hint),
            text(ends[0], y + 15, str(predicted[number]), "end"),
            text(ends[1], y + 15, str(given[number]), "end"),
        ]
    return Chart("Nodes of each class", width, top + row * len(order) + 8, marks, min_scale=0.6)


def peer_chart(peers: Sequence[PeerContribution]) -> Chart:
    """Per peer a bar for its weight, a dot for its held-out accuracy and a ring for its agreement with the ensemble."""
    left, right, top, row = _names_width(peer.name for peer in peers), 16, 6, 26
    width = max(540.0, left + right + 240)
    base = top + row * len(peers)
    x = Scale(0, 100, left, width - right)
    ticks = x.ticks(5)
    starts, ends = (np.array([(x(tick), y) for tick in ticks]) for y in (top, base))
    marks = [segments(starts, ends, "rule"), *x_axis(x, base - 2, ticks, "per cent")]
    for place, peer in enumerate(peers):
        y, weight = top + row * (place + 0.5), x(100 * peer.weight) - left
        hint = f"{peer.name}: weight {_percent(peer.weight)} %"
        marks.append(text(left - 8, y + 4, shortened(peer.name), "end"))
        marks.append(rectangle(left, y - 8, max(1.0, weight), 16, "c0", hint))
        hint = f"{peer.name}: agrees with the ensemble on {_percent(peer.agreement)} % of nodes"
        marks.append(dots([(x(100 * peer.agreement), y)], "c2", 12, "ring", hint=hint))
        if peer.held_out_accuracy is not None:
            hint = f"{peer.name}: held-out accuracy {_percent(peer.held_out_accuracy)} %"
            marks.append(dots([(x(100 * peer.held_out_accuracy), y)], "c1", 8, hint=hint))
    return Chart("Weights of the peers", width, base + 42, marks, min_scale=0.6)


def map_chart(shown: Map, names: Sequence[str]) -> Chart:
    """Nodes at their places, coloured by class: large dots are confident predictions, hollow ones uncertain, ringed
    ones labelled; numbers mark the suggested nodes."""
    where, height = map_places(shown)
    size = float(np.clip(MAX_DOT * np.sqrt(NODES_WITH_MAX_DOT / max(1, len(where))), MIN_DOT, MAX_DOT))
    unlabelled, unsure, sure = shown.given < 0, shown.confidence < UNSURE, shown.confidence >= SURE
    marks = []
    for number in range(len(names)):
        of_class = unlabelled & (shown.predicted == number)
        marks += [
            dots(where[of_class & unsure], f"k{number}", size, "hollow", opacity=0.75),
            dots(where[of_class & ~unsure & ~sure], f"k{number}", 0.7 * size, opacity=0.8),
            dots(where[of_class & sure], f"k{number}", size, opacity=0.8),
        ]
    for number in range(len(names)):
        marks.append(dots(where[shown.given == number], f"k{number}", max(7.0, size + 1), "ringed"))
    for rank, (x, y) in enumerate(where[shown.suggested], start=1):
        marks.append(dots([(x, y)], "paper", 6, "ringed"))
        marks.append(text(x, y, str(rank), size=13.5, shift=(0.45, -0.25), bold=True, halo=True))
    return Chart("Map of the nodes", MAP_WIDTH, height, [*marks, *_names_on_map(shown, where, names)], min_scale=0.3)


def map_places(shown: Map) -> tuple[Float[np.ndarray, "shown 2"], float]:
    """Coordinates of the nodes on the map, and its height."""
    where = MAP_MARGIN + shown.places * (MAP_WIDTH - 2 * MAP_MARGIN)
    needed = float(where[:, 1].max()) + MAP_MARGIN
    height = max(needed, MIN_MAP_RATIO * MAP_WIDTH)
    return where + np.array([0, (height - needed) / 2]), height


def _names_on_map(shown: Map, where: Float[np.ndarray, "shown 2"], names: Sequence[str]) -> Iterator[str]:
    """Class names, each in a dense region of its class that is free of other text, if there is one."""
    if len(names) > MAX_NAMES_ON_MAP:
        return
    taken = [(x + 8, y, 12.0) for x, y in where[shown.suggested]]  # centre and half width of each text
    for number, name in enumerate(names):
        of_class = where[shown.predicted == number]
        if len(of_class):
            label = shortened(f"class {name}" if name.isdigit() else name)  # bare numbers mark suggestions
            half = 6 + 5.2 * len(label)
            places = [(min(max(x, half), MAP_WIDTH - half), y) for x, y in densest_first(of_class)]
            free = (
                (x, y)
                for x, y in places
                if not any(abs(x - u) < half + other and abs(y - v) < LINE_HEIGHT for u, v, other in taken)
            )
            x, y = next(free, places[0])
            taken.append((x, y, half))
            yield text(x, y, label, "middle", size=15, bold=True, halo=True)


def densest_first(places: Float[np.ndarray, "some 2"]) -> Float[np.ndarray, "few 2"]:
    """A few hundred of the places, by the mean distance to their nearest quarter."""
    some = places[:: max(1, len(places) // 200)]
    distance = np.sqrt(((some[:, None] - some) ** 2).sum(axis=2))
    near = np.sort(distance, axis=1)[:, : max(2, len(some) // 4)].mean(axis=1)
    return some[np.argsort(near, kind="stable")]


def shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


def _names_width(names: Iterator[str]) -> float:
    return 16 + 7.5 * max(len(shortened(name)) for name in names)


def _percent(share: float, form: str = ".1f") -> str:
    return format(100 * share, form)
