"""Personalised PageRank: random walks that go back to where they began (Gasteiger et al., 2019)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from mtgcn.linalg.operators import SparseOperator, reshaped
from mtgcn.shapes import Float

if TYPE_CHECKING:
    pass

CACHED_BYTES = 8 * 2**20  # of values that a walk takes through all its steps without leaving the cache
FEWEST_COLUMNS = 16  # that are taken along together: fewer would waste a part of what memory hands over at once


def personalized_page_rank(
    start: Float[Tensor, "nodes *rest"], adjacency: SparseOperator, steps: int, restart: float
) -> Float[Tensor, "nodes *rest"]:
    """`steps` times x := (1 - restart) Â x + restart · start: where walks along Â are after so many steps, that at each
    of them go back to where they began with the probability `restart`.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> pair = SparseOperator(sp.csr_array(np.full((2, 2), 0.5)), torch.device("cpu"), symmetric=True)
    >>> personalized_page_rank(torch.tensor([1.0, 0.0]), pair, steps=1, restart=0.25)
    tensor([0.6250, 0.3750])
    """
    result: Tensor = _PageRank.apply(start.reshape(len(start), -1), adjacency, steps, restart)
    return reshaped(result, start.shape)


class _PageRank(torch.autograd.Function):
    """Linear in what it starts from, by a polynomial of Â, which is symmetric: the gradient takes the same walk."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, adjacency: SparseOperator, steps: int, restart: float) -> Tensor:
        ctx.walk = adjacency, steps, restart
        return _walked_in_slices(start, adjacency, steps, restart)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _walked_in_slices(gradient, *ctx.walk), None, None, None


def _walked_in_slices(
    start: Float[Tensor, "nodes width"], adjacency: SparseOperator, steps: int, restart: float
) -> Float[Tensor, "nodes width"]:
    """On the CPU as many columns at a time as stay in the cache."""
    columns_at_once = cached_columns(adjacency.most_rows, start.element_size())
    if start.is_cuda or columns_at_once >= start.shape[1]:
        return _walked(start.contiguous(), adjacency, steps, restart)
    result = torch.empty_like(start, memory_format=torch.contiguous_format)
    for mine, given in zip(result.split(columns_at_once, 1), start.split(columns_at_once, 1), strict=True):
        mine.copy_(_walked(given.contiguous(), adjacency, steps, restart))
    return result


def cached_columns(nodes: int, itemsize: int = torch.float32.itemsize) -> int:
    """How many columns of so many nodes are taken along together on the CPU."""
    return max(FEWEST_COLUMNS, CACHED_BYTES // (itemsize * max(1, nodes)))


def _walked(start: Tensor, adjacency: SparseOperator, steps: int, restart: float) -> Tensor:
    place = start
    for _ in range(steps):
        place = adjacency.multiply(place)
        if restart:
            place.mul_(1 - restart).add_(start, alpha=restart)
    return place
