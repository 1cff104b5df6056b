"""An edge list, a node table and a label table, put together by the nodes' ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
import scipy.sparse as sp

from mtgcn.errors import InputError, unknown_name
from mtgcn.io.arrays import GraphArrays
from mtgcn.io.columns import ID_NAMES, LABEL_NAMES, SOURCE_NAMES, TARGET_NAMES, Choices, UnknownNodes, open_table
from mtgcn.io.edge_rows import EdgeRows, read_edges
from mtgcn.io.ids import NodeIndex
from mtgcn.io.label_book import LabelBook
from mtgcn.io.node_rows import NodeRows, read_nodes
from mtgcn.io.paths import PathLike, readable_file
from mtgcn.io.preprocessing.learning import learn
from mtgcn.io.preprocessing.prepared import Preparation
from mtgcn.io.table import Table


def read_tables(
    edges: PathLike | None, nodes: PathLike | None, labels: PathLike | None, choices: Choices
) -> GraphArrays:
    """A graph from its tables. A node table says which nodes there are; without one the edge list does."""
    edge_table = _opened(edges, [SOURCE_NAMES, TARGET_NAMES], choices)
    node_table = _opened(nodes, [ID_NAMES + LABEL_NAMES], choices)
    label_table = _opened(labels, [ID_NAMES + LABEL_NAMES], choices)
    _check_choices(choices, edge_table, node_table, label_table)
    if node_table is None:
        index = NodeIndex()
        nodes_read = NodeRows(index, LabelBook(index), None, {})
    else:
        meant = _meant_for(node_table, label_table, choices)
        nodes_read = read_nodes(node_table, meant, labels_elsewhere=label_table is not None)
    index, book = nodes_read.index, nodes_read.book
    listed = len(index)
    home = node_table or edge_table
    links = EdgeRows()
    if edge_table is not None:
        links = read_edges(edge_table, choices, index, None if node_table is None else str(node_table.path))
    if label_table is not None:
        book.read(label_table, _meant_for(label_table, node_table, choices), home=str(home.path if home else ""))
    node_ids = index.ids()
    codes, class_names = book.settled(few_labels=choices.few_labels)
    features, preparation = _features(nodes_read, choices, added=len(index) - listed)
    sources, targets = links.sources, links.targets
    if node_table is None:  # sorted, so that the order of the edges decides nothing
        order = np.argsort(node_ids, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        node_ids, sources, targets, codes = node_ids[order], place[sources], place[targets], codes[order]
    return GraphArrays(
        node_ids,
        sources,
        targets,
        links.weights,
        features,
        () if preparation is None else preparation.names,
        codes if class_names else None,
        class_names,
        preparation=preparation,
    )


def _features(
    nodes: NodeRows, choices: Choices, added: int
) -> tuple[sp.csr_array | np.ndarray | None, Preparation | None]:
    """The features, and how they were made; nothing of either where no column tells anything."""
    if nodes.columns is None:
        return None, None
    table = replace(nodes.columns, absent=added)
    preparation = choices.preparation
    if preparation is None:
        preparation = learn(table, nodes.told, scale=choices.scale)
    features = preparation.matrix(table)
    return (features, preparation) if features.shape[1] else (None, preparation)


def read_labels(
    path: PathLike, node_ids: np.ndarray, choices: Choices, beside: Sequence[str] = ()
) -> tuple[np.ndarray, tuple[str, ...]]:
    """The labels that a label table gives to nodes that are known already; unless few will do, or they come beside
    others, of classes that there are, of at least two classes."""
    book = LabelBook(NodeIndex.of(node_ids))
    book.read(open_table(readable_file(path), [ID_NAMES + LABEL_NAMES], choices), choices, home="the graph")
    return book.settled(beside, few_labels=choices.few_labels)


def _opened(given: PathLike | None, names: Sequence[Sequence[str]], choices: Choices) -> Table | None:
    return None if given is None else open_table(readable_file(given), names, choices)


def _check_choices(
    choices: Choices, edge_table: Table | None, node_table: Table | None, label_table: Table | None
) -> None:
    if choices.unknown_nodes not in get_args(UnknownNodes):
        raise unknown_name("unknown_nodes", choices.unknown_nodes, get_args(UnknownNodes))
    if edge_table is None and node_table is None:
        raise InputError("neither an edge list nor a node table; give at least one of them")
    for column, tables, where in (
        (choices.source, [edge_table], "an edge list"),
        (choices.target, [edge_table], "an edge list"),
        (choices.weight or None, [edge_table], "an edge list"),
        (choices.features, [node_table], "a node table"),
        (choices.exclude or None, [node_table], "a node table"),
        (list(choices.kinds) or None, [node_table], "a node table"),
        (choices.node_id, [node_table, label_table], "a node or label table"),
        (choices.label or None, [node_table, label_table], "a node or label table"),
    ):
        if column is not None and not any(tables):
            raise InputError(f"column {column!r} is looked for in {where} and there is none; give one")


def _meant_for(table: Table, other: Table | None, choices: Choices) -> Choices:
    """Of the columns a person names, those that are not the other table's alone."""
    if other is None:
        return choices

    def is_theirs(column: object) -> bool:
        return column in other.columns and column not in table.columns

    return replace(
        choices,
        node_id=None if is_theirs(choices.node_id) else choices.node_id,
        label=None if is_theirs(choices.label) else choices.label,
    )
