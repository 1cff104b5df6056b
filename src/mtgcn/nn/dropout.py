"""Dropout whose decisions belong to a run: they depend on its seed, never on its neighbours in the stack.

It needs millions of bits per epoch, so bits are computed instead of drawn: a hash of (run, epoch, node) gives the
same bit whichever nodes, runs or device are asked for, which is what lets part of a graph be computed exactly as the
whole would be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Float, Int


class ReluDropout(torch.autograd.Function):
    """ReLU with some units set to 0, written over what it is given: gradient passes where the result is not 0."""

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


BITS = 32  # in a word


class DropoutStream:
    """Which units dropout keeps, for a stack of runs: `units` decisions for each node of each run, fresh in every
    epoch, 1 for what is kept and 0 for what is dropped.

    At the rate 0.5 a unit costs one random bit, at any other a word of 32.
    """

    def __init__(self, seeds: Sequence[int], units: int, rate: float, device: torch.device, label: int = 0xD0) -> None:
        self.units, self.rate = units, rate
        self.words = units if rate != 0.5 else -(-units // BITS)
        keys = [np.random.SeedSequence([seed, label]).generate_state(2, np.uint32).view(np.int32) for seed in seeds]
        self.keys = torch.from_numpy(np.stack(keys)).to(device)  # runs, 2
        # A tensor, so that an epoch recorded once as a CUDA graph sees the counter move.
        self.epoch = torch.zeros((), dtype=torch.int32, device=device)

    def advance(self) -> None:
        """The next epoch: every decision is drawn anew."""
        self.epoch += 1

    def go_to(self, epoch: int) -> None:
        """What is drawn after so many epochs, for a training that goes on where another was stopped."""
        self.epoch.fill_(epoch)

    def kept(self, nodes: Int[Tensor, "nodes"]) -> Float[Tensor, "nodes runs units"]:
        """What is kept of these nodes in every run."""
        return self._kept(nodes[:, None], self.keys[:, 0], self.keys[:, 1])

    def kept_by(self, nodes: Int[Tensor, "rows"], runs: Int[Tensor, "rows"]) -> Float[Tensor, "rows units"]:
        """What is kept of one node in one run each."""
        return self._kept(nodes, self.keys[runs, 0], self.keys[runs, 1])

    def _kept(self, nodes: Tensor, first_key: Tensor, second_key: Tensor) -> Tensor:
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
    """The bits of each word, lowest first. Looking bytes up beats shifting and masking every bit."""
    return torch.embedding(_bits_of_a_byte(words.device), words.view(torch.uint8).int()).flatten(-2)


@cache
def _bits_of_a_byte(device: torch.device) -> Float[Tensor, "256 8"]:
    numbers = torch.arange(256, device=device)[:, None]
    return ((numbers >> torch.arange(8, device=device)) & 1).to(torch.float32)


def _scrambled(words: Int[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """A mixing of 32-bit words in which each bit of the result depends on every bit given (xor-shift-multiply)."""
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        # >> keeps the sign; the mask makes it the shift of an unsigned word.
        words = (words ^ ((words >> shift) & ((1 << (BITS - shift)) - 1))) * factor
    return words ^ ((words >> 15) & ((1 << 17) - 1))
