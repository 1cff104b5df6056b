"""The training loop for a stack of models, with Adam, checkpoints, and records of predictions and pseudo labels.

On a GPU an epoch of each phase is recorded once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.errors import InputError
from mtgcn.nn.base import CLASSES, PEERS, StackedNetwork, StackedParameters
from mtgcn.shapes import Bool, Float, Int, Real
from mtgcn.task import MISSING
from mtgcn.training.progress import EPOCHS_BETWEEN_REPORTS, assigned, report_progress
from mtgcn.training.pseudo_labels import PseudoLabels

if TYPE_CHECKING:
    from mtgcn.task import Task

EPOCHS_BEFORE_CAPTURE = 1  # lazily created objects must exist before an epoch is recorded
BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(frozen=True)
class Step:
    """The losses of one epoch, whose sum is minimised, and further values for the history."""

    losses: Mapping[str, Float[Tensor, "runs peers"]]
    notes: Mapping[str, Real[Tensor, "runs peers"]] = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """A training phase: consecutive epochs with the same losses."""

    epochs: int
    step: Callable[[], Step]
    after_epoch: Callable[[], None] = lambda: None
    before: Callable[[], None] = lambda: None  # called once, after the previous phases


def train(
    trainable: StackedParameters,
    phases: Sequence[Phase],
    adam: Adam,
    communicator: Communicator = ONE_PROCESS,
    *,
    replicated: bool = False,
    record: PseudoLabelRecord | None = None,
    after_epoch: Callable[[int], None] = lambda done: None,
) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
    """Minimise the losses of one phase after the other; returns the history, NaN where a phase has no such value.

    The losses of all models are summed. Models share no parameters, so each takes the step it would take alone. With
    several processes, losses and notes are partial sums and are added, unless they are `replicated` (equal everywhere).
    The `record` is part of checkpoints (see `checkpointing`). `after_epoch` gets the number of completed epochs; unlike
    that of a phase, it is never part of a CUDA graph.
    """
    optimiser = Optimiser(adam, trainable)
    total = sum(phase.epochs for phase in phases)
    history = _History(total, trainable)
    checkpoints, done = _checkpoints.get(), 0
    if checkpoints and (found := checkpoints.load()):
        state, first_epochs = found
        for name in state:
            if name.startswith("history "):
                history.of(name.removeprefix("history "))
        for name, tensor in _state(trainable, optimiser, history).items():
            tensor.copy_(torch.from_numpy(state[name]))
        done = int(history.epoch)
        trainable.resume_after(done)
        if record and first_epochs is not None:
            record.resume_after(done, first_epochs)
    trainable.train()

    def epoch(phase: Phase) -> None:
        trainable.new_epoch()
        step = phase.step()
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
            after_epoch(done)
            if checkpoints and done % checkpoints.every == 0:
                state = {name: tensor.cpu().numpy() for name, tensor in _state(trainable, optimiser, history).items()}
                checkpoints.save(state, record.first_epochs() if record else None)
            if done % EPOCHS_BETWEEN_REPORTS == 0 or done == total:
                report_progress(done, total)
    return history.read()


def _summed(stack: StackedParameters, values: Mapping[str, Tensor], communicator: Communicator) -> dict[str, Tensor]:
    """Sum gradients, in place, and values over processes in one reduction; returns the sums of the values."""
    gradients = [parameter.grad for parameter in stack.parameters() if parameter.grad is not None]
    parts = [*gradients, *(value.detach().to(torch.float32) for value in values.values())]
    flat = communicator.sum(torch.cat([part.reshape(-1) for part in parts]))
    pieces = flat.split([part.numel() for part in parts])
    sums = [piece.view_as(part) for piece, part in zip(pieces, parts, strict=True)]
    for gradient, total in zip(gradients, sums, strict=False):
        gradient.copy_(total)
    return dict(zip(values, sums[len(gradients) :], strict=True))


State = Mapping[str, np.ndarray]
FirstEpochs = Int[np.ndarray, "runs nodes"]  # first epoch as a pseudo label, for the nodes of this process


class Checkpoints(Protocol):
    """Storage for the state of training, which is equal in all processes, and for a record of pseudo labels if any."""

    @property
    def every(self) -> int:
        """Epochs between checkpoints."""

    def load(self) -> tuple[State, FirstEpochs | None] | None:
        """The state to continue from; None to start from the beginning."""

    def save(self, state: State, first_epochs: FirstEpochs | None) -> None: ...


_checkpoints: ContextVar[Checkpoints | None] = ContextVar("checkpoints", default=None)


def checkpointing(checkpoints: Checkpoints) -> AbstractContextManager[Checkpoints]:
    """Within this context, `train` continues from a checkpoint and saves new ones."""
    return assigned(_checkpoints, checkpoints)


def _state(trainable: StackedParameters, optimiser: Optimiser, history: _History) -> dict[str, Tensor]:
    """All tensors that an epoch changes."""
    state = {"epoch": history.epoch}
    state |= {f"parameter {name}": values for name, values in trainable.state_dict().items()}
    for number, group in enumerate(optimiser.groups):
        tensors = (*group.first, *group.second, *group.steps)
        state |= {f"adam {number} {place}": tensor for place, tensor in enumerate(tensors)}
    return state | {f"history {name}": values for name, values in history.values.items()}


def _repeat(epoch: Callable[[], None], times: int, device: torch.device, *, recorded: bool) -> Iterator[None]:
    """Run `epoch` several times. On a GPU it is recorded as a CUDA graph and replayed, since its hundreds of small
    kernels take longer to launch than to run."""
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
    """Values by epoch and model, kept on the device until they are read."""

    def __init__(self, epochs: int, trainable: StackedParameters) -> None:
        self.shape = (epochs, trainable.runs, trainable.peers)
        self.device = trainable.device
        self.values: dict[str, Tensor] = {}
        self.epoch = torch.zeros(1, dtype=torch.int64, device=self.device)

    def write(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            self.of(name).index_copy_(0, self.epoch, value.detach()[None].to(torch.float32))
        self.epoch += 1

    def of(self, name: str) -> Float[Tensor, "epochs runs peers"]:
        """The values with this name; NaN until they are written."""
        if name not in self.values:
            self.values[name] = torch.full(self.shape, torch.nan, device=self.device)
        return self.values[name]

    def read(self) -> dict[str, Float[np.ndarray, "epochs runs peers"]]:
        return {name: value.cpu().numpy() for name, value in self.values.items()}


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba, 2015) with weight decay added to the gradient."""

    learning_rate: float
    weight_decay: float = 0.0  # weight decay of `decayed_parameters`; other parameters have none


