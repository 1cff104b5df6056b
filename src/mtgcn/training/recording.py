"""How a training went: what was predicted and what was taught every few epochs, for whoever asks to see it.

Asking changes no number of the training. Nothing is scored here, since that takes the hidden labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.nn.axes import CLASSES, PEERS
from mtgcn.nn.base import StackedNetwork
from mtgcn.shapes import Int
from mtgcn.task import MISSING
from mtgcn.training.loop import Phase
from mtgcn.training.pseudo_labels import Chosen


@dataclass
class Recording:
    """What the fits of a `with recording(…)` block left behind, in the order of their runs."""

    every: int
    epochs: tuple[int, ...] = ()  # after which a snapshot was taken, counted from 1
    _predicted: list[np.ndarray] = field(default_factory=list)
    _chosen: list[np.ndarray] = field(default_factory=list)

    @property
    def predicted(self) -> Int[np.ndarray, "runs snapshots nodes"]:
        """The class of each node in the method's answer, without dropout."""
        return np.concatenate(self._predicted)

    @property
    def chosen(self) -> Int[np.ndarray, "runs snapshots peers classes slots"]:
        """The nodes that each peer taught as each class in the epoch of the snapshot; MISSING where there was none."""
        return np.concatenate(self._chosen)

    def add(self, epochs: tuple[int, ...], predicted: np.ndarray, chosen: np.ndarray) -> None:
        """The runs of one more fit."""
        self.epochs = epochs
        self._predicted.append(predicted)
        self._chosen.append(chosen)


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recording(every: int = 10) -> Iterator[Recording]:
    """While this lasts, methods that teach take a snapshot of every so many epochs, and of the last one."""
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

    Every epoch writes over the snapshot of its group of epochs, so that the last of them stays: an epoch that is
    replayed as a CUDA graph can do no other.
    """

    def __init__(
        self, kept: Recording, network: StackedNetwork, epochs: int, answer: Callable[[Tensor], Tensor]
    ) -> None:
        task = network.task
        self.kept, self.network, self.answer = kept, network, answer
        self.epochs = tuple(min(start + kept.every, epochs) for start in range(0, epochs, kept.every))
        shape = (len(self.epochs), task.num_nodes, task.runs)
        self.predicted = torch.zeros(shape, dtype=torch.int32, device=task.device)
        self.chosen: Tensor | None = None  # until somebody teaches
        self.epoch = torch.zeros(1, dtype=torch.int64, device=task.device)

    def watched(self, phase: Phase) -> Phase:
        """The same epochs, with a look at the answer after each."""

        def after_epoch() -> None:
            phase.after_epoch()
            probabilities = self.answer(self.network.probabilities()).mean(PEERS)  # nodes, classes, runs
            predicted = probabilities.argmax(CLASSES).to(torch.int32)
            self.predicted.index_copy_(0, self.epoch // self.kept.every, predicted[None])
            self.epoch += 1

        return replace(phase, after_epoch=after_epoch)

    def keep_choice(self, chosen: Chosen) -> None:
        """What the peers teach in this epoch."""
        nodes = torch.where(chosen.filled, chosen.nodes, MISSING).to(torch.int32)[None]
        if self.chosen is None:
            self.chosen = nodes.new_full((len(self.epochs), *nodes.shape[1:]), MISSING)
        self.chosen.index_copy_(0, self.epoch // self.kept.every, nodes)

    def hand_over(self) -> None:
        """All snapshots to the one who asked for them."""
        task, peers = self.network.task, self.network.peers
        taught = self.predicted.new_empty(len(self.epochs), 0, task.runs, peers) if self.chosen is None else self.chosen
        by_class = taught.unflatten(1, (task.num_classes, len(taught[0]) // task.num_classes))
        self.kept.add(
            self.epochs,
            self.predicted.permute(2, 0, 1).cpu().numpy(),
            by_class.permute(3, 0, 4, 1, 2).cpu().numpy(),
        )


def recorder_for(network: StackedNetwork, epochs: int, answer: Callable[[Tensor], Tensor]) -> Recorder | None:
    """A recorder, if somebody is recording. `answer` takes from the probabilities of all peers those whose mean is the
    answer."""
    kept = _recording.get()
    return None if kept is None else Recorder(kept, network, epochs, answer)
