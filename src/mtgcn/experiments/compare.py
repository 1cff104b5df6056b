"""Compares methods on the same splits of one graph: rows, means with intervals, and paired differences."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from mtgcn import environment
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments import scoring
from mtgcn.experiments.plan import decisive_versions, source_of
from mtgcn.experiments.protocol import GIVEN, RANDOM, REFERENCE, check_not_final
from mtgcn.experiments.statistics import SIGNIFICANCE_LEVEL, SampleSummary
from mtgcn.experiments.store import ComparedRow, GraphCounts, ResultRow, Store
from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.splits import Split
from mtgcn.storage.cache import fingerprint

REFERENCES = ("mt-plus", REFERENCE)  # default reference: the first of these that is compared
FEWEST_SCORED = 30  # test nodes of a run; with fewer, one node counts more than three points of accuracy

MISLEADING_GAP = 0.1  # difference of accuracy and balanced accuracy

ComparedRows = tuple[ComparedRow, ...]  # rows of one method


@dataclass(frozen=True)
class Comparison:
    """Several methods on the same splits, compared with a reference method."""

    reference: str
    cells: tuple[scoring.CellSummary, ...]
    score: str  # one of `SCORES`
    differences: Mapping[str, SampleSummary]  # score of each other method minus that of the reference
    p_values: Mapping[str, float]  # Wilcoxon's signed-rank test of the differences, corrected by Holm
    graph: GraphCounts
    scored_nodes: int  # minimum over runs
    warnings: tuple[str, ...]

    def is_best(self, method: str) -> bool:
        """Whether no other method has a higher mean score."""
        means = {cell.method: cell.by(self.score).mean for cell in self.cells}
        return len(means) > 1 and means[method] == max(means.values())

    def is_significant(self, method: str) -> bool:
        """Whether the difference from the reference is significant."""
        return self.p_values.get(method, 1.0) < SIGNIFICANCE_LEVEL


def compared_rows(
    graph: Graph,
    methods: Mapping[str, Method],
    *,
    split: Any = RANDOM,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    validation_per_class: int = 0,
    device: torch.device | str = "cpu",
    reference: str | None = None,
    progress: scoring.FittingProgress = nullcontext,
    store: Store | None = None,
) -> dict[str, ComparedRows]:
    """Fit and score every method on the splits of `chosen_splits`. Returns one row per run, by name of the method.

    Methods with rows in `store` are not run again; rows of the others are stored as soon as they are fitted.
    """
    check_not_final(seed)
    if not methods:
        raise InputError("0 methods to compare; name at least 1")
    if reference is not None and reference not in methods:
        raise unknown_name("reference", reference, methods)
    splits = scoring.chosen_splits(
        split,
        graph,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        # Validation nodes of one method are excluded from the test nodes of all.
        with_validation=any(method.uses_validation for method in methods.values()),
        validation_per_class=validation_per_class,
    )
    split = split if isinstance(split, str) else GIVEN
    device = torch.device(device)
    sizes = {name: getattr(graph, f"num_{name}") for name in ("nodes", "edges", "features", "classes")}
    comparison = _comparison_id(graph, splits, split, seed, device)
    rows: dict[str, ComparedRows] = {}
    for name, method in methods.items():
        # The comparison covers our version; a user-defined method is covered by its source.
        identity = [comparison, name, scoring.plain_settings(method), source_of(method)]
        unit = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
        if store is not None and unit in store.units:
            rows[name] = tuple(row for row in store.units[unit] if isinstance(row, ComparedRow))
            continue
        with progress(f"{name} on {graph.name}" if graph.name else name):
            found = scoring.run_cell(graph, splits, method, name=name, seed=seed, split_source=split, device=device)
        shared: dict[str, Any] = {"unit": unit, "protocol": "ours", "runs": len(splits), "averages": 1}
        shared |= {"comparison": comparison, "graph": sizes}
        rows[name] = tuple(
            ComparedRow(**vars(row), **shared, validation=len(one.validation), scored_nodes=len(one.test))
            for row, one in zip(found, splits, strict=True)
        )
        if store is not None:
            store.append(rows[name])
    return rows


def comparison_of(
    rows: Mapping[str, Sequence[ComparedRow]], reference: str | None = None, score: str = scoring.SCORES[0]
) -> Comparison:
    """Compare methods by their rows on the same splits; the keys are the displayed names.

    The default reference is mt-plus, mt-gcn or, without these, the first method.
    """
    cells = [replace(scoring.summarise_cell(some), method=title) for title, some in rows.items()]
    reference = reference or next((name for name in REFERENCES if name in rows), next(iter(rows)))
    [base] = [cell for cell in cells if cell.method == reference]
    found = scoring.compared_cells(cells, [None if cell is base else base for cell in cells], score)
    tests = {cell.method: test for cell, test in zip(cells, found, strict=True) if test}
    first = next(iter(rows.values()))
    fewest = min(row.scored_nodes for row in first)
    warnings = []
    if fewest < FEWEST_SCORED:
        warnings.append(
            f"a run is scored on {fewest} node{'s' if fewest > 1 else ''}, fewer than {FEWEST_SCORED}, so that one "
            f"node is {100 / fewest:.1f} points of accuracy; give more labels, or draw fewer of them for training"
        )
    gaps = {one.method: one.accuracy.mean - one.balanced_accuracy.mean for one in cells if one.balanced_accuracy}
    if score == scoring.SCORES[0] and gaps and (gap := max(gaps.values())) > MISLEADING_GAP:
        warnings.append(
            f"classes are uneven: accuracy is up to {100 * gap:.0f} points above balanced accuracy "
            f"({max(gaps, key=gaps.__getitem__)}); compare by --score balanced-accuracy, too"
        )
    return Comparison(
        reference=reference,
        cells=tuple(cells),
        score=score,
        differences={method: test.difference for method, test in tests.items()},
        p_values={method: test.p_corrected for method, test in tests.items()},
        graph=first[0].graph,
        scored_nodes=fewest,
        warnings=tuple(warnings),
    )


def stored_comparisons(
    units: Iterable[Sequence[ResultRow]], reference: str | None = None, score: str = scoring.SCORES[0]
) -> list[Comparison]:
    """The comparisons in stored rows: grouped by graph, random splits with few labels first.

    If a method occurs with several settings, titles include those that differ. Rows of sweeps are ignored. `reference`
    applies to the comparisons that contain it. Comparisons without the `score` are left out.
    """
    compared = [[row for row in rows if isinstance(row, ComparedRow)] for rows in units]
    compared = [rows for rows in compared if rows]
    titled: dict[str, dict[str, Sequence[ComparedRow]]] = {}
    for rows in compared:
        method, settings = rows[0].method, rows[0].settings
        alike = [other[0].settings for other in compared if other[0].method == method]
        differing = [key for key in settings if any(other.get(key) != settings[key] for other in alike)]
        title = ", ".join([method, *(f"{key}={settings[key]}" for key in differing)])
        # The later of equal titles counts: the source of a user-defined method was edited in between.
        titled.setdefault(rows[0].comparison, {})[title] = rows
    found = [
        comparison_of(rows, reference if reference in rows else None, score)
        for rows in titled.values()
        if all(getattr(row, score.replace("-", "_")) is not None for some in rows.values() for row in some)
    ]
    datasets = list(dict.fromkeys(one.cells[0].dataset for one in found))

    def order(one: Comparison) -> tuple[int, bool, float]:
        cell, labels = one.cells[0], one.cells[0].labels_per_class
        return datasets.index(cell.dataset), cell.split != RANDOM, labels if isinstance(labels, int) else math.inf

    return sorted(found, key=order)


def _comparison_id(graph: Graph, splits: Sequence[Split], source: str, seed: int, device: torch.device) -> str:
    """Hash of everything that the methods of a comparison share. Rows with equal ids may be paired run by run."""
    machine = environment.device_title(device), torch.get_num_threads(), list(decisive_versions().values())
    recipe = (graph.name, graph.class_names, source, seed, *machine)
    digest = hashlib.sha256(fingerprint(recipe, graph.adjacency, graph.features).encode())
    digest.update(graph.labels.astype(np.int64).tobytes())
    for split in splits:
        for part in (split.train, split.validation, split.test):
            digest.update(len(part).to_bytes(8, "little") + part.tobytes())
    return digest.hexdigest()[:16]
