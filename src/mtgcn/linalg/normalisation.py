"""Normalised adjacency and Laplacian of a graph, and scaled feature rows, in main memory or on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.arrays import blocks_of_entries, each_block, on_device
from mtgcn.linalg.operators import CsrArrays, csr_arrays
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@cached_per_graph
def normalized_adjacency(graph: Graph) -> sp.csr_array:
    """Â = D̃^-1/2 (A + I) D̃^-1/2, with D̃ the row sums of A + I (Kipf and Welling, 2017).

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> normalized_adjacency(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    with_self = (graph.adjacency + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")).tocsr()
    degrees = with_self.sum(axis=1)
    starts, indices, data = with_self.indptr, with_self.indices, with_self.data

    def divide(rows: slice) -> None:
        entries = slice(starts[rows.start], starts[rows.stop])
        of_row = np.repeat(degrees[rows], np.diff(starts[rows.start : rows.stop + 1]))
        data[entries] /= np.sqrt(of_row * degrees[indices[entries]])

    each_block(blocks_of_entries(starts), divide)
    return with_self


def normalized_laplacian(graph: Graph) -> sp.csr_array:
    """L = I - D^-1/2 A D^-1/2, D the row sums of A; a node without edges has 1 on the diagonal and nothing else."""
    adjacency = graph.adjacency.astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = sp.diags_array(np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0))
    laplacian = sp.csr_array(sp.eye_array(graph.num_nodes) - scale @ adjacency @ scale)
    laplacian.eliminate_zeros()
    return laplacian


@cached_per_graph
def scaled_laplacian(graph: Graph) -> sp.csr_array:
    """L̃ = 2 L / λ - I, λ the largest eigenvalue of L, so that the eigenvalues of L̃ lie between -1 and 1 (Defferrard
    et al., 2016).

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> scaled_laplacian(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[ 0., -1.],
           [-1.,  0.]], dtype=float32)
    """
    laplacian = normalized_laplacian(graph)
    # With self-loops alone the Laplacian is 0, and any factor scales it.
    largest = _largest_eigenvalue(laplacian) if laplacian.nnz else MAX_EIGENVALUE
    scaled = 2 / (largest if largest > MIN_EIGENVALUE else MAX_EIGENVALUE) * laplacian
    scaled = scaled - sp.eye_array(graph.num_nodes)
    return sp.csr_array(scaled, dtype=np.float32)


MAX_EIGENVALUE = 2.0  # upper bound of the eigenvalues of a normalised Laplacian
MIN_EIGENVALUE = 1e-9  # smaller ones are rounding errors
MIN_LANCZOS_SIZE = 100  # smaller matrices are decomposed completely


def _largest_eigenvalue(matrix: sp.csr_array) -> float:
    nodes = matrix.shape[0]
    if nodes < MIN_LANCZOS_SIZE:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(0).random(nodes)  # fixed, for reproducible results
    try:
        return float(eigsh(matrix, 1, which="LA", v0=start, return_eigenvectors=False)[0])
    except ArpackError:  # no convergence where weights differ by many orders of magnitude; the bound serves as well
        return MAX_EIGENVALUE


MIN_ROW_SIZE = 1e-30  # of a feature row that is scaled


def scaled_features(graph: Graph, scaling: str) -> sp.csr_array | np.ndarray:
    """Feature rows divided by the `"sum"` of their absolute values, by their `"length"`, or by nothing (`"none"`)."""
    return scaled_rows(check_features(graph), scaling)


def check_features(graph: Graph) -> sp.csr_array | np.ndarray:
    """The features; an `InputError` if there are none."""
    if graph.features is None:
        raise InputError("this method needs node features and the graph has none; give features, or use lp")
    return graph.features


def scaled_rows(features: sp.csr_array | np.ndarray, scaling: str) -> sp.csr_array | np.ndarray:
    """Scaled rows; a row with a divisor of about 0 stays as it is."""
    if scaling == "none":
        return features
    sizes = (features * features).sum(axis=1) ** 0.5 if scaling == "length" else abs(features).sum(axis=1)
    sizes = np.asarray(sizes, dtype=np.float32).reshape(-1)
    scale = np.divide(1, sizes, out=np.ones_like(sizes), where=sizes > MIN_ROW_SIZE)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(scale) @ features, dtype=np.float32)
    return np.asarray(features * scale[:, None])


ENTRIES_AT_ONCE = 2**24  # for which numbers of 64 bits are held


@cached_per_graph
def device_adjacency(graph: Graph, device: torch.device) -> CsrArrays:
    """A on a device, with sorted rows."""
    return csr_arrays(graph.adjacency, device)


