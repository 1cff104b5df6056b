"""Ranks that are threads of one process, to test communication without starting processes."""

import ast
import threading
from contextlib import nullcontext
from unittest import mock

import numpy as np
import torch

from mtgcn.distributed.communicator import Ranks
from mtgcn.distributed.fitting import fit_on_ranks, local_labels
from mtgcn.distributed.shards import read_local_graph, read_manifest
from mtgcn.io.options import TableOptions
from mtgcn.linalg.normalisation import GraphOperators
from mtgcn.task import Prediction
from mtgcn.training.loop import checkpointing

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

    def exchange(self, rows, outgoing, incoming):
        pieces = self.gather(list(rows.split(outgoing)))
        received = torch.cat([theirs[self.rank] for theirs in pieces])
        assert [len(theirs[self.rank]) for theirs in pieces] == incoming
        self.sent += sum(piece.nbytes for rank, piece in enumerate(pieces[self.rank]) if rank != self.rank)
        return received


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


def fit_on(count, folder, method, checkpoints=None):
    """The prediction of all ranks, in the order of the node table."""

    def work(ranks):
        graph = read_local_graph(read_manifest(folder / "shards"), ranks)
        labels, names = local_labels(folder / "labels.csv", graph, TableOptions())
        with checkpointing(checkpoints(graph)) if checkpoints else nullcontext():
            return graph.numbers, fit_on_ranks(method, graph.task(labels, names, seed=5), ranks)

    done = on_ranks(count, work)
    order = np.argsort(np.concatenate([numbers for numbers, _ in done]))
    parts = [part for _, part in done]
    for part in parts[1:]:
        for name, values in parts[0].parameters.items():
            np.testing.assert_array_equal(part.parameters[name], values)  # ranks never diverge
        for name, values in parts[0].history.items():
            np.testing.assert_array_equal(part.history[name], values)
    return Prediction(
        np.concatenate([part.probabilities for part in parts], 1)[:, order],
        parts[0].history,
        peers=np.concatenate([part.peers for part in parts], 2)[:, :, order],
        pseudo_labelled_at=np.concatenate([part.pseudo_labelled_at for part in parts], 1)[:, order],
        parameters=parts[0].parameters,
        peer_report=parts[0].peer_report,
    )


def assert_equal_predictions(found, expected, tolerance):
    np.testing.assert_allclose(found.probabilities, expected.probabilities, atol=tolerance)
    np.testing.assert_array_equal(found.probabilities.argmax(-1), expected.probabilities.argmax(-1))
    np.testing.assert_allclose(found.peers, expected.peers, atol=10 * tolerance)
    np.testing.assert_array_equal(found.pseudo_labelled_at, expected.pseudo_labelled_at)
    assert found.history.keys() == expected.history.keys()
    for name, values in expected.history.items():
        np.testing.assert_allclose(found.history[name], values, atol=tolerance, err_msg=name)
    assert {name: one.shape for name, one in found.parameters.items()} == {
        name: one.shape for name, one in expected.parameters.items()
    }
