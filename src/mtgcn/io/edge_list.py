"""Edge lists: two ids in each row, and optionally a weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from mtgcn.errors import InputError
from mtgcn.io.columns import EdgeColumns, edge_columns
from mtgcn.io.ids import NodeIndex, UnknownIds, checked_ids, with_found_header
from mtgcn.io.options import TableOptions
from mtgcn.io.preprocessing import values
from mtgcn.io.table import MISSING, Batch, Coded, FaultKind, Faults, Table
from mtgcn.memory import check_fits
from mtgcn.shapes import Int

BYTES_PER_EDGE = 60  # temporary memory to concatenate, sort and symmetrise


@dataclass(frozen=True, eq=False)
class EdgeRows:
    """Edges as listed, by node number."""

    sources: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    targets: Int[np.ndarray, "listed"] = field(default_factory=lambda: np.zeros(0, np.int64))
    weights: np.ndarray | None = None  # None: the list has none


def read_edges(table: Table, options: TableOptions, index: NodeIndex, home: str | None) -> EdgeRows:
    """The edges between the nodes of the index, which is filled from `home`; without a home, every id is a node."""
    parts: list[EdgeRows] = []
    listed_edges = 0
    for part, listed in edge_batches(table, options, index, home):
        parts.append(part)
        listed_edges += listed
        check_fits(
            BYTES_PER_EDGE * listed_edges, f"{table.path}, of which {listed_edges} edges are read,", "leave some out"
        )
    some = [part.weights for part in parts if part.weights is not None]
    return EdgeRows(
        np.concatenate([part.sources for part in parts]),
        np.concatenate([part.targets for part in parts]),
        np.concatenate(some) if some else None,
    )


def edge_batches(
    table: Table, options: TableOptions, index: NodeIndex, home: str | None
) -> Iterator[tuple[EdgeRows, int]]:
    """Edges in batches, with the number of rows; faults are raised at the end."""
    columns = edge_columns(table, options)
    if options.header is None and home is not None:
        table = with_found_header(table, index, [columns.source, columns.target])
        columns = edge_columns(table, options)
    faults = Faults(str(table.path))
    unknown = UnknownIds(table, home or "", options, "edges")
    empty = True
    for batch, weights in _batches(table, columns, faults):
        ids = [
            checked_ids(table, batch, column, number, faults)
            for column, number in zip(batch.texts[:2], (columns.source, columns.target), strict=True)
        ]
        both = [one for one in ids if one is not None]
        if len(both) < 2:
            continue
        if home is None:
            source, target = (index.add(one) for one in both)
        else:
            source, target = unknown.resolved(index, batch, both)
        known = (source != MISSING) & (target != MISSING)
        empty = False
        yield EdgeRows(source[known], target[known], None if weights is None else weights[known]), len(source)
    faults.raise_first_kind()
    unknown.finish()
    if empty:
        raise InputError(f"{table.path} holds a header and no edge; write it again, with one row per edge")


def _batches(table: Table, columns: EdgeColumns, faults: Faults) -> Iterator[tuple[Batch, np.ndarray | None]]:
    """Batches with their weights: numbers, or text with decimal commas."""
    ends = [columns.source, columns.target]
    if columns.weight is None:
        for batch in table.batches(ends, []):
            yield batch, None
        return
    commas = not table.numeric([columns.weight]) and _written_with_commas(table, columns.weight)
    for batch in table.batches([*ends, columns.weight] if commas else ends, [] if commas else [columns.weight]):
        weights = _numbers(table, batch, columns.weight, faults) if commas else batch.numbers[:, 0]
        negative = np.flatnonzero(weights < 0)
        if len(negative):
            _add_negative(table, batch, columns.weight, weights, negative, faults)
        yield batch, weights


def _written_with_commas(table: Table, column: int) -> bool:
    cells = [row[column] for row in table.sample if len(row) > column]
    are_numbers = ~np.isnan(values.parse(cells, values.COMMA))
    return any("," in cell for cell in cells) and bool(are_numbers.mean() > 0.5)


def _numbers(table: Table, batch: Batch, column: int, faults: Faults) -> np.ndarray:
    cells: Coded = batch.texts[2]
    numbers = np.append(values.parse(cells.values.to_pylist(), values.COMMA), np.nan)[cells.codes]
    for row in np.flatnonzero(np.isnan(numbers)):
        empty = cells.codes[row] == MISSING
        table.add_not_a_number(faults, int(batch.places[row]), column, None if empty else cells.text(int(row)))
    return numbers.astype(np.float32)


def _add_negative(
    table: Table, batch: Batch, column: int, weights: np.ndarray, rows: np.ndarray, faults: Faults
) -> None:
    first = int(rows[0])
    faults.add(
        FaultKind(f"edges have a negative {table.name_of(column)}", "weights must be >= 0"),
        f"{table.at(int(batch.places[first]))}, {table.name_of(column)} is {weights[first]:g}; weights must be >= 0",
        [f"{table.unit} {batch.places[row]} {weights[row]:g}" for row in rows[:3]],
        len(rows),
    )
