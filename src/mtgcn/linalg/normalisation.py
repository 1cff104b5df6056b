"""Normalised adjacency, Laplacian and scaled features of a graph, in main memory or on a device, and the operators that
networks need: Â, X and Â X, for the whole graph or for a few nodes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import ArpackError, eigsh
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg import operators
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


MAX_EIGENVALUE = 2.0  # upper bound of the eigenvalues of a normalised Laplacian
MIN_EIGENVALUE = 1e-9  # smaller eigenvalues are rounding errors
MIN_LANCZOS_SIZE = 100  # smaller matrices are decomposed completely
MIN_ROW_SIZE = 1e-30  # smallest norm of a feature row that is scaled
ENTRIES_AT_ONCE = 2**24  # entries converted to 64 bits at once
COLUMNS_AT_ONCE = 32  # columns multiplied together: about as many as in training, so that the same tiles serve


@cached_per_graph
def relative_adjacency(graph: Graph) -> sp.csr_array:
    """A with its weights divided by their mean over edges between different nodes, so that their unit has no effect.

    All computations with weights use it. If all weights are 1, it is `graph.adjacency` itself.
    """
    adjacency, loops = graph.adjacency, graph.adjacency.diagonal()
    all_edges, of_loops = (
        torch.tensor([weights.sum(dtype=np.float64), np.count_nonzero(weights)], dtype=torch.float64)
        for weights in (adjacency.data, loops)
    )
    weight, edges = graph.communicator.sum(all_edges - of_loops).tolist()
    mean = np.float32(weight / edges if edges else 1)  # rounded, so that the node order does not matter
    if mean == 1:
        return adjacency
    return sp.csr_array((adjacency.data / mean, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


@cached_per_graph
def normalized_adjacency(graph: Graph) -> sp.csr_array:
    """Â = D̃^-1/2 (A + I) D̃^-1/2, with D̃ the row sums of A + I (Kipf and Welling, 2017), A the relative adjacency.

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> normalized_adjacency(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    with_self = relative_adjacency(graph)
    if graph.communicator.has_whole_graph:
        with_self = (with_self + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")).tocsr()
    else:  # with several processes, the diagonal is stored
        row = np.repeat(np.arange(with_self.shape[0], dtype=np.int32), np.diff(with_self.indptr))
        values = (with_self.data + (with_self.indices == row)).astype(np.float32)
        with_self = sp.csr_array((values, with_self.indices, with_self.indptr), shape=with_self.shape)
    degrees = with_self.sum(axis=1)
    of_columns = graph.communicator.with_boundary(torch.from_numpy(degrees)).numpy()
    starts, indices, data = with_self.indptr, with_self.indices, with_self.data

    def divide(rows: slice) -> None:
        entries = slice(starts[rows.start], starts[rows.stop])
        of_row = np.repeat(degrees[rows], np.diff(starts[rows.start : rows.stop + 1]))
        data[entries] /= np.sqrt(of_row * of_columns[indices[entries]])

    operators.each_block(operators.blocks_of_entries(starts), divide)
    return with_self


def normalized_laplacian(graph: Graph) -> sp.csr_array:
    """L = I - D^-1/2 A D^-1/2, D the row sums of A; a node without edges has 1 on the diagonal and nothing else."""
    adjacency = relative_adjacency(graph).astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = sp.diags_array(np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0))
    laplacian = sp.csr_array(sp.eye_array(graph.num_nodes) - scale @ adjacency @ scale)
    laplacian.eliminate_zeros()
    return laplacian


@cached_per_graph
def scaled_laplacian(graph: Graph) -> sp.csr_array:
    """L̃ = 2 L / λ - I, λ the largest eigenvalue of L, with eigenvalues from -1 to 1 (Defferrard et al., 2016).

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> scaled_laplacian(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[ 0., -1.],
           [-1.,  0.]], dtype=float32)
    """
    laplacian, nodes = normalized_laplacian(graph), graph.num_nodes
    largest = MAX_EIGENVALUE
    if nodes < MIN_LANCZOS_SIZE:
        largest = float(np.linalg.eigvalsh(laplacian.toarray())[-1])
    else:
        start = np.random.default_rng(0).random(nodes)  # fixed, for reproducible results
        # There is no convergence if weights differ by many orders of magnitude; the bound serves as well.
        with suppress(ArpackError):
            largest = float(eigsh(laplacian, 1, which="LA", v0=start, return_eigenvectors=False)[0])
    scaled = 2 / (largest if largest > MIN_EIGENVALUE else MAX_EIGENVALUE) * laplacian
    return sp.csr_array(scaled - sp.eye_array(nodes), dtype=np.float32)


def scaled_features(graph: Graph, scaling: str) -> sp.csr_array | np.ndarray:
    """Feature rows divided by the `"sum"` of absolute values or by their `"length"`; unchanged with `"none"`."""
    return scaled_rows(check_features(graph), scaling)


def check_features(graph: Graph) -> sp.csr_array | np.ndarray:
    """The features of the graph; raises an `InputError` if it has none."""
    if graph.features is None:
        raise InputError("this method needs node features, which the graph does not have; give features, or use lp")
    return graph.features


def scaled_rows(features: sp.csr_array | np.ndarray, scaling: str) -> sp.csr_array | np.ndarray:
    """The rows, scaled; a row whose divisor is about 0 is unchanged."""
    if scaling == "none":
        return features
    sizes = (features * features).sum(axis=1) ** 0.5 if scaling == "length" else abs(features).sum(axis=1)
    sizes = np.asarray(sizes, dtype=np.float32).reshape(-1)
    scale = np.divide(1, sizes, out=np.ones_like(sizes), where=sizes > MIN_ROW_SIZE)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(scale) @ features, dtype=np.float32)
    return np.asarray(features * scale[:, None])


