"""Edge lists and networkx graphs as plain arrays, from which a `Graph` is built."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real as RealNumber
from typing import Any, Literal, Protocol

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, check_names, shown
from mtgcn.labels import encoded_labels
from mtgcn.shapes import Float, Int, Real

WEIGHT_NAMES = ("weight",)
LABEL_NAMES = ("label", "class")
MAX_FLOAT = float(np.finfo(np.float32).max)


class Preprocessing(Protocol):
    """How features were computed from the columns of a table; implemented by `mtgcn.io.preprocessing`."""

    @property
    def columns(self) -> Sequence[Any]: ...
    @property
    def named(self) -> bool: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def needed(self) -> tuple[str, ...]: ...
    @property
    def read_as_text(self) -> frozenset[str]: ...
    @property
    def changes_nothing(self) -> bool: ...
    def matrix(self, table: Any) -> Any: ...
    def lines(self) -> list[str]: ...
    def plain(self) -> dict[str, Any]: ...


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """A graph as read: edges in any direction and any multiplicity, not yet validated."""

    node_ids: np.ndarray
    sources: Int[np.ndarray, "listed"]  # node numbers, not ids
    targets: Int[np.ndarray, "listed"]
    weights: np.ndarray | None = None  # None: all 1
    features: sp.sparray | np.ndarray | None = None
    feature_names: tuple[str, ...] = ()
    labels: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    directed: bool | None = None  # None: unknown
    preprocessing: Preprocessing | None = None


@dataclass(frozen=True, eq=False)
class MergedEdges:
    """Every linked pair once, with the largest of its listed weights."""

    first: Int[np.ndarray, "pairs"]
    second: Int[np.ndarray, "pairs"]  # >= first
    weights: Float[np.ndarray, "pairs"]
    one_way: int  # pairs of different nodes listed in one direction only
    both_ways: int  # the other pairs of different nodes
    uneven: int  # those of them whose two directions differ in weight

    def adjacency(self, nodes: int) -> sp.csr_array:
        """The symmetric adjacency; self-edges are kept."""
        apart = self.first != self.second
        rows = np.concatenate([self.first, self.second[apart]])
        columns = np.concatenate([self.second, self.first[apart]])
        weights = np.concatenate([self.weights, self.weights[apart]])
        return sp.coo_array((weights, (rows, columns)), shape=(nodes, nodes)).tocsr()


def merge_edges(
    sources: Int[np.ndarray, "listed"],
    targets: Int[np.ndarray, "listed"],
    weights: Real[np.ndarray, "listed"] | None,
    nodes: int,
) -> MergedEdges:
    pair = np.minimum(sources, targets) * np.int64(nodes) + np.maximum(sources, targets)
    order = np.argsort(pair, kind="stable")
    pair = pair[order]
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    pair = pair[starts]
    if not len(starts):
        return MergedEdges(pair, pair, np.zeros(0, np.float32), 0, 0, 0)
    forward = (sources < targets)[order]
    backward = (sources > targets)[order]
    listed = np.ones(len(order), np.float32) if weights is None else weights[order].astype(np.float32)
    there = np.maximum.reduceat(np.where(forward, listed, -1), starts)  # -1: not listed in this direction
    back = np.maximum.reduceat(np.where(backward, listed, -1), starts)
    apart = pair // nodes != pair % nodes
    twice = (there >= 0) & (back >= 0)
    return MergedEdges(
        first=pair // nodes,
        second=pair % nodes,
        weights=np.maximum.reduceat(listed, starts),
        one_way=int(np.count_nonzero(apart & ~twice)),
        both_ways=int(np.count_nonzero(twice)),
        uneven=int(np.count_nonzero(twice & (there != back))),
    )


def check_edges(arrays: GraphArrays, where: str) -> None:
    """Reject empty edge lists, node numbers out of range and invalid weights."""
    nodes = len(arrays.node_ids)
    if not len(arrays.sources):
        raise InputError(f"{where} holds no edge; give at least one")
    ends = np.array([arrays.sources, arrays.targets])
    outside = np.argwhere(((ends < 0) | (ends >= nodes)).T)
    if len(outside):
        edge, end = outside[0]
        raise InputError(
            f"{where}: edge {edge} ends in node {ends[end, edge]} and there are {nodes}, counted from 0; "
            "correct it, or give more nodes"
        )
    if arrays.weights is None:
        return
    if arrays.weights.shape != arrays.sources.shape:
        raise InputError(
            f"{where}: weights of shape {arrays.weights.shape} for {len(arrays.sources)} edges; give one each"
        )
    if arrays.weights.dtype.kind not in "biuf":
        raise InputError(f"{where}: weights of type {arrays.weights.dtype}; give numbers")
    bad = np.flatnonzero(~((arrays.weights >= 0) & (arrays.weights <= MAX_FLOAT)))
    if len(bad):
        raise InputError(f"{where}: edge {bad[0]} weighs {arrays.weights[bad[0]]:g}; give finite weights >= 0")


def networkx_arrays(
    graph: Any,
    where: str,
    *,
    weight: str | Literal[False] | None = None,
    label: str | Literal[False] | None = None,
    features: Sequence[str] | None = None,
) -> GraphArrays:
    """The arrays of a networkx graph, which messages call `where`."""
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
        node_ids=id_array(nodes, where),
        sources=sources,
        targets=targets,
        weights=_weights(graph, weight, where),
        features=values,
        feature_names=names,
        labels=labels if class_names else None,
        class_names=class_names,
        directed=graph.is_directed(),
    )


def id_array(nodes: Sequence[Any], where: str) -> np.ndarray:
    """Node ids as an array: of integers if all are integers, otherwise of text."""
    whole = all(isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in nodes)
    if whole and all(abs(int(node)) < 2**63 for node in nodes):
        return np.array([int(node) for node in nodes], dtype=np.int64)
    names = [str(node) for node in nodes]
    check_names(names, "node id", where)
    return np.array(names)


def _label_name(attributes: list[dict[str, Any]], named: str | Literal[False] | None, where: str) -> str | None:
    if named is False:
        return None
    if named is not None:
        if not any(named in some for some in attributes):
            raise InputError(f"{where}: no node has an attribute {named!r}; name the one that holds the classes")
        return named
    for name in LABEL_NAMES:
        found = [str(some[name]) for some in attributes if name in some]
        # Drawing programs write each node's own name into `label`; that is not a class.
        if found and (name != "label" or len(set(found)) < len(attributes)):
            return name
    return None


def _features(
    nodes: list[Any],
    attributes: list[dict[str, Any]],
    label_name: str | None,
    named: Sequence[str] | None,
    where: str,
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Attributes that are numbers, or lists of numbers of one length."""
    names = named
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
            rows.append(np.array([_number(one) for one in np.atleast_1d(np.asarray(value, dtype=object))]))
        column = np.array(rows)
        bad = np.flatnonzero(~(np.abs(column) <= MAX_FLOAT).all(axis=1))
        if len(bad):
            raise InputError(
                f"{where}, node {shown(nodes[bad[0]])}: attribute {name!r} is {shown(attributes[bad[0]][name])}; "
                "give finite numbers that single precision can hold"
            )
        columns.append(column.astype(np.float32))
        column_names += [name] if column.shape[1] == 1 else [f"{name}[{place}]" for place in range(column.shape[1])]
    return (np.hstack(columns), tuple(column_names)) if columns else (None, ())


