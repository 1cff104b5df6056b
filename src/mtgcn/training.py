"""The one training loop: Adam on a stack of networks, phase after phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

from mtgcn.memory import keeping_freed_blocks
from mtgcn.networks import StackedNetwork

ProgressCallback = Callable[[int, int], None]
_progress: ContextVar[ProgressCallback | None] = ContextVar("progress", default=None)
_stage: ContextVar[str] = ContextVar("stage", default="")
EPOCHS_BETWEEN_REPORTS = 10


def reporting_progress(callback: ProgressCallback) -> AbstractContextManager[None]:
    """While this lasts, training calls `callback(epochs_done, epochs_total)` from time to time."""
    return _while_it_lasts(_progress, callback)


def stage(title: str) -> AbstractContextManager[None]:
    """While this lasts, whoever shows progress can say what is trained."""
    return _while_it_lasts(_stage, title)


@contextmanager
def _while_it_lasts(variable: ContextVar[Any], value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def current_stage() -> str:
    """What is trained just now; empty if nobody said."""
    return _stage.get()


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
    adam = _Adam(network)
    total = sum(phase.epochs for phase in phases)
    history = _History(total, network)
    network.train()

    def epoch(phase: Phase) -> None:
        network.new_epoch()
        step = phase.step()
        adam.forget_gradients()
        torch.stack(list(step.losses.values())).sum().backward()
        adam.step()
        history.write({**step.losses, **step.notes})
        phase.after_epoch()

    done = 0
    with keeping_freed_blocks():
        for phase in phases:
            phase.before()
            for _ in _repeat(partial(epoch, phase), phase.epochs, network):
                done += 1
                if (callback := _progress.get()) and (done % EPOCHS_BETWEEN_REPORTS == 0 or done == total):
                    callback(done, total)
    return history.read()


EPOCHS_BEFORE_CAPTURE = 1  # what is made on first use must not be made while recording


def _repeat(epoch: Callable[[], None], times: int, network: StackedNetwork) -> Iterator[None]:
    """Run `epoch` so many times. On a GPU an epoch is hundreds of tiny kernels that cost more to launch than to
    run, so it is recorded once as a CUDA graph and replayed, if the network can be."""
    device = network.task.device
    if device.type != "cuda" or not network.can_be_recorded:
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


class _Adam:
    """Adam (Kingma and Ba, 2015) with weight decay as a gradient, by torch's fused kernel.

    The kernel is called as `torch.optim.Adam` calls it, without that class: it imports torch's compiler on first use,
    which takes longer than a whole fit on a small graph. The step counter is a tensor, so that an epoch recorded once
    as a CUDA graph sees it move.
    """

    BETAS = (0.9, 0.999)
    EPSILON = 1e-8

    def __init__(self, network: StackedNetwork) -> None:
        self.learning_rate = network.settings.learning_rate
        decayed = network.decayed_parameters()
        others = [parameter for parameter in network.parameters() if all(parameter is not one for one in decayed)]
        groups: tuple[tuple[list[Tensor], float], ...] = (
            ([*decayed], network.settings.weight_decay),
            ([*others], 0.0),
        )
        self.groups = [(parameters, decay, _Moments.of(parameters)) for parameters, decay in groups if parameters]

    def forget_gradients(self) -> None:
        for parameters, _, _ in self.groups:
            for parameter in parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameters, decay, moments in self.groups:
            torch._foreach_add_(moments.steps, 1)
            torch._fused_adam_(
                parameters,
                [cast(Tensor, parameter.grad) for parameter in parameters],
                moments.first,
                moments.second,
                [],
                moments.steps,
                lr=self.learning_rate,
                beta1=self.BETAS[0],
                beta2=self.BETAS[1],
                weight_decay=decay,
                eps=self.EPSILON,
                amsgrad=False,
                maximize=False,
            )


@dataclass(frozen=True)
class _Moments:
    """What Adam remembers of each parameter."""

    first: list[Tensor]
    second: list[Tensor]
    steps: list[Tensor]

    @staticmethod
    def of(parameters: Sequence[Tensor]) -> _Moments:
        return _Moments(
            first=[torch.zeros_like(parameter, requires_grad=False) for parameter in parameters],
            second=[torch.zeros_like(parameter, requires_grad=False) for parameter in parameters],
            steps=[torch.zeros((), device=parameter.device) for parameter in parameters],
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
