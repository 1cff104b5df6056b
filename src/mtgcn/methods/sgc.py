"""SGC (Wu, Zhang, de Souza, Fifty, Yu and Weinberger, ICML 2019): a GCN without what is not linear in it.

What is left of K graph convolutions is a logistic regression on features that were propagated K times, beforehand.

    P = softmax(Â^K X W + b)  with  Â = D̃^-1/2 (A + I) D̃^-1/2,  D̃ the row sums of A + I,  rows of Â^K X of length 1,
    loss = - mean over labelled i of log P[i, y_i] + λ (|W|² + |b|²).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mtgcn.linalg.pagerank import PropagatedFeatures, propagated_features
from mtgcn.methods.linear import LinearOnFeatures
from mtgcn.settings import NonNegativeInt

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class SimpleGraphConvolution(LinearOnFeatures):
    """The near neighbourhood.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("sgc").fit(task)), 2)
    0.96
    """

    steps: NonNegativeInt = 2  # K: how often features are propagated

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, self.steps, 0.0, device)

    @property
    def walked(self) -> int:
        return self.steps
