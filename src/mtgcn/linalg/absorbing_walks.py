"""Random walks that may end at any node, and the large symmetric systems they need."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from mtgcn.once_per_graph import once_per_graph
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Nodes

# What a graph costs to factor and what conjugate gradients need of it go against each other: where everything is a few
# steps from everything (a random graph of 17,000 nodes, 60 iterations), factors fill in and take a quarter of a minute;
# where parts of it hang together by little (dblp, as large, 350 iterations), they take a second. So one column is
# solved for first, and by how long that takes it is decided.
FEW_ITERATIONS = 100
FACTORED_WEIGHTS = 300_000  # a graph of more stored weights is never factored, since factors may fill all memory
SOLVED_AT_ONCE = 2**23  # numbers in the columns that are solved together: 64 MiB of doubles
ROUNDING = 1e-13  # of a sum of doubles
RESIDUAL = 1e-12  # of conjugate gradients, relative to the right-hand side
MOST_ITERATIONS = 5_000


class AbsorbingWalk:
    """A random walk that may end at any node (Wu et al., 2012), by the matrix (L + αI)^-1 with L = D - A, weights of A
    in units of their mean.

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
        weights -= sp.diags_array(weights.diagonal())  # a step along a self-edge leads nowhere
        weights.eliminate_zeros()
        if weights.nnz:
            weights /= weights.data.mean()  # their unit means nothing
        self.degrees = weights.sum(axis=1)
        # An α that rounding swallows beside the heaviest node would leave the matrix singular.
        self.alpha = max(alpha, ROUNDING * float(self.degrees.max(initial=0)))
        laplacian = sp.diags_array(self.degrees) - weights
        self.matrix = sp.csc_array(laplacian + self.alpha * sp.eye_array(graph.num_nodes))
        self.component = connected_components(weights, directed=False)[1]
        self.component_sizes = np.bincount(self.component)
        self.stored_weights = weights.nnz

    def columns(self, nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "nodes some"]:
        """The columns of (L + αI)^-1 that belong to these nodes; 0 in other components."""
        inside = self.component[:, None] == self.component[nodes]
        size = self.component_sizes[self.component[nodes]]
        differences = self._solved(self._right_hand_side(nodes))
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

    def _right_hand_side(self, nodes: Int[np.ndarray, "some"]) -> Float[np.ndarray, "nodes some"]:
        component = self.component[nodes]
        right = np.where(self.component[:, None] == component, -1 / self.component_sizes[component], 0)
        right[nodes, np.arange(len(nodes))] += 1
        return right

    def _solved(self, right: Float[np.ndarray, "nodes some"]) -> Float[np.ndarray, "nodes some"]:
        if self.factored:
            return self._factors.solve(right)
        return conjugate_gradients(self.matrix, right)[0]

    @cached_property
    def factored(self) -> bool:
        """Whether systems are solved by factors; else by conjugate gradients."""
        if self.stored_weights > FACTORED_WEIGHTS:
            return False
        somebody = np.flatnonzero(self.component == self.component_sizes.argmax())[:1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # what has not settled is factored
            return conjugate_gradients(self.matrix, self._right_hand_side(somebody))[1] > FEW_ITERATIONS

    @cached_property
    def _factors(self) -> SuperLU:
        # The matrix is symmetric with a dominant diagonal: no pivoting is needed, and an ordering made for such
        # matrices fills in a quarter of what the default does.
        return splu(self.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def solving_bytes(num_nodes: int, labelled: int) -> int:
    """About what solving for so many labelled nodes takes: conjugate gradients keep eight columns for each."""
    return 8 * 8 * min(SOLVED_AT_ONCE, num_nodes * labelled)


@once_per_graph
def absorbing_walk(graph: Graph, alpha: float) -> AbsorbingWalk:
    """The walk on a graph, made and factored once for every α."""
    return AbsorbingWalk(graph, alpha)


def conjugate_gradients(
    matrix: sp.csc_array, right: Float[np.ndarray, "nodes some"]
) -> tuple[Float[np.ndarray, "nodes some"], int]:
    """matrix^-1 · right for a symmetric positive definite matrix, and the number of iterations: every column takes
    steps of its own, with one product of the matrix for all of them. Scaled by the diagonal."""
    scale = 1 / matrix.diagonal()[:, None]
    solution = np.zeros_like(right)
    residual = right.copy()
    enough = RESIDUAL * np.linalg.norm(right, axis=0)
    direction = scale * residual
    size = (residual * direction).sum(axis=0)
    for iteration in range(MOST_ITERATIONS):
        if (np.linalg.norm(residual, axis=0) <= enough).all():
            return solution, iteration
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
    return solution, MOST_ITERATIONS


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """0 where a column is solved and nothing is left to divide by."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
