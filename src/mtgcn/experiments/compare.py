"""Several methods on the same splits of one graph."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np
import torch

from mtgcn import environment
from mtgcn.errors import InputError, unknown_name
from mtgcn.experiments.comparisons import Comparison, comparison_of
from mtgcn.experiments.progress import FittingProgress, silent_fitting
from mtgcn.experiments.protocol import check_not_final
from mtgcn.experiments.rows import ComparedRow
from mtgcn.experiments.run import run_cell
from mtgcn.experiments.split_choice import RANDOM, chosen_splits
from mtgcn.experiments.store import Store
from mtgcn.experiments.units import DECISIVE_VERSIONS
from mtgcn.graph import Graph
from mtgcn.linalg.structural_features import with_structural_features
from mtgcn.methods import Method
from mtgcn.splits import Split
from mtgcn.storage.cache import fingerprint

ComparedRows = tuple[ComparedRow, ...]


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
    store: Store | None = None,
) -> Comparison:
    """Fit and score every method, by the name people call it, on the splits that `chosen_splits` gives.

    Features of a graph that has none are made from its edges, as in a fit. The others are measured against `reference`;
    `comparison_of` says which one that is if it is not said. `progress` is entered around each fit. What a `store`
    holds is not run again, and the rest is stored as soon as it is done.
    """
    rows = compared_rows(
        graph,
        methods,
        split=split,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        device=device,
        reference=reference,
        progress=progress,
        store=store,
    )
    return comparison_of(rows, reference)


def compared_rows(
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
    store: Store | None = None,
) -> dict[str, ComparedRows]:
    """The rows that `compare_methods` is made from, by method."""
    check_not_final(seed)
    if not methods:
        raise InputError("0 methods to compare; name at least 1")
    if reference is not None and reference not in methods:
        raise unknown_name("reference", reference, methods)
    splits = chosen_splits(
        split,
        graph,
        labels_per_class=labels_per_class,
        runs=runs,
        seed=seed,
        # Nodes that one method chooses its epoch on are scored for none.
        with_validation=any(method.uses_validation for method in methods.values()),
    )
    device = torch.device(device)
    comparison = _comparison_id(graph, splits, split, seed, device)
    described: Graph | None = None  # with features made from its edges, once a method asks for some and there are none
    rows: dict[str, ComparedRows] = {}
    for name, method in methods.items():
        unit = _unit_id(comparison, name, method)
        if store is not None and unit in store.units:
            rows[name] = tuple(row for row in store.units[unit] if isinstance(row, ComparedRow))
            continue
        with progress(f"{name} on {graph.name}" if graph.name else name):
            seen = graph
            if graph.features is None and method.uses_features:
                seen = described = described or with_structural_features(graph, seed)
            found = run_cell(seen, splits, method, name=name, seed=seed, split_source=split, device=device)
        rows[name] = tuple(
            ComparedRow(
                **vars(row) | {"settings": _plain_settings(method)},
                unit=unit,
                protocol="ours",
                validation=len(one.validation),
                runs=len(splits),
                averages=1,
                comparison=comparison,
                scored_nodes=len(one.test),
                graph=graph_counts(graph),
            )
            for row, one in zip(found, splits, strict=True)
        )
        if store is not None:
            store.append(rows[name])
    return rows


def graph_counts(graph: Graph) -> dict[str, int]:
    """How large a graph is, for who reads its rows without having it."""
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "features": graph.num_features,
        "classes": graph.num_classes,
    }


def _comparison_id(graph: Graph, splits: Sequence[Split], source: str, seed: int, device: torch.device) -> str:
    """Short for all that the methods of a comparison share: what they see, on what they are scored, and what else
    decides the numbers. Rows in which it is equal may be paired, run by run."""
    versions = environment.versions()
    recipe = (
        graph.name,
        graph.class_names,
        source,
        seed,
        environment.device_title(device),
        environment.threads(),
        [versions[name] for name in DECISIVE_VERSIONS],
    )
    digest = hashlib.sha256(fingerprint(recipe, graph.adjacency, graph.features).encode())
    digest.update(graph.labels.astype(np.int64).tobytes())
    for split in splits:
        for part in (split.train, split.validation, split.test):
            digest.update(len(part).to_bytes(8, "little") + part.tobytes())
    return digest.hexdigest()[:16]


def _unit_id(comparison: str, name: str, method: Method) -> str:
    """Short for a method in a comparison. Somebody's own method is another one after its file was edited; ours change
    with the version, which is in the comparison."""
    identity = [comparison, name, _plain_settings(method), _source_of(type(method))]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def _source_of(method: type[Method]) -> str:
    if method.__module__.split(".")[0] == "mtgcn":
        return ""
    try:
        return inspect.getsource(sys.modules[method.__module__])
    except (OSError, TypeError, KeyError):  # typed into an interpreter: there is nothing to look at
        return ""


def _plain_settings(method: Method) -> dict[str, object]:
    """As they read after being stored; of what JSON has no form for, how Python shows it."""
    return json.loads(json.dumps(asdict(method), default=repr), parse_constant=str)
