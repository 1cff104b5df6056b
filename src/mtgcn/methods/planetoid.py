"""Planetoid-T (Yang, Cohen and Salakhutdinov, ICML 2016): node embeddings that predict class and context.

Embeddings learn to predict nodes of the same label and nodes on short random walks, then, with the features, labels.

    Pr(j is a context of i) = softmax_j(e_i · w_j + b_j),  loss = - Σ over pairs (i, j) of log Pr(j | i),
    Pr(y | x, e) = softmax([h_x, h_e] W),  h_x = softmax(x W_x),  h_e = softmax(e W_e),
    loss = - mean over labelled nodes of (log Pr(y | x, e) + log h_x[y] + log h_e[y]),

with embeddings e, context weights w and b, features x, and weights W, W_x and W_e.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import check_features, relative_adjacency
from mtgcn.linalg.operators import SparseOperator, operator
from mtgcn.linalg.random_walks import random_walks
from mtgcn.memory import default_budget
from mtgcn.methods.base import Method, supervised_loss
from mtgcn.nn.layers import uniform
from mtgcn.settings import Ge, Le, LearningRate, NonNegativeFloat, NonNegativeInt, PositiveInt
from mtgcn.shapes import Float, Int
from mtgcn.task import Prediction, Task

# Streams of a run's seed.
EMBEDDING, CONTEXT, OTHERS, LABEL_PAIRS, WALKS, FROM_EMBEDDING, FROM_FEATURES, FROM_BOTH = range(0x90, 0x98)


@dataclass(frozen=True, kw_only=True)
class Planetoid(Method):
    """Settings follow the authors' program for Citeseer, the only published ones: label context, graph context, then
    classes, by gradient descent on sums. Differences:

    - Numbers per batch are replaced by numbers per node, which suit all sizes: 70 batches of 200 walks are 4 walks per
      node on Citeseer; 2000 batches of 100 label pairs are 200 with 8 pairs for each of its 120 labels.
    - Features are scaled to the mean squared row length of Citeseer, 32, which the learning rate of the classes suits.
    - The softmax over all nodes costs n². It is estimated from the nodes of the batch and `others` random nodes, and
      exact on graphs with no more nodes than that.
    - The last epoch predicts; the program reports the best test accuracy of any epoch."""

    draws_by_place: ClassVar[bool] = True
    embedding_size: PositiveInt = 50  # width of the embeddings
    label_batches: NonNegativeInt = 200  # batches of the label context; 0: no label context
    pairs_per_label: PositiveInt = 8  # pairs per label in a batch of the label context
    walks_per_node: Annotated[int, Ge(0), Le(10_000)] = 4  # walks that start at each node
    walk_length: Annotated[int, Ge(1), Le(10_000)] = 10  # steps of each walk
    window: Annotated[int, Ge(1), Le(1000)] = 3  # largest distance on a walk between nodes of one context
    walks_at_once: PositiveInt = 200  # walks in a batch of the graph context
    others: PositiveInt = 1000  # random nodes that, with the batch, estimate the softmax
    context_learning_rate: LearningRate = 0.01  # learning rate of both contexts, for the sum over a batch
    epochs: NonNegativeInt = 1000  # epochs of learning the classes
    learning_rate: LearningRate = 0.1  # learning rate of the classes
    row_square: NonNegativeFloat = 32.0  # mean squared length of the scaled feature rows

    def fit(self, task: Task) -> Prediction:
        # Contexts are learned for as many runs as fit into memory, classes for all runs together.
        in_batch = min(task.num_nodes, self.walks_at_once * (self.walk_length + 1))
        batch_bytes = 4 * 3 * in_batch * min(task.num_nodes, in_batch + self.others)
        at_once = max(1, default_budget(task.device) // (batch_bytes + self.bytes_per_run(task)))
        tables = [self.embeddings(some_runs) for some_runs in task.chunks(at_once)]
        classifier = Classifier(task, torch.cat(tables), self.row_square)
        history = classifier.train(self.epochs, self.learning_rate)
        return Prediction(classifier.probabilities(), {"supervised": history})

    def embeddings(self, task: Task) -> Float[Tensor, "runs nodes_and_padding size"]:
        """Embeddings that predict label context and graph context; the row after the last node is padding."""
        contexts = ContextModel(task, self.embedding_size, self.others, self.context_learning_rate)
        for nodes, pairs in label_contexts(task, self.label_batches, self.pairs_per_label):
            contexts.step(nodes, pairs)
        for walks in batches_of_walks(task, self.walks_per_node, self.walk_length, self.walks_at_once):
            contexts.step(*walk_contexts(walks, self.window, task.num_nodes))
        return contexts.table

    def bytes_per_run(self, task: Task) -> int:
        return 4 * 3 * task.num_nodes * self.embedding_size


class ContextModel:
    """Embeddings e and context weights w of every node: node j is a context of node i with probability
    softmax_j(e_i · w_j + b_j)."""

    def __init__(self, task: Task, size: int, others: int, learning_rate: float) -> None:
        self.nodes, self.others, self.rate = task.num_nodes, min(others, task.num_nodes), learning_rate
        starts = [np.random.default_rng([seed, EMBEDDING]) for seed in task.seeds]
        embedding = np.stack([random.normal(0, 0.01, (self.nodes + 1, size)) for random in starts])
        self.random = [np.random.default_rng([seed, OTHERS]) for seed in task.seeds]
        bound = math.sqrt(6 / (size + self.nodes))  # Glorot initialisation
        # The table has one extra row, for the padding of batches.
        self.table = torch.from_numpy(embedding.astype(np.float32)).to(task.device)  # runs, nodes + 1, size
        self.context = uniform(task.seeds, (self.nodes + 1, size), bound, CONTEXT).to(task.device)
        self.bias = torch.zeros(task.runs, self.nodes + 1, device=task.device)

    def step(self, batch: Int[Tensor, "runs batch"], pairs: Float[Tensor, "runs batch batch"]) -> None:
        """One step of gradient descent on the sum over pairs of -log softmax. `pairs` counts how often each node of
        the batch was the context of each other. Nodes of a batch are distinct; padding is the number of nodes."""
        softmax_over, log_share = self._softmax_over(batch)
        run = torch.arange(len(batch), device=batch.device)[:, None]
        embedding, context = self.table[run, batch], self.context[run, softmax_over]
        logits = torch.baddbmm((self.bias[run, softmax_over] + log_share)[:, None], embedding, context.transpose(1, 2))
        gradient = logits.softmax(-1).mul_(pairs.sum(-1, keepdim=True))
        gradient[..., : batch.shape[1]] -= pairs
        self.table[run, batch] = embedding - self.rate * (gradient @ context)
        self.context[run, softmax_over] = context - self.rate * (gradient.transpose(1, 2) @ embedding)
        self.bias[run, softmax_over] -= self.rate * gradient.sum(1)

    def _softmax_over(
        self, batch: Int[Tensor, "runs batch"]
    ) -> tuple[Int[Tensor, "runs some"], Float[Tensor, "runs some"]]:
        """The nodes of the batch and some others, and the logarithm of how many nodes each of them stands for."""
        drawn = np.stack([random.choice(self.nodes, self.others, replace=False) for random in self.random])
        others = torch.from_numpy(drawn).to(batch.device)
        in_batch = torch.zeros_like(self.bias, dtype=torch.bool).scatter_(1, batch, True)
        fresh = ~in_batch.gather(1, others)
        outside = self.nodes - in_batch[:, :-1].sum(1, keepdim=True)
        share = (outside / fresh.sum(1, keepdim=True).clamp(min=1)).log()
        in_run = torch.where(batch < self.nodes, 0.0, -torch.inf)
        log_share = torch.cat([in_run, torch.where(fresh, share, -torch.inf)], 1)
        return torch.cat([batch, torch.where(fresh, others, self.nodes)], 1), log_share


def label_contexts(task: Task, batches: int, pairs_per_label: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields batches: the labelled nodes of each run, and how often each was drawn with another of its class."""
    labelled, padding = task.labelled, task.num_classes
    batch = torch.where(labelled.present, labelled.index, task.num_nodes)
    classes = torch.where(labelled.present, labelled.classes, padding).cpu().numpy()
    randoms = [np.random.default_rng([seed, LABEL_PAIRS]) for seed in task.seeds]
    for _ in range(batches):
        counts = [
            same_class_pairs(row, pairs_per_label * int((row < padding).sum()), random, padding)
            for row, random in zip(classes, randoms, strict=True)
        ]
        yield batch, torch.from_numpy(np.stack(counts)).to(task.device)


