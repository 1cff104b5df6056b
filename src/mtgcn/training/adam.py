"""Adam for a stack of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from mtgcn.training.trainable import Trainable

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
