"""Execute units in this process or in several worker processes.

Rows do not depend on the executor: every unit runs with its own fixed number of threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

from mtgcn.errors import InputError
from mtgcn.experiments.plan import Unit, execute
from mtgcn.experiments.store import StoredRow
from mtgcn.memory import check_fits, keep_freed_blocks

WORKER_BYTES = 300 << 20  # of a process before it does anything
MAX_DEFAULT_WORKERS = 4  # each holds a graph and a stack of runs in memory

Outcome = tuple[Unit, list[StoredRow] | InputError]  # an error of one unit does not stop the others
Executor = Callable[[Sequence[Unit]], Generator[Outcome, None, None]]


def usable_cores() -> int:
    """The number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers(device: str, threads: int) -> int:
    """One worker on a GPU; on a CPU, as many as the cores allow."""
    return 1 if device.startswith("cuda") else max(1, min(usable_cores() // threads, MAX_DEFAULT_WORKERS))


def check_workers(workers: int) -> None:
    """Refuse a number of workers that does not fit into memory."""
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1")
    check_fits(workers * WORKER_BYTES, f"workers is {workers}, which", "give fewer")


def in_this_process(units: Sequence[Unit]) -> Generator[Outcome, None, None]:
    """Execute one unit after the other."""
    for unit in units:
        try:
            yield unit, execute(unit)
        except InputError as error:
            yield unit, error


def in_workers(units: Sequence[Unit], workers: int) -> Generator[Outcome, None, None]:
    """Yield units in the order in which `workers` processes finish them.

    Each worker watches a pipe whose other end only this process holds. When that end closes, because the sweep ends or
    this process dies, the worker exits at once.
    """
    watched, held = Pipe(duplex=False)
    # Spawned, since torch may hang in a forked process.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_worker, initargs=(watched,))
    try:
        with _ignored_interrupts():  # inherited by the workers: only this process handles Ctrl-C
            futures = {pool.submit(execute, unit): unit for unit in units}
        for future in as_completed(futures):
            try:
                yield futures[future], future.result()
            except BrokenProcessPool:
                raise InputError(
                    f"one of {workers} workers was killed, most likely for want of memory; "
                    "start the same command with fewer --workers, what was finished is stored"
                ) from None
            except InputError as error:
                yield futures[future], error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        held.close()
        watched.close()


def _start_worker(watched: Connection) -> None:
    keep_freed_blocks()
    threading.Thread(target=_exit_with, args=(watched,), daemon=True).start()


def _exit_with(watched: Connection) -> None:
    try:
        watched.recv()
    except (EOFError, OSError):
        os._exit(1)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which receives no signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
