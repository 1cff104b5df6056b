"""Stacked networks whose layers are Chebyshev polynomials of the graph's Laplacian; of degree 0, an MLP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from mtgcn.linalg.normalisation import scaled_laplacian
from mtgcn.linalg.operators import SparseOperator
from mtgcn.nn.base import CLASSES, NetworkSettings, TwoLayerNetwork
from mtgcn.nn.layers import modelwise_product
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.task import Task


class Chebyshev(TwoLayerNetwork):
    """Z = Σ_k T_k(L̃) ReLU(Σ_k T_k(L̃) X Θ0_k) Θ1_k, k = 0 … degree (Defferrard et al., 2016), for all runs and peers
    at once. Degree 0 is an MLP: ReLU(X Θ0) Θ1.

    The receptive field is `2 · degree` hops, so every epoch computes the whole graph.
    """

    weight0: nn.Parameter  # features, runs, peers, (degree + 1) · hidden: Θ0_0, Θ0_1, …
    weight1: nn.Parameter  # runs, peers, hidden, (degree + 1) · classes: Θ1_0, Θ1_1, …

    def __init__(self, task: Task, peers: int, settings: NetworkSettings, degree: int) -> None:
        super().__init__(task, peers, settings)
        self.input = self._feature_product()
        self.laplacian = SparseOperator(scaled_laplacian(task.graph), task.device, symmetric=True) if degree else None
        self.terms = degree + 1
        self._add_layers(self._initial_terms)

    @staticmethod
    def bytes_per_model(task: Task, hidden_channels: int, degree: int) -> int:
        """About the memory of one model in training: weights with gradient and Adam's two moments, and activations."""
        parameters = task.graph.num_features * hidden_channels
        at_nodes = task.num_nodes * (8 * hidden_channels + 12 * task.num_classes)
        return 4 * (degree + 1) * (4 * parameters + at_nodes)

    def logits(self) -> Float[Tensor, "nodes classes runs peers"]:
        products = self.input(self.weight0, drops=self.training)  # nodes, runs, peers, terms · hidden
        hidden = self._activated(self._filtered(products, axis=-1) + self.bias0)
        products = modelwise_product(hidden, self._readout_weight)  # nodes, terms · classes, runs, peers
        return self._filtered(products, axis=CLASSES) + self.bias1

    def _filtered(self, products: Tensor, axis: int) -> Tensor:
        """Σ_k T_k(L̃) · product k; the products of all k are concatenated along the axis."""
        if self.laplacian is None:
            return products
        return chebyshev_sum(products.chunk(self.terms, axis), self.laplacian)

    def _initial_terms(self, inputs: int, outputs: int, label: int) -> Float[Tensor, "runs peers inputs terms·outputs"]:
        """The weights of each k, initialised as a separate layer."""
        return torch.cat([self._initial(inputs, outputs, label + 4 * k) for k in range(self.terms)], -1)


def chebyshev_sum(terms: Sequence[Float[Tensor, "nodes *rest"]], laplacian: SparseOperator) -> Tensor:
    """Σ_k T_k(L̃) · terms[k], T_k the Chebyshev polynomials, T_0 = I, T_1 = L̃, T_k = 2 L̃ T_k-1 - T_k-2.

    By Clenshaw's scheme, from the last term to the first: one product with L̃ per degree, none with its powers.
    """
    *terms, ahead = terms
    beyond: Tensor | None = None
    while terms:
        *terms, term = terms
        propagated = laplacian(ahead)
        ahead, beyond = term + (2 if terms else 1) * propagated - (0 if beyond is None else beyond), ahead
    return ahead
