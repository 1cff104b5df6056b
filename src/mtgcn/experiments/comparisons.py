"""Comparisons from rows: what methods did on the same splits, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mtgcn.experiments.protocol import REFERENCE
from mtgcn.experiments.rows import ComparedRow, ResultRow
from mtgcn.experiments.split_choice import RANDOM
from mtgcn.experiments.statistics import SIGNIFICANCE_LEVEL, SampleSummary, paired_tests
from mtgcn.experiments.tables import CellSummary, summarise_cell

REFERENCES = ("mt-plus", REFERENCE)  # of those that take part, the first is what the others are measured against
FEWEST_SCORED = 30  # nodes of a run; of fewer, one node more or less is over three points of accuracy


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same splits; every other one is measured against the reference."""

    reference: str
    cells: tuple[CellSummary, ...]
    differences: Mapping[str, SampleSummary]  # accuracy of each other method minus the reference's
    p_values: Mapping[str, float]  # of these differences, by Wilcoxon's signed-rank test, corrected by Holm
    graph: Mapping[str, int]  # nodes, edges, features and classes
    scored_nodes: int  # in the run that has fewest
    warnings: tuple[str, ...]  # why the numbers may be worth less than they look

    def is_best(self, method: str) -> bool:
        """Whether no other method has a higher mean."""
        means = {cell.method: cell.accuracy.mean for cell in self.cells}
        return len(means) > 1 and means[method] == max(means.values())

    def is_significant(self, method: str) -> bool:
        """Whether a method's difference from the reference is more than chance."""
        return self.p_values.get(method, 1.0) < SIGNIFICANCE_LEVEL


def comparison_of(rows: Mapping[str, Sequence[ComparedRow]], reference: str | None = None) -> Comparison:
    """What the rows of several methods on the same splits say, by what the methods are to be called.

    Without a `reference` the others are measured against mt-plus, mt-gcn or, without these, the first.
    """
    cells = [replace(summarise_cell(some), method=title) for title, some in rows.items()]
    base = reference or next((name for name in REFERENCES if name in rows), next(iter(rows)))
    differences, p_values = paired_with(cells, base)
    first = next(iter(rows.values()))
    fewest = min(row.scored_nodes for row in first)
    return Comparison(
        reference=base,
        cells=tuple(cells),
        differences=differences,
        p_values=p_values,
        graph=first[0].graph,
        scored_nodes=fewest,
        warnings=tuple(scoring_warnings(fewest)),
    )


def scoring_warnings(scored_nodes: int) -> list[str]:
    """What to say of runs that score so few nodes."""
    if scored_nodes >= FEWEST_SCORED:
        return []
    return [
        f"a run is scored on {scored_nodes} node{'s' if scored_nodes > 1 else ''}, fewer than {FEWEST_SCORED}, so that "
        f"one node is {100 / scored_nodes:.1f} points of accuracy; give more labels, or draw fewer of them for training"
    ]


def paired_with(cells: Sequence[CellSummary], reference: str) -> tuple[dict[str, SampleSummary], dict[str, float]]:
    """Each other cell's accuracy minus that of the method called `reference`, split by split, and whether it may be
    chance: p-values, corrected for all these comparisons."""
    [base] = [cell for cell in cells if cell.method == reference]
    others = [cell for cell in cells if cell is not base]
    tests = paired_tests(
        [cell.accuracy.per_run for cell in others],
        [base.accuracy.per_run] * len(others),
        [(cell.groups, base.groups) for cell in others],
    )
    found = {cell.method: test for cell, test in zip(others, tests, strict=True)}
    differences = {method: test.difference for method, test in found.items()}
    return differences, {method: test.p_corrected for method, test in found.items()}


def stored_comparisons(units: Iterable[Sequence[ResultRow]], reference: str | None = None) -> list[Comparison]:
    """The comparisons that a folder of rows holds: those of one graph together, random splits with few labels first.
    Rows of sweeps are left alone. `reference` counts where it takes part."""
    compared = [[row for row in rows if isinstance(row, ComparedRow)] for rows in units]
    titled: dict[str, dict[str, Sequence[ComparedRow]]] = {}
    for title, rows in _titled([rows for rows in compared if rows]):
        # Of two that are called the same the later counts: somebody's own method, whose file was edited in between.
        titled.setdefault(rows[0].comparison, {})[title] = rows
    found = [comparison_of(rows, reference if reference in rows else None) for rows in titled.values()]
    datasets = list(dict.fromkeys(comparison.cells[0].dataset for comparison in found))
    return sorted(found, key=lambda comparison: _order(comparison.cells[0], datasets))


def _order(cell: CellSummary, datasets: Sequence[str]) -> tuple[int, bool, float]:
    labels = cell.labels_per_class
    return datasets.index(cell.dataset), cell.split != RANDOM, labels if isinstance(labels, int) else math.inf


def _titled(units: Sequence[Sequence[ComparedRow]]) -> Iterator[tuple[str, Sequence[ComparedRow]]]:
    """Each unit with what to call it: its method and, where that took part with several settings, those that differ."""
    for rows in units:
        method, settings = rows[0].method, rows[0].settings
        alike = [other[0].settings for other in units if other[0].method == method]
        differing = [key for key in settings if any(other.get(key) != settings[key] for other in alike)]
        yield ", ".join([method, *(f"{key}={settings[key]}" for key in differing)]), rows
