"""Truncated singular value decomposition: the leading right singular vectors of a matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.graph_operators import graph_operators
from mtgcn.linalg.operators import DenseOperator
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.shapes import Float

ROUNDS = 4  # of subspace iteration
OVERSAMPLING = 16  # additional vectors, which make the leading ones more exact
MAX_TABLE = 2**25  # numbers in a table of all nodes
MAX_STEP = 2**27  # numbers read by a product with the adjacency
MIN_COMPONENTS = 32


Product = Callable[[Tensor], Tensor]


def _orthonormal(columns: Tensor) -> Tensor:
    basis: Tensor = torch.linalg.qr(columns)[0]
    return basis


def _gram(rows: Tensor) -> Tensor:
    return rows.T @ rows


def leading_singular_vectors(
    product: Product,
    transposed: Product,
    count: int,
    start: Float[Tensor, "columns count_and_spare"],
    orthonormal: Product = _orthonormal,
    gram: Product = _gram,
) -> Float[Tensor, "columns count"]:
    """The `count` leading right singular vectors of a matrix, given by its products and those of its transpose.

    By subspace iteration (Halko, Martinsson and Tropp, 2011) from `start`, random columns of which `OVERSAMPLING` are
    additional. Signs and rotations depend on rounding; lengths and angles of projected rows do not. Where rows are
    distributed over processes, `orthonormal` and `gram` act on all of them.
    """
    basis = start
    for _ in range(ROUNDS):
        basis = orthonormal(transposed(product(basis)))
    _, turn = torch.linalg.eigh(gram(product(basis)).double())  # the largest come last
    return basis @ turn[:, -count:].to(basis.dtype)


@cached_per_graph
def feature_singular_vectors(
    graph: Graph, scaling: str, device: torch.device, wanted: int, steps: int = 0, restart: float = 0.0
) -> Float[Tensor, "features directions"]:
    """The leading right singular vectors of the scaled features, or of features propagated by `steps` steps of
    personalised PageRank; the identity if there are few features."""
    operators = graph_operators(graph, scaling, device)
    columns, count = graph.num_features, num_components(wanted, graph)
    if columns <= count:
        return torch.eye(columns, device=device)

    def walk(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, steps, restart) if steps else values

    along = operators.feature_operator()
    back = DenseOperator(along.matrix.T) if isinstance(along, DenseOperator) else along.transposed
    # Drawn by column, so that the order of nodes does not matter.
    start = np.random.default_rng(0).standard_normal((columns, count + OVERSAMPLING), dtype=np.float32)
    found = leading_singular_vectors(
        lambda values: walk(along(values)), lambda values: back(walk(values)), count, torch.from_numpy(start).to(device)
    )
    return with_fixed_signs(found)


def num_components(wanted: int, graph: Graph) -> int:
    """`wanted`, or fewer on large graphs, to bound memory and time."""
    nodes, entries = max(1, graph.num_nodes), max(1, round(graph.num_nodes * graph.mean_degree))
    return min(wanted, max(MIN_COMPONENTS, min(MAX_TABLE // nodes, MAX_STEP // entries)))


def with_fixed_signs(basis: Float[Tensor, "columns directions"]) -> Float[Tensor, "columns directions"]:
    """The vectors with signs that do not depend on rounding: positive products with a fixed random vector."""
    side = np.random.default_rng(1).standard_normal(len(basis))
    return basis * torch.from_numpy(side).to(basis).matmul(basis).sign()
