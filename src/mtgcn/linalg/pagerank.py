"""Personalised PageRank (Gasteiger et al., 2019), features propagated by it, and their leading singular vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS
from mtgcn.graph import Graph
from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.normalisation import graph_operators
from mtgcn.linalg.operators import SparseOperator, reshaped
from mtgcn.shapes import Float

CACHED_BYTES = 8 * 2**20  # bytes of values that stay in the cache through all steps
MIN_COLUMNS = 16  # fewest columns propagated together; fewer waste memory bandwidth
SVD_ROUNDS = 4  # rounds of subspace iteration
OVERSAMPLING = 16  # additional vectors, which make the leading ones more exact
MAX_TABLE = 2**25  # most numbers in a table of all nodes
MAX_STEP = 2**27  # most numbers read by a product with the adjacency
MIN_COMPONENTS = 32

Product = Callable[[Tensor], Tensor]


def personalized_page_rank(
    start: Float[Tensor, "nodes *rest"], adjacency: SparseOperator, steps: int, restart: float
) -> Float[Tensor, "nodes *rest"]:
    """`steps` iterations of x := (1 - restart) Â x + restart · start.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> pair = SparseOperator(sp.csr_array(np.full((2, 2), 0.5)), torch.device("cpu"), symmetric=True)
    >>> personalized_page_rank(torch.tensor([1.0, 0.0]), pair, steps=1, restart=0.25)
    tensor([0.6250, 0.3750])
    """
    if not steps:
        return start
    result: Tensor = _PageRank.apply(start.reshape(len(start), -1), adjacency, steps, restart)
    return reshaped(result, start.shape)


class _PageRank(torch.autograd.Function):
    """A polynomial of Â. It is symmetric, so the gradient is computed by the same function."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, adjacency: SparseOperator, steps: int, restart: float) -> Tensor:
        ctx.walk = adjacency, steps, restart
        # On the CPU, as many columns are propagated together as fit into the cache.
        columns_at_once = max(MIN_COLUMNS, CACHED_BYTES // (start.element_size() * adjacency.max_rows))
        if start.is_cuda or columns_at_once >= start.shape[1]:
            return _walked(start, adjacency, steps, restart)
        result = torch.empty_like(start, memory_format=torch.contiguous_format)
        for mine, given in zip(result.split(columns_at_once, 1), start.split(columns_at_once, 1), strict=True):
            mine.copy_(_walked(given, adjacency, steps, restart))
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _PageRank.forward(ctx, gradient, *ctx.walk), None, None, None


def _walked(start: Tensor, adjacency: SparseOperator, steps: int, restart: float) -> Tensor:
    start = place = start.contiguous()
    for _ in range(steps):
        place = adjacency.multiply(place)
        if restart:
            place.mul_(1 - restart).add_(start, alpha=restart)
    return place


def leading_singular_vectors(
    product: Product,
    transposed: Product,
    count: int,
    start: Float[Tensor, "columns count_and_spare"],
    orthonormal: Product = ONE_PROCESS.orthonormal,
    gram: Product = ONE_PROCESS.gram,
) -> Float[Tensor, "columns count"]:
    """The `count` leading right singular vectors of a matrix, given by products with it and with its transpose.

    Computed by subspace iteration (Halko, Martinsson and Tropp, 2011) from `start`: random columns, `OVERSAMPLING` more
    than `count`. Signs and rotations depend on rounding; lengths and angles of projected rows do not. Where rows are
    distributed over processes, `orthonormal` and `gram` act on all of them.
    """
    basis = start
    for _ in range(SVD_ROUNDS):
        basis = orthonormal(transposed(product(basis)))
    _, rotation = torch.linalg.eigh(gram(product(basis)).double())  # in ascending order of the eigenvalues
    return basis @ rotation[:, -count:].to(basis.dtype)


@cached_per_graph
def feature_singular_vectors(
    graph: Graph, scaling: str, device: torch.device, wanted: int, steps: int = 0, restart: float = 0.0
) -> Float[Tensor, "features directions"]:
    """The leading right singular vectors of the scaled features, or of features propagated by `steps` steps of
    personalised PageRank; the identity if there are few features."""
    communicator, operators = graph.communicator, graph_operators(graph, scaling, device)
    columns, count, dtype = graph.num_features, num_components(wanted, graph), communicator.dtype
    if columns <= count:
        return torch.eye(columns, device=device, dtype=dtype)
    adjacency, along = operators.adjacency.to(dtype), operators.feature_operator().to(dtype)
    back = along.transposed
    # Drawn by feature column, so that the node order does not matter.
    start = np.random.default_rng(0).standard_normal((columns, count + OVERSAMPLING), dtype=np.float32)
    found = leading_singular_vectors(
        lambda values: personalized_page_rank(along(values), adjacency, steps, restart),
        lambda values: communicator.sum(back(personalized_page_rank(values, adjacency, steps, restart))),
        count,
        torch.from_numpy(start).to(device, dtype),
        gram=communicator.gram,
    )
    # Fix the signs independently of rounding: products with a fixed random vector are positive.
    side = np.random.default_rng(1).standard_normal(columns)
    return found * torch.from_numpy(side).to(found).matmul(found).sign()


def num_components(wanted: int, graph: Graph) -> int:
    """`wanted`, or fewer on large graphs, to bound memory and time."""
    nodes, entries = max(1, graph.num_nodes), max(1, round(graph.num_nodes * graph.mean_degree))
    return min(wanted, max(MIN_COMPONENTS, min(MAX_TABLE // nodes, MAX_STEP // entries)))
