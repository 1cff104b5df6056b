"""Which column is what: as told, else by name, else by position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mtgcn.errors import InputError, unknown_name
from mtgcn.io.csv_table import CsvTable
from mtgcn.io.preprocessing.kinds import IGNORE
from mtgcn.io.preprocessing.prepared import Preparation
from mtgcn.io.preprocessing.written import COMMA, number_in
from mtgcn.io.table import Table, is_finite_number

SOURCE_NAMES = ("source", "src", "from")
TARGET_NAMES = ("target", "dst", "to")
WEIGHT_NAMES = ("weight",)
ID_NAMES = ("id", "node", "node_id")
LABEL_NAMES = ("label", "class")
PARQUET_SUFFIXES = (".parquet", ".pq")

LEAST_ROWS_WITH_DIGITS = 5  # of data, below a header

Column = str | int  # a name, or a position counted from 0
UnknownNodes = Literal["error", "drop", "add"]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a person says about their tables; None leaves it to the names and positions found."""

    source: Column | None = None
    target: Column | None = None
    weight: Column | Literal[False] | None = None  # False: the edge list has none
    node_id: Column | None = None
    label: Column | Literal[False] | None = None  # False: take no label from the node table
    features: Sequence[Column] | None = None
    exclude: Sequence[Column] = ()  # columns that are no features
    kinds: Mapping[Column, str] = field(default_factory=dict)  # of features: number, category, date, text, ignore
    unknown_nodes: UnknownNodes = "error"  # what to do with edges and labels of nodes that are in no node table
    may_add_nodes: bool = True  # whether "add" is a choice at all
    scale: bool = True  # False: numbers stay in the size they have
    preparation: Preparation | None = None  # how features were prepared elsewhere; None: it is learned here
    header: bool | None = None
    delimiter: str | None = None
    few_labels: bool = False  # whether no label at all, or labels of one class alone, will do


