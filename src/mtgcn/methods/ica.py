"""ICA (Lu and Getoor, ICML 2003; Sen et al., 2008): a node's class from its features and its neighbours' classes.

A local classifier of features predicts first. A relational classifier, which also sees the predicted classes of the
neighbours, then updates all nodes several times.

    ŷ_i = argmax_k (w_k · x_i + b_k)  at first, then repeatedly
    ŷ_i = argmax_k (u_k · [x_i, a_i] + c_k)  with  a_i = Σ_j A_ij onehot(ŷ_j), or a_i divided by its sum,

with features x and the weights w, b and u, c of two logistic regressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.linalg.logistic_regression import LinearClassifiers, labelled_rows, one_vs_rest, probabilities
from mtgcn.linalg.normalisation import scaled_features
from mtgcn.methods.base import Method
from mtgcn.nn.base import FeatureScaling
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveFloat
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import MISSING, Nodes, Prediction, Task

ORDER, FOLDS = 0x1CA0, 0x1CA1  # streams of a run's seed


@dataclass(frozen=True, kw_only=True)
class IterativeClassification(Method):
    """As Kipf and Welling (2017, section 5.3) ran it, with the `strength` of their program.

    They selected count or proportion on 500 validation nodes. Here each run cross-validates on its labels; of equals it
    takes count, their program's default. Edges are weighted, self-edges ignored. Everything runs on the CPU.

    >>> from mtgcn.methods import create, karate_club
    >>> task, accuracy = karate_club()
    >>> round(accuracy(create("ica").fit(task)), 2)
    0.96
    """

    iterations: NonNegativeInt = 10  # over all nodes; it stops early once nothing changes
    strength: PositiveFloat = 1.0  # C of both logistic regressions: the larger, the weaker the ridge penalty
    neighbours: Literal["cross-validated", "count", "proportion"] = "cross-validated"  # how those of each class enter
    folds: Annotated[int, Ge(2), Le(1000)] = 5  # of the cross-validation; fewer if no class has that many labels
    order: Literal["random", "together"] = "random"  # one node after the other, or all from what was last
    feature_scaling: FeatureScaling = "none"  # what each feature row is divided by

    def fit(self, task: Task) -> Prediction:
        features = scaled_features(task.graph, self.feature_scaling)
        rows = labelled_rows(features, task.labelled)
        places = Places(task)
        edges = places.edges(self._proportional(task))

        local = one_vs_rest(rows, task.labelled, task.num_classes, self.strength)
        scores = local.scores(features).reshape(places.count, task.num_classes)
        assigned = np.eye(task.num_classes)[np.where(places.given, places.classes, scores.argmax(axis=1))]

        # Trained once, with the local classifier's predictions for the neighbours.
        rows_and_neighbours = np.concatenate([rows, places.at_labelled(edges @ assigned)], axis=2)
        relational = one_vs_rest(rows_and_neighbours, task.labelled, task.num_classes, self.strength)
        own_part, neighbours_part = _parts(relational, features.shape[1])
        from_features = own_part.scores(features).reshape(places.count, task.num_classes)

        def score(some: Int[np.ndarray, "some"], edges_of_some: sp.csr_array) -> Float[np.ndarray, "some classes"]:
            counts = edges_of_some @ assigned
            return from_features[some] + np.einsum("sn,snc->sc", counts, neighbours_part[places.run[some]])

        waves = [(some, edges[some]) for some in self._waves(places, edges)]
        for _ in range(self.iterations):
            before = assigned.copy()
            for some, edges_of_some in waves:
                scores[some] = score(some, edges_of_some)
                assigned[some] = np.eye(task.num_classes)[scores[some].argmax(axis=1)]
            if np.array_equal(assigned, before):
                break
        if self.iterations:  # labelled nodes keep their class; their probabilities are those of the last classifier
            labelled = np.flatnonzero(places.given)
            scores[labelled] = score(labelled, edges[labelled])
        return Prediction(probabilities(scores).reshape(task.runs, task.num_nodes, task.num_classes))

    def _proportional(self, task: Task) -> Bool[np.ndarray, "runs"]:
        """Whether a run looks at the neighbours' proportions instead of their counts."""
        if self.neighbours != "cross-validated":
            return np.full(task.runs, self.neighbours == "proportion")
        by_count, by_proportion = (
            sum(_right_of_held_out(replace(self, neighbours=way), *part) for part in _parted(task, self.folds))
            for way in ("count", "proportion")
        )
        return np.asarray(by_proportion > by_count)

    def _waves(self, places: Places, edges: sp.csr_array) -> Iterator[Int[np.ndarray, "some"]]:
        if self.order == "together":
            return iter([np.flatnonzero(~places.given)])
        position = [random.permutation(places.nodes) for random in _generators(places.task, ORDER)]
        return waves_of_an_order(edges, np.concatenate(position), moving=~places.given)

    def bytes_per_run(self, task: Task) -> int:
        inputs = task.labelled.index.shape[1] * (task.graph.num_features + task.num_classes)
        at_nodes = task.num_nodes * task.num_classes * (6 + task.num_classes)
        return 8 * (5 * inputs + at_nodes + 4 * task.graph.adjacency.nnz)


