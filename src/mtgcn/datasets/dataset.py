"""What every reader of files gives: a graph, and what is known of it beyond the graph itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.splits import Split


@dataclass(frozen=True, eq=False)
class Dataset:
    graph: Graph
    edges_listed: int  # as the source lists them, duplicates and self-edges included
    public_split: Split | None


def planetoid_split(train: int, test: np.ndarray) -> Split:
    """Planetoid's division: the first nodes are for training, the next 500 for validation."""
    return Split(train=np.arange(train), validation=np.arange(train, train + 500), test=np.sort(test))


def undirected(sources: np.ndarray, targets: np.ndarray, nodes: int) -> sp.csr_array:
    """Edges in both directions with weight 1, however often and whichever way round they are listed."""
    listed = sp.coo_array((np.ones(len(sources), np.float32), (sources, targets)), shape=(nodes, nodes)).tocsr()
    adjacency = listed + listed.T
    adjacency.data[:] = 1
    return adjacency


def without_self_loops(sources: np.ndarray, targets: np.ndarray, nodes: int) -> sp.csr_array:
    """`undirected`, but an edge has two different ends."""
    between = sources != targets
    return undirected(sources[between], targets[between], nodes)