def open_table(path: Path, names: Sequence[Sequence[str]], choices: Choices) -> Table:
    """A table by its suffix; a first line that holds a name of each of `names` is a header."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        from mtgcn.io.parquet_table import ParquetTable

        return ParquetTable(path)
    return CsvTable(path, _header_test(names, choices), choices.delimiter)


def _header_test(names: Sequence[Sequence[str]], choices: Choices) -> Callable[[list[str], list[list[str]]], bool]:
    told = (choices.source, choices.target, choices.weight, choices.node_id, choices.label, *(choices.features or ()))

    def is_header(first: list[str], others: list[list[str]]) -> bool:
        if choices.header is not None:
            return choices.header
        lower = {cell.lower() for cell in first}
        if all(lower.intersection(some) for some in names) or any(name in first for name in told):
            return True
        # No known name; but text above a column of nothing but numbers can only be the column's name, and so can a
        # word without a digit above ids or dates, which all have some.
        rows = [row for row in others if len(row) == len(first)]
        return bool(rows) and any(
            (not _is_number(cell) and all(_is_number(row[column]) for row in rows))
            or (len(rows) >= LEAST_ROWS_WITH_DIGITS and cell and not _has_digit(cell) and _all_digits(rows, column))
            for column, cell in enumerate(first)
        )

    return is_header


def _is_number(cell: str) -> bool:
    return is_finite_number(cell) or number_in(cell, COMMA) is not None


def _has_digit(cell: str) -> bool:
    return any(map(str.isdigit, cell))


def _all_digits(rows: Sequence[Sequence[str]], column: int) -> bool:
    return all(_has_digit(row[column]) for row in rows)


@dataclass(frozen=True)
class EdgeColumns:
    source: int
    target: int
    weight: int | None


def edge_columns(table: Table, choices: Choices) -> EdgeColumns:
    if len(table.columns) < 2:
        raise InputError(
            f"{table.path} has one column ({table.columns[0] or 'without a name'}); an edge list has two, source and "
            "target (is its delimiter one of comma, tab, semicolon, bar, space?)"
        )
    source = _told_or_named(table, choices.source, SOURCE_NAMES)
    target = _told_or_named(table, choices.target, TARGET_NAMES)
    weight = None if choices.weight is False else _told_or_named(table, choices.weight, WEIGHT_NAMES)
    free = [column for column in range(len(table.columns)) if column not in (source, target, weight)]
    if source is None and free:
        source = free.pop(0)
    if target is None and free:
        target = free.pop(0)
    if source is None or target is None or len({source, target, weight}) < 3:
        raise InputError(f"{table.path}: source, target and weight need a column each; name different ones")
    if weight is None and choices.weight is None and not table.has_header and free:
        weight = free[0]
    return EdgeColumns(source, target, weight)


@dataclass(frozen=True)
class NodeColumns:
    node_id: int
    label: int | None
    features: tuple[int, ...]
    names: tuple[str, ...]  # of the features


def node_columns(table: Table, choices: Choices, *, labels_elsewhere: bool = False) -> NodeColumns:
    """With labels elsewhere, a column is one of labels only if it is told or named so."""
    node_id = _told_or_named(table, choices.node_id, ID_NAMES)
    label = None if choices.label is False else _told_or_named(table, choices.label, LABEL_NAMES)
    if node_id is None:
        node_id = 0 if label != 0 or len(table.columns) == 1 else 1
    if label is None and choices.label is None and not table.has_header and not labels_elsewhere:
        last = len(table.columns) - 1
        if last != node_id and not any(_is_number(row[last]) for row in table.sample if len(row) > last):
            label = last  # as in the published cora.content
    if choices.preparation is not None:
        return NodeColumns(node_id, label, *_as_in(choices.preparation, table))
    left_out = {_position(table, column) for column in choices.exclude}
    left_out |= {_position(table, column) for column, kind in choices.kinds.items() if kind == IGNORE}
    if choices.features is None:
        features = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    else:
        features = [_position(table, column) for column in choices.features]
        if len({*features, node_id, label}) < len(features) + 2:
            raise InputError(f"{table.path}: id, label and every feature need a column each; name different ones")
    features = [column for column in features if column not in left_out]
    return NodeColumns(node_id, label, tuple(features), tuple(title_of(table, column) for column in features))


def title_of(table: Table, column: int) -> str:
    """What a feature is called: as its column is, else by its place."""
    return table.columns[column] or f"column {column + 1}"


def column_titled(title: str) -> Column:
    """The position in a title such as `column 3`; any other title is a name."""
    position = re.fullmatch(r"column ([1-9][0-9]*)", title)
    return int(position[1]) - 1 if position else title


def _as_in(preparation: Preparation, table: Table) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Where the columns that a preparation needs stand in this table; it complains itself of those that do not."""
    found: dict[str, int] = {}
    for name in preparation.needed:
        column = name if name in table.columns else column_titled(name)
        if isinstance(column, int) or column in table.columns:
            found[name] = _position(table, column)
    return tuple(found.values()), tuple(found)


@dataclass(frozen=True)
class LabelColumns:
    node_id: int
    label: int


def label_columns(table: Table, choices: Choices) -> LabelColumns:
    node_id = _told_or_named(table, choices.node_id, ID_NAMES)
    label = _told_or_named(table, choices.label or None, LABEL_NAMES)
    free = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    if node_id is None and free:
        node_id = free.pop(0)
    if label is None and len(free) == 1:
        label = free.pop(0)
    if node_id is None or label is None or node_id == label:
        raise InputError(
            f"{table.path} has {len(table.columns)} columns and it is not clear which holds the label; "
            "call two of them id and label, or name them"
        )
    return LabelColumns(node_id, label)


def _told_or_named(table: Table, told: Column | None, names: Sequence[str]) -> int | None:
    if told is not None:
        return _position(table, told)
    lower = [name.lower() for name in table.columns]
    return next((lower.index(name) for name in names if name in lower), None)


def _position(table: Table, column: Column) -> int:
    if isinstance(column, int):
        if not 0 <= column < len(table.columns):
            raise InputError(f"{table.path} has no column {column}; it has {len(table.columns)}, counted from 0")
        return column
    if column not in table.columns:
        if not table.has_header:
            raise InputError(f"{table.path} has no header to find column {column!r} in; give its position, from 0")
        error = unknown_name("column", column, [name for name in table.columns if name])
        raise InputError(f"{table.path}: {error}")
    return table.columns.index(column)
