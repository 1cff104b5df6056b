"""Two Triton kernels for GPUs; imported only on CUDA devices.

One computes a sparse product with a fixed order of summation, since cuSPARSE adds with atomics and is not reproducible.
The other generates the bits of dropout, which would otherwise take about forty small kernels.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

MAX_BLOCK = 256


def sparse_product(row_starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """The product of a CSR matrix with x (columns, width). One program sums one row, so rows should have similar
    lengths (see `SparseOperator`)."""
    rows, width = len(row_starts) - 1, x.shape[1]
    result = torch.empty(rows, width, device=x.device)
    block = min(MAX_BLOCK, triton.next_power_of_2(width))
    if result.numel():
        _sum_rows[(rows, triton.cdiv(width, block))](
            row_starts, columns, values, x, result, width, block, num_warps=max(1, block // 64)
        )
    return result


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _sum_rows(row_starts, columns, values, x, result, width, block: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    offset = tl.program_id(1) * block + tl.arange(0, block)
    inside = offset < width
    total = tl.zeros((block,), tl.float32)
    for entry in range(tl.load(row_starts + row), tl.load(row_starts + row + 1)):
        column = tl.load(columns + entry).to(tl.int64)
        total += tl.load(values + entry) * tl.load(x + column * width + offset, mask=inside, other=0.0)
    tl.store(result + row * width + offset, total, mask=inside)


ELEMENTS = 1024  # elements computed by one program


def bits_of_scrambled(seeded: Tensor, second_key: Tensor) -> Tensor:
    """The bits, lowest first, of scramble(scramble(seeded) + second_key): the hash of `DropoutStream` in one kernel.

    `second_key` broadcasts to the shape of `seeded`.
    """
    words = seeded.contiguous()
    keys = second_key.expand_as(words).contiguous()
    bits = torch.empty(*words.shape[:-1], words.shape[-1] * 32, device=words.device)
    _scramble_to_bits[(triton.cdiv(bits.numel(), ELEMENTS),)](words, keys, bits, bits.numel(), ELEMENTS)
    return bits


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _scramble(word):  # type: ignore[no-untyped-def]
    word = (word ^ (word >> 16)) * 0x21F0AAAD
    word = (word ^ (word >> 15)) * 0x735A2D97
    return word ^ (word >> 15)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _scramble_to_bits(words, keys, bits, count, elements: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.program_id(0).to(tl.int64) * elements + tl.arange(0, elements)
    inside = place < count
    # The words are unsigned, so that a shift brings in zeros.
    word = tl.load(words + place // 32, mask=inside, other=0).to(tl.uint32, bitcast=True)
    key = tl.load(keys + place // 32, mask=inside, other=0).to(tl.uint32, bitcast=True)
    word = _scramble(_scramble(word) + key)
    bit = (word >> (place % 32).to(tl.uint32)) & 1
    tl.store(bits + place, bit.to(tl.float32), mask=inside)
