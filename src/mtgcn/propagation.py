"""Sparse operators on graphs, and products with them that let gradients through.

Every operator acts on the first axis, the nodes; whatever stands behind it (runs, peers, units) is carried
along, so that one product serves all models of a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from mtgcn.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from mtgcn.graph import Graph


def normalized_adjacency(graph: Graph) -> sp.csr_array:
    """Â = D̃^-1/2 (A + I) D̃^-1/2, with D̃ the row sums of A + I (Kipf and Welling, 2017). Computed once per graph.

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> normalized_adjacency(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    if graph not in _NORMALIZED:
        with_self = (graph.adjacency + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")).tocsr()
        degrees = with_self.sum(axis=1)
        both_ends = np.repeat(degrees, np.diff(with_self.indptr)) * degrees[with_self.indices]
        with_self.data /= np.sqrt(both_ends)
        _NORMALIZED[graph] = with_self
    return _NORMALIZED[graph]


_NORMALIZED: WeakKeyDictionary[Graph, sp.csr_array] = WeakKeyDictionary()


def normalized_laplacian(graph: Graph) -> sp.csr_array:
    """L = I - D^-1/2 A D^-1/2, D the row sums of A; a node without links has 1 on the diagonal and nothing else."""
    adjacency = graph.adjacency.astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = sp.diags_array(np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0))
    return sp.csr_array(sp.eye_array(graph.num_nodes) - scale @ adjacency @ scale)


def scaled_laplacian(graph: Graph) -> sp.csr_array:
    """L̃ = 2 L / λ - I, λ the largest eigenvalue of L, so that the eigenvalues of L̃ lie between -1 and 1 (Defferrard
    et al., 2016). Computed once per graph.

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> scaled_laplacian(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[ 0., -1.],
           [-1.,  0.]], dtype=float32)
    """
    if graph not in _SCALED_LAPLACIAN:
        laplacian = normalized_laplacian(graph)
        scaled = 2 / _largest_eigenvalue(laplacian) * laplacian - sp.eye_array(graph.num_nodes)
        _SCALED_LAPLACIAN[graph] = sp.csr_array(scaled, dtype=np.float32)
    return _SCALED_LAPLACIAN[graph]


_SCALED_LAPLACIAN: WeakKeyDictionary[Graph, sp.csr_array] = WeakKeyDictionary()

FEWEST_FOR_LANCZOS = 100  # of smaller matrices all eigenvalues are found as fast


def _largest_eigenvalue(matrix: sp.csr_array) -> float:
    nodes = matrix.shape[0]
    if nodes < FEWEST_FOR_LANCZOS:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(0).random(nodes)  # any will do, but always the same one
    return float(eigsh(matrix, 1, which="LA", v0=start, return_eigenvectors=False)[0])


def chebyshev_sum(terms: Sequence[Float[Tensor, "nodes *rest"]], laplacian: SparseOperator) -> Tensor:
    """Σ_k T_k(L̃) · terms[k], T_k the Chebyshev polynomials, T_0 = I, T_1 = L̃, T_k = 2 L̃ T_k-1 - T_k-2.

    By Clenshaw's scheme, from the last term to the first: one product with L̃ per degree, none with its powers.
    """
    *terms, ahead = terms
    beyond: Tensor | None = None
    while terms:
        *terms, term = terms
        spread = laplacian(ahead)
        ahead, beyond = term + (2 if terms else 1) * spread - (0 if beyond is None else beyond), ahead
    return ahead


SMALLEST_SIZE = 1e-30  # of a feature row that is scaled


def scaled_features(graph: Graph, scaling: str) -> sp.csr_array | np.ndarray:
    """Feature rows divided by the `"sum"` of their absolute values, by their `"length"`, or as they are: `"none"`.

    A row whose divisor is 0, or too small to divide by in 32 bits, stays as it is.
    """
    features = graph.features
    if features is None:
        raise InputError("this method needs node features and the graph has none; give features, or use lp")
    if scaling == "none":
        return features
    sizes = (features * features).sum(axis=1) ** 0.5 if scaling == "length" else abs(features).sum(axis=1)
    sizes = np.asarray(sizes, dtype=np.float32).reshape(-1)
    scale = np.divide(1, sizes, out=np.ones_like(sizes), where=sizes > SMALLEST_SIZE)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(scale) @ features, dtype=np.float32)
    return np.asarray(features * scale[:, None])


