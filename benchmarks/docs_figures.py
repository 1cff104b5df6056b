"""Tables of the documentation, computed from stored rows; `docs_tables.py` puts them into the pages."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from calibration import distributions, left_out, summary

from mtgcn.experiments.arena import GROUPS, stored_arena
from mtgcn.experiments.compare import stored_comparisons
from mtgcn.experiments.protocol import ABLATION_TITLES, OVER_ALL, PAPER_TABLES, PUBLIC, RANDOM, REFERENCE, SUITES, Cell
from mtgcn.experiments.statistics import SampleSummary, compare_ranks, paired_difference, summarise
from mtgcn.experiments.store import read_units
from mtgcn.experiments.tables import Evidence, Line, stored_evidence
from mtgcn.report.arena import rank_table, rankings_of
from mtgcn.report.tables import SIGNED, Table, interval, markdown_lines, number, percent
from mtgcn.training.calibration import AccuracyPrior

DOCS = Path(__file__).parent.parent / "docs"
TITLES = {"cora": "Cora", "citeseer": "Citeseer", "pubmed": "PubMed"}
METHODS = (
    *("lp", "chebyshev", "gcn", "gcn+v", "co-training", "self-training", "union", "intersection", "multi-stage"),
    *("m3s", "mt-gcn"),
)
ON_THE_PUBLIC_SPLIT = ("lp", "gcn", "gcn+v", "mt-gcn", "mani-reg", "semi-emb", "deepwalk", "ica", "planetoid")
FEWEST_LABELS = (("cora", 2), ("citeseer", 3), ("pubmed", 2))


# ---- reading


@cache
def evidence(source: str) -> Evidence:
    """The tables of a folder of rows."""
    return stored_evidence(read_units(DOCS / source))


def line(source: str, dataset: str, labels: int, title: str, split: str = RANDOM, kind: str = "ours") -> Line:
    """The runs of one method, or variant, in one cell."""
    [found] = [
        line
        for line in getattr(evidence(source), kind)
        if (line.dataset, line.labels_per_class, line.split, line.title) == (dataset, labels, split, title)
    ]
    return found


def paper_cells(dataset: str | None = None) -> list[Cell]:
    """The 14 cells with random splits, or those of one dataset; datasets as in the paper, few labels first."""
    found = [cell for table in PAPER_TABLES for cell in table.cells if cell.split == RANDOM]
    wanted = [cell for cell in found if dataset in (None, cell.dataset)]
    return sorted(wanted, key=lambda cell: (list(TITLES).index(cell.dataset), cell.labels_per_class))


Splits = dict[tuple[str, int], dict[tuple[int, int], float]]  # accuracy by cell and, within it, seed and run


@cache
def accuracies(source: str, method: str) -> Splits:
    """Of a method on random splits in one file of rows, which need not be called as a store calls it."""
    found: defaultdict[tuple[str, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for text in gzip.decompress((DOCS / source).read_bytes()).splitlines():
        row = json.loads(text)
        if row["method"] == method and row["split"] == RANDOM:
            found[row["dataset"], row["labels_per_class"]][row["seed"], row["run"]] = row["accuracy"]
    return dict(found)


@cache
def honest(source: str) -> dict[tuple[str, int], SampleSummary]:
    """mt-gcn on all final splits that are stored in a folder, whichever file they are in."""
    files = [f"{source}/{path.name}" for path in sorted((DOCS / source).glob("*.jsonl.gz"))]
    of_files = [found for file in files if (found := accuracies(file, REFERENCE))]
    joined = {cell: {split: one for found in of_files for split, one in found[cell].items()} for cell in of_files[0]}
    return {cell: summarise(list(splits.values())) for cell, splits in joined.items()}


def printed(cell: Cell) -> float:
    value = cell.entry(REFERENCE).printed
    if value is None:
        raise ValueError(f"the paper prints nothing for {REFERENCE} on {cell.dataset} {cell.labels_per_class}")
    return value


def title(cell: Cell) -> str:
    return f"{TITLES[cell.dataset]} {cell.labels_per_class}"


def not_above_print(*sources: str) -> list[str]:
    """Cells in which mt-plus, on the splits of all sources, is not above what the paper prints for MT-GCN."""
    found = [accuracies(source, "mt-plus") for source in sources]
    return [
        title(cell)
        for cell in paper_cells()
        if 100 * np.mean([value for one in found for value in one[cell.dataset, cell.labels_per_class].values()])
        <= printed(cell)
    ]


def half_interval(found: Line) -> str:
    low, high = found.accuracy.ci95
    return percent((high - low) / 2)


def with_printed(found: Line, mean: str) -> str:
    """A mean and, where the paper prints something, that."""
    return mean if found.printed is None else f"{mean} ({number(found.printed)})"


# ---- tables


Rows = list[list[str]]  # of a table, the headings first


def methods_table(source: str, dataset: str) -> Rows:
    cells = paper_cells(dataset)
    found = {name: [line(source, dataset, cell.labels_per_class, name) for cell in cells] for name in METHODS}
    rows = [["labels per class", *(str(cell.labels_per_class) for cell in cells)]]
    for name, lines in found.items():
        rows.append([f"`{name}`", *(with_printed(one, percent(one.accuracy.mean)) for one in lines)])
    widest = [max(map(half_interval, column), key=float) for column in zip(*found.values(), strict=True)]
    return [*rows, ["± at most", *widest]]


def public_table(source: str) -> Rows:
    rows = [["", *TITLES.values()]]
    for method in ON_THE_PUBLIC_SPLIT:
        lines = [line(source, name, 20, method, PUBLIC) for name in TITLES]
        means = [with_printed(one, f"{percent(one.accuracy.mean)} ± {half_interval(one)}") for one in lines]
        rows.append([f"`{method}`", *means])
    return rows


def reading_table(source: str) -> Rows:
    cells = paper_cells()
    found = [line(source, cell.dataset, cell.labels_per_class, REFERENCE, kind="optimistic") for cell in cells]
    headings = [title(cell) if cell == paper_cells(cell.dataset)[0] else title(cell).split()[1] for cell in cells]
    return [
        ["", *headings],
        ["printed", *(number(printed(cell)) for cell in cells)],
        ["the largest of ten averages", *(number(one.reported) for one in found)],
        ["the mean of the ten", *(percent(one.accuracy.mean) for one in found)],
    ]


def honest_table(source: str) -> Rows:
    rows = [["", "printed", "mt-gcn", "95 % interval", "printed minus mt-gcn"]]
    for cell in paper_cells():
        found = honest(source)[cell.dataset, cell.labels_per_class]
        gap = printed(cell) - 100 * found.mean
        measured = [percent(found.mean), interval(found)]
        rows.append([title(cell), number(printed(cell)), *measured, number(gap, SIGNED)])
    return rows


def final_runs_table(source: str) -> Rows:
    """The final runs of mt-plus up to version 0.2.0, in their order."""
    rows = [["rows", "final seed", "mean", "not above the printed value in"]]
    for setting in ("first-setting", "second-setting", "third-setting", "fourth-setting", "rows"):
        cells = accuracies(f"{source}/{setting}.jsonl.gz", "mt-plus")
        [seed] = {seed for splits in cells.values() for seed, _ in splits}
        mean = percent(np.mean([np.mean(list(splits.values())) for splits in cells.values()]))
        rows.append([setting, str(seed), mean, ", ".join(not_above_print(f"{source}/{setting}.jsonl.gz")) or "–"])
    return rows


def beside_table(source: str, other: str) -> Rows:
    """mt-plus and an earlier version of it on the same splits."""
    rows = [["cell", "printed", f"mt-plus {other}", "mt-plus", "difference, 95 %"]]
    gaps = []
    for cell in paper_cells():
        mine = line(source, cell.dataset, cell.labels_per_class, "mt-plus")
        before = accuracies(f"{source}/version-{other}.jsonl.gz", "mt-plus")[cell.dataset, cell.labels_per_class]
        theirs = [before[row.seed, row.run] for row in mine.rows]
        gain = paired_difference(mine.accuracy.per_run, theirs, mine.groups)
        gaps.append(gain.mean)
        mean = percent(mine.accuracy.mean)
        mean = f"**{mean}**" if mine.reported > printed(cell) else mean
        means = [number(printed(cell)), percent(np.mean(theirs)), mean]
        rows.append([title(cell), *means, f"{percent(gain.mean, SIGNED)} ({interval(gain, SIGNED)})"])
    rows.append(["mean", "", "", "", percent(np.mean(gaps), SIGNED)])
    return rows


def suite_margins(source: str, name: str) -> Iterator[tuple[Line, Line, SampleSummary]]:
    """Cell by cell, the reference of a suite, the best of all other lines and the difference."""
    suite = SUITES[name]
    lines: defaultdict[tuple[str, int, str], dict[str, Line]] = defaultdict(dict)
    for one in stored_evidence(read_units(DOCS / source), suite=suite).ours:
        lines[one.dataset, one.labels_per_class, one.split][one.title] = one
    for found in lines.values():
        best = max((one for title, one in found.items() if title != suite.reference), key=lambda one: one.accuracy.mean)
        mine = found[suite.reference]
        yield mine, best, paired_difference(mine.accuracy.per_run, best.accuracy.per_run, mine.groups, best.groups)


def suite_table(source: str, name: str) -> Rows:
    """Accuracy of the reference and its margin over the best other line, a row for each dataset."""
    rows: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for mine, _, gain in suite_margins(source, name):
        drawn = f"{mine.labels_per_class} over all" if mine.split == OVER_ALL else str(mine.labels_per_class)
        change = f"{percent(gain.mean, SIGNED)} ({interval(gain, SIGNED)})"
        rows[mine.dataset][drawn] = f"{percent(mine.accuracy.mean)}, {change}"
    headings = list(next(iter(rows.values())))
    return [["labels per class", *headings], *([graph, *map(row.get, headings)] for graph, row in rows.items())]


def ablation_table(source: str) -> Rows:
    rows = [["", "mean", *(f"{TITLES[name]} {labels}" for name, labels in FEWEST_LABELS)]]
    for name in (REFERENCE, *ABLATION_TITLES):
        of_cells = [line(source, cell.dataset, cell.labels_per_class, name, kind="ablation") for cell in paper_cells()]
        tests = {(one.dataset, one.labels_per_class): one.against_rival for one in of_cells}
        changes = [percent(test.difference.mean, SIGNED) if (test := tests[cell]) else "" for cell in FEWEST_LABELS]
        mean = np.mean([one.accuracy.mean for one in of_cells])
        rows.append([f"`{name}`" if name == REFERENCE else name, percent(mean), *changes])
    return rows


def ingredients_table(source: str) -> Rows:
    """What `mt_plus_ablation.py` found, graph by graph: the whole method, and what it loses without each ingredient."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))["accuracies"]
    graphs = list(dict.fromkeys(cell.split()[0] for cell in found))
    whole, *variants = next(iter(found.values()))

    def change(cells: list[str], variant: str) -> float:
        base = 0 if variant == whole else np.mean([np.mean(found[cell][whole]) for cell in cells])
        return float(np.mean([np.mean(found[cell][variant]) for cell in cells]) - base)

    rows = [["", *(TITLES.get(graph, graph) for graph in graphs), "all cells"]]
    for variant in (whole, *variants):
        of_graphs = [[cell for cell in found if cell.split()[0] == graph] for graph in graphs]
        values = [change(cells, variant) for cells in (*of_graphs, list(found))]
        rows.append([variant, *(number(value) if variant == whole else f"{value:{SIGNED}}" for value in values)])
    return rows


