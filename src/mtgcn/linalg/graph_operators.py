"""The operators that networks need of a graph, made once for every scaling of its features and every device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import normalized_adjacency, scaled_features
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator, chain, on_device
from mtgcn.once_per_graph import once_per_graph
from mtgcn.shapes import Float
from mtgcn.work import Work

if TYPE_CHECKING:
    from mtgcn.graph import Graph

MET_LIKE = 30  # passes over a number take as long as adding up one entry in a product of two sparse matrices


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """What a graph convolution needs of a graph on a device; the parts that cost time to make."""

    adjacency: SparseOperator  # Â
    features: sp.csr_array | np.ndarray  # X, scaled

    @cached_property
    def smoothed(self) -> sp.csr_array | Tensor:
        """Â X; not everybody needs it, and on a large graph it takes long."""
        if sp.issparse(self.features):
            return self.adjacency.matrix @ self.features
        return _smoothed(self.adjacency, on_device(self.features, np.float32, self.adjacency.device))

    @cached_property
    def input_chain(self) -> tuple[Operator, ...]:
        """Multiply by Â X."""
        if isinstance(self.smoothed, Tensor):
            return (DenseOperator(self.smoothed),)
        return chain(self.adjacency, self.features, self.smoothed)

    @staticmethod
    def of_parts(
        adjacency: SparseOperator,
        features: sp.csr_array | np.ndarray,
        smoothed: sp.csr_array | Tensor,
        input_chain: tuple[Operator, ...],
    ) -> GraphOperators:
        """With parts that somebody has made in another way."""
        operators = GraphOperators(adjacency, features)
        operators.__dict__.update(smoothed=smoothed, input_chain=input_chain)  # where cached properties are looked for
        return operators


@once_per_graph
def graph_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    """The operators of a graph for a scaling of its features, on a device."""
    adjacency = SparseOperator(normalized_adjacency(graph), device, symmetric=True)
    return GraphOperators(adjacency, scaled_features(graph, scaling))


def work_of_operators(graph: Graph) -> Work:
    """What all of them take to be made, Â X included."""
    if graph.features is None:
        return Work()
    if isinstance(graph.features, np.ndarray):
        return Work(gathered=graph.adjacency.nnz * graph.num_features, touched=10 * graph.adjacency.nnz)
    met = graph.adjacency.nnz * graph.features.nnz / max(1, graph.num_nodes)  # entries of the neighbours' rows
    return Work(touched=MET_LIKE * met + 10 * graph.adjacency.nnz)


COLUMNS_AT_ONCE = 32  # about as wide as what training will multiply, so that the same tiles serve


def _smoothed(adjacency: SparseOperator, features: Float[Tensor, "nodes features"]) -> Tensor:
    result = torch.empty_like(features)
    for mine, given in zip(result.split(COLUMNS_AT_ONCE, 1), features.split(COLUMNS_AT_ONCE, 1), strict=True):
        mine.copy_(adjacency.multiply(given.contiguous()))
    return result
