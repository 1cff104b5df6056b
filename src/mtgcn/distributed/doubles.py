"""Products in 64 bits, for what is trained long enough to make a last digit a visible difference.

Sums over ranks are cut where the graph is, and another cut rounds otherwise. Hundreds of epochs of training an encoder
make 1e-7 a percent of some probabilities; 1e-16 they leave invisible. So encoders are trained in 64 bits, and so is
found what they see; except on GPUs, whose sums are not the same twice anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.distributed.exchange import Boundary, SharedOperator
from mtgcn.linalg.operators import DenseOperator, Operator, SparseOperator
from mtgcn.shapes import Float


@dataclass(frozen=True, eq=False)
class DoubleOperator(SparseOperator):
    """A sparse operator of 64 bits on the CPU, with the boundary of a shared one where it has any."""

    boundary: Boundary | None = None

    def multiply(self, x: Float[Tensor, "columns width"]) -> Float[Tensor, "rows width"]:
        if self.boundary is not None:
            x = self.boundary.beside(x)
        return torch.from_numpy(self.matrix @ x.detach().numpy())

    @property
    def max_rows(self) -> int:
        return super().max_rows if self.boundary is None else max(1, self.boundary.max_rows)

    @cached_property
    def transposed(self) -> SparseOperator:
        if self.symmetric:
            return self
        return DoubleOperator(sp.csr_array(self.matrix.T.tocsr()), self.device)


def in_doubles(operator: Operator) -> Operator:
    """The same operator in 64 bits; on a GPU it stays as it is."""
    if isinstance(operator, DenseOperator):
        return operator if operator.matrix.is_cuda else DenseOperator(operator.matrix.double())
    return shared_in_doubles(operator)


def shared_in_doubles(operator: SparseOperator) -> SparseOperator:
    """The same of a sparse operator, with its boundary."""
    if operator.device.type == "cuda":
        return operator
    boundary = operator.boundary if isinstance(operator, SharedOperator) else None
    matrix = sp.csr_array(operator.matrix, dtype=np.float64)
    return DoubleOperator(matrix, operator.device, operator.symmetric, boundary)
