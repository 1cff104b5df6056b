"""Keeping freed memory with the process, or giving all of it back. This changes all of a process, so only our own
commands and workers ask."""

from __future__ import annotations

import ctypes
import sys

from mtgcn.free_memory import resident_bytes

# glibc's numbers for mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_LARGEST_NUMBER = 2**31 - 1


def keep_freed_blocks() -> None:
    """From here on, freed blocks stay with this process, to be had again without asking the kernel.

    Every epoch frees and takes the same few large blocks. Given back each time, their pages would have to be
    mapped and zeroed anew in every epoch, which costs up to a quarter of its time. Where the C library is not
    glibc this does nothing.
    """
    global _kept
    _kept = True
    # Large blocks from the heap as well: mapped ones go back when they are freed.
    _tell_glibc({_MMAP_MAX: 0, _TRIM_THRESHOLD: _LARGEST_NUMBER})


_kept = False  # whether this process was asked to


LARGE_BLOCK = 2**20  # bytes


def return_freed_blocks() -> None:
    """From here on, every large block goes back when it is freed, for a process whose graph just fits into memory.

    Otherwise glibc keeps more the more has been freed, up to blocks of 32 MiB, and a heap of such blocks with holes
    between them may take twice what is in use.
    """
    _tell_glibc({_MMAP_THRESHOLD: LARGE_BLOCK})


LARGE_PROCESS = 2**30  # bytes


def give_back_free_blocks() -> None:
    """Where freed blocks are kept, give back those that are free now, between two steps that need different ones.

    The holes that one step leaves do not fit what the next one takes, and on large graphs a process grows by half of
    what it uses. To map their pages again takes time, so one that has less than a GiB keeps them all the same.
    """
    if _kept and resident_bytes() > LARGE_PROCESS:
        libc = _glibc()
        if libc is not None and hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)


def _tell_glibc(numbers: dict[int, int]) -> None:
    libc = _glibc()
    if libc is not None and hasattr(libc, "mallopt"):
        for what, number in numbers.items():
            libc.mallopt(what, number)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