def comparison_table(source: str) -> Rows:
    [found] = stored_comparisons(read_units(DOCS / source).values())
    rows = [["method", "accuracy", "95 % interval", f"minus {found.reference}", "95 % interval"]]
    for cell in found.cells:
        gap = found.differences.get(cell.method)
        against = [percent(gap.mean, SIGNED), interval(gap, SIGNED)] if gap else ["", ""]
        rows.append([cell.method, f"{percent(cell.accuracy.mean)} %", interval(cell.accuracy), *against])
    return rows


def checked_cells(source: str, network: str) -> list[dict[str, Any]]:
    """What `m3s_check.py` found with one network and start, as "network,start"."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))
    return [one for one in found if f"{one['network']},{one['start']}" == network]


RERUN = {  # of M3S, as github.com/Junseok0207/M3S_Pytorch prints it
    ("cora", 2): 64.46,
    ("cora", 4): 72.93,
    ("cora", 8): 76.41,
    ("pubmed", 2): 61.53,
    ("pubmed", 3): 64.60,
    ("pubmed", 7): 73.18,
}


def calibration_table(source: str, which: str = "") -> Rows:
    """By kind of data and labels per class, without 10 labels; with "left-out" by constants of all other data sets."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))["rows"]
    estimates = left_out(found) if which == "left-out" else distributions(found, AccuracyPrior())
    lines = [
        line
        for line in summary(found, *estimates)
        if (line["kind"] == "all") == (line["labels per class"] == "all") and line["labels per class"] != 10
    ]
    columns = [name for name in lines[0] if name not in ("data sets", "confidence")]
    cells = [[line[name] for name in columns] for line in lines]
    return [columns, *([f"{one:.1f}" if isinstance(one, float) else str(one) for one in row] for row in cells)]