@cached_per_graph
def device_adjacency(graph: Graph, device: torch.device) -> operators.CsrArrays:
    """The relative adjacency on a device, with sorted rows."""
    return operators.csr_arrays(relative_adjacency(graph), device)


@cached_per_graph
def device_features(graph: Graph, device: torch.device) -> Float[Tensor, "nodes features"]:
    """Dense, unscaled X on a device."""
    assert isinstance(graph.features, np.ndarray), "sparse features are moved as operators"
    return operators.on_device(graph.features, np.float32, device)


def without_self_loops(matrix: operators.CsrArrays) -> operators.CsrArrays:
    """The same pattern with 0 on the diagonal; the same arrays if there are no self-loops."""
    row_starts, columns, values = matrix
    loops = columns == rows_of_entries(matrix)
    return (row_starts, columns, values.masked_fill(loops, 0)) if bool(loops.any()) else matrix


def normalized(matrix: operators.CsrArrays) -> operators.CsrArrays:
    """Â = D̃^-1/2 (A + I) D̃^-1/2 (see `normalized_adjacency`)."""
    row_starts, columns, values = _with_self_loops(matrix)
    rows = rows_of_entries((row_starts, columns, values))
    degrees = row_sums(values.double(), row_starts).float()
    # Computed in place, to save memory.
    of_both = degrees.index_select(0, rows).mul_(degrees.index_select(0, columns)).sqrt_()
    return row_starts, columns, values.div_(of_both)


def _with_self_loops(matrix: operators.CsrArrays) -> operators.CsrArrays:
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


def rows_of_entries(matrix: operators.CsrArrays) -> Int[Tensor, "entries"]:
    row_starts, columns, _ = matrix
    return torch.repeat_interleave(row_starts.diff(), output_size=len(columns))


def row_sums(
    terms: Float[Tensor, "entries *rest"] | Int[Tensor, "entries *rest"], row_starts: Int[Tensor, "rows_and_one"]
) -> Tensor:
    """Sums of the terms of each row, in a fixed order. Integers wrap around."""
    starts = row_starts - row_starts[0]
    if terms.is_floating_point():
        return torch.segment_reduce(terms, "sum", offsets=starts)
    return torch.cat([terms.new_zeros(1, *terms.shape[1:]), terms.cumsum(0, dtype=terms.dtype)])[starts].diff(dim=0)


def neighbour_sums(
    matrix: operators.CsrArrays, values: Float[Tensor, "nodes width"], host_starts: Int[np.ndarray, "nodes_and_one"]
) -> Float[Tensor, "nodes width"]:
    """matrix · values in double precision; `host_starts` are the row pointers in main memory."""
    row_starts, columns, weights = matrix
    found = torch.empty_like(values, dtype=torch.float64)
    for rows in operators.blocks_of_entries(host_starts, ENTRIES_AT_ONCE):
        entries = slice(int(host_starts[rows.start]), int(host_starts[rows.stop]))
        terms = values.index_select(0, columns[entries]).double() * weights[entries, None]
        found[rows] = row_sums(terms, row_starts[rows.start : rows.stop + 1])
    return found


