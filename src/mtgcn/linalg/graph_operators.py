"""Operators that graph networks need: Â, X and Â X on a device, for the whole graph or for a few nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import (
    adjacency_there,
    check_features,
    features_there,
    normalized,
    normalized_adjacency,
    scaled_features,
    scaled_rows,
    scaled_there,
)
from mtgcn.linalg.operators import DenseOperator, Operator, ResidentOperator, SparseOperator, chain, operator
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


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


@cached_per_graph
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


@dataclass(frozen=True, eq=False)
class ComputationBlock:
    """What a two-layer network must compute to know a few nodes of each run: Â X at their neighbours, then the
    rows of Â that lead from there to them. Each run has its own neighbours, so the rows of all runs are listed
    one after the other and the operators are block-diagonal over runs."""

    nodes: Int[Tensor, "rows"]  # the node of each row
    run_index: Int[Tensor, "rows"]  # and its run
    features: SparseOperator  # rows x (features · runs): Â X
    runs: SparseOperator  # rows x runs: gives each row what belongs to its run
    readout: SparseOperator  # (some · runs) x rows: Â


def computation_block(
    adjacency: sp.csr_array, smoothed: sp.csr_array | Tensor, index: Int[Tensor, "runs some"]
) -> ComputationBlock:
    """The block of the nodes `index`, given Â and Â X; an index below 0 is nobody's and gets an empty row."""
    device, runs = index.device, len(index)
    place, run_of_place = np.nonzero(index.T.cpu().numpy() >= 0)
    arrows = adjacency[index.cpu().numpy()[run_of_place, place]].tocoo()
    # A row of the block is a neighbour in a run; many arrows lead to the same one.
    neighbour = run_of_place[arrows.row].astype(np.int64) * adjacency.shape[0] + arrows.col
    distinct, column = np.unique(neighbour, return_inverse=True)
    run_index, node = np.divmod(distinct, adjacency.shape[0])
    inputs = sp.csr_array(smoothed[node] if sp.issparse(smoothed) else smoothed[torch.from_numpy(node)].cpu().numpy())
    run_of_entry = np.repeat(run_index, np.diff(inputs.indptr))

    def sparse(row: np.ndarray, column: np.ndarray, data: np.ndarray, shape: tuple[int, int]) -> SparseOperator:
        return SparseOperator(sp.csr_array((data, (row, column)), shape=shape, dtype=np.float32), device)

    return ComputationBlock(
        nodes=torch.from_numpy(node).to(device),
        run_index=torch.from_numpy(run_index).to(device),
        features=SparseOperator(
            sp.csr_array(
                (inputs.data, inputs.indices * runs + run_of_entry, inputs.indptr),
                shape=(len(node), smoothed.shape[1] * runs),
            ),
            device,
        ),
        runs=sparse(np.arange(len(node)), run_index, np.ones(len(node)), (len(node), runs)),
        readout=sparse((place * runs + run_of_place)[arrows.row], column, arrows.data, (index.numel(), len(node))),
    )
