"""Free memory, the memory budget of a stack of runs, and the handling of freed blocks by the C library.

torch is imported only where it is needed, since most callers only need the free memory.
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

UNKNOWN_LIMIT = 2**63  # bytes; stands for a limit that the system does not report
MIN_ADDRESS_SPACE = 1 << 28  # bytes; each thread of a library takes 72 MiB


def free_bytes() -> int:
    """The memory that this process may still allocate: the minimum over machine, container and process limits."""
    limits = [_machine_free(), _container_free(), _process_free()]
    return min((limit for limit in limits if limit is not None), default=UNKNOWN_LIMIT)


def check_address_space() -> None:
    """Raise an `InputError` if `ulimit -v` leaves little: native threads that exceed it abort without a message."""
    free = _process_free()
    if free is not None and free < MIN_ADDRESS_SPACE:
        limit, left = readable(MIN_ADDRESS_SPACE), readable(max(0, free))
        raise InputError(
            f"out of memory: {left} are left below the limit of this process, {limit} are needed; raise the limit"
        )


def use_few_threads_if_limited() -> None:
    """Keep OpenBLAS from starting threads under `ulimit -v`, where it may abort; call this before importing NumPy."""
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
    with suppress(OSError, ValueError):  # "max" means no limit
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
CUDA_SHARE = 0.5  # share of the free GPU memory


def default_budget(device: torch.device) -> int:
    """The memory (bytes) for runs that are fitted together on this device."""
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        return int(CUDA_SHARE * free)
    return CPU_BUDGET


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error reports that an allocation failed. Does not import torch, which may be what failed."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # of torch.cuda
        return True
    # messages of torch on the CPU, the loader of shared libraries, threads and pyarrow
    messages = ("can't allocate memory", "not enough memory", "failed to map segment", "Cannot allocate memory")
    return any(words in str(error) for words in (*messages, "can't start new thread", "bad_alloc", "malloc of size"))


# Parameters of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
LARGE_BLOCK = 2**20  # bytes
LARGE_PROCESS = 2**30  # bytes
_keeps_freed_blocks = False


def keep_freed_blocks() -> None:
    """Keep freed blocks in this process. Only the commands and workers of mtgcn call this, since it affects all code.

    Every epoch frees and allocates the same few large blocks. Mapping and zeroing their pages takes up to a quarter of
    an epoch. Has no effect if the C library is not glibc.
    """
    global _keeps_freed_blocks
    _keeps_freed_blocks = True
    # Large blocks come from the heap as well, since mapped blocks are returned when they are freed.
    _mallopt({_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1})


def return_freed_blocks() -> None:
    """Return freed large blocks to the operating system immediately, for graphs that barely fit into memory.

    By default glibc raises its threshold up to 32 MiB, and a fragmented heap may take twice what is in use.
    """
    _mallopt({_MMAP_THRESHOLD: LARGE_BLOCK})


def trim_freed_blocks() -> None:
    """Return the freed blocks that are kept, between two steps that need blocks of different sizes.

    Otherwise a process on a large graph takes up to half more memory. Processes below 1 GiB keep their blocks.
    """
    if _keeps_freed_blocks and _process_bytes()[1] > LARGE_PROCESS:
        getattr(_glibc(), "malloc_trim", lambda _: None)(0)  # which not every C library has


def _mallopt(parameters: dict[int, int]) -> None:
    for parameter, value in parameters.items():
        getattr(_glibc(), "mallopt", lambda *_: None)(parameter, value)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None
