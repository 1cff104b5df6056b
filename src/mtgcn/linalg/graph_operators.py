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
    check_features,
    device_adjacency,
    device_features,
    normalized,
    normalized_adjacency,
    scaled_features,
    scaled_on_device,
    scaled_rows,
)
from mtgcn.linalg.operators import DenseOperator, Operator, ResidentOperator, SparseOperator, chain, operator
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, eq=False)
class GraphOperators:
    """Â and X on a device; what takes time is computed on first use."""

    adjacency: SparseOperator  # Â
    features: sp.csr_array | np.ndarray  # X, scaled

    def feature_operator(self) -> Operator:
        """Scaled X on the device; on the CPU not cached, since it is a second copy."""
        return operator(self.features, self.adjacency.device)

    @cached_property
    def smoothed(self) -> sp.csr_array | Tensor:
        """Â X."""
        if sp.issparse(self.features):
            return self.adjacency.matrix @ self.features
        dense = self.feature_operator()
        assert isinstance(dense, DenseOperator), "as the features are"
        return _smoothed(self.adjacency, dense.matrix)

    @cached_property
    def input_chain(self) -> tuple[Operator, ...]:
        """Operators that, applied first to last, multiply by Â X."""
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
        """Operators from parts that were computed elsewhere."""
        operators = GraphOperators(adjacency, features)
        operators.__dict__.update(smoothed=smoothed, input_chain=input_chain)  # the values of the cached properties
        return operators


class ResidentOperators(GraphOperators):
    """Operators computed on a device from the matrices that lie there; `features` copies X to main memory."""

    def __init__(self, graph: Graph, scaling: str, device: torch.device) -> None:
        given = check_features(graph)
        adjacency = ResidentOperator(normalized(device_adjacency(graph, device)), symmetric=True)
        self._given: sp.csr_array | np.ndarray
        self._scaling: str
        self._there: Tensor | None
        there = device_features(graph, device) if isinstance(given, np.ndarray) else None
        # The class is frozen.
        vars(self).update(adjacency=adjacency, _given=given, _scaling=scaling, _there=there)

    @cached_property
    def features(self) -> sp.csr_array | np.ndarray:
        return scaled_rows(self._given, self._scaling)

    def feature_operator(self) -> Operator:
        # Scaling takes milliseconds; a cached copy would double the memory.
        return self._sparse if self._there is None else DenseOperator(scaled_on_device(self._there, self._scaling))

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
    """What a two-layer network computes for a few nodes of each run: Â X at their neighbours, then their rows of Â.
    The rows of all runs are concatenated, and the operators are block-diagonal over runs."""

    nodes: Int[Tensor, "rows"]  # node of each row
    run_index: Int[Tensor, "rows"]  # run of each row
    features: SparseOperator  # rows x (features · runs): Â X
    runs: SparseOperator  # rows x runs: selects the run of each row
    readout: SparseOperator  # (some · runs) x rows: Â


def computation_block(
    adjacency: sp.csr_array, smoothed: sp.csr_array | Tensor, index: Int[Tensor, "runs some"]
) -> ComputationBlock:
    """The block of the nodes `index`, given Â and Â X; a negative index gets an empty row."""
    device, runs = index.device, len(index)
    place, run_of_place = np.nonzero(index.T.cpu().numpy() >= 0)
    arrows = adjacency[index.cpu().numpy()[run_of_place, place]].tocoo()
    # A row of the block is a neighbour in a run, which many edges share.
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
