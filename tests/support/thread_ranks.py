"""Ranks that are threads of one process, to test communication without starting processes."""

import ast
import threading
from contextlib import nullcontext
from unittest import mock

import torch

from mtgcn.distributed.communicator import Ranks
from mtgcn.linalg.graph_operators import GraphOperators

for name in ("smoothed", "input_chain"):  # they communicate; up to Python 3.11 all threads share the lock of a property
    vars(GraphOperators)[name].lock = nullcontext()


class ThreadRanks(Ranks):
    """One of several threads."""

    def __init__(self, rank, group):
        super().__init__(rank, group.count)
        self.group = group

    def gather(self, value):
        self.group.values[self.rank] = value
        self.group.barrier.wait()
        values = list(self.group.values)
        self.group.barrier.wait()  # before the next values
        return values

    def sum(self, values):
        return torch.stack(self.gather(values.clone())).sum(0)

    def exchange(self, rows, outgoing, incoming, out=None):
        pieces = self.gather(list(rows.split(outgoing)))
        received = torch.cat([theirs[self.rank] for theirs in pieces])
        assert [len(theirs[self.rank]) for theirs in pieces] == incoming
        self.sent += sum(piece.nbytes for rank, piece in enumerate(pieces[self.rank]) if rank != self.rank)
        return received if out is None else out.copy_(received)


class _Group:
    def __init__(self, count):
        self.count, self.values, self.barrier = count, [None] * count, threading.Barrier(count, timeout=20)


def _with_lock(read):
    """NumPy reads headers with Python's parser, whose recursion depth threads of Python 3.11 may share."""
    lock = threading.Lock()

    def locked(text):
        with lock:
            return read(text)

    return locked


def on_ranks(count, work):
    """The results of `work(ranks)` on each rank; an exception of one is raised once all have ended."""
    group = _Group(count)
    results, faults = [None] * count, []

    def run(rank):
        try:
            results[rank] = work(ThreadRanks(rank, group))
        except BaseException as fault:
            faults.append(fault)
            group.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(count)]
    with mock.patch("ast.literal_eval", _with_lock(ast.literal_eval)):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    own = [fault for fault in faults if not isinstance(fault, threading.BrokenBarrierError)]
    if own or faults:
        raise (own or faults)[0]
    return results
