"""Random walks on a graph: sampled walks, and absorbing walks, which are solutions of large symmetric systems."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu
from torch import Tensor

from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import relative_adjacency
from mtgcn.linalg.operators import LARGE_BLOCK, SparseOperator, blocks_of_entries, blocks_of_rows, each_block
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Nodes


def random_walks(
    adjacency: sp.csr_array, starts: Int[np.ndarray, "walks"], length: int, random: np.random.Generator
) -> Int[np.ndarray, "walks length"]:
    """Walks of `length` nodes, including the start. A step takes an edge with probability proportional to its weight,
    so every start must have an edge.

    >>> pair = sp.csr_array(np.array([[0, 1], [1, 0]]))
    >>> random_walks(pair, np.array([0, 1]), 4, np.random.default_rng(0))
    array([[0, 1, 0, 1],
           [1, 0, 1, 0]], dtype=int32)
    """
    row_starts = adjacency.indptr.astype(np.int64)
    # Inverse transform sampling from the cumulative weights of the edges.
    line = np.concatenate([[0.0], np.cumsum(adjacency.data, dtype=np.float64)])
    visited = np.empty((length, len(starts)), dtype=np.int32)
    visited[0] = starts
    for step in range(1, length):
        at = visited[step - 1]
        left, right = line[row_starts[at]], line[row_starts[at + 1]]
        drawn = left + random.random(len(at)) * (right - left)
        edge = np.searchsorted(line, drawn, side="right") - 1
        visited[step] = adjacency.indices[np.minimum(edge, row_starts[at + 1] - 1)]  # rounding may exceed the last edge
    return np.ascontiguousarray(visited.T)


# Factorisation is slow where conjugate gradients converge fast (a random graph of 17,000 nodes: 15 s, 60 iterations)
# and fast where they converge slowly (dblp: 1 s, 350 iterations). The iterations for one column decide.
FEW_ITERATIONS = 100
FACTORED_WEIGHTS = 300_000  # larger graphs are never factored, to bound memory
SOLVED_AT_ONCE = 2**23  # numbers in the columns solved together: 64 MiB
ROUNDING = 1e-13  # rounding error of a sum of doubles
RESIDUAL = 1e-12  # relative tolerance of the residual
COLUMNS_AT_ONCE = 32  # columns solved together by conjugate gradients
TOLERANCE_32 = 1e-4  # relative tolerance of one refinement step in 32 bits
MAX_ITERATIONS, MAX_ITERATIONS_32 = 5_000, 500

Columns = Float[np.ndarray, "nodes some"]


class AbsorbingWalk:
    """Partially absorbing random walk (Wu et al., 2012): (L + αI)^-1 with L = D - A, A the relative adjacency.

    Entry (i, j), times α, is the probability that a walk from i ends at j; the smaller α, the longer the walk. For a
    tiny α a column is nearly constant, 1 / (α · nodes), on its component. This constant is subtracted from the
    right-hand side and added to the solution, since the matrix is nearly singular there. Computed in doubles on the
    CPU.

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> pair = AbsorbingWalk(Graph(adjacency=np.array([[0, 1], [1, 0]])), alpha=1.0)
    >>> pair.columns(np.array([0])) * 3  # the inverse of [[2, -1], [-1, 2]]
    array([[2.],
           [1.]])
    """

    def __init__(self, graph: Graph, alpha: float) -> None:
        weights = relative_adjacency(graph).astype(np.float64)
        weights = (weights + weights.T) / 2  # the two directions of an edge may differ by rounding
        weights -= sp.diags_array(weights.diagonal())  # self-loops have no effect
        weights.eliminate_zeros()
        self.degrees = weights.sum(axis=1)
        # If α is lost to rounding next to the largest degree, the matrix is singular.
        self.alpha = max(alpha, ROUNDING * float(self.degrees.max(initial=0)))
        laplacian = sp.diags_array(self.degrees) - weights
        self.matrix = sp.csr_array(laplacian + self.alpha * sp.eye_array(graph.num_nodes))
        self.component = connected_components(weights, directed=False)[1]
        self.component_sizes = np.bincount(self.component)
        self.stored_weights = weights.nnz

    def columns(self, nodes: Int[np.ndarray, "some"]) -> Columns:
        """The columns of (L + αI)^-1 of these nodes."""
        component, right = self.component[nodes], self._right_hand_side(nodes)
        found = self._solution(right, lambda values, columns: self._centred(values, component[columns]))
        differences = self._centred(found, component)
        everywhere = 1 / (self.alpha * self.component_sizes[component])
        return np.where(self.component[:, None] == component, everywhere + differences, 0)

    def poisson_solution(self, right: Columns) -> Columns:
        """Solves L u = right with Σ D_ii u_i = 0 on every component, on which `right` must sum to 0. Requires a tiny
        α, which approximates 0."""
        even = np.ones(len(right))
        found = self._solution(right, lambda values, columns: self._without_mean(values, even))
        return self._without_mean(found, self.degrees)

    def _solution(self, right: Columns, centred: Centred) -> Columns:
        """The matrix's inverse times `right`; `centred` removes the nearly singular direction of some columns."""
        if self.factored:
            return self._factors.solve(right)
        found = np.empty_like(right)
        for some in blocks_of_rows(right.shape[1], at_once=COLUMNS_AT_ONCE):
            of_some = partial(lambda first, values, columns: centred(values, first + columns), some.start)
            found[:, some] = refined(self.matrix, self._in_32_bits, right[:, some], of_some)
        return found

    def _without_mean(self, values: Columns, weights: Float[np.ndarray, "nodes"]) -> Columns:
        """Values without their weighted mean over each component."""
        shape = len(weights), len(self.component_sizes)
        sums = sp.csr_array((weights, self.component, np.arange(len(weights) + 1)), shape).T @ values
        whole = np.bincount(self.component, weights)[:, None]
        means = np.divide(sums, whole, out=np.zeros_like(sums), where=whole > 0)
        return np.asarray(values - means[self.component])

    def by_class(self, labelled: Nodes, num_classes: int, combine: np.ufunc) -> Float[np.ndarray, "runs classes nodes"]:
        """For every run and class, the columns of its labelled nodes combined by `np.maximum` or `np.add`. The column
        of a node that is labelled in several runs is computed once."""
        index, classes = labelled.index.cpu().numpy(), labelled.classes.cpu().numpy()
        run, place = np.nonzero(labelled.present.cpu().numpy())
        distinct, column = np.unique(index[run, place], return_inverse=True)
        by_column = np.argsort(column, kind="stable")
        combined = np.zeros((len(index), num_classes, len(self.component)))
        at_once = max(1, SOLVED_AT_ONCE // len(self.component))
        if at_once > COLUMNS_AT_ONCE:
            at_once -= at_once % COLUMNS_AT_ONCE  # a multiple of the block size
        for start in range(0, len(distinct), at_once):
            rows = np.ascontiguousarray(self.columns(distinct[start : start + at_once]).T)
            first, last = np.searchsorted(column[by_column], [start, start + len(rows)])
            for label in by_column[first:last]:
                target = combined[run[label], classes[run[label], place[label]]]
                combine(target, rows[column[label] - start], out=target)
        return combined

    def _right_hand_side(self, nodes: Int[np.ndarray, "some"]) -> Columns:
        component = self.component[nodes]
        right = np.where(self.component[:, None] == component, -1 / self.component_sizes[component], 0)
        right[nodes, np.arange(len(nodes))] += 1
        return right

    def _centred(self, values: Columns, component: Int[np.ndarray, "some"]) -> Columns:
        """Columns without their mean over their component, which is a rounding error."""
        mean = values.sum(axis=0) / self.component_sizes[component]
        if len(self.component_sizes) == 1:
            return values - mean
        return np.where(self.component[:, None] == component, values - mean, 0)

    @cached_property
    def factored(self) -> bool:
        """Whether systems are solved by factorisation instead of conjugate gradients."""
        if self.stored_weights > FACTORED_WEIGHTS:
            return False
        node = np.flatnonzero(self.component == self.component_sizes.argmax())[:1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # without convergence, the matrix is factored
            return in_64_bits(self.matrix, self._right_hand_side(node))[1] > FEW_ITERATIONS

    @cached_property
    def _in_32_bits(self) -> SparseOperator:
        return SparseOperator(self.matrix.astype(np.float32), torch.device("cpu"), symmetric=True)

    @cached_property
    def _factors(self) -> SuperLU:
        # The matrix is symmetric with a dominant diagonal, so it needs no pivoting; the ordering quarters the fill-in.
        options = {"SymmetricMode": True}
        return splu(sp.csc_array(self.matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)


@cached_per_graph
def absorbing_walk(graph: Graph, alpha: float) -> AbsorbingWalk:
    """The walk on a graph, cached for every α."""
    return AbsorbingWalk(graph, alpha)


Centred = Callable[[Columns, Int[np.ndarray, "some"]], Columns]  # called with some columns and their numbers


def refined(matrix: sp.csr_array, single: SparseOperator, right: Columns, centred: Centred) -> Columns:
    """matrix^-1 · right for a symmetric positive definite matrix, by iterative refinement: conjugate gradients in 32
    bits on the residual. Columns that do not converge in 32 bits are solved in 64. `centred` removes the nearly
    singular direction."""
    solution, left, size = np.zeros_like(right), right.copy(), np.linalg.norm(right, axis=0)
    enough, unsolved = RESIDUAL * size, np.flatnonzero(size)
    left, size = left[:, unsolved], size[unsolved]
    diagonal = torch.from_numpy(matrix.diagonal().astype(np.float32))
    while len(unsolved):
        unit = torch.from_numpy(np.ascontiguousarray(left / size, dtype=np.float32))
        found, _ = conjugate_gradients(single, diagonal, unit, TOLERANCE_32, MAX_ITERATIONS_32)
        step = centred(size * found.numpy(), unsolved)
        solution[:, unsolved] += step
        left -= _multiplied(matrix, step)
        before, size = size, np.linalg.norm(left, axis=0)
        missing = ~(size <= enough[unsolved])
        stuck = missing & ~(size < before / 2)
        if stuck.any():
            solution[:, unsolved[stuck]] = in_64_bits(matrix, right[:, unsolved[stuck]])[0]
        missing &= ~stuck
        unsolved, left, size = unsolved[missing], left[:, missing], size[missing]
    return solution


def in_64_bits(matrix: sp.csr_array, right: Columns) -> tuple[Columns, int]:
    """The solution by conjugate gradients in doubles, and the number of iterations."""

    def product(values: Tensor) -> Tensor:
        return torch.from_numpy(_multiplied(matrix, values.numpy()))

    diagonal = torch.from_numpy(matrix.diagonal())
    found, iterations = conjugate_gradients(product, diagonal, torch.from_numpy(right), RESIDUAL, MAX_ITERATIONS)
    if iterations == MAX_ITERATIONS:
        warnings.warn(
            f"absorption probabilities have not converged after {MAX_ITERATIONS} iterations; increase alpha",
            RuntimeWarning,
            stacklevel=2,
        )
    return found.numpy(), iterations


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    diagonal: Float[Tensor, "nodes"],
    right: Float[Tensor, "nodes some"],
    left_over: float,
    most: int,
) -> tuple[Float[Tensor, "nodes some"], int]:
    """A^-1 · right for a symmetric positive definite matrix, and the number of iterations. The diagonal is the
    preconditioner. Columns have separate step sizes and share the matrix products."""

    def ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
        return torch.where(denominator > 0, numerator / denominator, 0.0)  # 0 for a column that has converged

    scale = 1 / diagonal[:, None]
    solution, residual = torch.zeros_like(right), right.clone()
    enough = left_over**2 * right.square().sum(0)
    direction = scale * residual
    size = (residual * direction).sum(0)
    for iteration in range(most):
        if bool((residual.square().sum(0) <= enough).all()):
            return solution, iteration
        along = product(direction)
        step = ratio(size, (direction * along).sum(0))
        solution.addcmul_(direction, step)
        residual.addcmul_(along, -step)
        scaled = scale * residual
        before, size = size, (residual * scaled).sum(0)
        direction.mul_(ratio(size, before)).add_(scaled)
    return solution, most


def _multiplied(matrix: sp.csr_array, values: Columns) -> Columns:
    """matrix · values, computed in several threads."""
    found = np.empty_like(values)

    def some(rows: slice) -> None:
        found[rows] = matrix[rows] @ values

    each_block(blocks_of_entries(matrix.indptr, LARGE_BLOCK), some)
    return found