def suggestions_table(source: str) -> Rows:
    """Mean accuracy of all rounds but the first, which precedes all picks."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))["curves"]
    rows = [["", "suggested", "at random", "difference, 95 %"]]
    for dataset, curve in found.items():
        ways = {way: [np.mean(run[1:]) for run in runs] for way, runs in curve["accuracy"].items()}
        gain = paired_difference(ways["suggest"], ways["random"])
        accuracy = [percent(np.mean(ways[way])) for way in ("suggest", "random")]
        rows.append([TITLES[dataset], *accuracy, f"{percent(gain.mean, SIGNED)} ({interval(gain, SIGNED)})"])
    return rows


def queue_table(source: str) -> Rows:
    """Ten labels from none, by the studio's queue and at random."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))["runs"]
    rows = [["", "queue", "at random", "difference, 95 %", "classes met", "at random"]]
    for dataset, runs in found.items():
        ways = {way: [run[way] for run in runs] for way in ("queue", "random")}
        classes = [number(np.mean([run[f"{way}, classes met"] for run in runs])) for way in ways]
        gain = paired_difference(ways["queue"], ways["random"])
        accuracy = [percent(np.mean(of_way)) for of_way in ways.values()]
        change = f"{percent(gain.mean, SIGNED)} ({interval(gain, SIGNED)})"
        rows.append([TITLES.get(dataset, dataset), *accuracy, change, *classes])
    return rows


