"""The one kernel written by hand: a sparse product on the GPU whose sums always run in the same order.

The vendor's product adds with atomics, so that the same seed would not give the same answer twice. Imported only
where there is a GPU and triton, which comes with torch's CUDA builds.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

WIDEST_BLOCK = 256


def sparse_product(row_starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    """The product of a CSR matrix with x (columns, width). A long row is summed by one program from its first
    entry to its last, so rows should not be much longer than others: see `SparseOperator`."""
    rows, width = len(row_starts) - 1, x.shape[1]
    result = torch.empty(rows, width, device=x.device)
    block = min(WIDEST_BLOCK, triton.next_power_of_2(width))
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
