"""The directions in which the rows of a matrix differ most: its leading right singular vectors."""

from __future__ import annotations

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
    basis = torch.from_numpy(start).to(device)
    for _ in range(ROUNDS):
        basis = torch.linalg.qr(transposed(product(basis)))[0]
    rows = product(basis)
    _, turn = torch.linalg.eigh((rows.T @ rows).double())  # the largest come last
    return basis @ turn[:, -count:].float()


def _operator(matrix: sp.csr_array | np.ndarray, device: torch.device) -> SparseOperator | DenseOperator:
    if isinstance(matrix, np.ndarray):
        return DenseOperator(torch.from_numpy(np.array(matrix, dtype=np.float32)).to(device))
    return SparseOperator(matrix, device)