class Places:
    """Every node of every run, the runs one after the other."""

    def __init__(self, task: Task) -> None:
        self.task, self.nodes = task, task.num_nodes
        self.count = task.runs * self.nodes
        self.run = np.repeat(np.arange(task.runs), self.nodes)
        self._present = task.labelled.present.cpu().numpy()
        self._labelled = task.labelled.index.cpu().numpy() + self.nodes * np.arange(task.runs)[:, None]
        self.given: Bool[np.ndarray, "places"] = np.zeros(self.count, dtype=bool)
        self.given[self._labelled[self._present]] = True
        self.classes = np.zeros(self.count, dtype=np.int64)
        self.classes[self._labelled[self._present]] = task.labelled.classes.cpu().numpy()[self._present]

    def edges(self, proportional: Bool[np.ndarray, "runs"]) -> sp.csr_array:
        """Edges between different nodes of the same run; in proportional runs, those of a node sum to 1."""
        weights = self.task.graph.adjacency.astype(np.float64)
        weights = sp.csr_array(weights - sp.diags_array(weights.diagonal()))
        weights.eliminate_zeros()
        sums = weights.sum(axis=1)
        shares = sp.diags_array(np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)) @ weights
        return sp.csr_array(sp.block_diag([shares if share else weights for share in proportional], format="csr"))

    def at_labelled(self, values: Float[np.ndarray, "places any"]) -> Float[np.ndarray, "runs examples any"]:
        """The rows of each run's labelled nodes; padding is 0."""
        return values[self._labelled] * self._present[..., None]


def _generators(task: Task, purpose: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng([seed, purpose]) for seed in task.seeds)


def _parted(task: Task, most_folds: int) -> Iterator[tuple[Task, Nodes]]:
    """Fold after fold: the task without some of each run's labels, and those labels. The labels of each class are
    divided in random order; a run has fewer folds if no class has that many labels."""
    labelled = task.labelled.to(torch.device("cpu"))
    fold = np.full(labelled.index.shape, MISSING)
    for run, random in enumerate(_generators(task, FOLDS)):
        present, classes = labelled.present[run].numpy(), labelled.classes[run].numpy()
        folds = np.clip(np.bincount(classes[present]).max(), 2, most_folds)
        for number in np.unique(classes[present]):
            members = np.flatnonzero(present & (classes == number))
            fold[run, random.permutation(members)] = np.arange(len(members)) % folds
    for number in range(fold.max() + 1):
        held_out = torch.from_numpy(fold == number)
        kept = Nodes(labelled.index.masked_fill(held_out, MISSING), labelled.classes)
        yield replace(task, labelled=kept), Nodes(labelled.index.masked_fill(~held_out, MISSING), labelled.classes)


def _right_of_held_out(method: IterativeClassification, task: Task, held_out: Nodes) -> Int[np.ndarray, "runs"]:
    """The number of correct predictions among the held-out labels of each run."""
    assigned = method.fit(task).probabilities.argmax(axis=2)
    right = np.take_along_axis(assigned, held_out.index.numpy(), axis=1) == held_out.classes.numpy()
    return np.sum(right & held_out.present.numpy(), axis=1)


def _parts(relational: LinearClassifiers, features: int) -> tuple[LinearClassifiers, np.ndarray]:
    """A classifier of the features alone, and the weights of the neighbours' classes."""
    own = LinearClassifiers(relational.weights[:, :features], relational.constants)
    return own, relational.weights[:, features:]


def waves_of_an_order(
    edges: sp.csr_array, position: Int[np.ndarray, "places"], moving: Bool[np.ndarray, "places"]
) -> Iterator[Int[np.ndarray, "some"]]:
    """The moving places in waves, such that wave after wave does what one place after the other would, in the order
    of their positions: each comes after the neighbours that stand before it, and no two of a wave are linked.

    >>> import numpy as np
    >>> path = sp.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> [wave.tolist() for wave in waves_of_an_order(path, np.array([1, 0, 2]), np.array([True, True, True]))]
    [[1], [0, 2]]
    """
    pairs = edges.tocoo()
    waits = moving[pairs.row] & moving[pairs.col] & (position[pairs.row] > position[pairs.col])
    after = sp.csr_array((np.ones(waits.sum()), (pairs.col[waits], pairs.row[waits])), shape=edges.shape)
    waiting_for = np.bincount(pairs.row[waits], minlength=len(moving))
    ready = np.flatnonzero(moving & (waiting_for == 0))
    while len(ready):
        yield ready
        released = after[ready].indices
        np.subtract.at(waiting_for, released, 1)
        released = np.unique(released)
        ready = released[waiting_for[released] == 0]
