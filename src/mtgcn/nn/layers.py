"""Building blocks of stacked networks: initial weights, dropout and products with stacked weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.operators import Operator, SparseOperator, reshaped
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.task import Task


def uniform(seeds: Sequence[int], shape: Sequence[int], bound: float, label: int) -> Float[Tensor, "runs *shape"]:
    """Uniform random numbers in (-bound, bound), drawn from the seed of each run; `label` distinguishes parameters."""
    draws = np.empty((len(seeds), *shape), dtype=np.float32)
    for seed, draw in zip(seeds, draws, strict=True):
        np.random.default_rng([seed, label]).random(out=draw, dtype=np.float32)
        draw -= 0.5
        draw *= 2 * bound
    return torch.from_numpy(draws)


class ReluDropout(torch.autograd.Function):
    """ReLU and dropout, in place. The gradient passes where the result is not 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor | None) -> Tensor:
        ctx.mark_dirty(x)
        x.relu_()
        if kept is not None:
            x.mul_(kept)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(gradient, result, 0), None


BITS = 32  # bits of a word


class DropoutStream:
    """Dropout masks for a stack of runs: `units` values for each node, run and epoch, 1 for kept units.

    Masks are hashes of seed, epoch and node. They do not depend on other runs, on the device or on the other nodes of a
    call, so a part of a graph is computed exactly as the whole graph. A unit needs one random bit at the rate 0.5, and
    32 bits at other rates.
    """

    def __init__(self, seeds: Sequence[int], units: int, rate: float, device: torch.device, label: int = 0xD0) -> None:
        self.units, self.rate = units, rate
        self.words = units if rate != 0.5 else -(-units // BITS)
        keys = [np.random.SeedSequence([seed, label]).generate_state(2, np.uint32).view(np.int32) for seed in seeds]
        self.keys = torch.from_numpy(np.stack(keys)).to(device)  # runs, 2
        # This is a tensor, so that it also advances when a CUDA graph is replayed.
        self.epoch = torch.zeros((), dtype=torch.int32, device=device)

    def advance(self) -> None:
        """Go to the next epoch, which has new masks."""
        self.epoch += 1

    def kept(
        self, nodes: Int[Tensor, "nodes"], runs: Int[Tensor, "nodes"] | None = None
    ) -> Float[Tensor, "nodes *any"]:
        """Masks of the nodes in every run (nodes, runs, units), or of each node in one of the `runs` (nodes, units)."""
        nodes = nodes[:, None] if runs is None else nodes
        first_key, second_key = (self.keys if runs is None else self.keys[runs]).unbind(-1)
        counter = nodes.to(torch.int32)[..., None] * self.words + torch.arange(
            self.words, dtype=torch.int32, device=nodes.device
        )
        run_and_epoch = _scrambled(first_key + self.epoch)[..., None]
        seeded = counter ^ run_and_epoch
        if self.rate == 0.5 and seeded.is_cuda and find_spec("triton"):
            from mtgcn.linalg.cuda_kernels import bits_of_scrambled

            return bits_of_scrambled(seeded, second_key[..., None])[..., : self.units]
        words = _scrambled(_scrambled(seeded) + second_key[..., None])
        if self.rate == 0.5:
            return _bits(words)[..., : self.units]
        return (words >= int(self.rate * 2**BITS) - 2 ** (BITS - 1)).to(torch.float32)


def _bits(words: Int[Tensor, "*any words"]) -> Float[Tensor, "*any bits"]:
    """The bits of each word, lowest first, by a table of bytes, which is faster than shifts."""
    return torch.embedding(_bits_of_a_byte(words.device), words.view(torch.uint8).int()).flatten(-2)


@cache
def _bits_of_a_byte(device: torch.device) -> Float[Tensor, "256 8"]:
    numbers = torch.arange(256, device=device)[:, None]
    return ((numbers >> torch.arange(8, device=device)) & 1).to(torch.float32)


def _scrambled(words: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Hashed 32-bit words (xor-shift-multiply)."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        # >> copies the sign bit; the mask makes it an unsigned shift.
        words = (words ^ ((words >> shift) & ((1 << (BITS - shift)) - 1))) * factor
    return words ^ ((words >> 15) & ((1 << 17) - 1))


class InputProduct:
    """X Θ or, with `adjacency`, Â X Θ for stacked Θ: by `chain` or, with dropout on X, by separate products."""

    def __init__(
        self,
        chain: tuple[Operator, ...],
        features: sp.csr_array | np.ndarray | None,
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
        if not (self.rate and drops):
            for operator in self.chain:
                weight = operator(weight)
            return weight
        # Models drop different features, so they are multiplied one by one.
        weights = self.stream.kept(self.entries) / (1 - self.rate)  # entries, runs, peers
        models = weight.shape[1:3]
        products = [
            self.features.with_weights(weights[:, run, peer])(weight[:, run, peer].contiguous())
            for run, peer in np.ndindex(models)
        ]
        product = torch.stack(products, 1).unflatten(1, models)
        return product if self.adjacency is None else self.adjacency(product)


def modelwise_product(
    hidden: Float[Tensor, "nodes runs peers hidden"], weight: Float[Tensor, "runs peers hidden classes"]
) -> Float[Tensor, "nodes classes runs peers"]:
    """The product of hidden layer and weights for each model."""
    how = _BatchedProduct if hidden.is_cuda else _GroupedProduct
    product: Tensor = how.apply(hidden.flatten(1, 2), weight.flatten(0, 1))
    return reshaped(product, (*product.shape[:2], *weight.shape[:2]))


class _BatchedProduct(torch.autograd.Function):
    """One batched product over models. Weight gradients are summed over slices of nodes, to use the whole GPU."""

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
    """One product with a block-diagonal matrix for each group of models. On the CPU this takes less than half the time,
    since products with few columns waste the vector units."""

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
    """For each group: its columns of `left`, its block as a matrix, its columns of `right`."""
    count, group = blocks.shape[:2]
    return zip(
        left.view(len(left), count, -1).unbind(1),
        blocks.view(count, group * blocks.shape[2], -1).unbind(0),
        right.view(len(right), count, -1).unbind(1),
        strict=True,
    )
