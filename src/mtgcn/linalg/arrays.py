"""Blockwise passes over large arrays, and transfers between main memory and a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Int

BLOCK_SIZE = 2**16
LARGE_BLOCK = 2**20  # for cheap operations


def blocks_of_rows(rows: int, width: int = 1, at_once: int | None = None) -> list[slice]:
    """Row slices of a table of that width, each with about `at_once` numbers (default `BLOCK_SIZE`).

    >>> blocks_of_rows(5, width=2**15)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, (at_once or BLOCK_SIZE) // max(1, width))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def blocks_of_entries(row_starts: Int[np.ndarray, "rows_and_one"], at_once: int | None = None) -> list[slice]:
    """Row slices of a sparse matrix, each with about `at_once` entries; a longer row forms its own slice.

    >>> blocks_of_entries(np.array([0, 2**15, 2**16, 2**18, 2**18 + 1]))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    rows, entries, at_once = len(row_starts) - 1, int(row_starts[-1]), at_once or BLOCK_SIZE
    ends = np.searchsorted(row_starts, np.arange(at_once, entries, at_once))
    cuts = np.unique(np.concatenate([[0], ends, [rows]])).tolist()
    return [slice(start, stop) for start, stop in pairwise(cuts)]


def each_block(blocks: Sequence[slice], work: Callable[[slice], None], threads: int | None = None) -> None:
    """Call `work` on every block in several threads, by default as many as torch uses; NumPy releases the lock while it
    computes. Blocks must not write to the same place."""
    threads = min(threads or torch.get_num_threads(), len(blocks))
    if threads <= 1:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, blocks):  # raises the exception of a block
            pass


def all_finite(values: np.ndarray) -> bool:
    """Whether all values are finite, without a boolean array of their size."""
    if values.size <= BLOCK_SIZE or not values.flags.c_contiguous:
        return bool(np.isfinite(values).all())
    flat, found = values.reshape(-1), []

    def look(block: slice) -> None:
        if not np.isfinite(flat[block]).all():
            found.append(block)

    each_block(blocks_of_rows(len(flat), at_once=LARGE_BLOCK), look)
    return not found


PIECE = 2**24  # bytes per transfer
THREADS = 8  # of transfers; each has a piece of pinned memory


def on_device(array: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    """A copy of the array on the device, with numbers of this kind."""
    if device.type == "cpu" or array.size * np.dtype(kind).itemsize <= PIECE:
        return torch.from_numpy(np.array(array, dtype=kind)).to(device)
    return sent_in_pieces(array, kind, device, pinned=device.type == "cuda")


def on_host(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The tensor as a contiguous array in main memory; a tensor on the CPU is not copied."""
    tensor = tensor.detach()
    if tensor.device.type == "cpu":
        return tensor.numpy()
    tensor = tensor.contiguous()
    if tensor.nbytes <= PIECE:
        return tensor.cpu().numpy()
    return received_in_pieces(tensor, pinned=tensor.is_cuda)


def sent_in_pieces(array: np.ndarray, kind: type[np.generic], device: torch.device, *, pinned: bool) -> Tensor:
    given = np.ascontiguousarray(array).reshape(-1)
    like = torch.from_numpy(np.empty(0, dtype=kind))
    sent = torch.empty(array.shape, dtype=like.dtype, device=device)
    flat = sent.view(-1)

    def send(piece: slice) -> None:
        block = torch.empty(piece.stop - piece.start, dtype=like.dtype, pin_memory=pinned)
        np.copyto(block.numpy(), given[piece], casting="same_kind")
        flat[piece].copy_(block)  # blocks, so that the memory may be reused

    _each_piece(flat, send)
    return sent


def received_in_pieces(tensor: Tensor, *, pinned: bool) -> np.ndarray[Any, Any]:
    received = torch.empty(tensor.shape, dtype=tensor.dtype).numpy()
    flat, given = received.reshape(-1), tensor.view(-1)

    def receive(piece: slice) -> None:
        block = torch.empty(piece.stop - piece.start, dtype=tensor.dtype, pin_memory=pinned)
        block.copy_(given[piece])
        np.copyto(flat[piece], block.numpy())

    _each_piece(given, receive)
    return received


def _each_piece(flat: Tensor, move: Callable[[slice], None]) -> None:
    if flat.is_cuda:  # the streams of other threads do not wait for this one
        torch.cuda.current_stream(flat.device).synchronize()
    each_block(blocks_of_rows(len(flat), at_once=PIECE // flat.element_size()), move, THREADS)
