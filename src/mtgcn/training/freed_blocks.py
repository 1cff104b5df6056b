"""Keeping freed memory with the process, or giving all of it back. This changes all of a process, so only our own
commands and workers ask."""

from __future__ import annotations

import ctypes
import sys

# glibc's numbers for mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_LARGEST_NUMBER = 2**31 - 1


def keep_freed_blocks() -> None:
    """From here on, freed blocks stay with this process, to be had again without asking the kernel.

    Every epoch frees and takes the same few large blocks. Given back each time, their pages would have to be
    mapped and zeroed anew in every epoch, which costs up to a quarter of its time. Where the C library is not
    glibc this does nothing.
    """
    # Large blocks from the heap as well: mapped ones go back when they are freed.
    _tell_glibc({_MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST_NUMBER})


LARGE_BLOCK = 2**20  # bytes


def return_freed_blocks() -> None:
    """From here on, every large block goes back when it is freed, for a process whose graph just fits into memory.

    Otherwise glibc keeps more the more has been freed, up to blocks of 32 MiB, and a heap of such blocks with holes
    between them may take twice what is in use.
    """
    _tell_glibc({_MMAP_THRESHOLD: LARGE_BLOCK})


def _tell_glibc(numbers: dict[int, int]) -> None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):
        for what, number in numbers.items():
            libc.mallopt(what, number)
