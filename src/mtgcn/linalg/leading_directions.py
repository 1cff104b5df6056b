"""The directions in which the rows of a matrix differ most: its leading right singular vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.operators import DenseOperator, SparseOperator
from mtgcn.shapes import Float

ROUNDS = 4  # of subspace iteration; more change no accuracy
SPARE = 16  # directions searched for beside those kept, which makes the kept ones more exact


def leading_directions(
    matrix: sp.csr_array | np.ndarray,
    count: int,
    start: Float[np.ndarray, "columns count_and_spare"],
    device: torch.device,
) -> Float[Tensor, "columns count"]:
    """An orthonormal basis of about the `count` leading directions, so that `matrix @ basis` keeps most of each row.

    By subspace iteration (Halko, Martinsson and Tropp, 2011) from the numbers in `start`, random ones with `SPARE`
    columns more than are kept. Which basis of these directions it is depends on rounding; lengths and angles of rows in
    it do not.
    """
    product = _operator(matrix, device)
    transposed = DenseOperator(product.matrix.T) if isinstance(product, DenseOperator) else product.transposed
    return directions_by_products(
        lambda basis: transposed(product(basis)), product, count, torch.from_numpy(start).to(device)
    )


def _orthonormal(columns: Tensor) -> Tensor:
    basis: Tensor = torch.linalg.qr(columns)[0]
    return basis


def _gram(rows: Tensor) -> Tensor:
    return rows.T @ rows


def directions_by_products(
    there_and_back: Callable[[Tensor], Tensor],
    product: Callable[[Tensor], Tensor],
    count: int,
    start: Float[Tensor, "columns count_and_spare"],
    orthonormal: Callable[[Tensor], Tensor] = _orthonormal,
    gram: Callable[[Tensor], Tensor] = _gram,
) -> Float[Tensor, "columns count"]:
    """The same of a matrix M that is known by its products: `there_and_back` gives MᵀM · basis, `product` M · basis.
    Where rows are spread over many processes, `orthonormal` and `gram` know how to look at all of them."""
    basis = start
    for _ in range(ROUNDS):
        basis = orthonormal(there_and_back(basis))
    _, turn = torch.linalg.eigh(gram(product(basis)).double())  # the largest come last
    return basis @ turn[:, -count:].float()


def _operator(matrix: sp.csr_array | np.ndarray, device: torch.device) -> SparseOperator | DenseOperator:
    if isinstance(matrix, np.ndarray):
        return DenseOperator(torch.from_numpy(np.array(matrix, dtype=np.float32)).to(device))
    return SparseOperator(matrix, device)
