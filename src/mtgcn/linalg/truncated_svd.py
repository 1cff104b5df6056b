"""The directions in which the rows of a matrix differ most: its leading right singular vectors."""

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

ROUNDS = 4  # of subspace iteration; more change no accuracy
SPARE = 16  # directions searched for beside those kept, which makes the kept ones more exact
LARGEST_TABLE = 2**25  # numbers in a table of all nodes; large graphs keep fewer directions
LARGEST_STEP = 2**27  # numbers that a step along all edges reads; those with many edges, too
FEWEST_DIRECTIONS = 32


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
    """An orthonormal basis of about the `count` leading directions of a matrix that is known by what products with it
    and with its transpose are: `product(basis)` keeps most of each row.

    By subspace iteration (Halko, Martinsson and Tropp, 2011) from the numbers in `start`, random ones with `SPARE`
    columns more than are kept. Which basis of these directions it is depends on rounding; lengths and angles of rows in
    it do not. Where rows are spread over many processes, `orthonormal` and `gram` know how to look at all of them.
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
    """The directions in which the features of nodes differ most, or those of their surroundings: features after so many
    steps of a walk that goes back to where it began with the probability `restart`. All where there are few."""
    operators = graph_operators(graph, scaling, device)
    columns, count = graph.num_features, num_components(wanted, graph)
    if columns <= count:
        return torch.eye(columns, device=device)

    def walk(values: Tensor) -> Tensor:
        return personalized_page_rank(values, operators.adjacency, steps, restart) if steps else values

    along = operators.feature_operator()
    back = DenseOperator(along.matrix.T) if isinstance(along, DenseOperator) else along.transposed
    # The start is drawn by column, so that it does not know the order of nodes.
    start = np.random.default_rng(0).standard_normal((columns, count + SPARE), dtype=np.float32)
    found = leading_singular_vectors(
        lambda values: walk(along(values)), lambda values: back(walk(values)), count, torch.from_numpy(start).to(device)
    )
    return with_fixed_signs(found)


def num_components(wanted: int, graph: Graph) -> int:
    """So many directions, fewer on large graphs."""
    nodes, entries = max(1, graph.num_nodes), max(1, round(graph.num_nodes * graph.mean_degree))
    return min(wanted, max(FEWEST_DIRECTIONS, min(LARGEST_TABLE // nodes, LARGEST_STEP // entries)))


def with_fixed_signs(basis: Float[Tensor, "columns directions"]) -> Float[Tensor, "columns directions"]:
    """Each direction or its opposite, whichever lies on one side of the origin: which of the two is found depends on
    rounding, and who learns from them step by step should not."""
    side = np.random.default_rng(1).standard_normal(len(basis))
    return basis * torch.from_numpy(side).to(basis).matmul(basis).sign()
