"""Passes over all edges or nodes of a large graph, a few at a time: what is made on the way stays in the cache instead
of filling memory several times over, and several threads share the blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch

from mtgcn.shapes import Int

NUMBERS_AT_ONCE = 2**16


def blocks_of_rows(rows: int, width: int = 1) -> list[slice]:
    """The rows of a table of that width, cut after about `NUMBERS_AT_ONCE` numbers.

    >>> blocks_of_rows(5, width=2**15)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, NUMBERS_AT_ONCE // max(1, width))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def blocks_of_entries(row_starts: Int[np.ndarray, "rows_and_one"]) -> list[slice]:
    """The rows of a sparse matrix, cut after about as many entries; where one row has more, it is alone.

    >>> blocks_of_entries(np.array([0, 2**15, 2**16, 2**18, 2**18 + 1]))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    rows, entries = len(row_starts) - 1, int(row_starts[-1])
    ends = np.searchsorted(row_starts, np.arange(NUMBERS_AT_ONCE, entries, NUMBERS_AT_ONCE))
    cuts = np.unique(np.concatenate([[0], ends, [rows]])).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def each_block(blocks: Sequence[slice], work: Callable[[slice], None]) -> None:
    """`work` on every block, by as many threads as torch takes: NumPy lets others go on while it computes. Blocks must
    not write to the same place."""
    threads = min(torch.get_num_threads(), len(blocks))
    if threads <= 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, blocks):  # which raises what went wrong in one of them
            pass
