"""The seam between one process and many: every reduction over the nodes of a graph goes through a `Communicator`.

The default holds every node and does not communicate. `mtgcn.distributed` provides one for the ranks of PyTorch's
process group, each of which holds some of the nodes. Methods call the same functions on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Float, Int


class Communicator:
    """A single process that holds every node."""

    def sum(self, values: Tensor) -> Tensor:
        """Sum of `values` over all processes."""
        return values

    def mean_of_rows(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "width"]:
        """Mean over the rows of all nodes."""
        return rows.mean(0)

    def mean_and_std(
        self, values: Float[np.ndarray, "nodes width"]
    ) -> tuple[Float[np.ndarray, "width"], Float[np.ndarray, "width"]]:
        """Mean and standard deviation of each column over all nodes."""
        return values.mean(axis=0), values.std(axis=0)

    def gram(self, rows: Float[Tensor, "nodes width"]) -> Float[Tensor, "width width"]:
        """rowsᵀ · rows over all nodes."""
        return self.sum(rows.T @ rows)

    def orthonormal(self, columns: Float[Tensor, "nodes width"]) -> Float[Tensor, "nodes rank"]:
        """Orthonormal columns with the same span, one row per node; dependent columns may be dropped."""
        basis: Tensor = torch.linalg.qr(columns)[0]
        return basis

    def positions(self, words: Int[Tensor, "nodes"]) -> Int[Tensor, "nodes"]:
        """Position of each local node when all nodes are sorted by their words: 64 bits, unsigned and distinct."""
        order = (words ^ -(2**63)).argsort()
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))

    def gather_labelled(self, labelled: Any, tables: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
        """The labelled nodes (`mtgcn.task.Nodes`) of all processes and tables with their rows; `index` numbers these
        rows."""
        return labelled, tables


ONE_PROCESS = Communicator()
