"""Poisson learning (Calder, Cook, Thorpe and Slepčev, ICML 2020): labels are sources of a Poisson equation.

With few labels, the solution of Laplace's equation is nearly constant, with spikes at the labels; that of Poisson's
equation is not. Features are not used.

    L u = Σ_{j labelled} (y_j - ȳ) δ_j,   Σ_i D_ii u_i = 0,   ŷ_i = argmax over classes k of s_k u_ik,   s_k = b_k / ȳ_k

    L, D   L = D - A: Laplacian and degrees of the adjacency A, whose weights are divided by their mean
    u      solution, nodes x classes
    y_j    one-hot class of node j; δ_j is 1 at node j and 0 elsewhere
    ȳ      mean of the y_j
    b_k    share of class k among the nodes, from `class_sizes`; without them s_k = 1

Choices that the paper leaves open:
- Each component is a separate problem: ȳ is the mean over its labels, and only classes with a label in it are
  predicted. Nodes of a component without labels get the mean probabilities of the other nodes of the run, as in `lp`.
- Probabilities are a softmax of s_k u_ik, divided by the mean of its absolute values in the run.

The linear systems of all runs are solved together, on the CPU, in doubles.

>>> from mtgcn.methods import create, karate_club
>>> task, accuracy = karate_club()
>>> round(accuracy(create("poisson").fit(task)), 2)
0.96
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mtgcn.errors import InputError
from mtgcn.linalg.random_walks import absorbing_walk
from mtgcn.methods.base import Method
from mtgcn.settings import Numbers
from mtgcn.task import Prediction, Task

ALPHA = 1e-10  # added to the diagonal of L, so that it can be inverted; tiny compared with its other eigenvalues


@dataclass(frozen=True, kw_only=True)
class PoissonLearning(Method):
    """The class with the largest solution of the Poisson equation, weighted by class sizes if they are known."""

    uses_features: ClassVar[bool] = False
    class_sizes: Numbers | None = None  # b: relative class sizes, in the order of the classes; none: unknown

    def fit(self, task: Task) -> Prediction:
        walk, nodes = absorbing_walk(task.graph, ALPHA), task.num_nodes
        run, place = np.nonzero(task.labelled.present.cpu().numpy())
        index, classes = task.labelled.index.cpu().numpy()[run, place], task.labelled.classes.cpu().numpy()[run, place]

        # ȳ of every component with labels; the last row is for all components without labels.
        with_labels, component = np.unique(walk.component[index], return_inverse=True)
        counts = np.zeros((len(with_labels) + 1, task.runs, task.num_classes))
        np.add.at(counts, (component, run, classes), 1)
        mean = counts / np.maximum(counts.sum(axis=2, keepdims=True), 1)

        source = np.zeros((nodes, task.runs, task.num_classes))
        source[index, run] -= mean[component, run]
        source[index, run, classes] += 1
        solution = walk.poisson_solution(source.reshape(nodes, -1)).reshape(source.shape)  # u

        number = np.full(len(walk.component_sizes), len(with_labels))
        number[with_labels] = np.arange(len(with_labels))
        possible = (counts > 0)[number[walk.component]]  # nodes, runs, classes
        reached = possible.any(axis=2, keepdims=True)
        scores = self._weights(counts.sum(axis=0)) * solution
        size = np.abs(scores).mean(axis=(0, 2), keepdims=True, where=possible)
        logits = np.where(possible, scores / np.where(size > 0, size, 1), -np.inf)
        share = np.exp(logits - np.where(reached, logits.max(axis=2, keepdims=True), 0))
        probabilities = share / np.maximum(share.sum(axis=2, keepdims=True), 1)
        probabilities = np.where(reached, probabilities, probabilities.mean(axis=0, keepdims=True, where=reached))
        return Prediction(np.ascontiguousarray(probabilities.transpose(1, 0, 2), dtype=np.float32))

    def _weights(self, counts: np.ndarray) -> np.ndarray:
        """The class weights s, runs x classes."""
        if self.class_sizes is None:
            return np.ones_like(counts)
        sizes = np.array(self.class_sizes)
        if len(sizes) != counts.shape[1] or sizes.min() <= 0:
            raise InputError(
                f"class_sizes is {self.class_sizes}; give one positive number for each of the {counts.shape[1]} classes"
            )
        labels = counts / counts.sum(axis=1, keepdims=True)
        return sizes / sizes.sum() / np.where(counts > 0, labels, 1)

    def bytes_per_run(self, task: Task) -> int:
        return 8 * 8 * task.num_nodes * task.num_classes
