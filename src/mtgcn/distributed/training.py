"""The training loop over all ranks: every rank takes the same steps, by the sum of all ranks' gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mtgcn.distributed.ranks import Ranks
from mtgcn.errors import InputError
from mtgcn.nn.base import StackedParameters
from mtgcn.training.loop import Adam, Optimiser, Phase, Step
from mtgcn.training.progress import EPOCHS_BETWEEN_REPORTS, _progress


@dataclass
class Progress:
    """How far a training has got: what is needed to go on from there, beside the parameters."""

    optimisation: Optimiser
    done: int = 0  # epochs
    history: dict[str, list[np.ndarray]] = field(default_factory=dict)  # by name and epoch: runs, peers

    def shared(self, network: StackedParameters) -> dict[str, np.ndarray]:
        """All of it and the parameters, as arrays that are the same on every rank."""
        arrays = {f"parameter {name}": value.cpu().numpy() for name, value in network.clone_parameters().items()}
        for name, tensor in self._memory():
            arrays[name] = tensor.cpu().numpy().copy()
        return arrays | {f"history {name}": np.stack(values) for name, values in self.full_history().items()}

    @torch.no_grad()
    def go_on(self, epoch: int, arrays: Mapping[str, np.ndarray], network: StackedParameters) -> None:
        """Go on after an epoch of which `shared` has given these arrays."""
        self.done = epoch
        for name in network.clone_parameters():
            getattr(network, name).copy_(torch.from_numpy(arrays[f"parameter {name}"]))
        for name, tensor in self._memory():
            tensor.copy_(torch.from_numpy(arrays[name]))
        self.history = {
            name.removeprefix("history "): list(values)
            for name, values in arrays.items()
            if name.startswith("history ")
        }

    def full_history(self) -> dict[str, list[np.ndarray]]:
        """The history, NaN also after the last epoch that has a value."""
        return {
            name: values + [np.full_like(values[0], np.nan)] * (self.done - len(values))
            for name, values in self.history.items()
        }

    def _memory(self) -> Iterator[tuple[str, Tensor]]:
        """What Adam remembers, by name."""
        for number, group in enumerate(self.optimisation.groups):
            for kind in ("first", "second", "steps"):
                for place, tensor in enumerate(getattr(group, kind)):
                    yield f"adam {number} {kind} {place}", tensor


def begin(network: StackedParameters, adam: Adam) -> Progress:
    """Before the first epoch."""
    return Progress(adam.begin(network))


def train(
    network: StackedParameters,
    phases: Sequence[Phase],
    progress: Progress,
    ranks: Ranks,
    after_epoch: Callable[[Progress], None] = lambda progress: None,
) -> None:
    """Minimise the sum of all ranks' losses, phase after phase, from where the progress is."""
    network.train()
    before, total = 0, sum(phase.epochs for phase in phases)
    for phase in phases:
        for _ in range(max(progress.done, before), before + phase.epochs):
            network.new_epoch()
            step = phase.step()
            progress.optimisation.zero_grad()
            torch.stack(list(step.losses.values())).sum().backward()
            totals = _summed(network, step, ranks)
            progress.optimisation.step()
            progress.done += 1
            _write(progress, totals, step)
            after_epoch(progress)
            if (callback := _progress.get()) and (
                progress.done % EPOCHS_BETWEEN_REPORTS == 0 or progress.done == total
            ):
                callback(progress.done, total)
        before += phase.epochs


def _summed(network: StackedParameters, step: Step, ranks: Ranks) -> dict[str, Tensor]:
    """Make every gradient the sum of all ranks', by one reduction; the losses and notes likewise come back."""
    values = {**step.losses, **step.notes}
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    parts = [*gradients, *(value.detach().to(torch.float32) for value in values.values())]
    flat = ranks.total(torch.cat([part.reshape(-1) for part in parts]))
    pieces = [
        piece.view_as(part) for piece, part in zip(flat.split([part.numel() for part in parts]), parts, strict=True)
    ]
    for gradient, piece in zip(gradients, pieces, strict=False):
        gradient.copy_(piece)
    return dict(zip(values, pieces[len(gradients) :], strict=True))


def _write(progress: Progress, totals: dict[str, Tensor], step: Step) -> None:
    for name, value in totals.items():
        numbers = value.cpu().numpy().copy()
        if name in step.losses and not np.isfinite(numbers).all():
            raise InputError(
                f"the loss {name!r} was not finite from epoch {progress.done} on; lower learning_rate, or look for "
                "huge numbers among features and edge weights"
            )
        progress.history.setdefault(name, [np.full_like(numbers, np.nan)] * (progress.done - 1)).append(numbers)
