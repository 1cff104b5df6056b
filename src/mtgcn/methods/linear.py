"""Multinomial logistic regression on node features, optionally propagated along edges and self-trained.

    P = softmax(R W / T),   W = argmin  - (1 / |L|) Σ_{i in L} log softmax(R W)[i, y_i]  + λ |W|²

    P       probabilities, nodes x classes
    R       input rows, nodes x width: features in their leading singular vectors, propagated or not, scaled to length
            1, centred, scaled again; and a column of ones
    W       coefficients, width x classes
    L, y_i  the labelled nodes and their classes
    λ, T    penalty and temperature under which held-out labels are likely

Rows, cross-validation and pseudo labels are those of the peers of `mt-plus`. A self-trained method adds pseudo labels
in `rounds` rounds:

    W = argmin  - (1 / |L|) Σ_{i in L} log P[i, y_i]  - τ Σ_i m_i log P[i, ŷ_i]  + λ |W|²,   P = softmax(R W)

    ŷ_i     pseudo label of node i: the class with the largest P[i] of the round before, with the class shares of P
            corrected as in `mt-plus`
    m_i     its weight, Σ m_i = 1: positive where that is more confident than the mean, classes balanced
    τ       `teaching_weight`

>>> from mtgcn.methods import create, karate_club
>>> task, accuracy = karate_club()
>>> round(accuracy(create("ppr-self").fit(task)), 2)
0.96
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
import torch

from mtgcn.graph_cache import cached_per_graph
from mtgcn.linalg.node_keys import node_keys
from mtgcn.linalg.operators import on_host
from mtgcn.linalg.pagerank import num_components
from mtgcn.linalg.softmax_regression import are_many, probabilities_of
from mtgcn.methods.base import CPU, Method, Parameters
from mtgcn.methods.mt_plus.cross_validation import fit_peers
from mtgcn.methods.mt_plus.settings import MTPlusSettings, ViewSettings
from mtgcn.methods.mt_plus.teaching import Teaching
from mtgcn.methods.mt_plus.views import FAR, FEATURES, NEAR, Inputs, NodeViews, views_elsewhere, views_of
from mtgcn.settings import Ge, Le, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from mtgcn.task import PeerProbabilities, Prediction, Task

if TYPE_CHECKING:
    from mtgcn.graph import Graph


@dataclass(frozen=True, kw_only=True)
class LinearOnView(Method):
    """Base class of the methods of this file, each with a different view of the nodes."""

    view: ClassVar[str]  # name of a view of mt-plus
    penalty: PositiveFloat | None = None  # λ: penalty of squared weights and biases; none: by cross-validation
    directions: PositiveInt = 256  # singular vectors of the features to keep; fewer on large graphs

    @property
    def peer(self) -> MTPlusSettings:
        """These settings as settings of a single peer of `mt-plus`."""
        fixed: Any = {} if self.penalty is None else {"penalties": (self.penalty,), "taught_penalty": self.penalty}
        return MTPlusSettings(directions=self.directions, penalty_pooling=0.0, rounds=0, **fixed)

    def fit(self, task: Task) -> Prediction:
        settings, keys = self.peer, node_keys(task.graph, task.device)
        view = _view(task.graph, self.view, settings.of_views, task.device)
        rows, classes, prior = view.rows, task.num_classes, {self.view: 1.0}
        peers, _, _ = fit_peers(rows, task.labelled, keys, classes, task.seeds, prior, settings)
        weight, temperature = peers[self.view].weight, peers[self.view].temperature
        probabilities = probabilities_of(rows[self.view], weight, temperature)
        more: dict[str, Any] = {}
        if settings.rounds:
            full = torch.ones(task.runs, 1, device=task.device)
            teaching = Teaching(task, rows, keys, peers, full, full[:, 0], task.labelled, settings)
            after, coefficients = teaching.run({self.view: probabilities})
            probabilities, weight, temperature = after[self.view], coefficients[self.view], full[:, 0]
            more = {"history": teaching.history(), "pseudo_labelled_at": teaching.record.first_epochs()}
        if task.runs == 1:  # the basis is shared by all runs; only a single run is applied to other graphs
            more["parameters"] = {"weight": on_host(weight), "temperature": on_host(temperature), **view.parameters}
        return Prediction(on_host(probabilities.contiguous()), **more)

    def apply(self, parameters: Parameters, graph: Graph, device: torch.device = CPU) -> PeerProbabilities:
        [(_, rows)] = views_elsewhere(parameters, self.peer, graph, device, [self.view])
        fitted = (torch.from_numpy(np.array(parameters[name])).to(device) for name in ("weight", "temperature"))
        return on_host(probabilities_of(rows, *fitted)[:, None].contiguous())

    def bytes_per_run(self, task: Task) -> int:
        labels, classes = task.labelled.index.shape[1], task.num_classes
        width = num_components(self.directions, task.graph) + 1
        at_labels = labels * (60 * classes + 5 * width if are_many(labels, classes) else 60 * (labels + 8 * classes))
        return 4 * (task.num_nodes * (8 * classes + 4) + 3 * width**2 + at_labels)

    def shared_bytes(self, task: Task) -> int:
        return 4 * 3 * task.num_nodes * (num_components(self.directions, task.graph) + 1)


@cached_per_graph
def _view(graph: Graph, name: str, settings: ViewSettings, device: torch.device) -> NodeViews:
    return views_of(Inputs(graph, settings, device), [name])


@dataclass(frozen=True, kw_only=True)
class Logistic(LinearOnView):
    """Features alone, without edges: R = X."""

    view: ClassVar[str] = FEATURES


@dataclass(frozen=True, kw_only=True)
class SimpleGraphConvolution(LinearOnView):
    """SGC (Wu, Zhang, de Souza, Fifty, Yu and Weinberger, ICML 2019), a GCN without nonlinearities: R = Â^K X.

    Â = D̃^-1/2 (A + I) D̃^-1/2, with the row sums D̃ of A + I."""

    view: ClassVar[str] = NEAR
    steps: NonNegativeInt = 2  # K: propagation steps

    @property
    def peer(self) -> MTPlusSettings:
        return replace(super().peer, near_steps=self.steps)


@dataclass(frozen=True, kw_only=True)
class PageRankFeatures(LinearOnView):
    """Personalised PageRank (after Gasteiger, Bojchevski and Günnemann, ICLR 2019) before the classifier: R = Z_K.

    Z_0 = X,  Z_k+1 = (1 - α) Â Z_k + α X, with Â of `sgc`. Restarts keep nodes distinct however long the walk is."""

    view: ClassVar[str] = FAR
    steps: NonNegativeInt = 20  # K: steps of the walk
    restart: Annotated[float, Ge(0), Le(1)] = 0.1  # α: probability that a walk returns to its start

    @property
    def peer(self) -> MTPlusSettings:
        return replace(super().peer, far_steps=self.steps, far_restart=self.restart)


@dataclass(frozen=True, kw_only=True)
class SelfTrained(LinearOnView):
    """Adds rounds of self-training to a method of this file."""

    rounds: NonNegativeInt = 30  # rounds of pseudo labels
    teaching_weight: NonNegativeFloat = 2.0  # τ: weight of the pseudo labels' loss, relative to the labels' loss

    @property
    def peer(self) -> MTPlusSettings:
        return replace(super().peer, rounds=self.rounds, teaching_weight=self.teaching_weight)


@dataclass(frozen=True, kw_only=True)
class SelfTrainedLogistic(SelfTrained, Logistic):
    """`logistic`, self-trained: R = X."""


@dataclass(frozen=True, kw_only=True)
class SelfTrainedGraphConvolution(SelfTrained, SimpleGraphConvolution):
    """`sgc`, self-trained: R = Â^K X."""


@dataclass(frozen=True, kw_only=True)
class SelfTrainedPageRank(SelfTrained, PageRankFeatures):
    """`ppr`, self-trained: R = Z_K."""
