"""Random walks along the edges of a graph, many at a time."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from mtgcn.shapes import Int


def random_walks(
    adjacency: sp.csr_array, starts: Int[np.ndarray, "walks"], length: int, random: np.random.Generator
) -> Int[np.ndarray, "walks length"]:
    """Walks over so many nodes, the start included: every step takes an edge with a probability proportional to its
    weight. Every start must have an edge; there is always a way back, so no walk gets stuck.

    >>> pair = sp.csr_array(np.array([[0, 1], [1, 0]]))
    >>> random_walks(pair, np.array([0, 1]), 4, np.random.default_rng(0))
    array([[0, 1, 0, 1],
           [1, 0, 1, 0]], dtype=int32)
    """
    row_starts = adjacency.indptr.astype(np.int64)
    # Edges side by side on a line, each as long as its weight: a step is a throw at the stretch of its node.
    line = np.concatenate([[0.0], np.cumsum(adjacency.data, dtype=np.float64)])
    visited = np.empty((length, len(starts)), dtype=np.int32)
    visited[0] = starts
    for step in range(1, length):
        at = visited[step - 1]
        left, right = line[row_starts[at]], line[row_starts[at + 1]]
        thrown = left + random.random(len(at)) * (right - left)
        edge = np.searchsorted(line, thrown, side="right") - 1
        visited[step] = adjacency.indices[np.minimum(edge, row_starts[at + 1] - 1)]  # rounding may hit the very end
    return np.ascontiguousarray(visited.T)
