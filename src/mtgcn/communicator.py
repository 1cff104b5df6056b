"""The interface between processes: nodes of other processes are accessed only through a `Communicator`.

The default is a single process with the whole graph. `mtgcn.distributed` implements it for the ranks of a PyTorch
process group, each of which holds some of the nodes and their rows of every table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mtgcn.shapes import Float, Int, Real

if TYPE_CHECKING:  # graphs import this module, and must not import torch
    import torch
    from torch import Tensor

Rows = TypeVar("Rows", "Tensor", np.ndarray)
_HIGHEST_BIT = -(2**63)  # flipping this bit makes signed words sort like unsigned ones


class Communicator:
    """A single process that holds every node."""

    has_whole_graph: bool = True

    @property
    def dtype(self) -> torch.dtype:
        """Precision of long trainings, in which rounding errors of sums over processes would grow."""
        import torch

        return torch.float32

    def sum(self, values: Tensor) -> Tensor:
        """Sum of `values` over all processes."""
        return values

    def mean_of_rows(self, rows: Rows) -> Rows:
        """Mean over the rows of all nodes."""
        return rows.mean(0)

    def gram(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "width width"]:
        """The Gram matrix rowsᵀ · rows over all nodes."""
        return self.sum(rows.T @ rows)

    def orthonormal(self, columns: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes rank"]:
        """Orthonormal columns with the same span, one row per node; dependent columns may be dropped."""
        import torch

        basis: Tensor = torch.linalg.qr(columns)[0]
        return basis

    def numbers(self, count: int, device: torch.device) -> Int[Tensor, "nodes"]:
        """Numbers of the `count` nodes of this process in the whole graph."""
        import torch

        return torch.arange(count, device=device)

    def rows_of(self, numbers: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
        """Local rows of nodes of this process, given by number."""
        return numbers

    def positions(self, words: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        """Position of each local node among all nodes sorted by distinct words, read as 64-bit unsigned integers."""
        import torch

        order = (words ^ _HIGHEST_BIT).argsort()
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))

    def duplicate_ranks(self, keys: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        """For each local node, the number of nodes with the same key and a smaller number."""
        import torch

        # On the CPU, NumPy sorts faster than torch.
        on_cpu = keys.device.type == "cpu"
        order = torch.from_numpy(np.argsort(keys.numpy(), kind="stable")) if on_cpu else keys.argsort(stable=True)
        ranked = keys[order]
        position = torch.arange(len(keys), device=keys.device)
        is_first = torch.ones_like(ranked, dtype=torch.bool)
        is_first[1:] = ranked[1:] != ranked[:-1]
        ranks = torch.empty_like(keys)
        ranks[order] = position - torch.where(is_first, position, 0).cummax(0).values
        return ranks

    def with_boundary(self, rows: Real[Tensor, "nodes *rest"]) -> Real[Tensor, "columns *rest"]:
        """The rows of this process, followed by those of its boundary: one for each column of A."""
        return rows

    def max_rows(self, rows: int) -> int:
        """The largest number of rows of any process; this process has `rows`."""
        return rows

    def gather_rows(
        self, table: Float[Tensor, "nodes width"], index: Int[Tensor, "some"], first: Int[Tensor, "1"] | int = 0
    ) -> Float[Tensor, "some width"]:
        """The rows `first + index`; the index is MISSING for rows of other processes."""
        return table.index_select(0, first + index)

    def permute(
        self, rows: Float[Tensor, "nodes width"], receiver: Int[Tensor, "nodes"], giver: Int[Tensor, "nodes"]
    ) -> Float[Tensor, "nodes width"]:
        """Move rows: the node with the i-th smallest word in `receiver` gets that of the i-th in `giver`."""
        givers = (giver ^ _HIGHEST_BIT).argsort()
        return rows.index_select(0, givers[self.positions(receiver)])

    def gather_labelled(
        self, index: Int[Tensor, "runs labelled"], classes: Int[Tensor, "runs labelled"], tables: Mapping[str, Tensor]
    ) -> tuple[Int[Tensor, "runs all"], Int[Tensor, "runs all"], Mapping[str, Tensor]]:
        """The labelled nodes of all processes, as indices into the returned tables, and their classes."""
        return index, classes, tables


ONE_PROCESS = Communicator()
