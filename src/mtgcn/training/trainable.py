"""What the training loop asks of the models that it trains."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import nn


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