def rank_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean rank, accuracy and calibration error of each method by labels per class."""
    cells = by_cell(rows)
    names = list(next(iter(cells.values())))
    lines: dict[str, dict[str, Any]] = {name: {"method": name} for name in names}
    for labels in (None, *sorted({labels for _, labels in cells})):
        some = {key: cell for key, cell in cells.items() if labels in (None, key[1])}
        accuracy = np.array([[np.mean(cell[name]["accuracy"]) for name in names] for cell in some.values()])
        ranks = compare_ranks(accuracy, names, [table for table, _ in some])
        for name, mean in zip(names, accuracy.mean(0).tolist(), strict=True):
            rank = ranks.average_ranks[ranks.methods.index(name)]
            if labels is None:
                lines[name]["mean rank"] = rank
            else:
                error = float(np.mean([cell[name]["calibration error"] for cell in some.values()]))
                lines[name] |= {f"{labels}: rank": rank, f"{labels}: accuracy": mean, f"{labels}: calibration": error}
    return list(lines.values())


def by_cell(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], dict[str, Mapping[str, Any]]]:
    """The rows by table and labels, then by method."""
    cells: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        cells.setdefault((row["table"], row["labels"]), {})[row["method"]] = row
    return cells


def ranks_of_arena(source: str, group: str = "graphs") -> Rows:
    """Mean ranks of a group in a folder of rows of the arena."""
    arena = stored_arena(DOCS / source, read_units(DOCS / source))
    assert arena is not None
    table = rank_table(rankings_of(arena.groups[GROUPS[group]]))
    return [[*table.columns], *table.texts]


RECIPES: Mapping[str, Callable[..., Rows]] = {
    "methods": methods_table,
    "public": public_table,
    "reading": reading_table,
    "honest": honest_table,
    "final-runs": final_runs_table,
    "beside": beside_table,
    "suite": suite_table,
    "ablation": ablation_table,
    "ingredients": ingredients_table,
    "comparison": comparison_table,
    "studio-queue": queue_table,
    "calibration": calibration_table,
    "suggestions": suggestions_table,
    "arena-ranks": ranks_of_arena,
}


def made(recipe: str, source: str, rest: str | None) -> list[str]:
    """The lines of a table."""
    headings, *rows = RECIPES[recipe](source, *([rest] if rest else []))
    return markdown_lines(Table.of_text(headings, rows))