def reshaped(fresh: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor that nobody else holds, in another shape and not as a view: what writes into a view makes autograd
    copy the whole gradient later."""
    return torch.ops.aten._unsafe_view(fresh, list(shape))


# A product with a graph reads a row of x for every entry, anywhere in x. Where x is larger than the cache, the matrix
# is cut into tiles of columns, each with a part of x that fits.
UNTILED_BYTES = 14 * 2**20
TILE_BYTES = 8 * 2**20
LEAST_PER_ROW = 4
ROWS_AT_ONCE = 2**14

LONGEST_PIECE = 64  # entries of a row that one GPU program sums before others take over


def _on_device(array: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=kind)).to(device)


def _csr_arrays(matrix: sp.csr_array, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    return (
        _on_device(matrix.indptr, np.int32, device),
        _on_device(matrix.indices, np.int32, device),
        _on_device(matrix.data, np.float32, device),
    )


def _column_tiles(matrix: sp.csr_array, size: int) -> list[tuple[Tensor, Tensor, Tensor]]:
    """The matrix cut after every `size` columns, each tile as `_csr_arrays`. A few rows at a time, so that cutting
    needs little memory beside the tiles themselves."""
    rows, columns = matrix.shape
    count = -(-columns // size)
    entries = np.zeros((rows, count), dtype=np.int32)
    pieces = [slice(start, start + ROWS_AT_ONCE) for start in range(0, rows, ROWS_AT_ONCE)]
    for piece in pieces:
        part = matrix[piece]
        row = np.repeat(np.arange(part.shape[0], dtype=np.int64), np.diff(part.indptr))
        tiles_met = np.bincount(row * count + part.indices // size, minlength=part.shape[0] * count)
        entries[piece] = tiles_met.reshape(-1, count)
    row_starts = np.zeros((count, rows + 1), dtype=np.int32)
    np.cumsum(entries.T, axis=1, out=row_starts[:, 1:])
    index = [np.empty(total, dtype=np.int32) for total in row_starts[:, -1]]
    value = [np.empty(total, dtype=np.float32) for total in row_starts[:, -1]]
    for piece in pieces:
        part = matrix[piece]
        tile = (part.indices // size).astype(np.uint16)
        order = np.argsort(tile, kind="stable")  # within a tile, rows stay in order
        bounds = np.concatenate([[0], np.cumsum(np.bincount(tile, minlength=count))])
        for number in range(count):
            chosen = order[bounds[number] : bounds[number + 1]]
            place = slice(row_starts[number, piece.start], row_starts[number, min(piece.stop, rows)])
            index[number][place] = part.indices[chosen] - number * size
            value[number][place] = part.data[chosen]
    return [
        (torch.from_numpy(starts), torch.from_numpy(columns), torch.from_numpy(values))
        for starts, columns, values in zip(row_starts, index, value, strict=True)
    ]


def _embedding_bag(row_starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    # A weighted sum of rows is what an embedding bag computes, and torch's kernel for it is twice as fast on
    # the CPU as its product with a CSR matrix.
    return torch.embedding_bag(x, columns, row_starts, False, 0, False, values, True)[0]


@cache
def _sparse_product(device_type: str) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    if device_type == "cuda" and find_spec("triton"):
        from mtgcn.cuda_kernels import sparse_product

        return sparse_product
    return _embedding_bag


@dataclass(frozen=True, eq=False)
class SparseOperator:
    """A sparse matrix on a device, ready for products in both directions: `operator(x)` is matrix · x."""

    matrix: sp.csr_array
    device: torch.device
    symmetric: bool = False

    def __call__(self, x: Float[Tensor, "columns *rest"]) -> Float[Tensor, "rows *rest"]:
        product: Tensor = _Product.apply(x.reshape(len(x), -1), self)
        return reshaped(product, (self.matrix.shape[0], *x.shape[1:]))

    @property
    def nnz(self) -> int:
        return int(self.matrix.nnz)

    @cached_property
    def transposed(self) -> SparseOperator:
        if self.symmetric:
            return self
        return SparseOperator(sp.csr_array(self.matrix.T.tocsr()), self.device)

    @cached_property
    def _arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        """Row pointers, columns and values; 32-bit indices, since reading them is a third of the work."""
        return _csr_arrays(self.matrix, self.device)

    def with_weights(self, weights: Float[Tensor, "nnz"]) -> SparseOperator:
        """The same pattern with every stored value multiplied by its weight."""
        return _Reweighted(self.matrix, self.device, weights=weights, original=self)

    @cached_property
    def transposed_places(self) -> Int[Tensor, "nnz"]:
        """Where each value of the transposed matrix stands in this one."""
        places = sp.csr_array((np.arange(self.nnz), self.matrix.indices, self.matrix.indptr), self.matrix.shape)
        return torch.from_numpy(places.T.tocsr().data).to(self.device)

    @cached_property
    def _pieces(self) -> tuple[Tensor, Tensor] | None:
        """For the GPU, where one program sums one row: where the pieces of rows start in the list of entries, and
        where the rows start in the list of pieces. None if no row is long enough to be worth cutting."""
        lengths = np.diff(self.matrix.indptr)
        if self.device.type != "cuda" or lengths.max(initial=0) <= LONGEST_PIECE:
            return None
        pieces = np.maximum(-(-lengths // LONGEST_PIECE), 1)
        first_piece = np.concatenate([[0], np.cumsum(pieces)])
        number_in_row = np.arange(first_piece[-1]) - np.repeat(first_piece[:-1], pieces)
        starts = np.repeat(self.matrix.indptr[:-1], pieces) + number_in_row * LONGEST_PIECE
        return (
            _on_device(np.append(starts, self.matrix.indptr[-1]), np.int32, self.device),
            _on_device(first_piece, np.int32, self.device),
        )

    def multiply(self, x: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        """matrix · x, outside of any gradient."""
        if not self.nnz:
            return x.new_zeros(self.matrix.shape[0], x.shape[1])
        count = self._tile_count(x.shape[1])
        if count > 1:
            return self._multiply_tiles(x, count)
        row_starts, columns, values = self._arrays
        product = _sparse_product(self.device.type)
        if self._pieces is None:
            return product(row_starts, columns, values, x.contiguous())
        piece_starts, row_starts = self._pieces
        partial = product(piece_starts, columns, values, x.contiguous())
        in_order = torch.arange(len(partial), dtype=torch.int32, device=self.device)
        return product(row_starts, in_order, torch.ones_like(in_order, dtype=torch.float32), partial)

    def _tile_count(self, width: int) -> int:
        """How many tiles to cut the columns into, so that the rows of x that a tile reads stay in the cache."""
        rows, columns = self.matrix.shape
        table = columns * width * torch.float32.itemsize
        if self.device.type != "cpu" or table <= UNTILED_BYTES:
            return 1
        if self._tiles:
            return len(self._tiles)  # made for another width; to keep a second set would cost more than it brings
        # Every tile reads and writes the whole result: only worth it where it has some entries for each row.
        return max(1, min(-(-table // TILE_BYTES), self.nnz // (LEAST_PER_ROW * rows)))

    @cached_property
    def _tiles(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        """The tiles, once there are any, each as `_arrays` has the whole."""
        return []

    def _multiply_tiles(self, x: Float[Tensor, "columns width"], count: int) -> Float[Tensor, "rows width"]:
        size = -(-self.matrix.shape[1] // count)
        if not self._tiles:
            self._tiles.extend(_column_tiles(self.matrix, size))
        parts = (_embedding_bag(*tile, part) for tile, part in zip(self._tiles, x.split(size), strict=True))
        result = next(parts)
        for part in parts:
            result += part
        return result


@dataclass(frozen=True, eq=False)
class _Reweighted(SparseOperator):
    weights: Tensor = field(kw_only=True)
    original: SparseOperator = field(kw_only=True)

    def _tile_count(self, width: int) -> int:
        return 1  # weights change with every epoch, tiles would have to be cut anew

    @cached_property
    def _arrays(self) -> tuple[Tensor, Tensor, Tensor]:
        row_starts, columns, values = self.original._arrays
        return row_starts, columns, values * self.weights

    @cached_property
    def transposed(self) -> SparseOperator:
        return self.original.transposed.with_weights(self.weights[self.original.transposed_places])


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, operator: SparseOperator) -> Tensor:
        ctx.operator = operator
        return operator.multiply(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.operator.transposed.multiply(gradient), None


@dataclass(frozen=True, eq=False)
class DenseOperator:
    """A dense matrix on a device with the face of a `SparseOperator`."""

    matrix: Float[Tensor, "rows columns"]

    @property
    def nnz(self) -> int:
        return self.matrix.numel()

    def __call__(self, x: Float[Tensor, "columns *rest"]) -> Float[Tensor, "rows *rest"]:
        return reshaped(self.matrix @ x.reshape(len(x), -1), (self.matrix.shape[0], *x.shape[1:]))


Operator = SparseOperator | DenseOperator

# One multiplication in a dense product costs about this fraction of one in a sparse product.
DENSE_DISCOUNT = {"cpu": 1 / 4, "cuda": 1 / 10}


def operator(matrix: sp.csr_array | np.ndarray, device: torch.device) -> Operator:
    """The matrix as an operator, sparse or dense, whichever multiplies faster."""
    if isinstance(matrix, np.ndarray):
        return DenseOperator(_on_device(matrix, np.float32, device))
    if _cost(matrix, device) < matrix.nnz:
        return DenseOperator(_on_device(matrix.toarray(), np.float32, device))
    return SparseOperator(matrix, device)


def chain(left: SparseOperator, right: sp.csr_array, together: sp.csr_array) -> tuple[Operator, ...]:
    """Operators that, applied first to last, multiply by left · right: one after the other, or once by their
    product `together`, whichever is cheaper."""
    if _cost(together, left.device) < left.nnz + _cost(right, left.device):
        return (operator(together, left.device),)
    return operator(right, left.device), left


def _cost(matrix: sp.csr_array, device: torch.device) -> float:
    return min(matrix.nnz, DENSE_DISCOUNT[device.type] * matrix.shape[0] * matrix.shape[1])


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """What a graph convolution needs of a graph on a device; the parts that cost time to make."""

    adjacency: SparseOperator  # Â
    features: sp.csr_array | np.ndarray  # X, scaled
    smoothed: sp.csr_array | Tensor  # Â X
    input_chain: tuple[Operator, ...]  # multiply by Â X


def graph_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    """The operators of a graph, made once for every scaling and device."""
    known = _OPERATORS.setdefault(graph, {})
    if (scaling, device) not in known:
        adjacency = SparseOperator(normalized_adjacency(graph), device, symmetric=True)
        features = scaled_features(graph, scaling)
        if sp.issparse(features):
            smoothed = adjacency.matrix @ features
            multiply_by_it: tuple[Operator, ...] = chain(adjacency, features, smoothed)
        else:
            smoothed = _smoothed(adjacency, _on_device(features, np.float32, device))
            multiply_by_it = (DenseOperator(smoothed),)
        known[scaling, device] = GraphOperators(adjacency, features, smoothed, multiply_by_it)
    return known[scaling, device]


COLUMNS_AT_ONCE = 32  # about as wide as what training will multiply, so that the same tiles serve


def _smoothed(adjacency: SparseOperator, features: Float[Tensor, "nodes features"]) -> Tensor:
    result = torch.empty_like(features)
    for mine, given in zip(result.split(COLUMNS_AT_ONCE, 1), features.split(COLUMNS_AT_ONCE, 1), strict=True):
        mine.copy_(adjacency.multiply(given.contiguous()))
    return result


_OPERATORS: WeakKeyDictionary[Graph, dict[tuple[str, torch.device], GraphOperators]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class LocalView:
    """What a two-layer network must compute to know a few nodes of each run: Â X at their neighbours, then the
    rows of Â that lead from there to them. Each run has its own neighbours, so the rows of all runs are listed
    one after the other and the operators are block-diagonal over runs."""

    nodes: Int[Tensor, "rows"]  # the node of each row
    run_index: Int[Tensor, "rows"]  # and its run
    features: SparseOperator  # rows x (features · runs): Â X
    runs: SparseOperator  # rows x runs: gives each row what belongs to its run
    readout: SparseOperator  # (some · runs) x rows: Â


def local_view(adjacency: sp.csr_array, smoothed: sp.csr_array | Tensor, index: Int[Tensor, "runs some"]) -> LocalView:
    """The view of the nodes `index`, given Â and Â X; an index below 0 is nobody's and gets an empty row."""
    device, runs = index.device, len(index)
    place, run_of_place = np.nonzero(index.T.cpu().numpy() >= 0)
    arrows = adjacency[index.cpu().numpy()[run_of_place, place]].tocoo()
    # A row of the view is a neighbour in a run; many arrows lead to the same one.
    neighbour = run_of_place[arrows.row].astype(np.int64) * adjacency.shape[0] + arrows.col
    distinct, column = np.unique(neighbour, return_inverse=True)
    run_index, node = np.divmod(distinct, adjacency.shape[0])
    inputs = sp.csr_array(smoothed[node] if sp.issparse(smoothed) else smoothed[torch.from_numpy(node)].cpu().numpy())
    run_of_entry = np.repeat(run_index, np.diff(inputs.indptr))

    def sparse(row: np.ndarray, column: np.ndarray, data: np.ndarray, shape: tuple[int, int]) -> SparseOperator:
        return SparseOperator(sp.csr_array((data, (row, column)), shape=shape, dtype=np.float32), device)

    return LocalView(
        nodes=torch.from_numpy(node).to(device),
        run_index=torch.from_numpy(run_index).to(device),
        features=SparseOperator(
            sp.csr_array(
                (inputs.data, inputs.indices * runs + run_of_entry, inputs.indptr),
                shape=(len(node), smoothed.shape[1] * runs),
            ),
            device,
        ),
        runs=sparse(np.arange(len(node)), run_index, np.ones(len(node)), (len(node), runs)),
        readout=sparse((place * runs + run_of_place)[arrows.row], column, arrows.data, (index.numel(), len(node))),
    )
