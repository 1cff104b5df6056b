"""How much of the machine a stack of runs takes: memory, kept between epochs, and threads."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

# On the CPU larger stacks gain nothing: what an epoch touches has left the cache long before.
CPU_BUDGET = 300 * 2**20
CUDA_SHARE = 0.5  # of the memory that is free


def default_budget(device: torch.device) -> int:
    """Bytes that the runs fitted together may take on this device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(CUDA_SHARE * free)
    return CPU_BUDGET


# Below this, waking a second thread costs as much as it brings, and far more while another program is running.
SMALL_STACK = 16 * 2**20


@contextmanager
def threads_for(stack_bytes: int) -> Iterator[None]:
    """While this lasts, a small stack is computed by one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if 0 < stack_bytes < SMALL_STACK else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# glibc's numbers for mallopt, and the defaults that its manual gives.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_DEFAULT_TRIM_THRESHOLD, _DEFAULT_MMAP_MAX = 128 * 2**10, 65536
_LARGEST_NUMBER = 2**31 - 1


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
    libc.mallopt(_MMAP_MAX, 0)  # large blocks from the heap as well: mapped ones go back when they are freed
    libc.mallopt(_TRIM_THRESHOLD, _LARGEST_NUMBER)
    try:
        yield
    finally:
        libc.mallopt(_TRIM_THRESHOLD, _DEFAULT_TRIM_THRESHOLD)
        libc.mallopt(_MMAP_MAX, _DEFAULT_MMAP_MAX)
        libc.malloc_trim(0)
