"""Ranks that are threads of one process: what talks to others can be tested without starting any."""

import ast
import threading
from unittest import mock

import torch

from mtgcn.distributed.ranks import Ranks


class ThreadRanks(Ranks):
    """One of several threads. Whoever says something waits until all have."""

    def __init__(self, rank, group):
        super().__init__(rank, group.count)
        self.group = group

    def everyones(self, thing):
        self.group.said[self.rank] = thing
        self.group.barrier.wait()
        said = list(self.group.said)
        self.group.barrier.wait()  # nobody says the next thing before all have heard this one
        return said

    def total(self, values):
        summed = torch.stack(self.everyones(values.clone())).sum(0)
        return values.copy_(summed)

    def exchanged(self, rows, outgoing, incoming, out=None):
        pieces = self.everyones(list(rows.split(outgoing)))
        received = torch.cat([theirs[self.rank] for theirs in pieces])
        assert [len(theirs[self.rank]) for theirs in pieces] == incoming
        self.sent += sum(piece.nbytes for rank, piece in enumerate(pieces[self.rank]) if rank != self.rank)
        return received if out is None else out.copy_(received)


class _Group:
    def __init__(self, count):
        self.count, self.said, self.barrier = count, [None] * count, threading.Barrier(count, timeout=60)


def _one_after_the_other(read):
    """NumPy reads headers of arrays by Python's own parser, whose depth of recursion threads of Python 3.11 may count
    together, and then it fails; ranks proper are processes."""
    lock = threading.Lock()

    def locked(text):
        with lock:
            return read(text)

    return locked


def on_ranks(count, work):
    """What `work(ranks)` gives on each of so many ranks; what one raises is raised, once all have ended."""
    group = _Group(count)
    results, faults = [None] * count, []

    def run(rank):
        try:
            results[rank] = work(ThreadRanks(rank, group))
        except BaseException as fault:
            faults.append(fault)
            group.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    with mock.patch("ast.literal_eval", _one_after_the_other(ast.literal_eval)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    own = [fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)]
    if own or faults:
        raise (own or faults)[0]
    return results
