"""Chebyshev (Defferrard, Bresson and Vandergheynst, NeurIPS 2016): a layer is a polynomial of the graph's Laplacian.

Every power of the Laplacian reaches one hop further and has weights of its own; GCN is what is left of degree 1 when
its two weights are made one.
"""

from __future__ import annotations

from dataclasses import dataclass

from mtgcn.errors import InputError
from mtgcn.methods.gcn import supervised_step
from mtgcn.methods.trained import NetworkMethod
from mtgcn.nn.axes import mean_of_peers
from mtgcn.nn.base import NetworkSettings
from mtgcn.nn.chebyshev import Chebyshev
from mtgcn.task import Prediction, Task
from mtgcn.training.adam import Adam
from mtgcn.training.loop import Phase, train


@dataclass(frozen=True, kw_only=True)
class ChebyshevFilters(NetworkSettings, NetworkMethod):
    """As in Kipf and Welling's comparison: two layers, and all that is not the filter as in `gcn`. The Laplacian is
    scaled with its largest eigenvalue, computed, as both papers' programs do, not with the bound 2."""

    degree: int = 2  # K: polynomials T_0 … T_K
    epochs: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("degree", 1), ("epochs", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; give at least {least}")

    def network(self, task: Task) -> Chebyshev:
        return Chebyshev(task, peers=1, settings=self, degree=self.degree)

    def fit(self, task: Task) -> Prediction:
        network = self.network(task)
        phase = Phase(self.epochs, lambda: supervised_step(network, task))
        history = train(network, [phase], Adam(self.learning_rate, self.weight_decay))
        return Prediction(mean_of_peers(network.probabilities()), history, parameters=network.trained())

    def bytes_per_run(self, task: Task) -> int:
        return Chebyshev.bytes_per_model(task, self.hidden_channels, self.degree)
