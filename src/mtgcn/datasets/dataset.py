"""`Dataset`, what readers return, and `Description`, its row in the table of datasets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from mtgcn.graph import Graph
from mtgcn.splits import Split


@dataclass(frozen=True, eq=False)
class Dataset:
    graph: Graph
    edges_listed: int  # as the source lists them, duplicates and self-edges included
    public_split: Split | None


def planetoid_split(train: int, test: np.ndarray) -> Split:
    """Planetoid's split: the first nodes for training, the next 500 for validation."""
    return Split(train=np.arange(train), validation=np.arange(train, train + 500), test=np.sort(test))


def undirected(sources: np.ndarray, targets: np.ndarray, nodes: int, *, self_loops: bool = True) -> sp.csr_array:
    """The symmetric adjacency with weight 1 for every listed edge; `self_loops` are kept unless it is False."""
    if not self_loops:
        sources, targets = (ends[sources != targets] for ends in (sources, targets))
    listed = sp.coo_array((np.ones(len(sources), np.float32), (sources, targets)), shape=(nodes, nodes)).tocsr()
    adjacency = listed + listed.T
    adjacency.data[:] = 1
    return adjacency


@dataclass(frozen=True)
class Description:
    """A dataset's row of the paper's table 1, and further statistics."""

    name: str
    nodes: int
    edges_listed: int  # the paper's "edges": duplicates and self-edges counted
    edges: int  # between two different nodes, each once
    self_loops: int
    classes: int
    features: int
    components: int
    nodes_without_label: int
    repeated_nodes: int  # with the same neighbours, two or more, and class as an earlier node
    location: Path | None  # None: no longer on disk


def described(dataset: Dataset, location: Path | None) -> Description:
    """The statistics of a dataset."""
    graph = dataset.graph
    components = connected_components(graph.adjacency, directed=False, return_labels=False)
    return Description(
        name=graph.name,
        nodes=graph.num_nodes,
        edges_listed=dataset.edges_listed,
        edges=graph.num_edges,
        self_loops=int(np.count_nonzero(graph.adjacency.diagonal())),
        classes=graph.num_classes,
        features=graph.num_features,
        components=int(components),
        nodes_without_label=graph.num_nodes - len(graph.known),
        repeated_nodes=repeated_nodes(graph),
        location=location,
    )


def repeated_nodes(graph: Graph) -> int:
    """The number of nodes with the neighbours and the class of an earlier node, self-loops aside.

    Such copies leak labels from training to test nodes (Platonov et al., 2023). Nodes with a single neighbour do not
    count: the leaves of a hub are not copies.
    """
    entries = graph.adjacency.tocoo()
    neighbours = undirected(entries.row, entries.col, graph.num_nodes, self_loops=False)
    neighbours.sort_indices()
    seen: set[tuple[bytes, int]] = set()
    comparable = 0
    for node in graph.known:
        listed = neighbours.indices[neighbours.indptr[node] : neighbours.indptr[node + 1]]
        if len(listed) > 1:
            comparable += 1
            seen.add((listed.tobytes(), int(graph.labels[node])))
    return comparable - len(seen)
