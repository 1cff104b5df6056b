"""The training loop for a stack of models, with Adam. On a GPU each phase is recorded once and replayed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.shapes import Float, Int, Real
from mtgcn.training.progress import EPOCHS_BETWEEN_REPORTS, note_divergence, report_progress

EPOCHS_BEFORE_CAPTURE = 1  # lazily created objects must exist before an epoch is recorded
BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Trainable(Protocol):
    """`runs` x `peers` models on one device without shared parameters, such as `mtgcn.nn.base.StackedParameters`."""

    @property
    def runs(self) -> int: ...

    @property
    def peers(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def can_be_recorded(self) -> bool:
        """Whether an epoch may be replayed as a CUDA graph."""

    def parameters(self) -> Iterable[nn.Parameter]: ...

    def decayed_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters with weight decay."""

    def train(self) -> object:
        """Switches dropout on."""

    def new_epoch(self) -> None:
        """Draws fresh random numbers; until the next call every forward pass uses the same ones."""

    def resume_after(self, epoch: int) -> None:
        """Draws the random numbers that follow this epoch."""

    def clone_parameters(self) -> dict[str, Tensor]:
        """Copies of the parameters, by name."""


class Record(Protocol):
    """What a training records of each node, such as `mtgcn.training.recording.PseudoLabelRecord`."""

    def first_epochs(self) -> Int[np.ndarray, "runs nodes"]: ...

    def resume_after(self, epoch: int, first: Int[np.ndarray, "runs nodes"]) -> None: ...


