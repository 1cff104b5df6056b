"""Which column has which role: as given, otherwise by name, otherwise by position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtgcn.errors import InputError, unknown_name
from mtgcn.graph import LABEL_NAMES, WEIGHT_NAMES
from mtgcn.io.column_table import COMMA, number_in
from mtgcn.io.csv_table import CsvTable
from mtgcn.io.options import Column, PathLike, TableOptions, position_in_title, readable_file
from mtgcn.io.preprocessing import IGNORE
from mtgcn.io.table import ParquetTable, Table

ID_NAMES = ("id", "node", "node_id")
ROLE_NAMES = {  # by which a column is recognised
    "source": ("source", "src", "from"),
    "target": ("target", "dst", "to"),
    "weight": WEIGHT_NAMES,
    "id": ID_NAMES,
    "label": LABEL_NAMES,
}
EDGE_NAMES = [name for role in ("source", "target", "weight", "id") for name in ROLE_NAMES[role]]
TABLE_READERS: dict[str, Callable[[Path], Table]] = {".parquet": ParquetTable, ".pq": ParquetTable}  # others are CSV

MIN_ROWS_WITH_DIGITS = 5  # below a header


def open_table(given: PathLike, options: TableOptions, *, edges: bool = False) -> Table:
    """A table of nodes, labels or `edges`, by its suffix."""
    path = readable_file(given)
    read = TABLE_READERS.get(path.suffix.lower())
    return read(path) if read else _with_header(CsvTable(path, options.delimiter), options, edges)


def _with_header(table: CsvTable, options: TableOptions, edges: bool) -> CsvTable:
    """The table with its first row as the header or as data, as given or guessed."""
    if options.header is not None:
        return table.take_header(options.header is True)
    first, *below_first = table.rows
    lower = {cell.lower() for cell in first}
    roles = [ROLE_NAMES["source"], ROLE_NAMES["target"]] if edges else [ID_NAMES + LABEL_NAMES]
    named = (*options.columns.values(), *(options.features or ()))
    if all(lower.intersection(some) for some in roles) or any(name in first for name in named):
        return table.take_header(True)
    rows = [row for row in below_first if len(row) == len(first)]
    columns = list(zip(first, *rows, strict=True)) if rows else []
    if not any(_is_title(cell, below) for cell, *below in columns):
        return table
    if edges and lower.intersection(EDGE_NAMES):
        return table.take_header(True)
    others = [cell for row in rows for cell in row]
    is_data = any(_is_alike(cell, below) or (edges and cell in others) for cell, *below in columns)
    return table.take_header(not is_data, guessed=True)


def _is_title(cell: str, below: Sequence[str]) -> bool:
    """Whether text stands above a column of numbers, or a word without digits above ids or dates with digits."""
    if not _is_number(cell) and all(map(_is_number, below)):
        return True
    return len(below) >= MIN_ROWS_WITH_DIGITS and cell != "" and not _has_digit(cell) and all(map(_has_digit, below))


def _is_alike(cell: str, below: Sequence[str]) -> bool:
    """Whether a cell is a number above numbers, or differs from all cells below in numbers only: `n1` above `n15`."""
    if _is_number(cell):
        return all(map(_is_number, below))
    return _has_digit(cell) and len({re.sub("[0-9]+", "0", text) for text in (cell, *below)}) == 1


def _is_number(cell: str) -> bool:
    return number_in(cell) is not None or number_in(cell, COMMA) is not None


def _has_digit(cell: str) -> bool:
    return any(map(str.isdigit, cell))


def edge_columns(table: Table, options: TableOptions) -> tuple[int, int, int | None]:
    """The columns of source, target and weight."""
    if len(table.columns) < 2:
        raise InputError(
            f"{table.path} has one column ({table.columns[0] or 'without a name'}); an edge list has two, source and "
            "target (is its delimiter one of comma, tab, semicolon, bar, space?)"
        )
    source, target, weight = (_given_or_named(table, options.columns, role) for role in ("source", "target", "weight"))
    free = [column for column in range(len(table.columns)) if column not in (source, target, weight)]
    if table.has_header and None in (source, target) and len(free) > (source, target).count(None):
        raise _ambiguous(table, free, "source or target", "--column source=NAME --column target=NAME")
    if source is None and free:
        source = free.pop(0)
    if target is None and free:
        target = free.pop(0)
    if source is None or target is None or len({source, target, weight}) < 3:
        raise InputError(f"{table.path}: source, target and weight need a column each; name different ones")
    if weight is None and "weight" not in options.columns and not table.has_header and free:
        weight = free.pop(0)
    return source, target, weight


def _ambiguous(table: Table, columns: Sequence[int], roles: str, option: str) -> InputError:
    names = ", ".join(table.columns[column] for column in columns[:5]) + (", …" if len(columns) > 5 else "")
    return InputError(f"{table.path} has the columns {names} and none is named {roles}; give {option}")


@dataclass(frozen=True)
class NodeColumns:
    node_id: int
    label: int | None
    features: tuple[int, ...]
    names: tuple[str, ...]  # feature names


def node_columns(table: Table, options: TableOptions, *, labels_elsewhere: bool = False) -> NodeColumns:
    """With `labels_elsewhere`, a column holds labels only if it is given or named so."""
    node_id = _given_or_named(table, options.columns, "id")
    taken = (*options.kinds, *options.exclude, *(options.features or ()))
    label = _given_or_named(table, options.columns, "label", taken)
    if labels_elsewhere and label is not None and "label" not in options.columns:
        name = table.columns[label]
        if name.lower() != LABEL_NAMES[0]:
            raise InputError(
                f"{table.path}: column {name!r} may hold labels or a feature beside the label table; give --column "
                f"label={name}, or --column category={name} for a feature, or --exclude {name}"
            )
    if node_id is None:
        node_id = 0 if label != 0 or len(table.columns) == 1 else 1
    if label is None and "label" not in options.columns and not table.has_header and not labels_elsewhere:
        last = len(table.columns) - 1
        if last != node_id and not any(_is_number(row[last]) for row in table.sample if len(row) > last):
            label = last  # as in the published cora.content
    if options.preprocessing is not None:  # the columns that it needs and the table has
        found: dict[str, int] = {}
        for name in options.preprocessing.needed:
            column = name if name in table.columns else position_in_title(name)
            if isinstance(column, int) or column in table.columns:
                found[name] = _position(table, column)
        return NodeColumns(node_id, label, tuple(found.values()), tuple(found))
    left_out = {_position(table, column) for column in options.exclude}
    left_out |= {_position(table, column) for column, kind in options.kinds.items() if kind == IGNORE}
    if options.features is None:
        used = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    else:
        used = [_position(table, column) for column in options.features]
        if len({*used, node_id, label}) < len(used) + 2:
            raise InputError(f"{table.path}: id, label and every feature need a column each; name different ones")
    used = [column for column in used if column not in left_out]
    return NodeColumns(node_id, label, tuple(used), tuple(title_of(table, column) for column in used))


def title_of(table: Table, column: int) -> str:
    """The feature name of a column: its name, otherwise its place."""
    return table.columns[column] or f"column {column + 1}"


def label_columns(table: Table, options: TableOptions) -> tuple[int, int]:
    """The columns of id and label; `label=False` is about the node table."""
    columns = {role: column for role, column in options.columns.items() if column is not False}
    node_id, label = (_given_or_named(table, columns, role) for role in ("id", "label"))
    free = [column for column in range(len(table.columns)) if column not in (node_id, label)]
    if node_id is None and table.has_header and len(free) > 1 + (label is None):
        raise _ambiguous(table, free, "id", "--column id=NAME" + " --column label=NAME" * (label is None))
    if node_id is None and free:
        node_id = free.pop(0)
    if label is None and len(free) == 1:
        label = free.pop(0)
    if node_id is None or label is None or node_id == label:
        raise InputError(
            f"{table.path} has {len(table.columns)} columns and none is named label; "
            "name two columns id and label, or give their names"
        )
    return node_id, label


def given_kinds(table: Table, options: TableOptions) -> dict[str, str]:
    """The column kinds of the options, by feature name."""
    names = [title_of(table, column) for column in range(len(table.columns))]

    def name_of(column: Column) -> str:
        position = column if column in names else position_in_title(column)
        return names[position] if isinstance(position, int) and position < len(names) else str(column)

    return {name_of(column): kind for column, kind in options.kinds.items() if kind != IGNORE}


def _given_or_named(table: Table, columns: Mapping[str, Any], role: str, features: Sequence[Column] = ()) -> int | None:
    """The column of a role, as given or by its name, unless that is the name of one of the features."""
    given = columns.get(role)
    if given is not None:
        return None if given is False else _position(table, given)
    taken = {str(column).lower() for column in features}
    lower = [name.lower() for name in table.columns]
    return next((lower.index(name) for name in ROLE_NAMES[role] if name in lower and name not in taken), None)


def _position(table: Table, column: Column) -> int:
    column = column if column in table.columns else position_in_title(column)
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
