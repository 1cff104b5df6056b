"""Several methods on the same splits of one graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from mtgcn.benchmark.progress import FittingProgress, silent_fitting
from mtgcn.benchmark.protocol import REFERENCE
from mtgcn.benchmark.run import run_cell
from mtgcn.benchmark.split_choice import RANDOM, chosen_splits
from mtgcn.benchmark.tables import Comparison, compare_cells, summarise_cell
from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import Method


def compare_methods(
    graph: Graph,
    methods: Mapping[str, Method],
    *,
    split: str = RANDOM,
    labels_per_class: int | Sequence[int] | None = None,
    runs: int | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    reference: str | None = None,
    progress: FittingProgress = silent_fitting,
) -> Comparison:
    """Fit and score every method, by the name people call it, on the splits that `chosen_splits` gives.

    The others are measured against `reference`: if it is not said, MT-GCN or, without it, the first. `progress` is
    entered around each fit.
    """
    if not methods:
        raise InputError("0 methods to compare; name at least 1")
    splits = chosen_splits(
        split,
        graph,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        # Nodes that one method chooses its epoch on are scored for none.
        with_validation=any(method.uses_validation for method in methods.values()),
    )
    cells = []
    for name, method in methods.items():
        with progress(f"{name} on {graph.name}"):
            rows = run_cell(graph, splits, method, name=name, seed=seed, split_source=split, device=device)
            cells.append(summarise_cell(rows))
    return compare_cells(cells, reference or (REFERENCE if REFERENCE in methods else next(iter(methods))))
