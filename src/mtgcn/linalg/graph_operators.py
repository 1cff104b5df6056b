"""The operators that networks need of a graph, made once for every scaling of its features and every device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import normalized_adjacency, scaled_features
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator, chain, on_device
from mtgcn.once_per_graph import once_per_graph
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """What a graph convolution needs of a graph on a device; the parts that cost time to make."""

    adjacency: SparseOperator  # Â
    features: sp.csr_array | np.ndarray  # X, scaled
    smoothed: sp.csr_array | Tensor  # Â X
    input_chain: tuple[Operator, ...]  # multiply by Â X


@once_per_graph
def graph_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    """The operators of a graph for a scaling of its features, on a device."""
    adjacency = SparseOperator(normalized_adjacency(graph), device, symmetric=True)
    features = scaled_features(graph, scaling)
    if sp.issparse(features):
        smoothed = adjacency.matrix @ features
        multiply_by_it: tuple[Operator, ...] = chain(adjacency, features, smoothed)
    else:
        smoothed = _smoothed(adjacency, on_device(features, np.float32, device))
        multiply_by_it = (DenseOperator(smoothed),)
    return GraphOperators(adjacency, features, smoothed, multiply_by_it)


COLUMNS_AT_ONCE = 32  # about as wide as what training will multiply, so that the same tiles serve


def _smoothed(adjacency: SparseOperator, features: Float[Tensor, "nodes features"]) -> Tensor:
    result = torch.empty_like(features)
    for mine, given in zip(result.split(COLUMNS_AT_ONCE, 1), features.split(COLUMNS_AT_ONCE, 1), strict=True):
        mine.copy_(adjacency.multiply(given.contiguous()))
    return result
