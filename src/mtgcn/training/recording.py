"""Records of a training: snapshots of predictions, and the epoch of each node's first pseudo label.

Recording does not change any result. Nothing is scored here, since that takes the hidden labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.nn.base import CLASSES, PEERS, StackedNetwork
from mtgcn.shapes import Bool, Int
from mtgcn.task import MISSING
from mtgcn.training.loop import Phase
from mtgcn.training.pseudo_labels import PseudoLabels

if TYPE_CHECKING:
    from mtgcn.task import Task


class PseudoLabelRecord:
    """For each run and node, the first epoch, counted from 1, in which the node had a pseudo label."""

    def __init__(self, task: Task, epochs_before: int = 0) -> None:
        # A tensor, so that it also advances when a CUDA graph is replayed.
        self._epoch = torch.full((), epochs_before, dtype=torch.int32, device=task.device)
        self._first = torch.zeros(task.num_nodes, task.runs, dtype=torch.int32, device=task.device)

    def next_epoch(self, pseudo_labelled: Bool[Tensor, "nodes runs"]) -> None:
        """Add the pseudo labels of the next epoch."""
        self._epoch += 1
        self.add(pseudo_labelled, self._epoch)

    def add(self, pseudo_labelled: Bool[Tensor, "nodes runs"], epoch: int | Tensor) -> None:
        """Add the pseudo labels of an epoch; nodes with earlier ones keep the earlier epoch."""
        new = pseudo_labelled & (self._first == 0)
        self._first.copy_(torch.where(new, epoch, self._first))

    def resume(self, first: Int[np.ndarray, "runs nodes"], epoch: int) -> None:
        """Resume from the `first_epochs` of an earlier record after this epoch."""
        self._epoch.fill_(epoch)
        self._first.copy_(torch.from_numpy(np.ascontiguousarray(first.T)))

    def first_epochs(self) -> Int[np.ndarray, "runs nodes"]:
        """The epochs; 0 for a node that had no pseudo label."""
        return self._first.T.contiguous().cpu().numpy()


@dataclass
class Recording:
    """Snapshots of the fits within a `with recording(…)` block, in the order of their runs."""

    every: int
    epochs: tuple[int, ...] = ()  # after which a snapshot was taken, counted from 1
    _predicted: list[np.ndarray] = field(default_factory=list)
    _chosen: list[np.ndarray] = field(default_factory=list)

    @property
    def predicted(self) -> Int[np.ndarray, "runs snapshots nodes"]:
        """The predicted class of each node, without dropout."""
        return np.concatenate(self._predicted)

    @property
    def chosen(self) -> Int[np.ndarray, "runs snapshots peers classes slots"]:
        """The nodes that each peer pseudo-labelled as each class; -1 for an empty slot."""
        return np.concatenate(self._chosen)

    def add(self, epochs: tuple[int, ...], predicted: np.ndarray, chosen: np.ndarray) -> None:
        """Add the runs of another fit."""
        self.epochs = epochs
        self._predicted.append(predicted)
        self._chosen.append(chosen)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(every: int = 10) -> Iterator[Recording]:
    """Within this context, mutual teaching takes a snapshot every `every` epochs and after the last one."""
    if every < 1:
        raise InputError(f"every is {every}; give at least 1")
    result = Recording(every)
    token = _recording.set(result)
    try:
        yield result
    finally:
        _recording.reset(token)


class Recorder:
    """Takes the snapshots of one fit.

    Every epoch overwrites the snapshot of its group of epochs, so that the last one stays. An epoch that is replayed as
    a CUDA graph cannot decide whether to write.
    """

    def __init__(
        self, kept: Recording, network: StackedNetwork, epochs: int, answer: Callable[[Tensor], Tensor]
    ) -> None:
        task = network.task
        self.kept, self.network, self.answer = kept, network, answer
        self.epochs = tuple(min(start + kept.every, epochs) for start in range(0, epochs, kept.every))
        shape = (len(self.epochs), task.num_nodes, task.runs)
        self.predicted = torch.zeros(shape, dtype=torch.int32, device=task.device)
        self.chosen: Tensor | None = None  # until the first pseudo labels
        self.epoch = torch.zeros(1, dtype=torch.int64, device=task.device)

    def watched(self, phase: Phase) -> Phase:
        """The phase with a snapshot after each epoch."""

        def after_epoch() -> None:
            phase.after_epoch()
            probabilities = self.answer(self.network.probabilities()).mean(PEERS)  # nodes, classes, runs
            predicted = probabilities.argmax(CLASSES).to(torch.int32)
            self.predicted.index_copy_(0, self.epoch // self.kept.every, predicted[None])
            self.epoch += 1

        return replace(phase, after_epoch=after_epoch)

    def keep_choice(self, chosen: PseudoLabels) -> None:
        """Record the pseudo labels of this epoch."""
        nodes = torch.where(chosen.filled, chosen.nodes, MISSING).to(torch.int32)[None]
        if self.chosen is None:
            self.chosen = nodes.new_full((len(self.epochs), *nodes.shape[1:]), MISSING)
        self.chosen.index_copy_(0, self.epoch // self.kept.every, nodes)

    def finish(self) -> None:
        """Add all snapshots to the recording."""
        task, peers = self.network.task, self.network.peers
        taught = self.predicted.new_empty(len(self.epochs), 0, task.runs, peers) if self.chosen is None else self.chosen
        by_class = taught.unflatten(1, (task.num_classes, len(taught[0]) // task.num_classes))
        self.kept.add(
            self.epochs,
            self.predicted.permute(2, 0, 1).cpu().numpy(),
            by_class.permute(3, 0, 4, 1, 2).cpu().numpy(),
        )


def recorder_for(network: StackedNetwork, epochs: int, answer: Callable[[Tensor], Tensor]) -> Recorder | None:
    """A recorder within a `recording` context, else None. `answer` selects from the probabilities of all peers those
    whose mean is the prediction."""
    kept = _recording.get()
    return None if kept is None else Recorder(kept, network, epochs, answer)
