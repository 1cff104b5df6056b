"""Personalised PageRank (Gasteiger et al., 2019), and features propagated by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.arrays import on_device
from mtgcn.linalg.normalisation import MIN_ROW_SIZE, normalized_adjacency, scaled_features
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator, operator, reshaped
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


CACHED_BYTES = 8 * 2**20  # of values that stay in the cache through all steps
MIN_COLUMNS = 16  # propagated together; fewer waste memory bandwidth


def personalized_page_rank(
    start: Float[Tensor, "nodes *rest"], adjacency: SparseOperator, steps: int, restart: float
) -> Float[Tensor, "nodes *rest"]:
    """`steps` iterations of x := (1 - restart) Â x + restart · start.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> pair = SparseOperator(sp.csr_array(np.full((2, 2), 0.5)), torch.device("cpu"), symmetric=True)
    >>> personalized_page_rank(torch.tensor([1.0, 0.0]), pair, steps=1, restart=0.25)
    tensor([0.6250, 0.3750])
    """
    result: Tensor = _PageRank.apply(start.reshape(len(start), -1), adjacency, steps, restart)
    return reshaped(result, start.shape)


class _PageRank(torch.autograd.Function):
    """A symmetric linear map, a polynomial of Â, so that the gradient is the same map."""

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
    """On the CPU in slices of columns that fit the cache."""
    columns_at_once = max(MIN_COLUMNS, CACHED_BYTES // (start.element_size() * adjacency.max_rows))
    if start.is_cuda or columns_at_once >= start.shape[1]:
        return _walked(start.contiguous(), adjacency, steps, restart)
    result = torch.empty_like(start, memory_format=torch.contiguous_format)
    for mine, given in zip(result.split(columns_at_once, 1), start.split(columns_at_once, 1), strict=True):
        mine.copy_(_walked(given.contiguous(), adjacency, steps, restart))
    return result


def _walked(start: Tensor, adjacency: SparseOperator, steps: int, restart: float) -> Tensor:
    place = start
    for _ in range(steps):
        place = adjacency.multiply(place)
        if restart:
            place.mul_(1 - restart).add_(start, alpha=restart)
    return place


CUDA_COLUMNS = 512  # propagated together


@dataclass(frozen=True, eq=False)
class Walk:
    """`steps` times x := (1 - restart) Â x + restart · start. Symmetric, as Â is."""

    adjacency: SparseOperator
    steps: int
    restart: float

    def __call__(self, start: Float[Tensor, "nodes *rest"]) -> Float[Tensor, "nodes *rest"]:
        return personalized_page_rank(start, self.adjacency, self.steps, self.restart) if self.steps else start


@dataclass(frozen=True, eq=False)
class PropagatedFeatures:
    """The rows of diag(scale) · walk · X, X scaled before."""

    walk: Walk
    features: Operator  # X
    scale: Float[Tensor, "nodes"]

    def times(self, weight: Float[Tensor, "features *rest"]) -> Float[Tensor, "nodes *rest"]:
        """All rows · weight, by propagating the product instead of the rows."""
        moved = self.walk(self.features(weight))
        return moved * self.scale.view(-1, *[1] * (weight.ndim - 1))

    def rows_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "runs some features"]:
        """The rows of some nodes; a negative index gives node 0. By symmetry a row of the walk is one of
        its columns."""
        nodes, place = index.clamp(min=0).unique(return_inverse=True)
        rows = torch.cat([self._rows(some) for some in nodes.split(_columns_at_once(len(self.scale), index.device))])
        return (rows * self.scale[nodes, None])[place]

    def _rows(self, nodes: Int[Tensor, "some"]) -> Float[Tensor, "some features"]:
        if not self.walk.steps:
            if isinstance(self.features, DenseOperator):
                return self.features.matrix[nodes]
            return on_device(self.features.matrix[nodes.cpu().numpy()].toarray(), np.float32, nodes.device)
        start = self.scale.new_zeros(len(self.scale), len(nodes))
        start[nodes, torch.arange(len(nodes), device=nodes.device)] = 1
        reached = self.walk(start)
        if isinstance(self.features, DenseOperator):
            return reached.T @ self.features.matrix
        return self.features.transposed.multiply(reached).T


@cached_per_graph
def propagated_features(
    graph: Graph, scaling: str, steps: int, restart: float, device: torch.device
) -> PropagatedFeatures:
    """Feature rows divided by their `scaling` (see `scaled_features`), `steps` along the walk, and divided again."""
    features = scaled_features(graph, scaling)
    walk = Walk(SparseOperator(normalized_adjacency(graph), device, symmetric=True), steps, restart)
    scale = torch.ones(graph.num_nodes, device=device)
    if steps and scaling != "none":
        sizes = _sizes(features, walk, scaling, device)
        scale = torch.where(sizes > MIN_ROW_SIZE, 1 / sizes, 1).float()
    return PropagatedFeatures(walk, operator(features, device), scale)


def _sizes(
    features: sp.csr_array | np.ndarray, walk: Walk, scaling: str, device: torch.device
) -> Float[Tensor, "nodes"]:
    """The length of every propagated row, or the sum of its absolute values, a few columns at a time."""
    nodes, columns = features.shape
    by_column = sp.csc_array(features) if sp.issparse(features) else features
    at_once = _columns_at_once(nodes, device)
    sizes = torch.zeros(nodes, dtype=torch.float64, device=device)
    for first in range(0, columns, at_once):
        some = by_column[:, first : first + at_once]
        moved = walk(on_device(sp.csc_array(some).toarray() if sp.issparse(some) else some, np.float32, device))
        sizes += (moved.square() if scaling == "length" else moved.abs()).sum(1)
    return sizes.sqrt() if scaling == "length" else sizes


def _columns_at_once(nodes: int, device: torch.device) -> int:
    """The number of columns propagated together."""
    if device.type == "cuda":
        return CUDA_COLUMNS
    return max(MIN_COLUMNS, CACHED_BYTES // (torch.float32.itemsize * max(1, nodes)))
