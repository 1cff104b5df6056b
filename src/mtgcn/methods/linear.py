"""Multinomial logistic regression on feature rows, propagated along edges or not.

    P = softmax(R W + b),  loss = - mean over labelled i of log P[i, y_i] + λ (|W|² + |b|²)

R holds the rows of a method, each of length 1; λ is `penalty`. The loss is convex, so nothing is random.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.linalg.pagerank import PropagatedFeatures, propagated_features
from mtgcn.linalg.softmax_regression import FitToMany, are_many, fit_to_labels
from mtgcn.methods.base import CPU, Method
from mtgcn.nn.base import CLASSES, FeatureScaling, each_peer, mean_of_peers
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveFloat
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task

if TYPE_CHECKING:
    from mtgcn.graph import Graph

MAX_STEPS = 1000  # of the solver, which needs fewer unless the penalty is tiny


@dataclass(frozen=True, kw_only=True)
class LinearOnFeatures(Method):
    """The fit that all methods of this file share; each has its own `rows`."""

    penalty: PositiveFloat = 1e-4  # λ: of the squared weights, biases included
    feature_scaling: FeatureScaling = "length"  # what each row is divided by; if propagated, before and after

    @abstractmethod
    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        """R for the nodes of a graph."""

    def fit(self, task: Task) -> Prediction:
        rows = self.rows(task.graph, task.device)
        labelled, present, classes = rows.rows_at(task.labelled.index), task.labelled.present, task.labelled.classes
        with_constant = torch.cat([labelled, torch.ones_like(labelled[..., :1])], -1)
        weights = present / present.sum(1, keepdim=True).clamp(min=1)
        if are_many(labelled.shape[1], task.num_classes) and labelled.shape[1] > labelled.shape[2]:
            each = [FitToMany(*one, task.num_classes) for one in zip(with_constant, classes, strict=True)]
            found = [
                fit.coefficients(one, self.penalty, None, MAX_STEPS) for fit, one in zip(each, weights, strict=True)
            ]
            fitted = torch.stack([fit.weight(one) for fit, one in zip(each, found, strict=True)])
        else:
            penalty = torch.tensor([self.penalty], device=task.device)
            kernel = with_constant @ with_constant.mT
            coefficients = fit_to_labels(kernel, classes, task.num_classes, weights[:, None], penalty, MAX_STEPS)
            fitted = with_constant.mT @ coefficients[:, 0, 0]  # runs, features and the constant, classes
        parameters = {"weight": fitted[:, :-1].contiguous(), "bias": fitted[:, -1].contiguous()}
        probabilities = _logits(rows, **parameters).softmax(CLASSES)
        trained = {name: values.cpu().numpy() for name, values in parameters.items()}
        return Prediction(mean_of_peers(probabilities), parameters=trained)

    def apply(
        self, parameters: Mapping[str, np.ndarray], graph: Graph, device: torch.device = CPU
    ) -> Float[np.ndarray, "runs peers nodes classes"]:
        weight, bias = (torch.from_numpy(np.array(parameters[name])).to(device) for name in ("weight", "bias"))
        if weight.shape[1] != graph.num_features:
            raise InputError(
                f"trained weights of {weight.shape[1]} features where this graph has {graph.num_features}; "
                "use a graph with the features that it was trained with"
            )
        return each_peer(_logits(self.rows(graph, device), weight, bias).softmax(CLASSES))

    def bytes_per_run(self, task: Task) -> int:
        labels = task.labelled.index.shape[1]
        many = are_many(labels, task.num_classes)
        pairs = 10 * (min(labels, task.graph.num_features) if many else labels)
        at_labels = labels * (4 * task.graph.num_features + pairs + 8 * task.num_classes)
        return 4 * (at_labels + 5 * task.num_nodes * task.num_classes)


def _logits(
    rows: PropagatedFeatures, weight: Float[Tensor, "runs features classes"], bias: Float[Tensor, "runs classes"]
) -> Float[Tensor, "nodes classes runs 1"]:
    """One product for all runs."""
    return (rows.times(weight.permute(1, 2, 0).contiguous()) + bias.T)[..., None]


@dataclass(frozen=True, kw_only=True)
class Logistic(LinearOnFeatures):
    """Features alone, without edges: R = X."""

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, 0, 0.0, device)


@dataclass(frozen=True, kw_only=True)
class SimpleGraphConvolution(LinearOnFeatures):
    """SGC (Wu, Zhang, de Souza, Fifty, Yu and Weinberger, ICML 2019), a GCN without nonlinearities: R = Â^K X.

    Â = D̃^-1/2 (A + I) D̃^-1/2, with the row sums D̃ of A + I."""

    steps: NonNegativeInt = 2  # K: how often features are propagated

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, self.steps, 0.0, device)


@dataclass(frozen=True, kw_only=True)
class PageRankFeatures(LinearOnFeatures):
    """Personalised PageRank (after Gasteiger, Bojchevski and Günnemann, ICLR 2019) before the classifier: R = Z_K.

    Z_0 = X,  Z_k+1 = (1 - α) Â Z_k + α X, with Â of `sgc`. Restarts keep nodes apart however long the walk."""

    steps: NonNegativeInt = 20  # K of the walk
    restart: Annotated[float, Ge(0), Le(1)] = 0.1  # α: probability that a walk returns to its start

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, self.steps, float(self.restart), device)
