"""Sparse operators on graphs, and products with them that let gradients through.

Every operator acts on the first axis, the nodes; whatever stands behind it (runs, peers, units) is carried
along, so that one product serves all models of a stack.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, eigsh, splu
from torch import Tensor

from mtgcn.errors import InputError

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from mtgcn.graph import Graph
    from mtgcn.task import Nodes


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


def scaled_features(graph: Graph, scaling: str) -> sp.csr_array | np.ndarray:
    """Feature rows divided by the `"sum"` of their absolute values, by their `"length"`, or as they are: `"none"`.

    A row whose divisor is 0 stays as it is.
    """
    features = graph.features
    if features is None:
        raise InputError("this method needs node features and the graph has none; give features, or use lp")
    if scaling == "none":
        return features
    sizes = (features * features).sum(axis=1) ** 0.5 if scaling == "length" else abs(features).sum(axis=1)
    sizes = np.asarray(sizes, dtype=np.float32).reshape(-1)
    scale = np.divide(1, sizes, out=np.ones_like(sizes), where=sizes != 0)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(scale) @ features, dtype=np.float32)
    return np.asarray(features * scale[:, None])


def reshaped(fresh: Tensor, shape: Sequence[int]) -> Tensor:
    """A tensor that nobody else holds, in another shape and not as a view: what writes into a view makes autograd
    copy the whole gradient later."""
    return torch.ops.aten._unsafe_view(fresh, list(shape))


LONGEST_PIECE = 64  # entries of a row that one GPU program sums before others take over


def _on_device(array: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(np.array(array, dtype=kind)).to(device)


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
        matrix = self.matrix
        return (
            _on_device(matrix.indptr, np.int32, self.device),
            _on_device(matrix.indices, np.int32, self.device),
            _on_device(matrix.data, np.float32, self.device),
        )

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
        row_starts, columns, values = self._arrays
        if not len(columns):
            return x.new_zeros(self.matrix.shape[0], x.shape[1])
        product = _sparse_product(self.device.type)
        if self._pieces is None:
            return product(row_starts, columns, values, x.contiguous())
        piece_starts, row_starts = self._pieces
        partial = product(piece_starts, columns, values, x.contiguous())
        in_order = torch.arange(len(partial), dtype=torch.int32, device=self.device)
        return product(row_starts, in_order, torch.ones_like(in_order, dtype=torch.float32), partial)


@dataclass(frozen=True, eq=False)
class _Reweighted(SparseOperator):
    weights: Tensor = field(kw_only=True)
    original: SparseOperator = field(kw_only=True)

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
            smoothed = adjacency.multiply(_on_device(features, np.float32, device))
            multiply_by_it = (DenseOperator(smoothed),)
        known[scaling, device] = GraphOperators(adjacency, features, smoothed, multiply_by_it)
    return known[scaling, device]


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


# A factorisation of PubMed (88,648 stored weights) takes two seconds, that of a random graph of this size seventeen.
# What it costs grows much faster than the graph, while conjugate gradients need little more than the graph itself, so
# larger graphs are left to them.
FACTORED_WEIGHTS = 100_000
SOLVED_AT_ONCE = 2**23  # numbers in the columns that are solved together: 64 MiB of doubles
RESIDUAL = 1e-12  # of conjugate gradients, relative to the right-hand side
MOST_ITERATIONS = 5_000


class AbsorbingWalk:
    """A random walk that may end at any node (Wu et al., 2012), by the matrix (L + αI)^-1 with L = D - A.

    Its entry (i, j), times α, is the probability that a walk from i ends at j; the smaller α, the longer it walks.
    For a tiny α a column is almost the same number, 1 / (α · nodes), all over its component, and only what is left
    tells labelled nodes apart. That number is known, so it is taken out of the right-hand side and added to the
    solution: what remains to be solved has no part in the one direction where the matrix is nearly singular.
    Everything is in doubles, on the CPU.

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> pair = AbsorbingWalk(Graph(adjacency=np.array([[0, 1], [1, 0]])), alpha=1.0)
    >>> pair.columns(np.array([0])) * 3  # the inverse of [[2, -1], [-1, 2]]
    array([[2.],
           [1.]])
    """

    def __init__(self, graph: Graph, alpha: float) -> None:
        weights = graph.adjacency.astype(np.float64)
        weights = (weights + weights.T) / 2  # a graph's two directions may differ by rounding
        self.alpha = alpha
        self.degrees = weights.sum(axis=1) - weights.diagonal()  # a step along a self-link leads nowhere
        laplacian = sp.diags_array(weights.sum(axis=1)) - weights
        self.matrix = sp.csc_array(laplacian + alpha * sp.eye_array(graph.num_nodes))
        self.factored = weights.nnz <= FACTORED_WEIGHTS
        self.component = connected_components(weights, directed=False)[1]
        self.component_sizes = np.bincount(self.component)

    def columns(self, nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "nodes some"]:
        """The columns of (L + αI)^-1 that belong to these nodes; 0 in other components."""
        inside = self.component[:, None] == self.component[nodes]
        size = self.component_sizes[self.component[nodes]]
        right = np.where(inside, -1 / size, 0)
        right[nodes, np.arange(len(nodes))] += 1
        differences = self._solved(right)
        differences -= differences.sum(axis=0) / size  # rounding alone
        return np.where(inside, 1 / (self.alpha * size) + differences, 0)

    def by_class(self, labelled: Nodes, num_classes: int, combine: np.ufunc) -> Float[np.ndarray, "runs classes nodes"]:
        """For every run and class, the columns of its labelled nodes combined, by `np.maximum` or `np.add`; 0 where
        no walk leads to a node of that class. A node that several runs were given is solved for once."""
        index, classes = labelled.index.cpu().numpy(), labelled.classes.cpu().numpy()
        run, place = np.nonzero(labelled.present.cpu().numpy())
        distinct, column = np.unique(index[run, place], return_inverse=True)
        by_column = np.argsort(column, kind="stable")
        combined = np.zeros((len(index), num_classes, len(self.component)))
        at_once = max(1, SOLVED_AT_ONCE // len(self.component))
        for start in range(0, len(distinct), at_once):
            rows = np.ascontiguousarray(self.columns(distinct[start : start + at_once]).T)
            first, last = np.searchsorted(column[by_column], [start, start + len(rows)])
            for label in by_column[first:last]:
                target = combined[run[label], classes[run[label], place[label]]]
                combine(target, rows[column[label] - start], out=target)
        return combined

    def _solved(self, right: Float[np.ndarray, "nodes some"]) -> Float[np.ndarray, "nodes some"]:
        if self.factored:
            return self._factors.solve(right)
        return conjugate_gradients(self.matrix, right)

    @cached_property
    def _factors(self) -> SuperLU:
        # The matrix is symmetric with a dominant diagonal: no pivoting is needed, and an ordering made for such
        # matrices fills in a quarter of what the default does.
        return splu(self.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def absorbing_walk(graph: Graph, alpha: float) -> AbsorbingWalk:
    """The walk on a graph, made and factored once for every α."""
    known = _WALKS.setdefault(graph, {})
    if alpha not in known:
        known[alpha] = AbsorbingWalk(graph, alpha)
    return known[alpha]


_WALKS: WeakKeyDictionary[Graph, dict[float, AbsorbingWalk]] = WeakKeyDictionary()


def conjugate_gradients(
    matrix: sp.csc_array, right: Float[np.ndarray, "nodes some"]
) -> Float[np.ndarray, "nodes some"]:
    """matrix^-1 · right for a symmetric positive definite matrix: every column takes steps of its own, with one
    product of the matrix for all of them. Scaled by the diagonal."""
    scale = 1 / matrix.diagonal()[:, None]
    solution = np.zeros_like(right)
    residual = right.copy()
    enough = RESIDUAL * np.linalg.norm(right, axis=0)
    direction = scale * residual
    size = (residual * direction).sum(axis=0)
    for _ in range(MOST_ITERATIONS):
        if (np.linalg.norm(residual, axis=0) <= enough).all():
            return solution
        product = matrix @ direction
        step = _ratio(size, (direction * product).sum(axis=0))
        solution += step * direction
        residual -= step * product
        scaled = scale * residual
        before, size = size, (residual * scaled).sum(axis=0)
        direction = scaled + _ratio(size, before) * direction
    warnings.warn(
        f"absorption probabilities have not settled after {MOST_ITERATIONS} iterations; a larger alpha settles sooner",
        RuntimeWarning,
        stacklevel=2,
    )
    return solution


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 where a column is solved and nothing is left to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
