"""Multinomial logistic regression with every node as an example, for a stack of runs."""

from __future__ import annotations

import torch
from torch import Tensor

from mtgcn.linalg.softmax_regression import CURVATURE
from mtgcn.shapes import Float, Int

ROUNDING = 1e-6  # of the weights, which a bound must exceed to be positive in 32 bits


def fit_to_all(
    rows: Float[Tensor, "nodes width"],
    weights: Float[Tensor, "runs nodes"],
    classes: Int[Tensor, "runs nodes"],
    penalty: Float[Tensor, "runs"],
    start: Float[Tensor, "runs width classes"],
    steps: int,
) -> Float[Tensor, "runs width classes"]:
    """The minimum of - Σ_i m_i log softmax(x_i W)[y_i] + λ |W|², each run with weights m, classes y and penalty λ.

    Every step is divided by the bound of the curvature, a matrix of the width's square for each run, so that two dozen
    steps are enough from any start.
    """
    found, (runs, nodes) = start, weights.shape
    width, num_classes = start.shape[1:]
    bound = torch.stack([CURVATURE * (rows * one[:, None]).T @ rows for one in weights])
    bound.diagonal(dim1=1, dim2=2).add_((2 * penalty + ROUNDING * weights.sum(1))[:, None])
    factor = torch.linalg.cholesky(bound)
    pull = 2 * penalty[:, None, None]
    ahead, since = found, found.new_zeros(runs, 1, 1)
    for _ in range(steps):
        error = logits_of(rows, ahead).softmax(-1)
        error.scatter_add_(2, classes[..., None], error.new_full((), -1.0).expand(runs, nodes, 1))
        error.mul_(weights[..., None])
        gradient = (rows.T @ error.transpose(0, 1).reshape(nodes, -1)).view(width, runs, num_classes).transpose(0, 1)
        gradient = gradient + pull * ahead
        new = ahead - torch.cholesky_solve(gradient, factor)
        move = new - found
        since = torch.where((gradient * move).sum((1, 2), keepdim=True) > 0, 0.0, since + 1)
        ahead, found = new + since / (since + 3) * move, new
    return found


def logits_of(
    rows: Float[Tensor, "nodes width"], weight: Float[Tensor, "runs width classes"]
) -> Float[Tensor, "runs nodes classes"]:
    """What every run says of every node, by one product for all runs."""
    runs, width, num_classes = weight.shape
    side_by_side = weight.transpose(0, 1).reshape(width, runs * num_classes)
    return (rows @ side_by_side).view(-1, runs, num_classes).transpose(0, 1)
