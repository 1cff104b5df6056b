"""How much memory a stack of runs may take, and keeping hold of it between epochs."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# On the CPU a stack is fastest while what an epoch touches stays near the cache; larger stacks gain nothing.
CPU_BUDGET = 80 * 2**20
CUDA_SHARE = 0.5  # of the memory that is free


def default_budget(device: torch.device) -> int:
    """Bytes that the runs fitted together may take on this device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(CUDA_SHARE * free)
    return CPU_BUDGET


# glibc's numbers for mallopt, and the values its manual gives as defaults and as the largest allowed.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGEST_HEAP_BLOCK = 32 * 2**20
_DEFAULT_THRESHOLD = 128 * 2**10


@contextmanager
def keeping_freed_blocks() -> Iterator[None]:
    """While this lasts, freed blocks stay with the process, to be had again without asking the kernel.

    Every epoch frees and takes the same few large blocks. Given back each time, their pages would have to be
    mapped and zeroed anew in every epoch, which costs up to a quarter of its time. Where the C library is not
    glibc this does nothing.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(_MMAP_THRESHOLD, _LARGEST_HEAP_BLOCK)
    libc.mallopt(_TRIM_THRESHOLD, 2**30)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_THRESHOLD)
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_THRESHOLD)
        libc.malloc_trim(0)
