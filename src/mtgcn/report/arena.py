"""The page of the arena."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.experiments.arena import GRAPHS, Arena, Cell, Group, mean_of, values_of
from mtgcn.experiments.protocol import FINAL_SEEDS, labels_title
from mtgcn.experiments.scoring import SCORE_TITLES, SCORES, groups_of
from mtgcn.experiments.statistics import Margin, RankComparison, summarise_share
from mtgcn.report import tables as writers
from mtgcn.report.charts import Styles, label_rate_chart, rank_chart
from mtgcn.report.pages import render
from mtgcn.report.reproduction import margin_sentence
from mtgcn.report.tables import SIGNED, Entry, Row, Table, counted, number, percent, with_minus_sign
from mtgcn.storage.files import write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "arena.html"
MEASURES = {**SCORE_TITLES, "calibration-error": "calibration error"}
CURVES = 8  # methods in a chart over label rates
HEAT_LEVELS = 10
EMPTY = Entry("–")

Rankings = Mapping[int | None, RankComparison]  # by label rate; None: over all


def write_arena(folder: Path, arena: Arena) -> Path:
    """Write the page beside the rows."""
    return write_file(folder / PAGE, arena_page(arena))


def rankings_of(arena: Arena) -> Rankings:
    found = {labels: arena.ranking(labels) for labels in (None, *arena.labels)}
    return {labels: ranking for labels, ranking in found.items() if ranking}


def arena_page(arena: Arena) -> str:
    """The page; graphs and tables have sections of their own."""
    firsts = [rows[0] for found in arena.cells.values() for rows in found.values()]
    return render(
        "arena.html",
        title="The few-label arena",
        groups=[_sections(group, part) for group, part in arena.groups.items()],
        made=firsts[0],
        units=len(firsts),
        units_left_out=arena.units_left_out,
        final=firsts[0].seed in FINAL_SEEDS,
        devices=list(dict.fromkeys(row.device for row in firsts)),
        score=SCORE_TITLES[arena.score],
        heat_levels=HEAT_LEVELS,
    )


def _sections(group: Group, arena: Arena) -> dict[str, Any]:
    """The parts of the page on one group."""
    styles = Styles(arena.methods, arena.reference)
    rankings, margins = rankings_of(arena), arena.margins()
    ranking = rankings.get(None)
    return {
        "of": group,
        "arena": arena,
        "runs": sorted({rows[0].runs for found in arena.cells.values() for rows in found.values()}),
        "command": command(group, arena),
        "findings": findings(arena, rankings),
        "ranking": ranking,
        "unranked": [one for one in arena.methods if ranking and one not in ranking.methods],
        "rank_chart": ranking and rank_chart(ranking, styles),
        "rank_table": rank_table(rankings, arena.reference),
        "margins": Table(
            [group.noun, *(counted(labels, "label") for labels in arena.labels)],
            [Row(graph, [_margin(margins, (graph, labels)) for labels in arena.labels]) for graph in arena.graphs],
        ),
        "heat": [(_rate(labels), score_table(arena, labels)) for labels in (None, *arena.labels)],
        "curves": _curves(arena, styles) if len(arena.labels) > 1 else [],
        "measures": _measure_table(arena, ranking.methods if ranking else arena.methods),
        "empty": _empty_cells(arena),
    }


def command(group: Group, arena: Arena) -> str:
    """The command that makes the rows of a group."""
    firsts = [rows[0] for found in arena.compared.values() for rows in found.values()]
    methods, runs, seed = list(dict.fromkeys(row.method for row in firsts)), firsts[0].runs, firsts[0].seed
    usual = arena.graphs == [*(group.final_datasets if seed in FINAL_SEEDS else group.datasets)]
    options = ["--graphs", group.name if usual else ",".join(arena.graphs)] if not usual or group is not GRAPHS else []
    options += ["--methods", ",".join(methods)] if set(methods) != set(group.methods()) else []
    options += ["--labels", ",".join(map(str, arena.labels))] if arena.labels != [*group.labels] else []
    options += ["--runs", str(runs)] if runs != group.runs else []
    options += ["--final"] if seed in FINAL_SEEDS else []
    options += ["--seed", str(seed)] if seed not in (0, FINAL_SEEDS[0]) else []
    options += ["--score", arena.score] if arena.score != SCORES[0] else []
    return shlex.join(["mtgcn", "arena", *options, "--out", "DIR"])


def findings(arena: Arena, rankings: Rankings) -> list[str]:
    """One sentence per label rate on first and second place, and one on the margins of the reference."""
    sentences = []
    for labels, ranking in rankings.items():
        (first, second, *_), (rank, next_rank, *_) = ranking.methods, ranking.average_ranks
        sentence = (
            f"{_rate(labels)}: {first} is first of {len(ranking.methods)} methods with mean rank {rank:.1f} over "
            f"{ranking.cells} cells, {second} second with {next_rank:.1f}"
        )
        if second in ranking.behind:
            low, high = ranking.behind[second]
            span = with_minus_sign(f"{number(low)} to {number(high)}")
            sentence += f"; the 95 % interval of the difference, {span}, {'excludes' if low > 0 else 'includes'} 0"
        sentences.append(f"{sentence}.")
    if margins := arena.margins():
        places = {f"{graph}, {labels_title(labels)}": one for (graph, labels), one in margins.items()}
        sentences.append(margin_sentence(arena.reference, places))
    return sentences


def rank_table(rankings: Rankings, reference: str = "") -> Table:
    """Mean ranks of each method, over all label rates and at each."""
    ranks = {labels: dict(zip(one.methods, one.average_ranks, strict=True)) for labels, one in rankings.items()}
    rows = []
    for method in dict.fromkeys(method for one in rankings.values() for method in one.methods):
        entries = []
        for labels, ranking in rankings.items():
            low, high = ranking.intervals.get(method, (math.nan, math.nan))
            ends = None if math.isnan(low) else (number(low), number(high))
            bold = method == ranking.methods[0]
            entries.append(Entry(number(ranks[labels][method]), ends, bold=bold) if method in ranks[labels] else EMPTY)
        rows.append(Row(method, entries, style="reference" if method == reference else ""))
    return Table(["method", *("all" if one is None else counted(one, "label") for one in rankings)], rows)


def _rate(labels: int | None) -> str:
    return "All label rates" if labels is None else labels_title(labels)


def _margin(margins: Mapping[Cell, Margin], cell: Cell) -> Entry:
    """The margin of the reference over the best other method of a cell."""
    if cell not in margins:
        return EMPTY
    difference, (low, high) = margins[cell].difference, margins[cell].difference.ci95
    opponent = margins[cell].opponent.replace("-", "\u2011")  # which pages do not take for a minus sign
    note = f"{writers.interval(difference, SIGNED)}, {opponent}"
    return Entry(percent(difference.mean, SIGNED), note=note, bold=low > 0 or high < 0)


def _mean_over(arena: Arena, cells: Iterable[Cell], method: str, measure: str) -> float | None:
    """The mean over cells; None if the method has no value in some of them."""
    values = [mean_of(arena.cells[cell].get(method, ()), measure) for cell in cells]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def score_table(arena: Arena, labels: int | None) -> Table:
    """Mean scores, coloured by the distance from the best of a graph."""
    shown = [cell for cell in arena.cells if labels in (None, cell[1])]
    columns = [[cell for cell in shown if cell[0] == graph] for graph in arena.graphs]
    means = [[_mean_over(arena, cells, method, arena.score) for cells in columns] for method in arena.methods]
    best = [max((value for value in column if value is not None), default=0.0) for column in zip(*means, strict=True)]
    rows = []
    for method, values in zip(arena.methods, means, strict=True):
        entries = []
        for value, top, cells in zip(values, best, columns, strict=True):
            if value is None:
                failed = any((cell, method) in arena.failures for cell in cells)
                entries.append(Entry("failed" if failed else "not run", style="soft"))
            else:
                level = min(HEAT_LEVELS - 1, int(2 * math.sqrt(100 * (top - value))))  # 20 points and more: the last
                entries.append(Entry(percent(value), style=f"h{level}", bold=value == top))
        rows.append(Row(method, entries, style="strong" if method == arena.reference else ""))
    return Table(["method", *arena.graphs], rows)


def _curves(arena: Arena, styles: Styles) -> list[tuple[str, Figure]]:
    """The score over label rates of the leading methods, graph by graph."""
    charts = []
    for graph in arena.graphs:
        samples = {}
        for method in arena.methods[:CURVES]:
            found = {labels: arena.cells[graph, labels].get(method, ()) for labels in arena.labels}
            samples[method] = {
                labels: summarise_share(values_of(rows, arena.score), groups_of(rows))
                for labels, rows in found.items()
                if mean_of(rows, arena.score) is not None
            }
        shown = {method: of_method for method, of_method in samples.items() if of_method}
        title = f"{SCORE_TITLES[arena.score]} on {graph} over labels per class"
        if shown:
            charts.append((graph, label_rate_chart(shown, title[0].upper() + title[1:], styles)))
    return charts


def _measure_table(arena: Arena, methods: Sequence[str]) -> Table:
    """Means over the ranked cells; ROC AUC and average precision over those of graphs with two classes."""
    cells = arena.ranked_cells()
    binary = [cell for cell in cells if any(rows[0].roc_auc is not None for rows in arena.cells[cell].values())]
    rows = []
    for method in methods:
        values = [_mean_over(arena, binary if name in SCORES[3:] else cells, method, name) for name in MEASURES]
        seconds = _mean_over(arena, cells, method, "seconds")
        entries = [EMPTY if value is None else Entry(percent(value)) for value in values]
        entries.insert(1, EMPTY if seconds is None else Entry(writers.seconds(seconds)))
        rows.append(Row(method, entries, style="reference" if method == arena.reference else ""))
    accuracy, *others = MEASURES.values()
    return Table(["method", accuracy, "seconds per run", *others], rows)


def _empty_cells(arena: Arena) -> list[str]:
    """Every cell without results, by method and reason."""
    found: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for method in arena.methods:
        for cell in (cell for cell, rows in arena.cells.items() if method not in rows):
            reason = f"failed ({arena.failures[cell, method]})" if (cell, method) in arena.failures else "not run"
            found[method, reason][cell[0]].append(str(cell[1]))
    sentences = []
    for (method, reason), graphs in found.items():
        places = "; ".join(f"{graph} {', '.join(rates)}" for graph, rates in graphs.items())
        count = counted(sum(map(len, graphs.values())), "cell")
        sentences.append(f"{method}, {reason}, {count}: {places}.")
    return sentences
