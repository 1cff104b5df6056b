"""How much of the machine a stack of runs takes: memory and threads."""

from __future__ import annotations

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


# What torch says where an allocation on the CPU fails: it has no class of its own for that.
_CPU_MESSAGES = ("can't allocate memory", "not enough memory")


def is_about_memory(error: Exception) -> bool:
    """Whether an error says that there was no more memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(message in str(error) for message in _CPU_MESSAGES)


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
