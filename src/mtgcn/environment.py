"""The environment of a run: device, threads and versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from time import perf_counter, thread_time

import numpy
import scipy
import torch

from mtgcn._version import __version__
from mtgcn.errors import InputError, unknown_name

DEVICES = ("auto", "cpu", "cuda")
MAX_THREADS = 256  # most threads; the system may refuse to start more
SMALL_STACK = 16 * 2**20  # bytes; smaller stacks are faster with one thread
PROBE_SECONDS, PROBES = 0.03, 3
Device = torch.device | str
_fixed: ContextVar[bool] = ContextVar("fixed_threads", default=False)


def chosen_device(name: str | torch.device) -> torch.device:
    """The torch device with this name; `auto` is the GPU if there is one."""
    if isinstance(name, torch.device):
        chosen_device(name.type)
        if name.type == "cuda" and (name.index or 0) >= torch.cuda.device_count():
            raise InputError(
                f"device {name} requested, but torch finds {torch.cuda.device_count()} CUDA devices; use another"
            )
        return name
    if name not in DEVICES:
        raise unknown_name("device", name, DEVICES)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device 'cuda' requested, but torch finds no CUDA device; use --device cpu or auto")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


def device_title(device: torch.device) -> str:
    """The name of the device, with the model of a GPU."""
    return f"cuda ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else device.type


@contextmanager
def threads_for(stack_bytes: int) -> Iterator[None]:
    """Use one thread for a small stack, and one per free core for a larger one, within this context.

    The number of threads does not change if it is fixed by `fixed_threads` or by the variable OMP_NUM_THREADS, since
    the rounding of sums depends on it.
    """
    before = number = torch.get_num_threads()
    if 0 < stack_bytes < SMALL_STACK:
        number = 1
    elif before > 1 and not _fixed.get() and "OMP_NUM_THREADS" not in os.environ:
        number = free_cores(before)
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def fixed_threads(number: int) -> Iterator[None]:
    """Set the number of torch's threads within this context."""
    before, token = torch.get_num_threads(), _fixed.set(True)
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _fixed.reset(token)


@contextmanager
def usual_torch() -> Iterator[None]:
    """Let torch compute in 32 bits and with gradients within this context, regardless of the caller's settings."""
    before = torch.get_default_dtype()
    with torch.inference_mode(False), torch.enable_grad():
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(before)


def free_cores(most: int) -> int:
    """The number of free cores up to `most`, measured by the processor time that as many threads get in 30 ms.

    It depends on affinity, quotas of containers and other processes. Threads of one product wait for each other, so two
    threads on a busy machine take many times as long as one. The best of three probes is used, so that short bursts of
    other processes have no effect.
    """
    block = bytes(2**20)

    def compute(_: int) -> float:
        start, end = thread_time(), perf_counter() + PROBE_SECONDS
        while perf_counter() < end:
            sha256(block)  # which releases Python's lock
        return thread_time() - start

    free = 1
    with ThreadPoolExecutor(most) as pool:
        for _ in range(PROBES):
            start = perf_counter()
            used = sum(pool.map(compute, range(most)))
            free = max(free, min(most, round(used / (perf_counter() - start))))
            if free == most:
                break
    return free


def versions() -> dict[str, str]:
    """The versions on which results depend."""
    return {
        "mtgcn": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
    }


def check_versions(there: Mapping[str, str], here: Mapping[str, str], place: str) -> None:
    """Raise if another process has different versions, and would therefore compute different results."""
    for name, version in here.items():
        if there.get(name) != version:
            raise InputError(
                f"{place} has {name} {there.get(name)}, this process has {version}; "
                "install the same version, since results would differ"
            )
