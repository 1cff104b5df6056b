"""What measured tables say together: in a sentence each, in ranks, and in what teaching gains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mtgcn.benchmark.protocol import BACKBONE_NAMES, REFERENCE, TAUGHT
from mtgcn.benchmark.split_choice import RANDOM
from mtgcn.benchmark.statistics import RankComparison, compare_ranks
from mtgcn.benchmark.tables import Evidence, Line
from mtgcn.report.charts import shown_name
from mtgcn.report.numbers import SIGNED, number, with_minus_sign


def findings(evidence: Evidence) -> list[str]:
    """What the tables say in a sentence each."""
    lines = [line for table in evidence.ours for line in table.lines]
    sentences = []
    printed = [line.difference for line in lines if line.difference is not None]
    if printed:
        with_sign = with_minus_sign(number(float(np.mean(printed)), SIGNED))
        sentences.append(
            f"{len(printed)} measured values have a printed one beside them; they differ from it by "
            f"{np.mean(np.abs(printed)):.1f} points on average, {with_sign} with their sign."
        )
    cells = [cell for cell in random_cells(evidence) if REFERENCE in cell and len(cell) > 1]
    if cells:
        best = sum(cell[REFERENCE].reported >= max(line.reported for line in cell.values()) for cell in cells)
        sentences.append(f"{shown_name(REFERENCE)} is the best in {best} of {len(cells)} cells of random splits.")
    tests = [line.against_rival for line in lines if line.against_rival]
    if tests:
        sure = [test.difference.mean for test in tests if test.is_significant]
        behind, ahead = sum(mean < 0 for mean in sure), sum(mean > 0 for mean in sure)
        sentences.append(
            f"Of {len(tests)} comparisons with {shown_name(REFERENCE)}, {behind} show the other method behind it and "
            f"{ahead} ahead of it, at 5 % after Holm's correction."
        )
    return sentences


def random_cells(evidence: Evidence) -> list[dict[str, Line]]:
    """What was measured in each cell of random splits, by method."""
    cells: dict[tuple[str, int], dict[str, Line]] = {}
    for table in evidence.ours:
        for line in table.lines:
            if line.split == RANDOM:
                cells.setdefault((line.dataset, line.labels_per_class), {})[line.title] = line
    return list(cells.values())


def ranks(evidence: Evidence) -> RankComparison | None:
    """The ranks of the methods that ran in every cell; None if there are too few of either to compare."""
    cells = random_cells(evidence)
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
