"""Where units are executed: in this process, or in several others.

Rows do not depend on the executor. Every unit runs with its own, fixed number of threads wherever it runs, so that
several workers share the cores by being several, not by each taking fewer threads.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection

from mtgcn.errors import InputError
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.units import Unit, execute
from mtgcn.memory import check_fits, keep_freed_blocks

WORKER_BYTES = 300 << 20  # what a process takes before it does anything
MOST_WORKERS_BY_DEFAULT = 4  # each holds a graph and a stack of its own in memory

Outcome = tuple[Unit, list[StoredRow] | InputError]  # an error that is this unit's alone does not stop the others
Executor = Callable[[Sequence[Unit]], Generator[Outcome, None, None]]


def usable_cores() -> int:
    """The cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_workers(device: str, threads: int) -> int:
    """As many as keep the cores busy; a GPU is kept busy by one."""
    return 1 if device.startswith("cuda") else max(1, min(usable_cores() // threads, MOST_WORKERS_BY_DEFAULT))


def check_workers(workers: int) -> None:
    """Refuse more processes than there can be, or than memory holds."""
    if workers < 1:
        raise InputError(f"workers is {workers}; give at least 1")
    check_fits(workers * WORKER_BYTES, f"workers is {workers}; so many processes", "give fewer")


def in_this_process(units: Sequence[Unit]) -> Generator[Outcome, None, None]:
    """One unit after the other."""
    for unit in units:
        try:
            yield unit, execute(unit)
        except InputError as error:
            yield unit, error


def in_workers(units: Sequence[Unit], workers: int) -> Generator[Outcome, None, None]:
    """Units in the order in which `workers` processes finish them.

    Each worker watches a pipe whose other end only this process holds. When that end closes, because we say so or
    because this process is gone, the worker ends at once, in the midst of whatever it is doing.
    """
    context = get_context("spawn")  # a forked torch may hang
    watched, held = Pipe(duplex=False)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(watched,))
    try:
        with _deaf_to_interrupts():  # which workers inherit: Ctrl-C is for this process to deal with
            futures = {pool.submit(execute, unit): unit for unit in units}
        for future in as_completed(futures):
            yield futures[future], _result(future, workers)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        held.close()
        watched.close()


def _result(future: Future[list[StoredRow]], workers: int) -> list[StoredRow] | InputError:
    try:
        return future.result()
    except BrokenProcessPool:
        raise InputError(
            f"one of {workers} workers was killed, most likely for want of memory; "
            "start the same command with fewer --workers, what was finished is stored"
        ) from None
    except InputError as error:
        return error


def _start_worker(watched: Connection) -> None:
    keep_freed_blocks()
    threading.Thread(target=_end_with, args=(watched,), daemon=True).start()


def _end_with(watched: Connection) -> None:
    try:
        watched.recv()
    except (EOFError, OSError):
        os._exit(1)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # where interrupts never arrive
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