@dataclass(frozen=True)
class Step:
    """The losses of one epoch, whose sum is minimised, and further values for the history."""

    losses: Mapping[str, Float[Tensor, "runs peers"]]
    notes: Mapping[str, Real[Tensor, "runs peers"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """Epochs that minimise the same losses."""

    epochs: int
    step: Callable[[], Step]
    after_epoch: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None  # once, after the previous phases


def train(
    trainable: Trainable,
    phases: Sequence[Phase],
    adam: Adam,
    communicator: Communicator = ONE_PROCESS,
    *,
    replicated: bool = False,
    record: Record | None = None,
) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
    """Minimise the losses of each phase in turn; returns the history, NaN where a phase has no such value.

    The losses of all models are summed. Models share no parameters, so each takes the step it would take alone. Where
    nodes are spread over processes, losses and notes are shares that are summed as well, unless they are `replicated`:
    equal in all processes. The `record` is part of checkpoints (see `checkpointing`).
    """
    optimiser = adam.begin(trainable)
    total = sum(phase.epochs for phase in phases)
    history = _History(total, trainable)
    checkpoints = _checkpoints.get()
    done = _resumed(checkpoints, trainable, optimiser, history, record) if checkpoints else 0
    losses: list[str] = []  # names, of the current phase
    trainable.train()

    def epoch(phase: Phase) -> None:
        trainable.new_epoch()
        step = phase.step()
        losses[:] = step.losses
        optimiser.zero_grad()
        torch.stack(list(step.losses.values())).sum().backward()
        values = {**step.losses, **step.notes}
        if not (communicator.has_whole_graph or replicated):
            values = _summed(trainable, values, communicator)
        optimiser.step()
        history.write(values)
        phase.after_epoch()

    end = 0
    for phase in phases:
        end += phase.epochs
        if phase.epochs and done >= end:  # before the checkpoint
            continue
        phase.before()
        recorded = trainable.can_be_recorded and communicator.has_whole_graph
        for _ in _repeat(partial(epoch, phase), end - done, trainable.device, recorded=recorded):
            done += 1
            if checkpoints and checkpoints.due(done):
                at_nodes = {FIRST_EPOCH: record.first_epochs().T} if record else {}
                checkpoints.save(done, _state(trainable, optimiser, history, done), at_nodes)
            if done % EPOCHS_BETWEEN_REPORTS == 0 or done == total:
                report_progress(done, total, partial(history.means, done - 1))
        history.note_divergence(losses, done - phase.epochs, done)
    return history.read()


def _summed(trainable: Trainable, values: Mapping[str, Tensor], communicator: Communicator) -> dict[str, Tensor]:
    """Replace every gradient by the sum over processes; returns the sums of the values. One reduction serves all."""
    gradients = [parameter.grad for parameter in trainable.parameters() if parameter.grad is not None]
    parts = [*gradients, *(value.detach().to(torch.float32) for value in values.values())]
    flat = communicator.sum(torch.cat([part.reshape(-1) for part in parts]))
    pieces = flat.split([part.numel() for part in parts])
    sums = [piece.view_as(part) for piece, part in zip(pieces, parts, strict=True)]
    for gradient, total in zip(gradients, sums, strict=False):
        gradient.copy_(total)
    return dict(zip(values, sums[len(gradients) :], strict=True))


# -------------------------------------------------------------------------------------------------------- checkpoints

FIRST_EPOCH = "first epoch"  # name of the record in a checkpoint


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after an epoch: what all processes share, and what belongs to the nodes of this one."""

    epoch: int
    shared: Mapping[str, np.ndarray]
    at_nodes: Mapping[str, np.ndarray]


class Checkpoints(Protocol):
    """Where the state of a training is kept."""

    def load(self) -> Checkpoint | None:
        """The state to continue with; None to start from the beginning."""

    def due(self, epoch: int) -> bool:
        """Whether to save after this epoch."""

    def save(self, epoch: int, shared: Mapping[str, np.ndarray], at_nodes: Mapping[str, np.ndarray]) -> None: ...


_checkpoints: ContextVar[Checkpoints | None] = ContextVar("checkpoints", default=None)


@contextmanager
def checkpointing(checkpoints: Checkpoints) -> Iterator[None]:
    """Within this context, `train` continues from a checkpoint and saves new ones."""
    token = _checkpoints.set(checkpoints)
    try:
        yield
    finally:
        _checkpoints.reset(token)


def _adam_state(optimiser: Optimiser) -> Iterator[tuple[str, Tensor]]:
    for number, group in enumerate(optimiser.groups):
        for kind in ("first", "second", "steps"):
            for place, tensor in enumerate(getattr(group, kind)):
                yield f"adam {number} {kind} {place}", tensor


def _state(trainable: Trainable, optimiser: Optimiser, history: _History, done: int) -> dict[str, np.ndarray]:
    arrays = {f"parameter {name}": value.cpu().numpy() for name, value in trainable.clone_parameters().items()}
    arrays |= {name: tensor.cpu().numpy().copy() for name, tensor in _adam_state(optimiser)}
    return arrays | {f"history {name}": values[:done] for name, values in history.read().items()}


@torch.no_grad()
def _resumed(
    checkpoints: Checkpoints, trainable: Trainable, optimiser: Optimiser, history: _History, record: Record | None
) -> int:
    """Continue from the checkpoint, if there is one; returns the number of epochs done."""
    found = checkpoints.load()
    if found is None:
        return 0
    for name in trainable.clone_parameters():
        getattr(trainable, name).copy_(torch.from_numpy(found.shared[f"parameter {name}"]))
    for name, tensor in _adam_state(optimiser):
        tensor.copy_(torch.from_numpy(found.shared[name]))
    history.resume_after(
        found.epoch,
        {name.removeprefix("history "): one for name, one in found.shared.items() if name.startswith("history ")},
    )
    trainable.resume_after(found.epoch)
    if record:
        record.resume_after(found.epoch, found.at_nodes[FIRST_EPOCH].T)
    return found.epoch


# ------------------------------------------------------------------------------------------------- epochs and history


def _repeat(epoch: Callable[[], None], times: int, device: torch.device, *, recorded: bool) -> Iterator[None]:
    """Run `epoch` several times. On a GPU an epoch is hundreds of small kernels that take longer to launch than to
    run, so it is recorded as a CUDA graph and replayed."""
    if device.type != "cuda" or not recorded:
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
    """Values per epoch and model, on the device until they are read."""

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

    def resume_after(self, epoch: int, values: Mapping[str, np.ndarray]) -> None:
        """Continue the history of an interrupted training."""
        self.epoch.fill_(epoch)
        for name, earlier in values.items():
            self.values[name] = torch.full(self.shape, torch.nan, device=self.device)
            self.values[name][:epoch] = torch.from_numpy(earlier).to(self.device)

    def note_divergence(self, losses: Sequence[str], first: int, end: int) -> None:
        """Note which losses of the phase with epochs `first` to `end` were not finite."""
        for name in losses:
            of_phase = self.values[name][first:end].cpu().numpy()
            note_divergence(f"its loss {name!r}", "epoch", of_phase, before=first, total=len(self.values[name]))

    def means(self, epoch: int) -> dict[str, float]:
        """The values of an epoch, each averaged over the models; without those that are not finite."""
        found = {name: float(value[epoch].mean()) for name, value in self.values.items()}
        return {name: value for name, value in found.items() if math.isfinite(value)}

    def read(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        return {name: value.cpu().numpy() for name, value in self.values.items()}


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with weight decay added to the gradient."""

    learning_rate: float
    weight_decay: float = 0.0  # of the decayed parameters; the others have none

    def begin(self, trainable: Trainable) -> Optimiser:
        """The optimiser before its first step."""
        decayed = list(trainable.decayed_parameters())
        others = [one for one in trainable.parameters() if all(one is not other for other in decayed)]
        groups = (_Group(decayed, self.weight_decay), _Group(others, 0.0))
        return Optimiser(self.learning_rate, [group for group in groups if group.parameters])


class Optimiser:
    """Adam steps by torch's fused kernel.

    The kernel is called directly, since `torch.optim.Adam` imports torch's compiler, which takes longer than a fit on
    a small graph. The step counter is a tensor, so that it also advances when a CUDA graph is replayed.
    """

    def __init__(self, learning_rate: float, groups: Sequence[_Group]) -> None:
        self.learning_rate, self.groups = learning_rate, groups

    def zero_grad(self) -> None:
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
    """Parameters with the same weight decay, their two moments and their step counters."""

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float) -> None:
        self.parameters, self.weight_decay = list(parameters), weight_decay
        self.first = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
        self.second = [torch.zeros_like(parameter, requires_grad=False) for parameter in parameters]
        self.steps = [torch.zeros((), device=parameter.device) for parameter in parameters]
