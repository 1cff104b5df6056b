"""The one training loop: Adam on a stack of networks, phase after phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

    from mtgcn.networks import StackedNetwork

ProgressCallback = Callable[[int, int], None]
_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
EPOCHS_BETWEEN_REPORTS = 10


@contextmanager
def reporting_progress(callback: ProgressCallback) -> Iterator[None]:
    """While this lasts, training calls `callback(epochs_done, epochs_total)` from time to time."""
    token = _progress.set(callback)
    try:
        yield
    finally:
        _progress.reset(token)


@dataclass(frozen=True)
class Step:
    """One epoch's losses, which are added up and minimised, and notes, which are only written down."""

    losses: Mapping[str, Float[Tensor, "runs peers"]]
    notes: Mapping[str, Float[Tensor, "runs peers"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """Epochs that minimise the same losses."""

    epochs: int
    step: Callable[[], Step]
    after_epoch: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None  # once, when the phases before it are done


def train(network: StackedNetwork, phases: Sequence[Phase]) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
    """Minimise the phases' losses one after the other; returns the history, NaN where a phase has no such value.

    The losses of all models are summed. No parameter is shared between models, so each of them takes exactly
    the step it would take alone, and none sees another's update of the same epoch.
    """
    optimizer = _optimizer(network)
    total = sum(phase.epochs for phase in phases)
    history = _History(total, network)
    network.train()

    def epoch(phase: Phase) -> None:
        network.new_epoch()
        step = phase.step()
        optimizer.zero_grad(set_to_none=True)
        torch.stack(list(step.losses.values())).sum().backward()
        optimizer.step()
        history.write({**step.losses, **step.notes})
        phase.after_epoch()

    done = 0
    for phase in phases:
        phase.before()
        for _ in _repeat(partial(epoch, phase), phase.epochs, network.task.device):
            done += 1
            if (callback := _progress.get()) and (done % EPOCHS_BETWEEN_REPORTS == 0 or done == total):
                callback(done, total)
    return history.read()


EPOCHS_BEFORE_CAPTURE = 1  # what is made on first use must not be made while recording


def _repeat(epoch: Callable[[], None], times: int, device: torch.device) -> Iterator[None]:
    """Run `epoch` so many times. On a GPU an epoch is hundreds of tiny kernels that cost more to launch than to
    run, so it is recorded once as a CUDA graph and replayed."""
    if device.type != "cuda":
        for _ in range(times):
            epoch()
            yield
        return
    stream = torch.cuda.Stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        for _ in range(min(times, EPOCHS_BEFORE_CAPTURE)):
            epoch()
            yield
    torch.cuda.current_stream(device).wait_stream(stream)
    if times > EPOCHS_BEFORE_CAPTURE:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            epoch()
        for _ in range(times - EPOCHS_BEFORE_CAPTURE):
            graph.replay()
            yield
    torch.cuda.synchronize(device)


def _optimizer(network: StackedNetwork) -> torch.optim.Adam:
    settings = network.settings
    decayed = network.decayed_parameters()
    others = [parameter for parameter in network.parameters() if all(parameter is not one for one in decayed)]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.Adam(
        [group for group in groups if group["params"]],
        lr=settings.learning_rate,
        fused=True,
        capturable=network.task.device.type == "cuda",  # keeps the step counter where a CUDA graph can move it
    )


class _History:
    """Values per epoch and model, kept on the device until they are read."""

    def __init__(self, epochs: int, network: StackedNetwork) -> None:
        self.shape = (epochs, network.task.runs, network.peers)
        self.device = network.task.device
        self.values: dict[str, Tensor] = {}
        self.epoch = torch.zeros(1, dtype=torch.int64, device=self.device)

    def write(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name not in self.values:
                self.values[name] = torch.full(self.shape, torch.nan, device=self.device)
            self.values[name].index_copy_(0, self.epoch, value.detach()[None].to(torch.float32))
        self.epoch += 1

    def read(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        return {name: value.cpu().numpy() for name, value in self.values.items()}
