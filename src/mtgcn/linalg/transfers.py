"""Arrays on their way to a device and back: large ones in pieces through memory that the device can reach by itself.

A plain copy of gigabytes takes one thread, which meets every page of memory for the first time; and an array that may
not be written to, as those of a graph, would have to be copied before torch takes it. So several threads fill, or
empty, small blocks of pinned memory, and nothing large is held twice.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

PIECE = 2**24  # bytes that are moved at a time
THREADS = 8  # more bring little, and each has a piece of pinned memory


def on_device(array: np.ndarray, kind: type[np.generic], device: torch.device) -> Tensor:
    """The array there, its numbers of that kind; a copy, on the processor as well."""
    if device.type == "cpu" or array.size * np.dtype(kind).itemsize <= PIECE:
        return torch.from_numpy(np.array(array, dtype=kind)).to(device)
    return sent_in_pieces(array, kind, device, pinned=device.type == "cuda")


def on_host(tensor: Tensor) -> np.ndarray[Any, Any]:
    """The numbers of a tensor, row after row; those of one that lies in main memory are not copied."""
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
        flat[piece].copy_(block)  # waits until it is there, so that the block may be taken again

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
    size = PIECE // flat.element_size()
    pieces = [slice(start, min(start + size, len(flat))) for start in range(0, len(flat), size)]
    if flat.is_cuda:  # other threads have streams of their own, which know nothing of what this one waits for
        torch.cuda.current_stream(flat.device).synchronize()
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in pool.map(move, pieces):  # which raises what went wrong in one of them
            pass