class Optimiser:
    """Adam steps by torch's fused kernel.

    The kernel is called directly, since importing torch's compiler, as `torch.optim.Adam` does, takes longer than a
    fit on a small graph. The step counter is a tensor, so that it also advances when a CUDA graph is replayed.
    """

    def __init__(self, adam: Adam, trainable: StackedParameters) -> None:
        self.options: dict[str, Any] = {"beta1": BETAS[0], "beta2": BETAS[1], "eps": EPSILON, "lr": adam.learning_rate}
        self.options |= {"amsgrad": False, "maximize": False}
        decayed = list(trainable.decayed_parameters())
        others = [one for one in trainable.parameters() if all(one is not other for other in decayed)]
        self.groups = [_Group(some, decay) for some, decay in ((decayed, adam.weight_decay), (others, 0.0)) if some]

    def zero_grad(self) -> None:
        for group in self.groups:
            for parameter in group.parameters:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for group in self.groups:
            for steps in group.steps:
                steps += 1
            each = zip(group.parameters, group.first, group.second, group.steps, strict=True)
            used = [(one, one.grad, *state) for one, *state in each if one.grad is not None]  # a module may not use all
            parameters, gradients, first, second, steps_taken = map(list, zip(*used, strict=True))
            tensors: list[Any] = [parameters, gradients, first, second, [], steps_taken]
            torch._fused_adam_(*tensors, **self.options, weight_decay=group.weight_decay)


class _Group:
    """Parameters with the same weight decay, and their moments and step counters."""

    def __init__(self, parameters: Sequence[Tensor], weight_decay: float) -> None:
        self.parameters, self.weight_decay = list(parameters), weight_decay
        self.first, self.second = ([torch.zeros_like(one, requires_grad=False) for one in parameters] for _ in range(2))
        self.steps = [torch.zeros((), device=one.device) for one in parameters]


# ----------------------------------------------------------------------------------------------------------- records
# Recording does not change any result. Nothing is scored here, since scores need the hidden labels.