def _number(value: Any) -> float:
    """In double precision; infinite for an integer that is too large."""
    try:
        return float(value)
    except OverflowError:
        return np.inf


def _is_numeric(value: Any) -> bool:
    if isinstance(value, (list, tuple, np.ndarray)):
        values = np.atleast_1d(np.asarray(value, dtype=object))
        return values.ndim == 1 and len(values) > 0 and all(isinstance(one, (RealNumber, np.bool_)) for one in values)
    return isinstance(value, (RealNumber, np.bool_))


def _weights(graph: Any, named: str | Literal[False] | None, where: str) -> np.ndarray | None:
    """Edges without the attribute have weight 1, as in networkx."""
    if named is False:
        return None
    name = named or WEIGHT_NAMES[0]
    weights = np.ones(graph.number_of_edges(), np.float32)
    found = False
    for place, (one, other, value) in enumerate(graph.edges(data=name)):
        if value is None:
            continue
        found = True
        if not isinstance(value, RealNumber) or not 0 <= _number(value) <= MAX_FLOAT:
            raise InputError(
                f"{where}, edge {shown(one)} - {shown(other)}: {name} is {shown(value)}; give a finite weight >= 0"
            )
        weights[place] = float(value)
    if named is not None and not found:
        raise InputError(f"{where}: no edge has an attribute {named!r}; name the one that holds the weights")
    return weights if found else None
