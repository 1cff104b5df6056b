"""The operators that networks need of a graph, made once for every scaling of its features and every device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph_cache import once_per_graph
from mtgcn.linalg.device_graph import adjacency_there, features_there, normalized, scaled_there
from mtgcn.linalg.normalisation import check_features, normalized_adjacency, scaled_features, scaled_rows
from mtgcn.linalg.operators import DenseOperator, Operator, ResidentOperator, SparseOperator, chain, operator
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph

MET_LIKE = 30  # passes over a number take as long as adding up one entry in a product of two sparse matrices


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """What a graph convolution needs of a graph on a device; the parts that cost time to make."""

    adjacency: SparseOperator  # Â
    features: sp.csr_array | np.ndarray  # X, scaled

    def feature_operator(self) -> Operator:
        """X, scaled, on the device; on the processor made anew for whoever asks, since it is a second copy."""
        return operator(self.features, self.adjacency.device)

    @cached_property
    def smoothed(self) -> sp.csr_array | Tensor:
        """Â X; not everybody needs it, and on a large graph it takes long."""
        if sp.issparse(self.features):
            return self.adjacency.matrix @ self.features
        dense = self.feature_operator()
        assert isinstance(dense, DenseOperator), "as the features are"
        return _smoothed(self.adjacency, dense.matrix)

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


class ResidentOperators(GraphOperators):
    """The same of a graph that was moved to a device, made there. Scaled features come to lie in main memory only if
    somebody asks for them there."""

    def __init__(self, graph: Graph, scaling: str, device: torch.device) -> None:
        given = check_features(graph)
        adjacency = ResidentOperator(normalized(adjacency_there(graph, device)), symmetric=True)
        self._given: sp.csr_array | np.ndarray
        self._scaling: str
        self._there: Tensor | None
        there = features_there(graph, device) if isinstance(given, np.ndarray) else None
        # Where cached properties are looked for, since it is frozen.
        vars(self).update(adjacency=adjacency, _given=given, _scaling=scaling, _there=there)

    @cached_property
    def features(self) -> sp.csr_array | np.ndarray:
        return scaled_rows(self._given, self._scaling)

    def feature_operator(self) -> Operator:
        # To divide dense features again takes a few milliseconds, and to keep them as much memory as they do.
        return self._sparse if self._there is None else DenseOperator(scaled_there(self._there, self._scaling))

    @cached_property
    def _sparse(self) -> Operator:
        return super().feature_operator()


@once_per_graph
def graph_operators(graph: Graph, scaling: str, device: torch.device) -> GraphOperators:
    """The operators of a graph for a scaling of its features, on a device."""
    if device.type != "cpu":
        return ResidentOperators(graph, scaling, device)
    adjacency = SparseOperator(normalized_adjacency(graph), device, symmetric=True)
    return GraphOperators(adjacency, scaled_features(graph, scaling))


COLUMNS_AT_ONCE = 32  # about as wide as what training will multiply, so that the same tiles serve


def _smoothed(adjacency: SparseOperator, features: Float[Tensor, "nodes features"]) -> Tensor:
    result = torch.empty_like(features)
    for mine, given in zip(result.split(COLUMNS_AT_ONCE, 1), features.split(COLUMNS_AT_ONCE, 1), strict=True):
        mine.copy_(adjacency.multiply(given.contiguous()))
    return result