def same_class_pairs(
    classes: Int[np.ndarray, "width"], pairs: int, random: np.random.Generator, num_classes: int
) -> Float[np.ndarray, "width width"]:
    """How often each entry of a list of classes was drawn with each entry of its class; `num_classes` is padding."""
    width = len(classes)
    by_class = np.argsort(classes, kind="stable")
    start = np.searchsorted(classes[by_class], np.arange(num_classes + 1))
    here = by_class[random.integers(start[-1], size=pairs)]
    size = start[classes[here] + 1] - start[classes[here]]
    there = by_class[start[classes[here]] + (random.random(pairs) * size).astype(np.int64)]
    return np.bincount(here * width + there, minlength=width * width).reshape(width, width).astype(np.float32)


def batches_of_walks(
    task: Task, per_node: int, steps: int, at_once: int
) -> Iterator[Int[Tensor, "runs walks steps_and_start"]]:
    """Walks from every node with edges, `at_once` in a batch; each round has a random order of starts."""
    adjacency = relative_adjacency(task.graph)
    linked = np.flatnonzero(np.diff(adjacency.indptr))
    generators = [np.random.default_rng([seed, WALKS]) for seed in task.seeds]
    for _ in range(per_node if len(linked) else 0):
        walks = [random_walks(adjacency, random.permutation(linked), steps + 1, random) for random in generators]
        yield from torch.from_numpy(np.stack(walks)).long().to(task.device).split(at_once, 1)


