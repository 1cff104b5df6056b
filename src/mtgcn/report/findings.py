"""What measured tables say together: in a sentence each, in ranks, and in what teaching gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtgcn.experiments.protocol import BACKBONE_NAMES, PUBLIC, TAUGHT, Cell, labels_title
from mtgcn.experiments.statistics import RankComparison, compare_ranks
from mtgcn.experiments.tables import Evidence, Line
from mtgcn.report.numbers import SIGNED, number, with_minus_sign
from mtgcn.report.styles import styles_of


def findings(evidence: Evidence) -> list[str]:
    """What the tables say in a sentence each."""
    lines = [line for table in evidence.ours for line in table.lines]
    reference = styles_of(evidence.suite).shown_name(evidence.reference)
    sentences = []
    printed = [line.difference for line in lines if line.difference is not None]
    if printed:
        with_sign = with_minus_sign(number(float(np.mean(printed)), SIGNED))
        sentences.append(
            f"{len(printed)} measured values have a printed one beside them; they differ from it by "
            f"{np.mean(np.abs(printed)):.1f} points on average, {with_sign} with their sign."
        )
    cells = [cell for cell in drawn_cells(evidence) if evidence.reference in cell and len(cell) > 1]
    if cells:
        best = sum(cell[evidence.reference].reported >= max(line.reported for line in cell.values()) for cell in cells)
        sentences.append(f"{reference} is the best in {best} of {len(cells)} cells of random splits.")
    sentences += _against_the_best_plain(evidence)
    tests = [line.against_rival for line in lines if line.against_rival]
    if tests:
        sure = [test.difference.mean for test in tests if test.is_significant]
        behind, ahead = sum(mean < 0 for mean in sure), sum(mean > 0 for mean in sure)
        sentences.append(
            f"Of {len(tests)} comparisons with {reference}, {behind} show the other method behind it and "
            f"{ahead} ahead of it, at 5 % after Holm's correction."
        )
    return sentences


def _against_the_best_plain(evidence: Evidence) -> list[str]:
    """How the reference of a suite stands to the best plain line of each cell, the one with the largest mean."""
    suite = evidence.suite
    if suite is None:
        return []
    gaps: list[tuple[float, Line]] = []
    for cell in drawn_cells(evidence):
        plain = [cell[title].reported for title in suite.plain if title in cell]
        if plain and suite.reference in cell:
            line = cell[suite.reference]
            gaps.append((line.reported - max(plain), line))
    if not gaps:
        return []
    missing = sorted({title for title in suite.plain if any(title not in cell for cell in drawn_cells(evidence))})
    above = sum(gap > 0 for gap, _ in gaps)
    within = sum(gap >= -suite.margin for gap, _ in gaps)
    worst, line = min(gaps, key=lambda one: one[0])
    where = f"{line.dataset}, {labels_title(line.labels_per_class, line.split)}"
    sentences = [
        f"The mean of {suite.reference} lies above that of the best plain row in {above} of {len(gaps)} cells and not "
        f"more than {suite.margin:g} point under it in {within}; at worst the difference is "
        f"{with_minus_sign(number(worst, SIGNED))} ({where}). Plain rows are: {'; '.join(suite.plain)}."
    ]
    if missing:
        sentences.append(f"Not run in every one of these cells: {'; '.join(missing)}.")
    return sentences


def drawn_cells(evidence: Evidence) -> list[dict[str, Line]]:
    """What was measured in each cell whose splits are drawn at random, by title."""
    cells: dict[Cell, dict[str, Line]] = {}
    for table in evidence.ours:
        for line in table.lines:
            if line.split != PUBLIC:
                cells.setdefault(line.place.cell, {})[line.title] = line
    return list(cells.values())


def ranks(evidence: Evidence) -> RankComparison | None:
    """The ranks of the methods that ran in every cell; None if there are too few of either to compare."""
    cells = drawn_cells(evidence)
    everywhere = [title for title in (cells[0] if cells else ()) if all(title in cell for cell in cells)]
    if len(cells) < 2 or len(everywhere) < 3:
        return None
    return compare_ranks(np.array([[cell[title].reported for title in everywhere] for cell in cells]), everywhere)


@dataclass(frozen=True)
class Gain:
    """What mutual teaching does to one kind of network, over all cells."""

    name: str
    cells: int
    mean: float  # a share
    smallest: float
    largest: float
    surely_better: int
    surely_worse: int


def gains(evidence: Evidence) -> list[Gain]:
    found = []
    for key, name in BACKBONE_NAMES.items():
        lines = [line for table in evidence.backbones for line in table.lines if line.title == f"{key} {TAUGHT}"]
        tests = [line.against_rival for line in lines if line.against_rival]
        if tests:
            means = [test.difference.mean for test in tests]
            sure = [test.difference.mean for test in tests if test.is_significant]
            found.append(
                Gain(
                    name=name,
                    cells=len(tests),
                    mean=float(np.mean(means)),
                    smallest=min(means),
                    largest=max(means),
                    surely_better=sum(mean > 0 for mean in sure),
                    surely_worse=sum(mean < 0 for mean in sure),
                )
            )
    return found
