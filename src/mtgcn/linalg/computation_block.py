"""The part of a graph that must be computed to know a few nodes of each run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.operators import SparseOperator
from mtgcn.shapes import Int


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