class PseudoLabelRecord:
    """The first epoch, counted from 1, in which each node had a pseudo label, for every run."""

    def __init__(self, task: Task, epochs_before: int = 0) -> None:
        # This is a tensor, so that it also advances when a CUDA graph is replayed.
        self._epoch = torch.full((), epochs_before, dtype=torch.int32, device=task.device)
        self._first = torch.zeros(task.num_nodes, task.runs, dtype=torch.int32, device=task.device)

    def next_epoch(self, pseudo_labelled: Bool[Tensor, "nodes runs"]) -> None:
        """Add the pseudo labels of the next epoch."""
        self._epoch += 1
        self.add(pseudo_labelled, self._epoch)

    def add(self, pseudo_labelled: Bool[Tensor, "nodes runs"], epoch: int | Tensor) -> None:
        """Add the pseudo labels of an epoch. Nodes keep the first epoch in which they had one."""
        new = pseudo_labelled & (self._first == 0)
        self._first.copy_(torch.where(new, epoch, self._first))

    def resume_after(self, epoch: int, first: Int[np.ndarray, "runs nodes"]) -> None:
        """Continue the record `first` of a training that was interrupted after `epoch`."""
        self._epoch.clamp_(min=epoch)
        self._first.copy_(torch.from_numpy(np.ascontiguousarray(first.T)))

    def first_epochs(self) -> Int[np.ndarray, "runs nodes"]:
        """The first epoch of each node; 0 for a node that never had a pseudo label."""
        return self._first.T.contiguous().cpu().numpy()


@dataclass
class Recording:
    """Snapshots of all fits within a `with recording(…)` block, in the order of their runs."""

    every: int
    epochs: tuple[int, ...] = ()  # epochs after which a snapshot was taken, counted from 1
    fits: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)

    @property
    def predicted(self) -> Int[np.ndarray, "runs snapshots nodes"]:
        """The predicted class of each node, computed without dropout."""
        return np.concatenate([predicted for predicted, _ in self.fits])

    @property
    def chosen(self) -> Int[np.ndarray, "runs snapshots peers classes slots"]:
        """The nodes that each peer pseudo-labelled as each class; -1 for an empty slot."""
        return np.concatenate([chosen for _, chosen in self.fits])


_recording: ContextVar[Recording | None] = ContextVar("recording", default=None)


def recording(every: int = 10) -> AbstractContextManager[Recording]:
    """Record a snapshot of mutual teaching every `every` epochs, and after the last one, within this context."""
    if every < 1:
        raise InputError(f"every is {every}; give at least 1")
    return assigned(_recording, Recording(every))


class Recorder:
    """Takes the snapshots of one fit; does nothing outside of a `recording` context."""

    def __init__(self, network: StackedNetwork, epochs: int, peers: slice) -> None:
        """The mean of the `peers` is the prediction."""
        self.network, self.peers, self.to = network, peers, _recording.get()
        self.epochs = [] if self.to is None else [*range(self.to.every, epochs, self.to.every), epochs]
        self.snapshots: list[tuple[Tensor, Tensor | None]] = []

    def after_epoch(self, done: int, chosen: PseudoLabels | None) -> None:
        """Record the predicted classes and the pseudo labels of this epoch."""
        if done in self.epochs:
            predicted = self.network.probabilities()[..., self.peers].mean(PEERS).argmax(CLASSES)  # nodes, runs
            nodes = None if chosen is None else torch.where(chosen.filled, chosen.nodes, MISSING)
            self.snapshots.append((predicted.to(torch.int32), nodes))

    def finish(self) -> None:
        """Add all snapshots to the recording."""
        if self.to is None or not self.snapshots:
            return
        classes, (last, nodes) = self.network.task.num_classes, self.snapshots[-1]
        if nodes is None:  # there was never a pseudo label
            nodes = last.new_empty(0, self.network.runs, self.network.peers)
        chosen = [torch.full_like(nodes, MISSING) if one is None else one for _, one in self.snapshots]
        by_class = torch.stack(chosen).to(torch.int32).unflatten(1, (classes, len(nodes) // classes))
        predicted = torch.stack([one for one, _ in self.snapshots]).permute(2, 0, 1)
        self.to.epochs = tuple(self.epochs)
        self.to.fits.append((predicted.cpu().numpy(), by_class.permute(3, 0, 4, 1, 2).cpu().numpy()))
