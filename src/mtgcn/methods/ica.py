"""ICA (Lu and Getoor, ICML 2003; Sen et al., 2008): a node's class from its features and its neighbours' classes.

A local classifier of features predicts first. A relational classifier, which also sees the predicted classes of the
neighbours, then updates all nodes several times.

    ŷ_i = argmax_k (w_k · x_i + b_k)  at first, then repeatedly
    ŷ_i = argmax_k (u_k · [x_i, a_i] + c_k)  with  a_i = Σ_j A_ij onehot(ŷ_j), or a_i divided by its sum,

with features x and the weights w, b and u, c of two logistic regressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Literal

import numpy as np
import scipy.sparse as sp
import torch

from mtgcn.linalg.logistic_regression import LinearClassifiers, labelled_rows, one_vs_rest, probabilities
from mtgcn.linalg.normalisation import relative_adjacency, scaled_features
from mtgcn.methods.base import Method
from mtgcn.nn.base import FeatureScaling
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveFloat
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import MISSING, Nodes, Prediction, Task

ORDER, FOLDS = 0x1CA0, 0x1CA1  # streams of a run's seed


@dataclass(frozen=True, kw_only=True)
class IterativeClassification(Method):
    """ICA as used by Kipf and Welling (2017, section 5.3), with the `strength` of their program.

    They selected count or proportion on 500 validation nodes. Here each run selects by cross-validation on its labels;
    ties go to count, the default of their program. Edges are weighted, and self-edges are ignored. Everything runs on
    the CPU."""

    iterations: NonNegativeInt = 10  # most iterations over all nodes; stops early if nothing changes
    strength: PositiveFloat = 1.0  # C of both logistic regressions: the larger, the weaker the ridge penalty
    neighbours: Literal["cross-validated", "count", "proportion"] = "cross-validated"  # input of neighbours' classes
    folds: Annotated[int, Ge(2), Le(1000)] = 5  # folds of the cross-validation; fewer if all classes have fewer labels
    order: Literal["random", "together"] = "random"  # update nodes one by one, or all at once
    feature_scaling: FeatureScaling = "none"  # norm that feature rows are divided by

    def fit(self, task: Task) -> Prediction:
        nodes, classes = task.num_nodes, task.num_classes
        features = scaled_features(task.graph, self.feature_scaling)
        rows = labelled_rows(features, task.labelled)
        # Nodes of all runs are concatenated.
        present = task.labelled.present.cpu().numpy()
        labelled = task.labelled.index.cpu().numpy() + nodes * np.arange(task.runs)[:, None]
        known = np.full(task.runs * nodes, MISSING)
        known[labelled[present]] = task.labelled.classes.cpu().numpy()[present]
        given = known != MISSING
        edges = self._edges(task)

        local = one_vs_rest(rows, task.labelled, classes, self.strength)
        scores = local.scores(features).reshape(-1, classes)
        assigned = np.eye(classes)[np.where(given, known, scores.argmax(axis=1))]

        # The relational classifier is trained once, on the predictions of the local one for the neighbours.
        neighbours = (edges @ assigned)[labelled] * present[..., None]
        relational = one_vs_rest(np.concatenate([rows, neighbours], axis=2), task.labelled, classes, self.strength)
        of_features, of_neighbours = np.split(relational.weights, [features.shape[1]], axis=1)
        from_features = LinearClassifiers(of_features, relational.constants).scores(features).reshape(-1, classes)

        def score(some: Int[np.ndarray, "some"], edges_of_some: sp.csr_array) -> Float[np.ndarray, "some classes"]:
            counts = edges_of_some @ assigned
            return from_features[some] + np.einsum("sn,snc->sc", counts, of_neighbours[some // nodes])

        waves: Iterable[np.ndarray] = [np.flatnonzero(~given)]
        if self.order == "random":
            position = [np.random.default_rng([seed, ORDER]).permutation(nodes) for seed in task.seeds]
            waves = waves_of_an_order(edges, np.concatenate(position), moving=~given)
        with_edges = [(some, edges[some]) for some in waves]
        for _ in range(self.iterations):
            before = assigned.copy()
            for some, edges_of_some in with_edges:
                scores[some] = score(some, edges_of_some)
                assigned[some] = np.eye(classes)[scores[some].argmax(axis=1)]
            if np.array_equal(assigned, before):
                break
        if self.iterations:  # labelled nodes keep their class; their probabilities are those of the last classifier
            scores[given] = score(np.flatnonzero(given), edges[given])
        return Prediction(probabilities(scores).reshape(task.runs, nodes, classes))

    def _edges(self, task: Task) -> sp.csr_array:
        """Edges between the nodes of all runs, without self-edges. If a run uses proportions, its rows sum to 1."""
        proportional = np.full(task.runs, self.neighbours == "proportion")
        if self.neighbours == "cross-validated":
            more_right = np.zeros(task.runs, dtype=np.int64)  # correct held-out labels: proportion minus count
            ways = replace(self, neighbours="proportion"), replace(self, neighbours="count")
            for (way, sign), (kept, held_out) in product(zip(ways, (1, -1), strict=True), _parted(task, self.folds)):
                assigned = way.fit(kept).probabilities.argmax(axis=2)
                found = np.take_along_axis(assigned, held_out.index.numpy(), axis=1) == held_out.classes.numpy()
                more_right += sign * np.sum(found & held_out.present.numpy(), axis=1)
            proportional = more_right > 0
        weights = relative_adjacency(task.graph).astype(np.float64)
        weights = sp.csr_array(weights - sp.diags_array(weights.diagonal()))
        weights.eliminate_zeros()
        sums = weights.sum(axis=1)
        shares = sp.diags_array(np.divide(1, sums, out=np.zeros_like(sums), where=sums > 0)) @ weights
        return sp.csr_array(sp.block_diag([shares if share else weights for share in proportional], format="csr"))

    def bytes_per_run(self, task: Task) -> int:
        inputs = task.labelled.index.shape[1] * (task.graph.num_features + task.num_classes)
        at_nodes = task.num_nodes * task.num_classes * (6 + task.num_classes)
        return 8 * (5 * inputs + at_nodes + 4 * task.graph.adjacency.nnz)


def _parted(task: Task, most_folds: int) -> Iterator[tuple[Task, Nodes]]:
    """Yields for each fold the task without the held-out labels of each run, and these labels. The labels of each class
    are split at random; a run has fewer folds if no class has that many labels."""
    labelled = task.labelled.to(torch.device("cpu"))
    fold = np.full(labelled.index.shape, MISSING)
    for run, seed in enumerate(task.seeds):
        random = np.random.default_rng([seed, FOLDS])
        present, classes = labelled.present[run].numpy(), labelled.classes[run].numpy()
        folds = np.clip(np.bincount(classes[present]).max(), 2, most_folds)
        for number in np.unique(classes[present]):
            members = np.flatnonzero(present & (classes == number))
            fold[run, random.permutation(members)] = np.arange(len(members)) % folds
    for number in range(fold.max() + 1):
        held_out = torch.from_numpy(fold == number)
        kept = Nodes(labelled.index.masked_fill(held_out, MISSING), labelled.classes)
        yield replace(task, labelled=kept), Nodes(labelled.index.masked_fill(~held_out, MISSING), labelled.classes)


def waves_of_an_order(
    edges: sp.csr_array, position: Int[np.ndarray, "places"], moving: Bool[np.ndarray, "places"]
) -> Iterator[Int[np.ndarray, "some"]]:
    """Groups of nodes that can be updated together, so that the result equals sequential updates by position: a
    node's group comes after those of its preceding neighbours, and no two nodes of a group are linked.

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
