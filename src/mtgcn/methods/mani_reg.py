"""ManiReg (Belkin, Niyogi and Sindhwani, JMLR 2006): Laplacian regularised least squares on the features.

The solution has a closed form, and one factorisation serves every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.errors import InputError
from mtgcn.linalg.normalisation import normalized_laplacian, scaled_features
from mtgcn.methods.base import Method
from mtgcn.nn.base import FeatureScaling
from mtgcn.settings import LARGEST, Gt, Le, NonNegativeFloat
from mtgcn.shapes import Float
from mtgcn.task import Prediction, Task

MOST_FEATURES = 20_000  # their square, in doubles, is 3.2 GB

# The first values are the paper's, from its experiment on handwritten digits (γ_A l and γ_I / γ_A · l / n²). That graph
# has hundreds of nodes. Smoothness is a sum over all nodes, so it needs smaller weights on larger graphs.
AMBIENTS = (0.005, 0.05, 0.5)
RATIOS = (9.0, 0.9, 0.09, 0.009, 0.0009)

Ambient = Annotated[float, Gt(0, remedy="more than 0, or the solution is not unique"), Le(LARGEST)]


@dataclass(frozen=True, kw_only=True)
class ManifoldRegularization(Method):
    """f(x) = x W, fitted to l labelled nodes of n:

        W = argmin  Σ_labelled |y_i - x_i W|² + ambient (|W|² + ratio · tr((X W)ᵀ L (X W))),

    so `ambient` is the paper's γ_A l and `ambient · ratio` its γ_I l / n². Choices that the paper leaves to the user:

    - The kernel is linear and rows have length 1, as in the paper's experiment on text.
    - L is the normalised Laplacian of the given graph, not of a nearest neighbour graph.
    - Each run selects the two weights from `AMBIENTS` and `RATIOS` by the leave-one-out error on its labels, which has
      a closed form. The printed numbers come from weights tuned on validation nodes.
    - Targets are one-hot columns minus the share of the class among the run's labels, which is added to the scores
      again. Scores of a node sum to 1; negative ones are set to 0 to make probabilities."""

    ambient: Ambient | None = None  # None: selected for each run by leave-one-out cross-validation
    ratio: NonNegativeFloat | None = None  # weight of smoothness relative to size; None: selected with `ambient`
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by

    def fit(self, task: Task) -> Prediction:
        features = sp.csr_array(scaled_features(task.graph, self.feature_scaling), dtype=np.float64)
        if features.shape[1] > MOST_FEATURES:
            raise InputError(f"{features.shape[1]} features exceed the limit of {MOST_FEATURES}; give fewer")
        smoothness = (features.T @ (normalized_laplacian(task.graph) @ features)).toarray()  # Xᵀ L X
        distinct, inverse = np.unique(task.labelled.index.clamp(min=0).cpu().numpy(), return_inverse=True)
        # Column of the kernel for each labelled node: runs, labelled.
        place = torch.from_numpy(inverse.reshape(task.labelled.index.shape)).to(task.device)
        present = task.labelled.present[..., None]
        both = present & present.transpose(1, 2)  # pairs without padding
        one_hot = torch.nn.functional.one_hot(task.labelled.classes, task.num_classes) * present
        prior = one_hot.sum(1).double() / present.sum(1)  # runs, classes
        targets = torch.where(present, one_hot - prior[:, None], 0)
        run = torch.arange(task.runs, device=task.device)[:, None]
        best_error = torch.full((task.runs,), torch.inf, dtype=torch.float64, device=task.device)
        best_scores = torch.zeros(task.num_nodes, task.runs, task.num_classes, dtype=torch.float64, device=task.device)
        for ratio in RATIOS if self.ratio is None else (self.ratio,):
            kernel = graph_kernel(features, smoothness, ratio, distinct, task.device)
            for ambient in AMBIENTS if self.ambient is None else (self.ambient,):
                among = torch.where(both, (kernel[distinct] / ambient)[place[:, :, None], place[:, None]], 0)
                coefficients, error = _least_squares(among, targets)
                # Coefficients of all runs in one matrix, so that one product serves all runs.
                placed = targets.new_zeros(len(distinct), task.runs, task.num_classes)
                placed.index_put_((place, run), coefficients / ambient, accumulate=True)
                scores = (kernel @ placed.flatten(1)).view_as(best_scores)
                best_scores = torch.where((error < best_error)[:, None], scores, best_scores)
                best_error = torch.minimum(error, best_error)
        scores = (best_scores + prior).clamp(min=0).transpose(0, 1)
        return Prediction((scores / scores.sum(-1, keepdim=True)).float().cpu().numpy())

    def bytes_per_run(self, task: Task) -> int:
        return 8 * task.num_nodes * (task.labelled.index.shape[1] + 3 * task.num_classes)


def graph_kernel(
    features: sp.csr_array, smoothness: np.ndarray, ratio: float, columns: np.ndarray, device: torch.device
) -> Float[Tensor, "nodes columns"]:
    """Some columns of X B⁻¹ Xᵀ with B = I + ratio · Xᵀ L X: the kernel with which plain least squares has
    the minimum above (Sindhwani, Niyogi and Belkin, 2005). B does not depend on labels, so runs share its factor."""
    base = torch.from_numpy(ratio * smoothness).to(device)
    base.diagonal().add_(1)
    some_rows = torch.from_numpy(features[columns].toarray()).to(device)
    solved = torch.cholesky_solve(some_rows.T, torch.linalg.cholesky(base))  # features, columns
    return torch.from_numpy(features @ solved.cpu().numpy()).to(device)


def _least_squares(
    kernel: Float[Tensor, "runs labelled labelled"], targets: Float[Tensor, "runs labelled classes"]
) -> tuple[Float[Tensor, "runs labelled classes"], Float[Tensor, "runs"]]:
    """The coefficients c of the solution K c, where (K + I) c = targets, and the squared leave-one-out error of each
    run: the leave-one-out error of node i is c_i / ((K + I)⁻¹)_ii."""
    inverse = torch.linalg.inv(kernel + torch.eye(kernel.shape[1], dtype=kernel.dtype, device=kernel.device))
    coefficients = inverse @ targets
    missed_by = coefficients / inverse.diagonal(dim1=1, dim2=2)[..., None]
    return coefficients, missed_by.square().sum((1, 2))
