"""Mutual teaching of two ordinary torch modules, one run at a time: the part both peers of our engine share.

Written as a good user would write it: whole-graph passes, no loop over nodes, library losses. What the paper
leaves open is settled as in our method's defaults, so that accuracies can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mtgcn.graph import Graph
from mtgcn.splits import Split

HIDDEN_CHANNELS = 16
DROPOUT = 0.5
LEARNING_RATE = 0.01
WEIGHT_DECAY = 5e-4
WARMUP_EPOCHS = 200
TEACHING_EPOCHS = 200


def fit_two(
    new_network: Callable[[], nn.Module],
    inputs: tuple[Tensor, ...],
    graph: Graph,
    split: Split,
    *,
    seed: int,
    per_class: int,
    warmup_epochs: int = WARMUP_EPOCHS,
    teaching_epochs: int = TEACHING_EPOCHS,
) -> np.ndarray:
    """Mean probabilities (nodes x classes) of two networks that are called as `network(*inputs)`."""
    device = inputs[0].device
    labelled = torch.from_numpy(np.array(split.train)).to(device)
    classes = torch.from_numpy(graph.labels[split.train]).to(device)
    with torch.random.fork_rng():  # dropout draws from the global generator
        torch.manual_seed(seed)
        networks = [new_network().to(device) for _ in range(2)]
        parameters = [parameter for network in networks for parameter in network.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
        for epoch in range(warmup_epochs + teaching_epochs):
            first, second = (network(*inputs).log_softmax(1) for network in networks)
            loss = F.nll_loss(first[labelled], classes) + F.nll_loss(second[labelled], classes)
            if epoch >= warmup_epochs:
                loss = loss + teaching_loss(first, second.detach(), per_class, labelled)
                loss = loss + teaching_loss(second, first.detach(), per_class, labelled)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return mean_probabilities(networks, inputs)


def teaching_loss(learner: Tensor, teacher: Tensor, per_class: int, labelled: Tensor) -> Tensor:
    """L_pl + L_cl of log-probabilities `learner`, at the nodes its teacher is surest of."""
    probabilities = teacher.exp()
    nodes, pseudo_labels = most_confident(probabilities, per_class, labelled)
    entropy = -(probabilities[nodes] * teacher[nodes]).sum(1)
    certainty = 1 - entropy / math.log(probabilities.shape[1])
    hard = (certainty * F.nll_loss(learner[nodes], pseudo_labels, reduction="none")).mean()
    soft = F.kl_div(learner[nodes], probabilities[nodes], reduction="batchmean")
    return hard + soft


def most_confident(probabilities: Tensor, per_class: int, labelled: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1: of the unlabelled nodes predicted as each class the `per_class` surest, and their classes."""
    confidence, predicted = probabilities.max(1)
    scores = probabilities.new_zeros(probabilities.shape[::-1])  # classes x nodes
    scores.scatter_(0, predicted[None], confidence[None])
    scores[:, labelled] = 0
    best, nodes = scores.topk(min(per_class, len(probabilities)), dim=1)
    nodes = nodes[best > 0]
    return nodes, predicted[nodes]


@torch.no_grad()
def mean_probabilities(networks: list[nn.Module], inputs: tuple[Tensor, ...]) -> np.ndarray:
    probabilities = [network.eval()(*inputs).softmax(1) for network in networks]
    return torch.stack(probabilities).mean(0).cpu().numpy()


def dense_features(graph: Graph) -> Tensor:
    """Features as a dense matrix whose rows sum to 1; a row of zeros stays."""
    features = graph.features if isinstance(graph.features, np.ndarray) else graph.features.toarray()
    features = torch.from_numpy(np.array(features, dtype=np.float32))
    sums = features.sum(1, keepdim=True)
    return features / torch.where(sums == 0, 1, sums)
