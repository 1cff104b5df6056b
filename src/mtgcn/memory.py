"""Memory: how much is free, how much a stack of runs may take, and what the C library does with freed blocks.

torch is imported where it is needed: most callers only ask what is free.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mtgcn.errors import InputError

if TYPE_CHECKING:
    import torch

UNKNOWN_LIMIT = 2**63  # bytes; the system does not report a limit
MIN_ADDRESS_SPACE = 1 << 28  # bytes; a thread of a library takes 72 MiB of it


def free_bytes() -> int:
    """The memory this process may still allocate: the least of machine, container and process limits."""
    limits = [_machine_free(), _container_free(), _process_free()]
    return min((limit for limit in limits if limit is not None), default=UNKNOWN_LIMIT)


def check_address_space() -> None:
    """Raise an `InputError` if `ulimit -v` leaves little: native threads that exceed it abort without a message."""
    free = _process_free()
    if free is not None and free < MIN_ADDRESS_SPACE:
        limit, left = readable(MIN_ADDRESS_SPACE), readable(max(0, free))
        raise InputError(
            f"out of memory: {left} are left of the limit of this process, and {limit} are needed; raise it"
        )


def use_few_threads_if_limited() -> None:
    """Let OpenBLAS start no threads under `ulimit -v`, where it may abort; call this before NumPy is imported."""
    if _process_free() is not None:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def check_fits(needed: int, what: str, remedy: str) -> None:
    """Raise an `InputError` if `needed` bytes exceed the free memory."""
    free = free_bytes()
    if needed > free:
        raise InputError(f"{what} takes about {readable(needed)} and {readable(free)} of memory are free; {remedy}")


def readable(size: int) -> str:
    """Bytes in GiB or MiB.

    >>> readable(3 * 2**30), readable(1000)
    ('3.0 GiB', '1 MiB')
    """
    if size >= UNKNOWN_LIMIT:
        return "more memory than any machine has"
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20))} MiB"


def _machine_free() -> int | None:
    with suppress(OSError):  # not Linux
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def _container_free() -> int | None:
    with suppress(OSError, ValueError):  # a limit of "max" is none
        limit, used = (Path("/sys/fs/cgroup", name).read_text("ascii") for name in ("memory.max", "memory.current"))
        return int(limit) - int(used)
    return None


def _process_free() -> int | None:
    with suppress(ImportError):  # on Windows
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        return None if limit == resource.RLIM_INFINITY else limit - _process_bytes()[0]
    return None


def _process_bytes() -> tuple[int, int]:
    """Virtual and resident bytes of this process; 0 where the system does not report them."""
    with suppress(ImportError, OSError):
        import resource  # not on Windows

        total, resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]
        return int(total) * resource.getpagesize(), int(resident) * resource.getpagesize()
    return 0, 0


# On the CPU larger stacks gain nothing: an epoch's working set exceeds the cache long before.
CPU_BUDGET = 300 * 2**20
CUDA_SHARE = 0.5  # of the free GPU memory


def default_budget(device: torch.device) -> int:
    """Bytes that the runs fitted together may take on this device."""
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(CUDA_SHARE * free)
    return CPU_BUDGET


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error reports that an allocation failed. Does not import torch, which may be what failed."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # of torch.cuda
        return True
    # torch on the CPU, loading a shared library, starting a thread, pyarrow
    messages = ("can't allocate memory", "not enough memory", "failed to map segment", "Cannot allocate memory")
    return any(words in str(error) for words in (*messages, "can't start new thread", "bad_alloc", "malloc of size"))


# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
LARGE_BLOCK = 2**20  # bytes
LARGE_PROCESS = 2**30  # bytes
_keeps_freed_blocks = False


def keep_freed_blocks() -> None:
    """Keep freed blocks in this process. Only our own commands and workers call this, since it affects all code.

    Every epoch frees and allocates the same few large blocks. To map and zero their pages each time costs up to a
    quarter of an epoch. Does nothing where the C library is not glibc.
    """
    global _keeps_freed_blocks
    _keeps_freed_blocks = True
    # Large blocks from the heap as well: mapped ones are returned when they are freed.
    _mallopt({_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1})


def return_freed_blocks() -> None:
    """Return every large block when it is freed, for a process whose graph just fits into memory.

    By default glibc raises its threshold up to 32 MiB, and a fragmented heap may take twice what is in use.
    """
    _mallopt({_MMAP_THRESHOLD: LARGE_BLOCK})


def trim_freed_blocks() -> None:
    """Where freed blocks are kept, return those that are free now, between two steps that need blocks of other sizes.

    Without it a process on a large graph grows by half of what it uses. Processes below 1 GiB keep their blocks.
    """
    if _keeps_freed_blocks and _process_bytes()[1] > LARGE_PROCESS:
        getattr(_glibc(), "malloc_trim", lambda _: None)(0)  # not in every C library


def _mallopt(parameters: dict[int, int]) -> None:
    for parameter, value in parameters.items():
        getattr(_glibc(), "mallopt", lambda *_: None)(parameter, value)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
