"""Features of a graph without features, computed from its edges: leading eigenvectors of averaged random walks, and a
random code for each connected component."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from mtgcn.errors import InputError
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.node_keys import keyed_normal, node_keys, splitmix64
from mtgcn.linalg.normalisation import normalized_adjacency, relative_adjacency
from mtgcn.linalg.operators import SparseOperator, blocks_of_rows
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.graph import Graph

DIMENSIONS = 128
OF_COMPONENTS = 16  # columns that encode the connected component
MAX_WALK = 80
ROUNDS, STEPS = 2, 10  # rounds of subspace iteration, and products with Â in each
OVERSAMPLING = 8  # additional columns, which make the leading ones more exact
COLUMNS_AT_ONCE = 32  # columns multiplied together
NEGLIGIBLE = 1e-11  # smaller eigenvalues, relative to the largest, are rounding errors


def with_structural_features(graph: Graph, seed: int = 0) -> Graph:
    """The graph with its `structural_features`, cached by seed."""
    return _bare_with_structural_features(graph, seed).with_labels(graph.labels)


@cached_per_graph
def _bare_with_structural_features(graph: Graph, seed: int) -> Graph:
    return replace(graph, features=structural_features(graph, seed=seed))


def structural_features(
    graph: Graph, dimensions: int = DIMENSIONS, seed: int = 0
) -> Float[np.ndarray, "nodes dimensions"]:
    """At most `dimensions` features for each node; they are not comparable between graphs.

    With W = (Â + Â² + … + Â^T) / T, the average of walks of up to T steps, they are the leading eigenvectors of W,
    scaled by their eigenvalues. Every component has an eigenvector with eigenvalue 1, the square roots of degrees.
    These are projected out and replaced by `OF_COMPONENTS` columns with a random code for each component.

    Computed by subspace iteration (Halko, Martinsson and Tropp, 2011) from `node_keys`, so the node order does not
    matter. A million nodes take about a minute and little more memory than the result.
    """
    if graph.num_edges == 0:
        raise InputError("the graph has neither features nor edges between its nodes; give features or edges")
    keys = node_keys(graph)
    adjacency = SparseOperator(normalized_adjacency(graph), torch.device("cpu"), symmetric=True)
    # A unit column for each component: the square roots of its nodes' degrees in A + I.
    count, component = connected_components(graph.adjacency, directed=False)
    degree = relative_adjacency(graph).sum(axis=1, dtype=np.float64) + 1
    share = np.sqrt(degree / np.bincount(component, degree)[component]).astype(np.float32)
    components = sp.csr_array((share, component, np.arange(graph.num_nodes + 1)), shape=(graph.num_nodes, count))
    # A key for each component: the sum of its nodes' hashed keys, in any order.
    component_keys = torch.zeros(count, dtype=torch.int64).index_add_(0, torch.from_numpy(component), splitmix64(keys))
    of_components = min(OF_COMPONENTS, dimensions)
    code = components @ keyed_normal(component_keys, seed, of_components).numpy()
    most = dimensions - of_components
    # Everything below works in place, to save memory.
    features = keyed_normal(keys, seed, dimensions + OVERSAMPLING).numpy()
    basis = features[:, : min(most + OVERSAMPLING, graph.num_nodes)]

    def propagated(columns: slice, steps: int) -> np.ndarray:
        """Â^steps times these columns of the basis."""
        walked = torch.from_numpy(np.ascontiguousarray(basis[:, columns]))
        for _ in range(steps):
            walked = adjacency.multiply(walked)
        return walked.numpy()

    for _ in range(ROUNDS):
        for columns in blocks_of_rows(basis.shape[1], at_once=COLUMNS_AT_ONCE):
            walked = propagated(columns, STEPS)
            for _ in range(2):  # twice, against rounding errors
                walked -= components @ (components.T @ walked)
            basis[:, columns] = walked
        # Orthonormalise with the eigenvectors of the Gram matrix; dependent columns are dropped.
        products = sum(basis[rows].T.astype(np.float64) @ basis[rows] for rows in blocks_of_rows(len(basis)))
        lengths, combine = np.linalg.eigh(products)
        independent = lengths > NEGLIGIBLE * lengths.max(initial=np.finfo(np.float32).tiny)
        basis = _combined(basis, combine[:, independent] / np.sqrt(lengths[independent]))
    # The leading eigenvectors of W within the span of the basis, scaled by their eigenvalues.
    products = np.empty((basis.shape[1],) * 2)
    for columns in blocks_of_rows(basis.shape[1], at_once=COLUMNS_AT_ONCE):
        products[:, columns] = basis.T @ propagated(columns, 1)
    eigenvalues, combine = np.linalg.eigh((products + products.T) / 2)  # of Â
    strength = np.mean([eigenvalues**steps for steps in range(1, MAX_WALK + 1)], axis=0)  # of W
    strongest = np.argsort(-np.abs(strength), kind="stable")[:most]
    found = _combined(basis, combine[:, strongest] * strength[strongest]).shape[1]
    features[:, found : found + of_components] = code / np.sqrt(np.float32(of_components))
    return features[:, : found + of_components]


def _combined(columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """columns · weights, computed in place."""
    weights = weights.astype(np.float32)
    for rows in blocks_of_rows(len(columns)):
        columns[rows, : weights.shape[1]] = columns[rows] @ weights
    return columns[:, : weights.shape[1]]
