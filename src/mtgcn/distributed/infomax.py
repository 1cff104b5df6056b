"""Infomax encoders over all ranks: each encodes its own nodes, weights are the same everywhere."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from mtgcn.distributed.doubles import in_doubles, shared_in_doubles
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.shuffling import keyed_shuffle
from mtgcn.linalg.operators import Operator
from mtgcn.nn.infomax import Infomax, InfomaxSettings, Propagation
from mtgcn.shapes import Float, UInt64


class LocalInfomax(Infomax):
    """This rank's rows of `Infomax`."""

    def __init__(
        self,
        local: LocalGraph,
        features: Operator,  # this rank's rows of X, scaled
        keys: UInt64[np.ndarray, "here"],
        propagation: Propagation,
        settings: InfomaxSettings,
        seed: int,
    ) -> None:
        operators = shared_in_doubles(local.adjacency), in_doubles(features)
        super().__init__(local.whole, propagation, settings, seed, local.ranks.device, operators)
        if local.ranks.device.type == "cpu":
            self.double()
        self.local, self.keys = local, keys
        if self._narrow is not None:  # found here, where all ranks come at the same time
            vars(self)["_propagated_features"] = self._propagated(self._narrow)

    def go_to(self, epoch: int) -> None:
        """Go on after this epoch."""
        self.epoch.fill_(epoch)

    def _mean(self, values: Float[Tensor, "here width"]) -> Float[Tensor, "width"]:
        everyones: Tensor = _Total.apply(values.sum(0), self.local.ranks)
        return everyones / self.local.manifest.num_nodes

    def _share(self, values: Float[Tensor, "here width"]) -> Float[Tensor, "width"]:
        return values.sum(0) / self.local.manifest.num_nodes

    def _exchanged(self, values: Float[Tensor, "here width"]) -> Float[Tensor, "here width"]:
        return keyed_shuffle(self.local, self.keys, self.seed, int(self.epoch) - 1)(values)


class _Total(torch.autograd.Function):
    """The sum over ranks. What it is used for on every rank pulls on what each of them gave."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.total(values.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return cast(Tensor, ctx.ranks.total(gradient.clone())), None
