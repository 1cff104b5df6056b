"""Logistic regression on features propagated by personalised PageRank (the walk of Gasteiger, Bojchevski and
Günnemann, ICLR 2019, taken before the classifier and not after it).

    P = softmax(Z_K W + b),  Z_0 = X,  Z_k+1 = (1 - α) Â Z_k + α X,  rows of Z_K of length 1,
    loss = - mean over labelled i of log P[i, y_i] + λ (|W|² + |b|²).

Restarts keep what is near apart from what is far, so that a walk may be long and a node yet not like all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import torch

from mtgcn.linalg.pagerank import PropagatedFeatures, propagated_features
from mtgcn.methods.linear import LinearOnFeatures
from mtgcn.settings import Ge, Le, NonNegativeInt

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class PageRankFeatures(LinearOnFeatures):
    """The far neighbourhood.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("ppr").fit(task)), 2)
    0.96
    """

    steps: NonNegativeInt = 20  # K of the walk
    restart: Annotated[float, Ge(0), Le(1)] = 0.1  # α, how often a walk goes back to where it began

    def rows(self, graph: Graph, device: torch.device) -> PropagatedFeatures:
        return propagated_features(graph, self.feature_scaling, self.steps, float(self.restart), device)

    @property
    def walked(self) -> int:
        return self.steps
