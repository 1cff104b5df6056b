"""The training loop for a stack of models, and its optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from mtgcn.shapes import Float, Real
from mtgcn.training.progress import EPOCHS_BETWEEN_REPORTS, note_divergence, report_progress


class Trainable(Protocol):
    """`runs` x `peers` models on one device that share no parameter; `mtgcn.nn.base.StackedParameters` is one."""

    @property
    def runs(self) -> int: ...

    @property
    def peers(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def can_be_recorded(self) -> bool:
        """Whether an epoch may be replayed as a CUDA graph."""

    def parameters(self) -> Iterable[nn.Parameter]:
        """All that is trained."""

    def decayed_parameters(self) -> Iterable[nn.Parameter]:
        """Those of the parameters that weight decay pulls on."""

    def train(self) -> object:
        """Training begins: dropout is on from here."""

    def new_epoch(self) -> None:
        """Fresh random numbers from here on; until the next call, every pass sees the same ones."""


BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with weight decay as a gradient."""

    learning_rate: float
    weight_decay: float = 0.0  # of the parameters that decay; the others have none

    def begin(self, trainable: Trainable) -> Optimisation:
        """Before the first step, with nothing remembered."""
        decayed = list(trainable.decayed_parameters())
        others = [one for one in trainable.parameters() if all(one is not other for other in decayed)]
        groups = (_Group(decayed, self.weight_decay), _Group(others, 0.0))
        return Optimisation(self.learning_rate, [group for group in groups if group.parameters])


class Optimisation:
    """Steps of Adam, by torch's fused kernel.

    The kernel is called as `torch.optim.Adam` calls it, without that class: it imports torch's compiler on first use,
    which takes longer than a whole fit on a small graph. The step counter is a tensor, so that an epoch recorded once
    as a CUDA graph sees it move.
    """

    def __init__(self, learning_rate: float, groups: Sequence[_Group]) -> None:
        self.learning_rate, self.groups = learning_rate, groups

    def forget_gradients(self) -> None:
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            for steps in group.steps:
                steps += 1
            torch._fused_adam_(
                group.parameters,
                [cast(Tensor, parameter.grad) for parameter in group.parameters],
                group.first,
                group.second,
                [],
                group.steps,
                lr=self.learning_rate,
                beta1=BETAS[0],
                beta2=BETAS[1],
                weight_decay=group.weight_decay,
                eps=EPSILON,
                amsgrad=False,
                maximize=False,
            )


class _Group:
    """Parameters that decay alike, and what Adam remembers of each: its two moments, and how often it was moved."""

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float) -> None:
        self.parameters, self.weight_decay = list(parameters), weight_decay
        self.first = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
        self.second = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in parameters]


@dataclass(frozen=True)
class Step:
    """One epoch's losses, which are added up and minimised, and notes, which are only written down."""

    losses: Mapping[str, Float[Tensor, "runs peers"]]
    notes: Mapping[str, Real[Tensor, "runs peers"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """Epochs that minimise the same losses."""

    epochs: int
    step: Callable[[], Step]
    after_epoch: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None  # once, when the phases before it are done


def train(
    trainable: Trainable, phases: Sequence[Phase], adam: Adam
) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
    """Minimise the phases' losses one after the other; returns the history, NaN where a phase has no such value.

    The losses of all models are summed. No parameter is shared between models, so each of them takes exactly
    the step it would take alone, and none sees another's update of the same epoch.
    """
    optimisation = adam.begin(trainable)
    total = sum(phase.epochs for phase in phases)
    history = _History(total, trainable)
    trainable.train()
    losses: list[str] = []  # of the phase that is trained

    def epoch(phase: Phase) -> None:
        trainable.new_epoch()
        step = phase.step()
        losses[:] = step.losses
        optimisation.forget_gradients()
        torch.stack(list(step.losses.values())).sum().backward()
        optimisation.step()
        history.write({**step.losses, **step.notes})
        phase.after_epoch()

    done = 0
    for phase in phases:
        phase.before()
        for _ in _repeat(partial(epoch, phase), phase.epochs, trainable):
            done += 1
            if done % EPOCHS_BETWEEN_REPORTS == 0 or done == total:
                report_progress(done, total, partial(history.means, done - 1))
        history.note_divergence(losses, done - phase.epochs, done)
    return history.read()


EPOCHS_BEFORE_CAPTURE = 1  # what is made on first use must not be made while recording


def _repeat(epoch: Callable[[], None], times: int, trainable: Trainable) -> Iterator[None]:
    """Run `epoch` so many times. On a GPU an epoch is hundreds of tiny kernels that cost more to launch than to
    run, so it is recorded once as a CUDA graph and replayed, if it can be."""
    device = trainable.device
    if device.type != "cuda" or not trainable.can_be_recorded:
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


class _History:
    """Values per epoch and model, kept on the device until they are read."""

    def __init__(self, epochs: int, trainable: Trainable) -> None:
        self.shape = (epochs, trainable.runs, trainable.peers)
        self.device = trainable.device
        self.values: dict[str, Tensor] = {}
        self.epoch = torch.zeros(1, dtype=torch.int64, device=self.device)

    def write(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name not in self.values:
                self.values[name] = torch.full(self.shape, torch.nan, device=self.device)
            self.values[name].index_copy_(0, self.epoch, value.detach()[None].to(torch.float32))
        self.epoch += 1

    def note_divergence(self, losses: Sequence[str], first: int, end: int) -> None:
        """Remember which of these losses of a phase, whose epochs are `first` up to `end`, was not finite, and when."""
        for name in losses:
            of_phase = self.values[name][first:end].cpu().numpy()
            note_divergence(f"its loss {name!r}", "epoch", of_phase, before=first, total=len(self.values[name]))

    def means(self, epoch: int) -> dict[str, float]:
        """What was written in an epoch, each the mean over all models; what a phase does not know is left out."""
        found = {name: float(value[epoch].mean()) for name, value in self.values.items()}
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def read(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        return {name: value.cpu().numpy() for name, value in self.values.items()}
