"""A graph's matrices on a device, moved there once, and what can be made of them there: on a GPU in a hundredth of the
time that the processor takes.

Everything adds up in a fixed order, so that the same graph gives the same bits again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.graph_cache import once_per_graph
from mtgcn.linalg.blocks import blocks_of_entries
from mtgcn.linalg.normalisation import SMALLEST_SIZE
from mtgcn.linalg.operators import CsrArrays, csr_arrays
from mtgcn.linalg.transfers import on_device
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph

ENTRIES_AT_ONCE = 2**24  # for which numbers of 64 bits are held


@once_per_graph
def adjacency_there(graph: Graph, device: torch.device) -> CsrArrays:
    """A; in a row, columns are in order."""
    return csr_arrays(graph.adjacency, device)


@once_per_graph
def features_there(graph: Graph, device: torch.device) -> Float[Tensor, "nodes features"]:
    """X as it is, where it is dense."""
    assert isinstance(graph.features, np.ndarray), "sparse features are moved as operators"
    return on_device(graph.features, np.float32, device)


def without_self_loops(matrix: CsrArrays) -> CsrArrays:
    """The same pattern with 0 where a node is its own neighbour; where none is, as mostly, the same arrays."""
    row_starts, columns, values = matrix
    loops = columns == rows_of_entries(matrix)
    return (row_starts, columns, values.masked_fill(loops, 0)) if bool(loops.any()) else matrix


def normalized(matrix: CsrArrays) -> CsrArrays:
    """Â = D̃^-1/2 (A + I) D̃^-1/2 (see `normalized_adjacency`)."""
    row_starts, columns, values = _with_self_loops(matrix)
    rows = rows_of_entries((row_starts, columns, values))
    degrees = row_sums(values.double(), row_starts).float()
    # In place: on large graphs every further copy counts.
    of_both = degrees.index_select(0, rows).mul_(degrees.index_select(0, columns)).sqrt_()
    return row_starts, columns, values.div_(of_both)


def _with_self_loops(matrix: CsrArrays) -> CsrArrays:
    """A + I, whose rows are in order again: in fresh arrays."""
    row_starts, columns, values = matrix
    nodes, rows = len(row_starts) - 1, rows_of_entries(matrix)
    node = torch.arange(nodes, dtype=torch.int32, device=rows.device)
    missing = torch.ones_like(node)
    missing[rows[columns == rows]] = 0
    before = torch.cat([missing.new_zeros(1), missing.cumsum(0, dtype=torch.int32)])  # that came before each row
    new_starts = row_starts + before
    # An entry moves back by what was put before it: in the rows above, and in its own where it stands behind.
    place = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
    place += before.index_select(0, rows)
    place += (columns > rows) & (missing.index_select(0, rows) > 0)
    left = row_sums((columns < rows).int(), row_starts)
    total = len(rows) + int(before[-1])
    new_columns, new_values = columns.new_empty(total), values.new_empty(total)
    new_columns[place], new_values[place] = columns, values
    own = new_starts[:-1] + left  # where a node's entry for itself stands
    new_columns[own] = node
    new_values[own] = torch.where(missing > 0, 0.0, new_values[own]) + 1
    return new_starts, new_columns, new_values


def rows_of_entries(matrix: CsrArrays) -> Int[Tensor, "entries"]:
    row_starts, columns, _ = matrix
    return torch.repeat_interleave(row_starts.diff(), output_size=len(columns))


def row_sums(
    terms: Float[Tensor, "entries *rest"] | Int[Tensor, "entries *rest"], row_starts: Int[Tensor, "rows_and_one"]
) -> Tensor:
    """Of terms that stand row after row, the first of which belongs to the first row: exact for whole numbers, which
    wrap around, and for others in the order in which they stand."""
    starts = row_starts - row_starts[0]
    if terms.is_floating_point():
        return torch.segment_reduce(terms, "sum", offsets=starts)
    return torch.cat([terms.new_zeros(1, *terms.shape[1:]), terms.cumsum(0, dtype=terms.dtype)])[starts].diff(dim=0)


def neighbour_sums(
    matrix: CsrArrays, values: Float[Tensor, "nodes width"], host_starts: Int[np.ndarray, "nodes_and_one"]
) -> Float[Tensor, "nodes width"]:
    """matrix · values in doubles; `host_starts` has the row pointers where Python can look at them."""
    row_starts, columns, weights = matrix
    found = torch.empty_like(values, dtype=torch.float64)
    for rows, entries in entry_blocks(host_starts):
        terms = values.index_select(0, columns[entries]).double() * weights[entries, None]
        found[rows] = row_sums(terms, row_starts[rows.start : rows.stop + 1])
    return found


def entry_blocks(host_starts: Int[np.ndarray, "nodes_and_one"]) -> list[tuple[slice, slice]]:
    """Rows, and the entries in them, of which not too many are looked at together."""
    blocks = blocks_of_entries(host_starts, ENTRIES_AT_ONCE)
    return [(rows, slice(int(host_starts[rows.start]), int(host_starts[rows.stop]))) for rows in blocks]


def scaled_there(features: Float[Tensor, "nodes features"], scaling: str) -> Float[Tensor, "nodes features"]:
    """Rows divided by their size (see `scaled_rows`)."""
    if scaling == "none":
        return features
    sizes = torch.linalg.vector_norm(features, 2 if scaling == "length" else 1, dim=1, keepdim=True)
    return features * torch.where(sizes > SMALLEST_SIZE, 1 / sizes, 1.0)
