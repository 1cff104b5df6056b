"""How fast this machine is right now, measured in some milliseconds, so that counts of work become seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch.nn import functional

from mtgcn.work import Work

SECONDS = 0.01  # that each kind of operation is measured for
COLUMNS = 16  # that are read along edges together
ENTRIES = 2**17  # of the sparse matrix that is measured with
LARGEST_TABLE = 2**20  # rows; a larger one is in no cache either
STRIDE = 1_000_003  # a prime, so that one entry after the other reads far from where the last one did
SMALLEST_TABLE = 2**12  # rows; what is measured with a smaller one is mostly the call
WIDE, WIDE_ROWS = 128, 2**17  # of a table that is passed over; a larger one is in no cache either
PASSES = 3  # over a table while its rows are brought to length 1
SMALL_CALLS = 200
FINEST_CLOCK = 1e-9  # seconds


@dataclass(frozen=True)
class Speeds:
    """Operations per second, of each kind that `Work` counts."""

    multiplied: float
    gathered: float
    touched: float
    calls: float

    def seconds(self, work: Work) -> float:
        """How long that takes.

        >>> Speeds(multiplied=100.0, gathered=10.0, touched=10.0, calls=1.0).seconds(Work(multiplied=50, gathered=20))
        2.5
        """
        return (
            work.multiplied / self.multiplied
            + work.gathered / self.gathered
            + work.touched / self.touched
            + work.calls / self.calls
        )


def measured_speeds(nodes: int, clock: Callable[[], float] = perf_counter) -> Speeds:
    """Of this machine, with the threads that torch takes now, on a graph of so many nodes: what reads along edges is
    faster as long as a table of all nodes stays in the cache. On average and by the clock on the wall, so that a
    machine that others use, too, is found as slow as it is."""

    def seconds(work: Callable[[], object]) -> float:
        work()  # whatever is only slow the first time
        started, repeats = clock(), 0
        while not repeats or clock() - started < SECONDS:
            work()
            repeats += 1
        return max(clock() - started, FINEST_CLOCK) / repeats

    left, right = torch.ones(1024, 256), torch.ones(256, 512)
    rows = max(SMALLEST_TABLE, min(nodes, LARGEST_TABLE))
    table = torch.ones(rows, COLUMNS)
    entries = (torch.arange(ENTRIES) * STRIDE % rows).int()
    starts, values = torch.arange(0, ENTRIES, 8, dtype=torch.int32), torch.ones(ENTRIES)
    wide, one = torch.ones(min(rows, WIDE_ROWS), WIDE), torch.ones(1)

    def call_often() -> None:
        for _ in range(SMALL_CALLS):
            torch.add(one, one)

    return Speeds(
        multiplied=left.numel() * right.shape[1] / seconds(lambda: left @ right),
        gathered=ENTRIES
        * COLUMNS
        / seconds(lambda: torch.embedding_bag(table, entries, starts, False, 0, False, values)),
        touched=PASSES * wide.numel() / seconds(lambda: functional.normalize(wide)),
        calls=SMALL_CALLS / seconds(call_often),
    )