def scaled_on_device(features: Float[Tensor, "nodes features"], scaling: str) -> Float[Tensor, "nodes features"]:
    """`scaled_rows` on a device."""
    if scaling == "none":
        return features
    sizes = torch.linalg.vector_norm(features, 2 if scaling == "length" else 1, dim=1, keepdim=True)
    return features * torch.where(sizes > MIN_ROW_SIZE, 1 / sizes, 1.0)


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """Â and X on a device; expensive results are computed on first use."""

    adjacency: operators.SparseOperator  # Â
    given: sp.csr_array | np.ndarray  # X
    scaling: str  # feature scaling of the rows of X
    resident: Float[Tensor, "nodes features"] | None = None  # dense X, if it is on a device other than the CPU

    @cached_property
    def features(self) -> sp.csr_array | np.ndarray:
        """X, scaled, in main memory."""
        return scaled_rows(self.given, self.scaling)

    def feature_operator(self) -> operators.Operator:
        """Scaled X on the device. Dense X, or X on the CPU, is not cached, since it would be a second copy."""
        if self.resident is not None:
            return operators.DenseOperator(scaled_on_device(self.resident, self.scaling))
        device = self.adjacency.device
        return operators.operator(self.features, device) if device.type == "cpu" else self._sparse

    @cached_property
    def _sparse(self) -> operators.Operator:
        return operators.operator(self.features, self.adjacency.device)

    @cached_property
    def smoothed(self) -> sp.csr_array | Tensor:
        """Â X."""
        if sp.issparse(self.given):
            return self.adjacency.matrix @ self.features
        dense = self.feature_operator()
        assert isinstance(dense, operators.DenseOperator), "as the features are"
        result = torch.empty_like(dense.matrix)
        for mine, given in zip(result.split(COLUMNS_AT_ONCE, 1), dense.matrix.split(COLUMNS_AT_ONCE, 1), strict=True):
            mine.copy_(self.adjacency.multiply(given.contiguous()))
        return result

    @cached_property
    def input_chain(self) -> tuple[operators.Operator, ...]:
        """Operators that, applied first to last, multiply by Â X."""
        if sp.issparse(self.given) and not self.adjacency.communicator.has_whole_graph:
            return self.feature_operator(), self.adjacency  # boundary nodes of other processes have features as well
        if isinstance(self.smoothed, Tensor):
            return (operators.DenseOperator(self.smoothed),)
        return operators.chain(self.adjacency, self.features, self.smoothed)


@cached_per_graph
def graph_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    """The operators of a graph and a feature scaling on a device, cached per graph."""
    features, communicator = check_features(graph), graph.communicator
    if device.type != "cpu" and communicator.has_whole_graph:
        return resident_operators(graph, scaling, device)
    adjacency = operators.SparseOperator(normalized_adjacency(graph), device, symmetric=True, communicator=communicator)
    return GraphOperators(adjacency, features, scaling)


def resident_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    features = check_features(graph)
    there = device_features(graph, device) if isinstance(features, np.ndarray) else None
    adjacency = operators.ResidentOperator(normalized(device_adjacency(graph, device)), symmetric=True)
    return GraphOperators(adjacency, features, scaling, there)


@dataclass(frozen=True, eq=False)
class ComputationBlock:
    """Operators of a two-layer network for a few nodes of each run: Â X at their neighbours, then their rows of Â.
    The rows of all runs are concatenated, and the operators are block-diagonal over runs."""

    nodes: Int[Tensor, "rows"]  # node of each row
    run_index: Int[Tensor, "rows"]  # run of each row
    features: operators.SparseOperator  # rows x (features · runs): Â X
    runs: operators.SparseOperator  # rows x runs: selects the run of each row
    readout: operators.SparseOperator  # (some · runs) x rows: Â


def computation_block(
    adjacency: sp.csr_array, smoothed: sp.csr_array | Tensor, index: Int[Tensor, "runs some"]
) -> ComputationBlock:
    """The block of the nodes `index`, given Â and Â X; a negative index gets an empty row."""
    device, runs = index.device, len(index)
    place, run_of_place = np.nonzero(index.T.cpu().numpy() >= 0)
    arrows = adjacency[index.cpu().numpy()[run_of_place, place]].tocoo()
    # A row of the block is a neighbour in one run; many edges share it.
    neighbour = run_of_place[arrows.row].astype(np.int64) * adjacency.shape[0] + arrows.col
    distinct, column = np.unique(neighbour, return_inverse=True)
    run_index, node = np.divmod(distinct, adjacency.shape[0])
    inputs = sp.csr_array(smoothed[node] if sp.issparse(smoothed) else smoothed[torch.from_numpy(node)].cpu().numpy())
    run_of_entry = np.repeat(run_index, np.diff(inputs.indptr))

    def sparse(row: np.ndarray, col: np.ndarray, data: np.ndarray, shape: tuple[int, int]) -> operators.SparseOperator:
        return operators.SparseOperator(sp.csr_array((data, (row, col)), shape=shape, dtype=np.float32), device)

    return ComputationBlock(
        nodes=torch.from_numpy(node).to(device),
        run_index=torch.from_numpy(run_index).to(device),
        features=operators.SparseOperator(
            sp.csr_array(
                (inputs.data, inputs.indices * runs + run_of_entry, inputs.indptr),
                shape=(len(node), smoothed.shape[1] * runs),
            ),
            device,
        ),
        runs=sparse(np.arange(len(node)), run_index, np.ones(len(node)), (len(node), runs)),
        readout=sparse((place * runs + run_of_place)[arrows.row], column, arrows.data, (index.numel(), len(node))),
    )
