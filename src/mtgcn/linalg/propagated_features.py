"""Feature rows after a walk along the edges, each scaled again, without ever holding them all.

However sparse the features are, what a long walk makes of them is dense: on a graph of ten thousand nodes and columns,
half a gigabyte. What is asked of them is less: how large each is, what a few are, and their products with a matrix
of weights, and for these it is enough to take a few columns along the walk at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph_cache import once_per_graph
from mtgcn.linalg.normalisation import SMALLEST_SIZE, normalized_adjacency, scaled_features
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator, operator
from mtgcn.linalg.pagerank import cached_columns, personalized_page_rank
from mtgcn.linalg.transfers import on_device
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph

CUDA_COLUMNS = 512  # taken along the walk together


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
        """All rows · weight: the product takes the walk, not the rows."""
        moved = self.walk(self.features(weight))
        return moved * self.scale.view(-1, *[1] * (weight.ndim - 1))

    def rows_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "runs some features"]:
        """The rows of some nodes; those of MISSING are node 0's, for the caller to ignore.

        A row of the walk is a column of it, as it is symmetric: where a walk from that node alone goes.
        """
        nodes, place = index.clamp(min=0).unique(return_inverse=True)
        rows = torch.cat([self._rows(some) for some in nodes.split(_columns_at_once(len(self.scale), index.device))])
        return (rows * self.scale[nodes, None])[place]

    def _rows(self, nodes: Int[Tensor, "some"]) -> Float[Tensor, "some features"]:
        if not self.walk.steps:
            return _rows_of(self.features, nodes)
        start = self.scale.new_zeros(len(self.scale), len(nodes))
        start[nodes, torch.arange(len(nodes), device=nodes.device)] = 1
        reached = self.walk(start)
        if isinstance(self.features, DenseOperator):
            return reached.T @ self.features.matrix
        return self.features.transposed.multiply(reached).T


def _rows_of(features: Operator, nodes: Int[Tensor, "some"]) -> Float[Tensor, "some features"]:
    if isinstance(features, DenseOperator):
        return features.matrix[nodes]
    return on_device(features.matrix[nodes.cpu().numpy()].toarray(), np.float32, nodes.device)


@once_per_graph
def propagated_features(
    graph: Graph, scaling: str, steps: int, restart: float, device: torch.device
) -> PropagatedFeatures:
    """Feature rows divided by their `scaling` (see `scaled_features`), `steps` along the walk, and divided again."""
    features = scaled_features(graph, scaling)
    walk = Walk(SparseOperator(normalized_adjacency(graph), device, symmetric=True), steps, restart)
    scale = torch.ones(graph.num_nodes, device=device)
    if steps and scaling != "none":
        sizes = _sizes(features, walk, scaling, device)
        scale = torch.where(sizes > SMALLEST_SIZE, 1 / sizes, 1).float()
    return PropagatedFeatures(walk, operator(features, device), scale)


def _sizes(
    features: sp.csr_array | np.ndarray, walk: Walk, scaling: str, device: torch.device
) -> Float[Tensor, "nodes"]:
    """The length of every row after the walk, or the sum of its absolute values."""
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
    """As many as a walk takes along together."""
    return CUDA_COLUMNS if device.type == "cuda" else cached_columns(nodes)
