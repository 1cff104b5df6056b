"""The tables of accuracies in the documentation, made from stored rows.

python benchmarks/docs_tables.py             # lists differences from the stored rows; writes nothing
python benchmarks/docs_tables.py --write     # updates the tables, and the pages and summaries in docs/reproduction

A comment before a table names its recipe in `docs_figures.py` and the rows, by a path below docs/:

    <!-- table: honest reproduction/final -->

Sentences with figures are in `sentences`; they are compared, not written. `tests/test_figures.py` fails where the
documentation and the rows differ.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from docs_figures import (
    DOCS,
    FEWEST_LABELS,
    RERUN,
    TITLES,
    accuracies,
    checked_cells,
    evidence,
    honest,
    ingredients_table,
    line,
    made,
    not_above_print,
    paper_cells,
    printed,
    rank_rows,
    suite_margins,
)
from mt_plus_ablation import graphs_left_out

from mtgcn.experiments.arena import TABLES, stored_arena
from mtgcn.experiments.protocol import REFERENCE
from mtgcn.experiments.store import read_units
from mtgcn.experiments.tables import of_sweeps, stored_evidence, suites_in
from mtgcn.report.reproduction import markdown, write_report
from mtgcn.report.tables import SIGNED, percent

PAGES = (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md")))
TOLERANCE = 1  # points between a printed value and its reproduction
MARK = re.compile(r"<!-- table: (?P<recipe>\S+) (?P<source>\S+)(?: (?P<rest>\S+))? -->\n\n(?P<table>(?:\|.*\n)*)")


# ---- sentences


def gaps(source: str, method: str, dataset: str, labels: Sequence[int]) -> str:
    """By how much mt-gcn is better than a method, label rate by label rate."""
    tests = [line(source, dataset, count, method).against_rival for count in labels]
    return ", ".join(percent(-test.difference.mean) for test in tests if test)


def above_print(*sources: str) -> str:
    """In how many cells mt-plus, on the splits of all sources, is above what the paper prints for MT-GCN."""
    below = not_above_print(*sources)
    return f"bove the printed values in {14 - len(below)} cells{', not in ' + ', '.join(below) if below else ''}."


def margins(source: str, suite: str) -> Iterator[tuple[str, str]]:
    """Margins of mt-plus over the best other row of each cell."""
    gains = [gain for _, _, gain in suite_margins(source, suite)]
    points = [100 * gain.mean for gain in gains]
    above = [gain for gain in gains if gain.mean > 0]
    count = f"{len(above)} of {len(gains)} cells"
    yield (
        "docs/results.md",
        f"Above the best other row in {count}, with an interval that excludes 0 in "
        f"{sum(gain.ci95[0] > 0 for gain in above)} of them; the mean margin is {np.mean(points):.1f} points, "
        f"the median {np.median(points):.1f}.",
    )
    yield "README.md", f"above the best of eleven other rows in {count}. The median margin is {np.median(points):.1f}"
    below = " and ".join(f"{-point:.1f}" for point in points if point < 0)
    yield "README.md", f"below by {below} points in two cells of chameleon"


def exchange(source: str) -> Iterator[tuple[str, str]]:
    """The worth of peers that teach each other instead of themselves."""
    [row] = [row for row in ingredients_table(source) if row[0] == "each peer taught by itself"]
    worth = f"worth {-float(row[-1]):.1f} points on average"
    yield "README.md", f"Exchange between peers is {worth} by our own ablation"
    yield "docs/methods.md", f"not only themselves is {worth}"


def earlier_tables(source: str) -> Iterator[tuple[str, str]]:
    """Mean ranks on the final tables of version 0.10.0."""
    rows = json.loads((DOCS / source).read_text(encoding="utf-8"))["rows"]
    ranks = {row["method"]: row["mean rank"] for row in rank_rows(rows)}
    best, ours = ranks["self-trained"], ranks["mt-plus"]
    assert best == min(ranks.values())
    yield (
        "docs/results.md",
        f"mean rank {ours:.1f} on ten other tables, where self-trained logistic regression was first with {best:.1f}",
    )
    yield "docs/research-notes.md", f"self-trained logistic regression has mean rank {best:.1f}, `mt-plus` {ours:.1f}"


def final_tables(folder: str) -> Iterator[tuple[str, str]]:
    """Ranks, margins and calibration errors on the final tables."""
    arena = stored_arena(DOCS / folder, read_units(DOCS / folder))
    assert arena is not None
    found = arena.groups[TABLES]
    ranking, margins = found.ranking(), found.margins()
    assert ranking is not None
    (first, second, *_), (best, next_best, *_) = ranking.methods, ranking.average_ranks
    low, high = ranking.behind[second]
    yield (
        "docs/results.md",
        f"`{first}` is first of {len(ranking.methods)} with mean rank {best:.1f}, `{second}` second with "
        f"{next_best:.1f} (95 % interval of the difference {low:{SIGNED}} to {high:{SIGNED}})",
    )
    yield (
        "README.md",
        f"On ten final tables it is first of {len(ranking.methods)} classifiers by mean rank ({best:.1f}; {second} "
        f"{next_best:.1f})",
    )
    means = [100 * one.difference.mean for one in margins.values()]
    worse = {cell: one for cell, one in margins.items() if one.difference.ci95[1] < 0}
    [(table, labels), far] = min(worse.items(), key=lambda item: item[1].difference.mean)
    yield (
        "docs/results.md",
        f"below the best other classifier of a cell, selected by test accuracy, by {-np.mean(means):.1f} points on "
        f"average, and above it in {sum(mean > 0 for mean in means)} of {len(means)} cells. The interval excludes 0 in "
        f"{len(worse)} cells, all below; the larger difference is {100 * far.difference.mean:.1f} (`{far.opponent}` on "
        f"{table} {labels})",
    )

    def errors(method: str) -> str:
        by_labels = []
        for labels in found.labels:
            cells = [rows[method] for (_, count), rows in found.compared.items() if count == labels]
            by_labels.append(100 * np.mean([np.mean([row.calibration_error for row in rows]) for rows in cells]))
        return ", ".join(f"{error:.1f}" for error in by_labels)

    yield (
        "docs/results.md",
        f"calibration error with 3, 5 and 20 labels is {errors('mt-plus')}; `label-spreading` has "
        f"{errors('label-spreading')}, `random-forest` {errors('random-forest')} and `sklearn-logistic` "
        f"{errors('sklearn-logistic')}",
    )


def row_order(source: str) -> Iterator[tuple[str, str]]:
    """Per cent of predictions that another order of rows changes."""
    found = json.loads((DOCS / source).read_text(encoding="utf-8"))["methods"]
    changed = {one["method"]: one["changed by order, %"] for one in found}
    [seed] = [one["by another seed, %"] for one in found if one["method"] == "mt-plus"]
    mine = changed.pop("mt-plus")
    *same, last = [f"`{name}`" for name, share in changed.items() if f"{share:.1f}" == "0.0"]
    low, *_, high = sorted((share, name) for name, share in changed.items() if f"{share:.1f}" != "0.0")
    yield (
        "docs/methods.md",
        f"Another order changes {mine:.1f} % of the predictions of `mt-plus` (another seed {seed:.1f} %), none of "
        f"{', '.join(same)} and {last}, and {low[0]:.1f} % (`{low[1]}`) to {high[0]:.1f} % (`{high[1]}`) of the others",
    )


def m3s_rerun(source: str) -> Iterator[tuple[str, str]]:
    """The public rerun of M3S, our `m3s`, and the network of the rerun rebuilt."""
    ours, theirs = (
        {(one["dataset"], one["labels_per_class"]): one for one in checked_cells(source, network)}
        for network in ("one-layer,farthest", "two-layers,farthest")
    )
    for dataset in ("cora", "pubmed"):
        cells = [cell for cell in RERUN if cell[0] == dataset]
        labels = ", ".join(str(count) for _, count in cells)
        values = ", ".join(f"{RERUN[cell]:.1f}" for cell in cells)
        mine = ", ".join(percent(np.mean(ours[cell]["accuracy"])) for cell in cells)
        yield "docs/research-notes.md", f"{values} on {TITLES[dataset]} {labels} (`m3s` {mine})"
    for part in ("accuracy_by_validation", "accuracy"):
        yield (
            "docs/research-notes.md",
            ", ".join(percent(np.mean(theirs[cell][part])) for cell in RERUN if cell in theirs),
        )


def m3s_check(source: str) -> Iterator[tuple[str, str]]:
    """What the check of M3S rejects, in per cent."""
    cells = {(cell["dataset"], cell["labels_per_class"]): cell for cell in checked_cells(source, "one-layer,farthest")}

    def shares(part: str, whole: str) -> list[float]:
        """Of the cells, over all stages."""
        totals = [[sum(stage[name] for stage in cell["stages"]) for name in (part, whole)] for cell in cells.values()]
        return [one / of for one, of in totals if of]

    for shown, part, whole in (
        ("rejects {} to {} % of the candidates", "rejected", "candidates"),
        ("{} to {} % of the candidates are correct", "right", "candidates"),
        ("would reject {} to {} %", "disagreeing", "unlabelled"),
    ):
        found = shares(part, whole)
        yield "docs/research-notes.md", shown.format(percent(min(found)), percent(max(found)))
    *first, last_one = [f"{100 * stage['right'] / stage['candidates']:.0f}" for stage in cells["pubmed", 20]["stages"]]
    yield "docs/research-notes.md", f"candidates there {', '.join(first)} and {last_one} % are right"
    for network in ("one-layer,k-means++", "two-layers,farthest"):
        stages = (stage for cell in checked_cells(source, network) for stage in cell["stages"])
        most = max(stage["rejected"] / stage["candidates"] for stage in stages if stage["candidates"])
        yield "docs/research-notes.md", f"at most {percent(most)} %"


def arena_sentences(folder: str) -> Iterator[tuple[str, str]]:
    """Ranks and margins in a folder of rows of the arena."""
    page, found = "docs/arena.md", stored_arena(DOCS / folder, read_units(DOCS / folder))
    assert found is not None
    balanced = replace(found, score="balanced-accuracy").ranking()
    rankings = {labels: found.ranking(labels) for labels in (None, *found.labels)}
    ranking, margins = rankings[None], found.margins()
    assert ranking is not None
    assert balanced is not None
    (first, second, *_), (best, next_best, *_) = ranking.methods, ranking.average_ranks
    assert all(one and one.methods[0] == first for one in rankings.values()), "first at every label rate"
    unsure = [labels for labels, one in rankings.items() if one and one.behind[one.methods[1]][0] <= 0]
    yield page, f"with {' and '.join(map(str, unsure))} label per class that interval includes 0"
    low, high = ranking.behind[second]
    yield page, f"its mean rank is {best:.1f}, `{second}` is second with {next_best:.1f}"
    yield page, f"difference {low:.1f} to {high:.1f}"
    yield page, f"by balanced accuracy it is first with {balanced.average_ranks[balanced.methods.index(first)]:.1f}"
    means = [100 * one.difference.mean for one in margins.values()]
    above, surely = sum(mean > 0 for mean in means), sum(one.difference.ci95[0] > 0 for one in margins.values())
    yield page, f"in {above} of {len(means)} cells. The interval of that margin is above 0 in {surely} cells"
    below = sum(one.difference.ci95[1] < 0 for one in margins.values())
    middle = f"the mean margin is {np.mean(means):.1f} points, the median {np.median(means):.1f}"
    yield page, f"below 0 in {below}; {middle}"
    *others, last = dict.fromkeys(f"`{graph}`" for (graph, _), one in margins.items() if one.difference.mean < -0.02)
    behind = f"more than 2 points below on {', '.join(others)} and {last}"
    yield page, behind
    opponents = max(one.opponents for one in margins.values())
    yield "README.md", f"the best of up to {opponents} other methods in {above} of {len(means)} cells"
    yield "README.md", behind


def sentences() -> Iterator[tuple[str, str]]:
    """Page and words that must be in it, with the figures that the rows have."""
    rows, final = "reproduction", "reproduction/final"
    missing = [printed(cell) - 100 * honest(final)[cell.dataset, cell.labels_per_class].mean for cell in paper_cells()]
    words = f"{abs(min(missing)):.0f} to {max(missing):.0f} points"
    yield "README.md", f"printed accuracies are {words} above"
    yield "docs/results.md", f"{words} of the printed accuracy"
    read = [
        abs(line(rows, cell.dataset, cell.labels_per_class, REFERENCE, kind="optimistic").reported - printed(cell))
        for cell in paper_cells()
    ]
    for page in ("README.md", "docs/results.md"):
        yield page, f"{sum(gap <= TOLERANCE for gap in read)} of the 14 printed values within {TOLERANCE} point"
    as_printed = percent(
        np.mean(list(accuracies("reproduction/as-printed/rows.jsonl.gz", REFERENCE)["citeseer", 3].values()))
    )
    as_read = percent(line(rows, "citeseer", 3, REFERENCE).accuracy.mean)
    yield "docs/results.md", f"accuracy on Citeseer 3 is {as_printed} % instead of {as_read} %"
    gains = [f"{float(gaps(rows, 'gcn', dataset, [labels])):.0f}" for dataset, labels in FEWEST_LABELS[:2]]
    yield (
        "README.md",
        f"worth {gains[0]} points over a GCN at 2 labels per class on Cora and {gains[1]} at 3 on Citeseer",
    )
    for method, dataset, labels in (
        ("m3s", "cora", (2, 4, 8)),
        ("union", "citeseer", (3, 6, 12)),
        ("gcn", "cora", (2, 4, 8, 12, 20)),
        ("m3s", "pubmed", (2, 3)),
    ):
        yield "docs/results.md", gaps(rows, method, dataset, labels)
    for dataset, labels in (("cora", (2, 4, 8)), ("pubmed", (2, 3, 7))):
        pairs = [[line(rows, dataset, count, name).accuracy.mean for name in ("gcn+v", "gcn")] for count in labels]
        choices = ", ".join(percent(chosen - last) for chosen, last in pairs)
        yield (
            "docs/research-notes.md",
            f"{choices} points on Cora" if dataset == "cora" else f"{choices} on PubMed at the same",
        )
    yield from m3s_check("reproduction/m3s-check.json")
    ablation = json.loads((DOCS / "reproduction/mt-plus-ablation.json").read_text(encoding="utf-8"))
    losses = (
        (float(one["mt-plus"]) - float(one["on it"]), one["left out"])
        for one in graphs_left_out(ablation["accuracies"])
    )
    yield "docs/results.md", "at most {:.1f} points below `mt-plus` ({})".format(*max(losses))
    earlier, tried = (
        accuracies(f"reproduction/final-1000003/{version}.jsonl.gz", "mt-plus") for version in ("version-0.2.0", "rows")
    )
    worse = sum(np.mean(list(tried[cell].values())) < np.mean(list(earlier[cell].values())) for cell in tried)
    yield "docs/research-notes.md", f"below version 0.2.0 in {worse} of 14 cells"
    yield "docs/results.md", above_print("reproduction/final-1000005/rows.jsonl.gz")
    pooled = above_print(*(f"reproduction/final-{seed}/rows.jsonl.gz" for seed in (1000003, 1000004, 1000005)))
    yield "docs/results.md", f"(300 splits): a{pooled}"
    yield "README.md", f"MT-GCN in {pooled.split()[5]} of 14 cells over 300 final splits"
    yield from margins("reproduction/world-1000005", "world")
    yield from arena_sentences("reproduction/arena-1000007")
    yield from exchange("reproduction/mt-plus-ablation.json")
    yield from earlier_tables("measurements/tables.json")
    yield from final_tables("reproduction/tables-1000000")
    yield from row_order("reproduction/row-order.json")
    yield from m3s_rerun("reproduction/m3s-check.json")
    consistency = [
        (line(rows, cell.dataset, cell.labels_per_class, "without L_cl", kind="ablation"), cell)
        for cell in paper_cells()
    ]
    worth = -np.mean([test.difference.mean for one, _ in consistency if (test := one.against_rival)])
    better = sum(
        one.calibration_error.mean < line(rows, cell.dataset, cell.labels_per_class, REFERENCE).calibration_error.mean
        for one, cell in consistency
    )
    yield "docs/results.md", f"adds {100 * worth:.2f} points on average and, in {better} of 14 cells,"


def summaries() -> dict[Path, str]:
    """The Markdown summaries in the folders of rows."""
    folder = "reproduction"
    kinds = {"summary.md": "ours", "summary-paper.md": "optimistic", "summary-ablation.md": "ablation"}
    return {DOCS / folder / name: markdown(getattr(evidence(folder), kind)) for name, kind in kinds.items()}


# ---- checking


def differences() -> Iterator[str]:
    """Differences between the documentation and the rows."""
    for page in PAGES:
        for mark in MARK.finditer(page.read_text(encoding="utf-8")):
            expected = made(*mark.group("recipe", "source", "rest"))
            found = mark["table"].splitlines()
            if found != expected:
                changed = [line for line in expected if line not in found] or ["as many lines as it should have"]
                yield f"{page.name}, {mark['recipe']} {mark['source']}: should be {changed[0]}"
    for path, text in summaries().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            yield f"{path.relative_to(DOCS.parent)} does not match its rows; run this program with --write"
    for name, words in sentences():
        if words not in " ".join((DOCS.parent / name).read_text(encoding="utf-8").split()):
            yield f"{name} does not say: {words}"


def rewrite() -> None:
    """Update the tables, and the pages and summaries in the folders of rows."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        changed = MARK.sub(
            lambda mark: (
                mark[0][: mark.start("table") - mark.start()]
                + "".join(f"{one}\n" for one in made(*mark.group("recipe", "source", "rest")))
                + ("" if mark.string[mark.end() : mark.end() + 1] in ("", "\n") else "\n")  # else text joins the table
            ),
            text,
        )
        if changed != text:
            page.write_text(changed, encoding="utf-8")
            print(f"wrote {page.name}")
    write_beside_rows()


def write_beside_rows() -> None:
    """The summaries, and the pages about sweeps."""
    for path, text in summaries().items():
        path.write_text(text, encoding="utf-8")
    for rows in sorted((DOCS / "reproduction").rglob("rows.jsonl.gz")):
        units = read_units(rows.parent)
        swept = of_sweeps(units)  # of a comparison the rows are enough
        for suite in suites_in(swept) if swept else ():
            write_report(rows.parent, stored_evidence(units, suite=suite))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="update the tables")
    if parser.parse_args().write:
        rewrite()
    found = list(differences())
    print("\n".join(found) or "the documentation matches the rows")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