@cached_per_graph
def device_features(graph: Graph, device: torch.device) -> Float[Tensor, "nodes features"]:
    """Dense X on a device, not scaled."""
    assert isinstance(graph.features, np.ndarray), "sparse features are moved as operators"
    return on_device(graph.features, np.float32, device)


def without_self_loops(matrix: CsrArrays) -> CsrArrays:
    """The same pattern with 0 on the diagonal; the same arrays if there are no self-loops."""
    row_starts, columns, values = matrix
    loops = columns == rows_of_entries(matrix)
    return (row_starts, columns, values.masked_fill(loops, 0)) if bool(loops.any()) else matrix


def normalized(matrix: CsrArrays) -> CsrArrays:
    """Â = D̃^-1/2 (A + I) D̃^-1/2 (see `normalized_adjacency`)."""
    row_starts, columns, values = _with_self_loops(matrix)
    rows = rows_of_entries((row_starts, columns, values))
    degrees = row_sums(values.double(), row_starts).float()
    # In place, to save memory.
    of_both = degrees.index_select(0, rows).mul_(degrees.index_select(0, columns)).sqrt_()
    return row_starts, columns, values.div_(of_both)


def _with_self_loops(matrix: CsrArrays) -> CsrArrays:
    """A + I in new arrays, with sorted rows."""
    row_starts, columns, values = matrix
    nodes, rows = len(row_starts) - 1, rows_of_entries(matrix)
    node = torch.arange(nodes, dtype=torch.int32, device=rows.device)
    missing = torch.ones_like(node)
    missing[rows[columns == rows]] = 0
    before = torch.cat([missing.new_zeros(1), missing.cumsum(0, dtype=torch.int32)])  # inserted before each row
    new_starts = row_starts + before
    # An entry moves by the number of entries inserted before it, in earlier rows and in its own.
    place = torch.arange(len(rows), dtype=torch.int32, device=rows.device)
    place += before.index_select(0, rows)
    place += (columns > rows) & (missing.index_select(0, rows) > 0)
    left = row_sums((columns < rows).int(), row_starts)
    total = len(rows) + int(before[-1])
    new_columns, new_values = columns.new_empty(total), values.new_empty(total)
    new_columns[place], new_values[place] = columns, values
    own = new_starts[:-1] + left  # position of the diagonal entry
    new_columns[own] = node
    new_values[own] = torch.where(missing > 0, 0.0, new_values[own]) + 1
    return new_starts, new_columns, new_values


def rows_of_entries(matrix: CsrArrays) -> Int[Tensor, "entries"]:
    row_starts, columns, _ = matrix
    return torch.repeat_interleave(row_starts.diff(), output_size=len(columns))


def row_sums(
    terms: Float[Tensor, "entries *rest"] | Int[Tensor, "entries *rest"], row_starts: Int[Tensor, "rows_and_one"]
) -> Tensor:
    """Row sums of terms in row order. Integers wrap around; floating point numbers are added in order."""
    starts = row_starts - row_starts[0]
    if terms.is_floating_point():
        return torch.segment_reduce(terms, "sum", offsets=starts)
    return torch.cat([terms.new_zeros(1, *terms.shape[1:]), terms.cumsum(0, dtype=terms.dtype)])[starts].diff(dim=0)


def neighbour_sums(
    matrix: CsrArrays, values: Float[Tensor, "nodes width"], host_starts: Int[np.ndarray, "nodes_and_one"]
) -> Float[Tensor, "nodes width"]:
    """matrix · values in doubles; `host_starts` are the row pointers in main memory."""
    row_starts, columns, weights = matrix
    found = torch.empty_like(values, dtype=torch.float64)
    for rows, entries in entry_blocks(host_starts):
        terms = values.index_select(0, columns[entries]).double() * weights[entries, None]
        found[rows] = row_sums(terms, row_starts[rows.start : rows.stop + 1])
    return found


def entry_blocks(host_starts: Int[np.ndarray, "nodes_and_one"]) -> list[tuple[slice, slice]]:
    """Slices of rows and of their entries, at most about `ENTRIES_AT_ONCE` each."""
    blocks = blocks_of_entries(host_starts, ENTRIES_AT_ONCE)
    return [(rows, slice(int(host_starts[rows.start]), int(host_starts[rows.stop]))) for rows in blocks]


def scaled_on_device(features: Float[Tensor, "nodes features"], scaling: str) -> Float[Tensor, "nodes features"]:
    """`scaled_rows` on a device."""
    if scaling == "none":
        return features
    sizes = torch.linalg.vector_norm(features, 2 if scaling == "length" else 1, dim=1, keepdim=True)
    return features * torch.where(sizes > MIN_ROW_SIZE, 1 / sizes, 1.0)
