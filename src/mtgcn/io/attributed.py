"""Graphs as networkx holds them: nodes and edges with attributes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np

from mtgcn.errors import InputError
from mtgcn.io.arrays import GraphArrays
from mtgcn.io.columns import LABEL_NAMES, WEIGHT_NAMES
from mtgcn.io.labels import encoded_labels
from mtgcn.io.paths import shown
from mtgcn.io.texts import check_names

LARGEST = float(np.finfo(np.float32).max)


def graph_arrays(
    graph: Any,
    where: str,
    *,
    weight: str | Literal[False] | None = None,
    label: str | Literal[False] | None = None,
    features: Sequence[str] | None = None,
) -> GraphArrays:
    """The arrays of a networkx graph; `where` is what messages call it."""
    nodes = list(graph.nodes)
    if not nodes:
        raise InputError(f"{where} has no nodes; give at least one")
    number = {node: place for place, node in enumerate(nodes)}
    ends = [(number[one], number[other]) for one, other in graph.edges()]
    sources, targets = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    attributes = [graph.nodes[node] for node in nodes]
    label_name = _label_name(attributes, label, where)
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    if label_name is not None:
        labels, class_names = encoded_labels([some.get(label_name) for some in attributes])
    values, names = _features(nodes, attributes, label_name, features, where)
    return GraphArrays(
        node_ids=node_ids(nodes, where),
        sources=sources,
        targets=targets,
        weights=_weights(graph, weight, where),
        features=values,
        feature_names=names,
        labels=labels if class_names else None,
        class_names=class_names,
        directed=graph.is_directed(),
    )


def node_ids(nodes: Sequence[Any], where: str) -> np.ndarray:
    """Whole numbers stay numbers; anything else becomes text."""
    whole = all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes)
    if whole and all(abs(int(node)) < 2**63 for node in nodes):
        return np.array([int(node) for node in nodes], dtype=np.int64)
    names = [str(node) for node in nodes]
    check_names(names, "node id", where)
    return np.array(names)


def _label_name(attributes: list[dict[str, Any]], told: str | Literal[False] | None, where: str) -> str | None:
    if told is False:
        return None
    if told is not None:
        if not any(told in some for some in attributes):
            raise InputError(f"{where}: no node has an attribute {told!r}; name the one that holds the classes")
        return told
    for name in LABEL_NAMES:
        found = [str(some[name]) for some in attributes if name in some]
        # Drawing programs write each node's own name into `label`; that is no class.
        if found and (name != "label" or len(set(found)) < len(attributes)):
            return name
    return None


def _features(
    nodes: list[Any],
    attributes: list[dict[str, Any]],
    label_name: str | None,
    told: Sequence[str] | None,
    where: str,
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Attributes that are numbers, or lists of as many numbers at every node."""
    names = told
    if names is None:
        seen = {name: value for some in reversed(attributes) for name, value in some.items()}
        names = [name for name, value in seen.items() if name != label_name and _is_numeric(value)]
    columns, column_names = [], []
    for name in names:
        rows: list[np.ndarray] = []
        for node, some in zip(nodes, attributes, strict=True):
            value = some.get(name)
            if value is None or not _is_numeric(value) or (rows and np.atleast_1d(value).size != rows[0].size):
                raise InputError(
                    f"{where}, node {shown(node)}: attribute {name!r} is {shown(value)}; give every node a number "
                    "there (or lists of one length), or name the features to take"
                )
            rows.append(_numbers(value))
        column = np.array(rows)
        bad = np.flatnonzero(~(np.abs(column) <= LARGEST).all(axis=1))
        if len(bad):
            raise InputError(
                f"{where}, node {shown(nodes[bad[0]])}: attribute {name!r} is {shown(attributes[bad[0]][name])}; "
                "give finite numbers that single precision can hold"
            )
        columns.append(column.astype(np.float32))
        column_names += [name] if column.shape[1] == 1 else [f"{name}[{place}]" for place in range(column.shape[1])]
    return (np.hstack(columns), tuple(column_names)) if columns else (None, ())


def _numbers(value: Any) -> np.ndarray:
    """One number or several, in doubles; infinite where a whole number is too large for them."""
    return np.array([_number(one) for one in np.atleast_1d(np.asarray(value, dtype=object))], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_numeric(value: Any) -> bool:
    if isinstance(value, (list, tuple, np.ndarray)):
        values = np.atleast_1d(np.asarray(value, dtype=object))
        return values.ndim == 1 and len(values) > 0 and all(isinstance(one, (Real, np.bool_)) for one in values)
    return isinstance(value, (Real, np.bool_))


def _weights(graph: Any, told: str | Literal[False] | None, where: str) -> np.ndarray | None:
    """Edges without the attribute weigh 1, as in networkx."""
    if told is False:
        return None
    name = told or WEIGHT_NAMES[0]
    weights = np.ones(graph.number_of_edges(), np.float32)
    found = False
    for place, (one, other, value) in enumerate(graph.edges(data=name)):
        if value is None:
            continue
        found = True
        if not isinstance(value, Real) or not 0 <= _number(value) <= LARGEST:
            raise InputError(
                f"{where}, edge {shown(one)} - {shown(other)}: {name} is {shown(value)}; give a finite weight >= 0"
            )
        weights[place] = float(value)
    if told is not None and not found:
        raise InputError(f"{where}: no edge has an attribute {told!r}; name the one that holds the weights")
    return weights if found else None
