"""`mt-gcn` over all ranks: each computes its own nodes, weights are the same everywhere.

What one process does for the whole graph (`methods/mt_gcn.py`) is done here by the same code on this rank's rows. Only
the products with Â, the choice of pseudo labels and the means of the losses need the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.distributed.answers import LocalAnswer
from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.local_task import LocalTask
from mtgcn.distributed.reductions import most_confident_of_all
from mtgcn.distributed.training import Progress, begin, train
from mtgcn.errors import InputError
from mtgcn.linalg.graph_operators import COLUMNS_AT_ONCE, GraphOperators
from mtgcn.linalg.normalisation import scaled_rows
from mtgcn.linalg.operators import DenseOperator, Operator, operator
from mtgcn.methods.base import supervised_step
from mtgcn.methods.mt_gcn import MTGCN, Teaching
from mtgcn.nn.base import each_peer, mean_of_peers
from mtgcn.nn.gcn import GCN
from mtgcn.shapes import Float
from mtgcn.task import Task
from mtgcn.training.loop import Adam, Phase, Step
from mtgcn.training.pseudo_labels import PseudoLabels, confidence


class LocalGCN(GCN):
    """This rank's rows of `GCN`."""

    def __init__(self, local: LocalGraph, task: LocalTask, settings: MTGCN) -> None:
        operators = local_operators(local, settings.feature_scaling)
        super().__init__(task.as_task, settings.peers, settings, operators)
        self._all_nodes = local.numbers  # dropout is a node's, whoever computes it

    def _block(self, index: Tensor) -> None:
        return None  # a part of the graph that a few nodes can see would reach into other ranks


def local_operators(local: LocalGraph, scaling: str) -> GraphOperators:
    """What a graph convolution needs of this rank's rows. Dense features take the first step along the edges once;
    sparse ones would become dense by it, so there it is taken by their product with the weights, in every epoch."""
    features = local.take_features()
    if sp.issparse(features):
        features = scaled_rows(features, scaling)
        chain: tuple[Operator, ...] = (operator(features, local.ranks.device), local.adjacency)
        return GraphOperators.of_parts(local.adjacency, features, features, chain)
    _scale_in_place(features, scaling)
    smoothed = torch.from_numpy(features).to(local.ranks.device)
    for some in smoothed.split(COLUMNS_AT_ONCE, 1):  # written over X, which nothing here will look at again
        some.copy_(local.adjacency.multiply(some.contiguous()))
    return GraphOperators.of_parts(local.adjacency, features, smoothed, (DenseOperator(smoothed),))


ROWS_AT_ONCE = 1 << 16


def _scale_in_place(features: Float[np.ndarray, "here features"], scaling: str) -> None:
    """`scaled_rows`, written over what is given, without a second table."""
    for start in range(0, len(features), ROWS_AT_ONCE):
        some = features[start : start + ROWS_AT_ONCE]
        some[:] = scaled_rows(some, scaling)


class SharedTeaching(Teaching):
    """`Teaching` whose choice is made among the nodes of all ranks."""

    def __init__(self, settings: MTGCN, network: LocalGCN, task: LocalTask, local: LocalGraph) -> None:
        super().__init__(settings, network, task.as_task)
        self.local, self.labels = local, task.num_labels

    def step(self) -> Step:
        """This rank's share of the losses, which are sums over ranks, as are the notes."""
        settings, step = self.settings, super().step()
        here = step.notes["pseudo labels"]
        share = here / self.local.ranks.total(here.clone()).clamp(min=1)
        losses = dict(step.losses)
        losses["supervised"] = _share_of_labels(losses["supervised"], self.task, self.labels, settings)
        if "pseudo-label" in losses:
            losses["pseudo-label"] = losses["pseudo-label"] * share
        if "consistency" in losses and settings.consistency_reduction == "mean":
            losses["consistency"] = losses["consistency"] * share
        return Step(losses, {**step.notes, "agreement": step.notes["agreement"] * share})

    def _choose(self, logits: Tensor) -> tuple[PseudoLabels, Tensor]:
        if not self.settings.choose_with_dropout:
            logits = self.network.logits_without_dropout()
        sure, predicted = confidence(logits)
        chosen = most_confident_of_all(
            self.local,
            sure,
            predicted,
            classes=self.task.num_classes,
            per_class=self.per_class,
            exclude=self.exclude,
        )
        return chosen, predicted


@dataclass(frozen=True)
class SharedMTGCN:
    """The stack of peers, and the phases in which it is trained."""

    network: LocalGCN
    teaching: SharedTeaching
    phases: list[Phase]


def shared_mt_gcn(settings: MTGCN, local: LocalGraph, task: LocalTask) -> SharedMTGCN:
    """All that is trained, on this rank's nodes."""
    check_settings(settings)
    network = LocalGCN(local, task, settings)
    teaching = SharedTeaching(settings, network, task, local)

    def warm_up() -> Step:
        step = supervised_step(network, task.as_task, settings.supervised_reduction)
        shared = _share_of_labels(step.losses["supervised"], task.as_task, task.num_labels, settings)
        return replace(step, losses={"supervised": shared})

    phases = [Phase(settings.warmup_epochs, warm_up), Phase(settings.teaching_epochs, teaching.step)]
    return SharedMTGCN(network, teaching, phases)


def check_settings(settings: MTGCN) -> None:
    """Refuse what only a process that holds the whole graph can do."""
    for name, only in (("backbone", "gcn"), ("input_dropout", 0.0), ("checkpoint", "last")):
        if getattr(settings, name) != only:
            raise InputError(
                f"{name} is {getattr(settings, name)!r}, and on shards only {only!r} can be fitted; leave it out"
            )


def _share_of_labels(loss: Tensor, task: Task, labels: int, settings: MTGCN) -> Tensor:
    """A mean over this rank's labels, as what it adds to the mean over all of them."""
    if settings.supervised_reduction == "sum":
        return loss
    return loss * (task.labelled.present.sum(1)[:, None] / labels)


def fit_mt_gcn(settings: MTGCN, local: LocalGraph, task: LocalTask, checkpoints: Checkpoints | None) -> LocalAnswer:
    """Train over all ranks, from the beginning or from a checkpoint; the answer is of this rank's nodes."""
    stack = shared_mt_gcn(settings, local, task)
    network, record = stack.network, stack.teaching.record
    progress = begin(network, Adam(settings.learning_rate, settings.weight_decay))
    found = checkpoints.found() if checkpoints else None
    if found is not None:
        progress.go_on(found.epoch, found.shared, network)
        network.dropout.go_to(found.epoch)
        record.resume(found.at_nodes["first epoch"].T, max(found.epoch, settings.warmup_epochs))

    def after_epoch(progress: Progress) -> None:
        if checkpoints and checkpoints.due(progress.done):
            checkpoints.save(progress.done, progress.shared(network), {"first epoch": record.first_epochs().T})

    train(network, stack.phases, progress, local.ranks, after_epoch)
    probabilities = network.probabilities()  # here, classes, runs, peers
    return LocalAnswer(
        mean_of_peers(probabilities[..., settings.answering_peers])[0],
        each_peer(probabilities)[0],
        record.first_epochs()[0],
        network.trained(),
        {name: np.stack(values) for name, values in progress.full_history().items()},
    )
