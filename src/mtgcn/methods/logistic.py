"""Logistic regression on the features alone: what is known of a node without its edges.

    P = softmax(X W + b),  loss = - mean over labelled i of log P[i, y_i] + λ (|W|² + |b|²),  rows of X of length 1.

It is convex, so there is one answer and nothing is drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mtgcn.linalg.pagerank import PropagatedFeatures, propagated_features
from mtgcn.methods.linear import LinearOnFeatures

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class Logistic(LinearOnFeatures):
    """Multinomial, on rows of length 1.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("logistic").fit(task)), 2)
    0.96
    """

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, 0, 0.0, device)
