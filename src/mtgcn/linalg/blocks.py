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
LOOKED_AT_ONCE = 2**20  # where there is little to do with each


def blocks_of_rows(rows: int, width: int = 1, at_once: int | None = None) -> list[slice]:
    """The rows of a table of that width, cut after about so many numbers, or `NUMBERS_AT_ONCE`.

    >>> blocks_of_rows(5, width=2**15)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, (at_once or NUMBERS_AT_ONCE) // max(1, width))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def blocks_of_entries(row_starts: Int[np.ndarray, "rows_and_one"], at_once: int | None = None) -> list[slice]:
    """The rows of a sparse matrix, cut after about as many entries; where one row has more, it is alone.

    >>> blocks_of_entries(np.array([0, 2**15, 2**16, 2**18, 2**18 + 1]))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    rows, entries, at_once = len(row_starts) - 1, int(row_starts[-1]), at_once or NUMBERS_AT_ONCE
    ends = np.searchsorted(row_starts, np.arange(at_once, entries, at_once))
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


def all_finite(values: np.ndarray) -> bool:
    """Whether there is no NaN and no infinity among these numbers, without as many truth values."""
    if values.size <= NUMBERS_AT_ONCE or not values.flags.c_contiguous:
        return bool(np.isfinite(values).all())
    flat, found = values.reshape(-1), []

    def look(block: slice) -> None:
        if not np.isfinite(flat[block]).all():
            found.append(block)

    each_block(blocks_of_rows(len(flat), at_once=LOOKED_AT_ONCE), look)
    return not found
