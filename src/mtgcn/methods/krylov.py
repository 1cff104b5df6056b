"""Truncated Krylov GCN (Luan, Zhao, Chang and Precup, NeurIPS 2019): a small network on all powers of Â.

    P = softmax(ReLU(R Θ0 + β0) Θ1 + β1),   R = [X, Â X, …, Â^m X],   loss = - mean over labelled i of log P[i, y_i]

    P        probabilities, nodes x classes
    R        the Krylov blocks side by side; a row of each block is scaled to length 1
    X        features, rows of length 1, in their leading singular vectors
    Â        D̃^-1/2 (A + I) D̃^-1/2, with the row sums D̃ of A + I
    m        `degree`; the paper has m + 1 blocks
    Θ, β     weights and biases
    y_i      class of the labelled node i

>>> from mtgcn.methods import create, karate_club
>>> task, accuracy = karate_club()
>>> round(accuracy(create("krylov").fit(task)), 2)
0.96
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.errors import InputError
from mtgcn.linalg.normalisation import graph_operators
from mtgcn.linalg.operators import on_host
from mtgcn.linalg.pagerank import feature_singular_vectors, num_components
from mtgcn.methods.base import CPU, Parameters, TrainedOnLabels
from mtgcn.nn.base import FeatureScaling, each_peer
from mtgcn.nn.networks import RowNetwork
from mtgcn.settings import Ge, Le, NonNegativeFloat, PositiveInt
from mtgcn.shapes import Float
from mtgcn.task import PeerProbabilities, Prediction, Task

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class TruncatedKrylov(TrainedOnLabels):
    """One Krylov layer and a linear one, for a fixed number of epochs.

    The paper searches width, blocks, dropout, rate, decay and optimiser for each dataset and number of labels. Here one
    setting, tuned on development splits, serves all graphs. `input_dropout` is fixed at 0: the inputs are the blocks
    R, which all runs share."""

    degree: PositiveInt = 10  # m: largest power of Â
    directions: PositiveInt = 256  # singular vectors of the features to keep; fewer on large graphs
    hidden_channels: PositiveInt = 64  # width of the hidden layer
    input_dropout: Annotated[float, Ge(0), Le(0, remedy="0, since krylov has none")] = 0.0  # not supported: always 0
    weight_decay: NonNegativeFloat = 5e-3  # weight decay, added to the gradient as in Adam
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by

    def network(self, task: Task) -> RowNetwork:
        return RowNetwork(task, 1, self, self._rows(task.graph, self._basis(task.graph, task.device)))

    def fit(self, task: Task) -> Prediction:
        prediction, basis = super().fit(task), on_host(self._basis(task.graph, task.device))
        shared = {"basis": np.broadcast_to(basis, (task.runs, *basis.shape))}  # not copied for each run
        return replace(prediction, parameters={**(prediction.parameters or {}), **shared})

    def apply(self, parameters: Parameters, graph: Graph, device: torch.device = CPU) -> PeerProbabilities:
        basis = torch.from_numpy(np.array(parameters["basis"][0])).to(device)
        if graph.num_features != len(basis):
            raise InputError(
                f"the graph has {graph.num_features} features, the model was trained on {len(basis)}; "
                "use a graph with the same features"
            )
        task = Task.without_labels(graph, len(parameters["basis"]), device)
        network = RowNetwork(task, 1, self, self._rows(graph, basis))
        network.load_trained(parameters)
        return each_peer(network.probabilities())

    def _basis(self, graph: Graph, device: torch.device) -> Float[Tensor, "features directions"]:
        return feature_singular_vectors(graph, self.feature_scaling, device, self.directions).float()

    def _rows(
        self, graph: Graph, basis: Float[Tensor, "features directions"]
    ) -> Float[Tensor, "nodes blocks_times_directions"]:
        """R."""
        operators = graph_operators(graph, self.feature_scaling, basis.device)
        block, blocks = operators.feature_operator()(basis), []
        for _ in range(self.degree + 1):
            blocks.append(functional.normalize(block))
            block = operators.adjacency.multiply(block)
        return torch.cat(blocks, 1)

    def bytes_per_run(self, task: Task) -> int:
        labels, classes = task.labelled.index.shape[1], task.num_classes
        weights = self._width(task) * (4 * self.hidden_channels + labels)
        return 4 * (weights + task.num_nodes * (3 * self.hidden_channels + 3 * classes))

    def shared_bytes(self, task: Task) -> int:
        return 4 * 2 * task.num_nodes * self._width(task)

    def _width(self, task: Task) -> int:
        return (self.degree + 1) * num_components(self.directions, task.graph)
