"""Normalised adjacency and Laplacian of a graph, and scaled feature rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackError, eigsh

from mtgcn.errors import InputError
from mtgcn.graph_cache import once_per_graph
from mtgcn.linalg.blocks import blocks_of_entries, each_block

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@once_per_graph
def normalized_adjacency(graph: Graph) -> sp.csr_array:
    """Â = D̃^-1/2 (A + I) D̃^-1/2, with D̃ the row sums of A + I (Kipf and Welling, 2017).

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> normalized_adjacency(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float32)
    """
    with_self = (graph.adjacency + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")).tocsr()
    degrees = with_self.sum(axis=1)
    starts, indices, data = with_self.indptr, with_self.indices, with_self.data

    def divide(rows: slice) -> None:
        entries = slice(starts[rows.start], starts[rows.stop])
        of_row = np.repeat(degrees[rows], np.diff(starts[rows.start : rows.stop + 1]))
        data[entries] /= np.sqrt(of_row * degrees[indices[entries]])

    each_block(blocks_of_entries(starts), divide)
    return with_self


def normalized_laplacian(graph: Graph) -> sp.csr_array:
    """L = I - D^-1/2 A D^-1/2, D the row sums of A; a node without edges has 1 on the diagonal and nothing else."""
    adjacency = graph.adjacency.astype(np.float64)
    degrees = adjacency.sum(axis=1)
    scale = sp.diags_array(np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0))
    laplacian = sp.csr_array(sp.eye_array(graph.num_nodes) - scale @ adjacency @ scale)
    laplacian.eliminate_zeros()
    return laplacian


@once_per_graph
def scaled_laplacian(graph: Graph) -> sp.csr_array:
    """L̃ = 2 L / λ - I, λ the largest eigenvalue of L, so that the eigenvalues of L̃ lie between -1 and 1 (Defferrard
    et al., 2016).

    >>> import numpy as np
    >>> from mtgcn.graph import Graph
    >>> scaled_laplacian(Graph(adjacency=np.array([[0, 1], [1, 0]]))).toarray()
    array([[ 0., -1.],
           [-1.,  0.]], dtype=float32)
    """
    laplacian = normalized_laplacian(graph)
    # Of self-loops alone the Laplacian is 0, and so are its eigenvalues; any number scales it.
    largest = _largest_eigenvalue(laplacian) if laplacian.nnz else LARGEST_POSSIBLE
    scaled = 2 / (largest if largest > SMALLEST_EIGENVALUE else LARGEST_POSSIBLE) * laplacian
    scaled = scaled - sp.eye_array(graph.num_nodes)
    return sp.csr_array(scaled, dtype=np.float32)


LARGEST_POSSIBLE = 2.0  # eigenvalue of a normalised Laplacian
SMALLEST_EIGENVALUE = 1e-9  # that is more than the rounding of 0
FEWEST_FOR_LANCZOS = 100  # of smaller matrices all eigenvalues are found as fast


def _largest_eigenvalue(matrix: sp.csr_array) -> float:
    nodes = matrix.shape[0]
    if nodes < FEWEST_FOR_LANCZOS:
        return float(np.linalg.eigvalsh(matrix.toarray())[-1])
    start = np.random.default_rng(0).random(nodes)  # any will do, but always the same one
    try:
        return float(eigsh(matrix, 1, which="LA", v0=start, return_eigenvectors=False)[0])
    except ArpackError:  # it does not settle where weights differ by many powers of ten; the bound scales as well
        return LARGEST_POSSIBLE


SMALLEST_SIZE = 1e-30  # of a feature row that is scaled


def scaled_features(graph: Graph, scaling: str) -> sp.csr_array | np.ndarray:
    """Feature rows divided by the `"sum"` of their absolute values, by their `"length"`, or as they are: `"none"`."""
    return scaled_rows(check_features(graph), scaling)


def check_features(graph: Graph) -> sp.csr_array | np.ndarray:
    """The features, if there are any."""
    if graph.features is None:
        raise InputError("this method needs node features and the graph has none; give features, or use lp")
    return graph.features


def scaled_rows(features: sp.csr_array | np.ndarray, scaling: str) -> sp.csr_array | np.ndarray:
    """The same of any rows. One whose divisor is 0, or too small to divide by in 32 bits, stays as it is."""
    if scaling == "none":
        return features
    sizes = (features * features).sum(axis=1) ** 0.5 if scaling == "length" else abs(features).sum(axis=1)
    sizes = np.asarray(sizes, dtype=np.float32).reshape(-1)
    scale = np.divide(1, sizes, out=np.ones_like(sizes), where=sizes > SMALLEST_SIZE)
    if sp.issparse(features):
        return sp.csr_array(sp.diags_array(scale) @ features, dtype=np.float32)
    return np.asarray(features * scale[:, None])
