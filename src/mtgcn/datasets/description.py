"""What `mtgcn datasets` tells of a graph: the paper's table 1, and what that table leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from mtgcn.datasets.dataset import Dataset
from mtgcn.graph import Graph


@dataclass(frozen=True)
class Description:
    """A dataset's row of the paper's table 1, and what that table leaves out."""

    name: str
    nodes: int
    edges_listed: int  # the paper's "edges": duplicates and self-edges counted
    edges: int  # between two different nodes, each once
    self_loops: int
    classes: int
    features: int
    components: int
    nodes_without_label: int
    repeated_nodes: int  # with the neighbours, two or more, and the class of an earlier node
    location: Path | None  # None: no longer on disk


def described(dataset: Dataset, location: Path | None) -> Description:
    """Count what the graph holds."""
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
    """How many nodes have the neighbours and the class of an earlier node, self-loops aside.

    What is learned of one of them is the answer for the others, wherever a split puts them (Platonov et al., 2023).
    Nodes of a single neighbour do not count: many leaves of one hub are no copies of each other.
    """
    entries = graph.adjacency.tocoo()
    between = entries.row != entries.col
    neighbours = sp.csr_array((entries.data[between], (entries.row[between], entries.col[between])), entries.shape)
    neighbours.sort_indices()
    seen: set[tuple[bytes, int]] = set()
    comparable = 0
    for node in graph.known:
        listed = neighbours.indices[neighbours.indptr[node] : neighbours.indptr[node + 1]]
        if len(listed) > 1:
            comparable += 1
            seen.add((listed.tobytes(), int(graph.labels[node])))
    return comparable - len(seen)
