"""Adam for a stack of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from mtgcn.nn.base import StackedNetwork

if TYPE_CHECKING:
    pass


class Adam:
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
