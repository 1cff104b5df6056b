"""Boundary rows: of any table whose rows are nodes, those that neighbours in other ranks need.

Nodes stand in one order over all ranks, and each rank has a stretch of it. What a rank needs of the others, the nodes
that its own have edges to, is the same in every product with the graph; so who sends what to whom is settled once. A
rank sends each other one only what that one needs, which is never more than sending everybody all of it would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.distributed.ranks import Ranks
from mtgcn.linalg.operators import SparseOperator
from mtgcn.shapes import Float, Int


@dataclass(frozen=True, eq=False)
class Boundary:
    """Who needs which rows. A table has this rank's rows; with its boundary, those it needs of others behind them."""

    ranks: Ranks
    here: int  # rows of this rank
    needed: Int[np.ndarray, "boundary"]  # the nodes of others, in order, by their place among all
    given: Int[Tensor, "given"]  # rows of this rank that others need, those for rank 0 first
    outgoing: list[int]  # how many of them go to each rank
    incoming: list[int]  # how many come from each
    max_rows: int  # of any rank

    @staticmethod
    def settled(ranks: Ranks, starts: Sequence[int], needed: Int[np.ndarray, "boundary"]) -> Boundary:
        """Tell everybody what is needed of them. Rank r has the nodes from `starts[r]` up to `starts[r + 1]`."""
        by_owner = np.searchsorted(needed, starts)
        incoming = np.diff(by_owner).tolist()
        outgoing = [asked[ranks.rank] for asked in ranks.everyones(incoming)]
        wishes = torch.from_numpy(np.ascontiguousarray(needed, dtype=np.int64)).to(ranks.device)
        given = ranks.exchanged(wishes, incoming, outgoing) - starts[ranks.rank]
        here = starts[ranks.rank + 1] - starts[ranks.rank]
        return Boundary(ranks, here, needed, given, outgoing, incoming, int(np.diff(starts).max()))

    def __len__(self) -> int:
        return len(self.needed)

    def rows(self, table: Tensor) -> Tensor:
        """The rows of others that this rank needs, of a table of which each rank has its own. No gradient passes."""
        return self.ranks.exchanged(table[self.given], self.outgoing, self.incoming)

    def beside(self, table: Tensor) -> Tensor:
        """This rank's rows, and those that it needs of others below them."""
        if self.ranks.count == 1:
            return table
        both = table.new_empty(self.here + len(self), *table.shape[1:])
        both[: self.here] = table
        self.ranks.exchanged(table[self.given], self.outgoing, self.incoming, out=both[self.here :])
        return both


@dataclass(frozen=True, eq=False)
class SharedOperator(SparseOperator):
    """This rank's rows of a symmetric matrix over all nodes, with the face of a `SparseOperator`: `operator(x)` takes
    this rank's rows of x and gives this rank's rows of the product; so does the gradient, as the matrix is symmetric.

    Columns of `matrix` are this rank's nodes and then its boundary. Everybody must multiply at the same time.
    """

    boundary: Boundary | None = None

    def multiply(self, x: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        assert self.boundary is not None, "made by shared_operator"
        return super().multiply(self.boundary.beside(x))

    @property
    def max_rows(self) -> int:
        assert self.boundary is not None, "made by shared_operator"
        return max(1, self.boundary.max_rows)

    def _tile_count(self, width: int) -> int:
        return 1  # nodes near each other stand near each other; and tiles would hold the matrix twice


def shared_operator(matrix: sp.csr_array, boundary: Boundary) -> SharedOperator:
    """The operator of these rows; on the CPU it holds them once."""
    operator = SharedOperator(matrix, boundary.ranks.device, symmetric=True, boundary=boundary)
    if operator.device.type == "cpu":
        arrays = (matrix.indptr.astype(np.int32, copy=False), matrix.indices.astype(np.int32, copy=False), matrix.data)
        vars(operator)["_arrays"] = tuple(map(torch.from_numpy, arrays))
    return operator
