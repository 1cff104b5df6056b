"""One-vs-rest logistic regression for a stack of runs, fitted together by Newton's method.

The ridge penalty also covers the intercept, as in LIBLINEAR, which the published programs of DeepWalk and of the
iterative classifier use. Matrices are small, so everything is computed in doubles on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_expit, softmax

from mtgcn.shapes import Bool, Float

if TYPE_CHECKING:
    from mtgcn.task import Nodes

MAX_STEPS = 100  # most Newton steps; about ten are usual
SETTLED = 1e-6  # convergence: largest step relative to the coefficients
MAX_HALVINGS = 30  # how often a step may be halved
ROUNDING = 1e-12  # tolerated relative growth of the loss
Examples = Float[np.ndarray, "runs examples features"]
Coefficients = Float[np.ndarray, "runs classes features"]
Belongs = Bool[np.ndarray, "runs classes examples"]  # which examples belong to each class


@dataclass(frozen=True, eq=False)
class LinearClassifiers:
    """One linear score per class and run: a row of features times `weights`, plus `constants`."""

    weights: Float[np.ndarray, "runs features classes"]
    constants: Float[np.ndarray, "runs classes"]

    def __getitem__(self, runs: slice) -> LinearClassifiers:
        return LinearClassifiers(self.weights[runs], self.constants[runs])

    def scores(self, features: sp.csr_array | Float[np.ndarray, "nodes features"]) -> np.ndarray:
        """Scores of the nodes, runs x nodes x classes, computed by one product for all runs."""
        runs, inputs, classes = self.weights.shape
        side_by_side = self.weights.transpose(1, 0, 2).reshape(inputs, runs * classes)
        product = np.asarray(features @ side_by_side).reshape(-1, runs, classes)
        return product.transpose(1, 0, 2) + self.constants[:, None]


def probabilities(scores: Float[np.ndarray, "*any classes"]) -> Float[np.ndarray, "*any classes"]:
    """One-vs-rest probabilities, normalised to sum to 1."""
    return softmax(log_expit(scores), axis=-1)  # in logarithms, to avoid underflow


def labelled_rows(features: sp.csr_array | Float[np.ndarray, "nodes features"], labelled: Nodes) -> Examples:
    """The features of each run's labelled nodes; rows of padding are 0."""
    index, present = labelled.index.cpu().numpy(), labelled.present.cpu().numpy()
    rows = features[index.reshape(-1)]
    dense = rows.toarray() if sp.issparse(rows) else np.asarray(rows)
    return dense.reshape(*index.shape, features.shape[1]) * present[..., None]


def one_vs_rest(rows: Examples, labelled: Nodes, num_classes: int, strength: float) -> LinearClassifiers:
    """The minimum of strength · Σ log(1 + exp(-y f)) + |w|² / 2 over a run's labelled nodes, for every run and class;
    f = w · (x, 1), and y is 1 for the nodes of the class and -1 for all others.

    `strength` is C of LIBLINEAR and scikit-learn. A class without labels gets low scores.
    """
    present = labelled.present.cpu().numpy()
    belongs = labelled.classes.cpu().numpy()[:, None] == np.arange(num_classes)[:, None]  # runs, classes, examples
    # Rows of padding are zeros, the intercept included, and contribute nothing.
    with_constant = np.concatenate([rows, present[..., None]], axis=2, dtype=np.float64)
    weights = _newton(with_constant, belongs, strength).transpose(0, 2, 1)
    return LinearClassifiers(weights[:, :-1], weights[:, -1])


def _newton(rows: Examples, belongs: Belongs, cost: float) -> Coefficients:
    """Every run iterates until it has converged, so that runs do not depend on each other."""
    solution = np.zeros((*belongs.shape[:2], rows.shape[2]))
    active = np.arange(len(rows))
    for _ in range(MAX_STEPS):
        here = solution[active]
        step, solution[active] = _newton_step(here, rows[active], belongs[active], cost)
        active = active[np.abs(step).max(axis=(1, 2)) > SETTLED * (1 + np.abs(here).max(axis=(1, 2)))]
        if not len(active):
            break
    return solution


def _newton_step(here: Coefficients, rows: Examples, belongs: Belongs, cost: float) -> tuple[np.ndarray, np.ndarray]:
    """The step, and the coefficients after it; a step that would increase the loss is halved."""
    columns = rows.transpose(0, 2, 1)

    def loss(at: np.ndarray) -> np.ndarray:
        scores = at @ columns
        negative_log_likelihood = -log_expit(np.where(belongs, scores, -scores)).sum(axis=2)
        return cost * negative_log_likelihood + (at * at).sum(axis=2) / 2

    probabilities = expit(here @ columns)
    gradient = here + cost * (probabilities - belongs) @ rows
    hessian_weights = cost * probabilities * (1 - probabilities)
    # (I + Xᵀ diag(hessian_weights) X)^-1 · gradient, by the smaller of two systems: one unknown per feature or, by
    # Woodbury's identity, one per example.
    if rows.shape[2] <= rows.shape[1]:
        curvature = columns[:, None] @ (hessian_weights[..., None] * rows[:, None]) + np.eye(rows.shape[2])
        step = -_solution(curvature, gradient)
    else:
        root = np.sqrt(hessian_weights)
        inner = root[..., None] * (rows @ columns)[:, None] * root[..., None, :] + np.eye(rows.shape[1])
        step = (root * _solution(inner, root * (gradient @ columns))) @ rows - gradient
    before, halved = loss(here), step
    for _ in range(MAX_HALVINGS):
        too_far = loss(here + halved) > before * (1 + ROUNDING)
        if not too_far.any():
            break
        halved = np.where(too_far[..., None], halved / 2, halved)
    return step, here + halved


def _solution(matrices: Float[np.ndarray, "*any size size"], right: Float[np.ndarray, "*any size"]) -> np.ndarray:
    """Solutions of symmetric positive definite systems; least-squares solutions where rounding makes one singular."""
    try:
        return np.linalg.solve(matrices, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        return (np.linalg.pinv(matrices, hermitian=True) @ right[..., None])[..., 0]
