"""What the methods share that are a multinomial logistic regression on feature rows, propagated or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.linalg.pagerank import PropagatedFeatures
from mtgcn.linalg.softmax_regression import fit_to_labels
from mtgcn.methods.base import CPU, Method
from mtgcn.nn.base import CLASSES, FeatureScaling, each_peer, mean_of_peers
from mtgcn.settings import PositiveFloat
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task

if TYPE_CHECKING:
    from mtgcn.graph import Graph

USUAL_STEPS = 300
MOST_STEPS = 1000  # of the fit; it has settled long before, unless the penalty is next to nothing


@dataclass(frozen=True, kw_only=True)
class LinearOnFeatures(Method):
    """softmax(rows · W + b), fitted by mean cross-entropy over the labels + penalty · (|W|² + |b|²)."""

    penalty: PositiveFloat = 1e-4  # times the sum of all squared weights, the constants' included
    feature_scaling: FeatureScaling = "length"  # what each row is divided by; if propagated, before and after

    @abstractmethod
    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        """What is seen of the nodes of a graph."""

    def fit(self, task: Task) -> Prediction:
        rows = self.rows(task.graph, task.device)
        parameters = self._fitted(rows, task)
        probabilities = _logits(rows, **parameters).softmax(CLASSES)
        trained = {name: values.cpu().numpy() for name, values in parameters.items()}
        return Prediction(mean_of_peers(probabilities), parameters=trained)

    def _fitted(self, rows: PropagatedFeatures, task: Task) -> dict[str, Tensor]:
        labelled, present = rows.rows_at(task.labelled.index), task.labelled.present
        with_constant = torch.cat([labelled, torch.ones_like(labelled[..., :1])], -1)
        weights = present / present.sum(1, keepdim=True).clamp(min=1)
        penalties = torch.tensor([self.penalty], device=task.device)
        coefficients = fit_to_labels(
            with_constant @ with_constant.mT,
            task.labelled.classes,
            task.num_classes,
            weights[:, None],
            penalties,
            MOST_STEPS,
        )
        fitted = with_constant.mT @ coefficients[:, 0, 0]  # runs, features and the constant, classes
        return {"weight": fitted[:, :-1].contiguous(), "bias": fitted[:, -1].contiguous()}

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
        at_labels = labels * (4 * task.graph.num_features + 10 * labels + 8 * task.num_classes)
        return 4 * (at_labels + 5 * task.num_nodes * task.num_classes)

    @property
    def walked(self) -> int:
        """How many steps features are propagated."""
        return 0


def _logits(
    rows: PropagatedFeatures, weight: Float[Tensor, "runs features classes"], bias: Float[Tensor, "runs classes"]
) -> Float[Tensor, "nodes classes runs 1"]:
    """What every run's only model says of every node, by one product for all runs."""
    return (rows.times(weight.permute(1, 2, 0).contiguous()) + bias.T)[..., None]
