"""Products of the features, and of hidden layers, with the stacked weights of all runs and peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.operators import Operator, SparseOperator, reshaped
from mtgcn.nn.dropout import DropoutStream
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.task import Task


class InputProduct:
    """X Θ for the stacked Θ, or Â X Θ where `adjacency` is given: through `chain`, which multiplies by all of it, or,
    if dropout on X is asked for, through X and then Â."""

    def __init__(
        self,
        chain: tuple[Operator, ...],
        features: sp.csr_array | np.ndarray,
        adjacency: SparseOperator | None,
        task: Task,
        peers: int,
        dropout: float,
    ) -> None:
        self.chain, self.adjacency, self.rate = chain, adjacency, dropout
        self.cost = sum(operator.nnz for operator in chain)
        if dropout:
            self.features = SparseOperator(sp.csr_array(features), task.device)
            self.stream = DropoutStream(task.seeds, peers, dropout, task.device, label=0xD1)
            self.entries = torch.arange(self.features.nnz, device=task.device)

    def new_epoch(self) -> None:
        if self.rate:
            self.stream.advance()

    def __call__(
        self, weight: Float[Tensor, "features runs peers hidden"], *, drops: bool
    ) -> Float[Tensor, "nodes runs peers hidden"]:
        if self.rate and drops:
            product = self._dropped(weight)
            return product if self.adjacency is None else self.adjacency(product)
        for operator in self.chain:
            weight = operator(weight)
        return weight

    def _dropped(self, weight: Tensor) -> Tensor:
        # Every model drops other features, so here, and only here, models multiply one by one.
        weights = self.stream.kept(self.entries) / (1 - self.rate)  # entries, runs, peers
        _, runs, peers, _ = weight.shape
        products = [
            self.features.with_weights(weights[:, run, peer])(weight[:, run, peer].contiguous())
            for run in range(runs)
            for peer in range(peers)
        ]
        return torch.stack(products, 1).unflatten(1, (runs, peers))


def modelwise_product(
    hidden: Float[Tensor, "nodes runs peers hidden"], weight: Float[Tensor, "runs peers hidden classes"]
) -> Float[Tensor, "nodes classes runs peers"]:
    """Each model's hidden layer times that model's weights."""
    how = _BatchedProduct if hidden.is_cuda else _GroupedProduct
    product: Tensor = how.apply(hidden.flatten(1, 2), weight.flatten(0, 1))
    return reshaped(product, (*product.shape[:2], *weight.shape[:2]))


class _BatchedProduct(torch.autograd.Function):
    """One batched product over models. The weights' gradient sums over all nodes for a handful of numbers: cut into
    slices of the nodes it keeps a whole GPU busy, which it otherwise would not."""

    SLICES = 32

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return torch.bmm(hidden.transpose(0, 1), weight).permute(1, 2, 0).contiguous()  # nodes, classes, models

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, weight = ctx.saved_tensors
        gradient = gradient.transpose(1, 2).contiguous()  # nodes, models, classes
        for_hidden = torch.bmm(gradient.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1).contiguous()
        whole = len(hidden) // _BatchedProduct.SLICES * _BatchedProduct.SLICES
        for_weight = torch.einsum("nmh,nmk->mhk", hidden[whole:], gradient[whole:])
        if whole:
            sliced = (part[:whole].unflatten(0, (_BatchedProduct.SLICES, -1)) for part in (hidden, gradient))
            for_weight += torch.einsum("snmh,snmk->smhk", *sliced).sum(0)
        return for_hidden, for_weight


class _GroupedProduct(torch.autograd.Function):
    """Products with a handful of columns waste most of a vector unit. A few models at a time, as one product with
    a block-diagonal matrix, do several times the arithmetic in less than half the time."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        models, inputs, outputs = weight.shape
        group = next(size for size in (4, 5, 6, 3, 2, 1) if models % size == 0)
        blocks = weight.new_zeros(models // group, group, inputs, group, outputs)
        blocks.diagonal(dim1=1, dim2=3).copy_(weight.view(-1, group, inputs, outputs).permute(0, 2, 3, 1))
        ctx.save_for_backward(hidden, blocks)
        result = hidden.new_empty(len(hidden), models, outputs)
        for mine, block, theirs in _grouped(result, blocks, hidden):
            torch.mm(theirs, block, out=mine)
        return result.transpose(1, 2).contiguous()  # nodes, classes, models

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, blocks = ctx.saved_tensors
        gradient = gradient.transpose(1, 2).contiguous()
        for_hidden, for_blocks = torch.empty_like(hidden), torch.empty_like(blocks)
        for mine, block, theirs in _grouped(for_hidden, blocks, gradient):
            torch.mm(theirs, block.T, out=mine)
        for given, block, theirs in _grouped(hidden, for_blocks, gradient):
            torch.mm(given.T, theirs, out=block)
        return for_hidden, for_blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2).reshape(-1, *blocks.shape[2::2])


def _grouped(left: Tensor, blocks: Tensor, right: Tensor) -> Any:
    """Group by group: the columns of `left`, the block as a matrix, the columns of `right`."""
    count, group = blocks.shape[:2]
    return zip(
        left.view(len(left), count, -1).unbind(1),
        blocks.view(count, group * blocks.shape[2], -1).unbind(0),
        right.view(len(right), count, -1).unbind(1),
        strict=True,
    )