def walk_contexts(
    walks: Int[Tensor, "runs walks places"], window: int, num_nodes: int
) -> tuple[Int[Tensor, "runs batch"], Float[Tensor, "runs batch batch"]]:
    """The distinct nodes of each run's walks, padded with `num_nodes`, and how often each was within the window of each
    other, including itself as in the authors' program."""
    runs, _, places = walks.shape
    visits, order = walks.flatten(1).sort(1)
    is_new = torch.ones_like(visits)
    is_new[:, 1:] = visits[:, 1:] != visits[:, :-1]
    rank = is_new.cumsum(1) - 1  # rank of a node among the distinct nodes of the run
    width = int(rank.max()) + 1
    batch = torch.full((runs, width), num_nodes, device=walks.device).scatter_(1, rank, visits)
    place = torch.empty_like(rank).scatter_(1, order, rank).view_as(walks)
    near = [(i, j) for i in range(places) for j in range(max(0, i - window), min(places, i + window + 1))]
    here, there = (torch.tensor(side, device=walks.device) for side in zip(*near, strict=True))
    pair = (place[..., here] * width + place[..., there]).flatten(1)
    counts = torch.zeros(runs, width * width, device=walks.device)
    return batch, counts.scatter_add_(1, pair, counts.new_ones(()).expand_as(pair)).view(runs, width, width)


class Classifier:
    """Softmax of [softmax of the features, softmax of the embedding], with a separate loss for each of the three.
    Training also changes the embeddings of labelled nodes."""

    def __init__(self, task: Task, table: Float[Tensor, "runs nodes_and_padding size"], row_square: float) -> None:
        self.task, self.table = task, table
        self.place = torch.where(task.labelled.present, task.labelled.index, task.num_nodes)
        self.run = torch.arange(task.runs, device=task.device)[:, None]
        self.embedding = table[self.run, self.place].requires_grad_()  # runs, labelled, size
        classes = task.num_classes
        self.from_embedding = self._layer(table.shape[-1], classes, FROM_EMBEDDING)
        features = sp.csr_array(check_features(task.graph))
        square = (features * features).sum() / task.num_nodes
        self.features = features * math.sqrt(row_square / square) if square else features
        self.from_features = self._layer(features.shape[1], classes, FROM_FEATURES)
        self.from_both = self._layer(2 * classes, classes, FROM_BOTH)

    def _layer(self, inputs: int, outputs: int, label: int) -> tuple[Tensor, Tensor]:
        """Weights (inputs, runs, outputs) and bias (runs, outputs)."""
        weight = uniform(self.task.seeds, (inputs, outputs), math.sqrt(6 / (inputs + outputs)), label)
        weight = weight.transpose(0, 1).contiguous().to(self.task.device)
        return weight.requires_grad_(), torch.zeros_like(weight[0]).requires_grad_()

    def train(self, epochs: int, learning_rate: float) -> Float[np.ndarray, "epochs runs 1"]:
        """Gradient descent on the labels; returns the loss of every epoch."""
        layers = self.from_embedding + self.from_features + self.from_both
        optimizer = torch.optim.SGD([self.embedding, *layers], lr=learning_rate)
        # (runs · labelled) x (features · runs): each run has its own weights
        index = self.task.labelled.index.clamp(min=0).cpu().numpy()
        chosen = self.features[index.ravel()]
        run = np.repeat(np.arange(len(index)).repeat(index.shape[1]), np.diff(chosen.indptr))
        shape = (index.size, self.features.shape[1] * len(index))
        matrix = sp.csr_array((chosen.data, chosen.indices * len(index) + run, chosen.indptr), shape=shape)
        rows = SparseOperator(matrix, self.task.device)
        history = torch.empty(epochs, self.task.runs, 1, device=self.task.device)
        for epoch in range(epochs):
            product = rows(self.from_features[0].flatten(0, 1))
            by_layer = [logits.log_softmax(-1).permute(1, 2, 0) for logits in self._logits(self.embedding, product)]
            loss = torch.stack([supervised_loss(one[..., None], self.task.labelled) for one in by_layer]).sum(0)
            optimizer.zero_grad()
            loss.sum().backward()
            optimizer.step()
            history[epoch] = loss.detach()
        return history.cpu().numpy()

    @torch.no_grad()
    def probabilities(self) -> Float[np.ndarray, "runs nodes classes"]:
        """Probabilities of all nodes."""
        table = self.table.clone()
        table[self.run, self.place] = self.embedding
        product = operator(self.features, self.task.device)(self.from_features[0]).transpose(0, 1)
        return self._logits(table[:, :-1], product)[-1].softmax(-1).cpu().numpy()

    def _logits(self, embedding: Tensor, features_product: Tensor) -> list[Float[Tensor, "runs some classes"]]:
        """Logits of each layer from embeddings and features · weights; the last layer predicts."""
        weight, bias = self.from_embedding
        by_embedding = torch.baddbmm(bias[:, None], embedding, weight.transpose(0, 1))
        by_features = features_product.reshape(by_embedding.shape) + self.from_features[1][:, None]
        weight, bias = self.from_both
        both = torch.cat([by_features.softmax(-1), by_embedding.softmax(-1)], -1)
        return [by_features, by_embedding, torch.baddbmm(bias[:, None], both, weight.transpose(0, 1))]
