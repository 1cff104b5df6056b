"""Multinomial logistic regression for a stack of runs, by the products of their labelled rows with each other.

    loss = - Σ_i m_i log p_i[y_i] + λ |W|²,  p_i = softmax(x_i W),  with weights m_i that sum to 1.

Its minimum lies in the span of the labelled rows: W = Xᵀ α. A handful of labels on thousands of columns makes this a
small problem, and in the eigenbasis of X Xᵀ the bound of its curvature is diagonal: every direction has a step of its
own.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.shapes import Float, Int

SMALLEST_EIGENVALUE = 1e-7  # of X Xᵀ, whose own rounding is about as large
CURVATURE = 0.5  # what the second derivative of a softmax's loss never exceeds
STEPS_BETWEEN_LOOKS = 25  # at whether all have settled
SETTLED = 1e-7  # a step so small, relative to the logits, changes no more than their rounding


def fit_to_labels(
    rows: Float[Tensor, "runs labelled width"],
    classes: Int[Tensor, "runs labelled"],
    num_classes: int,
    weights: Float[Tensor, "runs parts labelled"],
    penalties: Float[Tensor, "penalties"],
    steps: int = 150,
) -> Float[Tensor, "runs parts penalties labelled classes"]:
    """The coefficients α of every run, for each of several weightings of its labels and each penalty λ.

    What they say of a node: (its row · rowsᵀ) α, or its row · (rowsᵀ α), are its logits. A constant is a column of ones
    among the rows, and is penalised as any other. The weights of a part sum to 1; an absent label has weight 0 in all
    parts, and whatever its row holds, its coefficients are 0.

    At most `steps` of accelerated gradient descent that starts over where it goes uphill (Nesterov, 1983; O'Donoghue
    and Candès, 2015), fewer where all have settled. With rows of length 1 and a penalty of 1e-4, 150 bring logits
    within about 1e-3; a smaller penalty takes more, and who stops before has a fit that is regularised more.
    Eigenvectors are found in doubles, all else is in 32 bits, which leaves about 1e-4. Memory beside the rows and a
    copy of them: about 8 times the result, and 40 bytes for every pair of labels of a run.
    """
    present = weights.sum(1) > 0
    rows = rows * present[..., None]
    eigenvalues, basis = torch.linalg.eigh((rows @ rows.mT).double())
    eigenvalues, basis = eigenvalues.clamp(min=SMALLEST_EIGENVALUE).float(), basis.float()
    roots = eigenvalues.sqrt()[:, None, None, :, None]
    labelled = (basis * eigenvalues.sqrt()[:, None])[:, None, None]  # the rows in the eigenbasis: labels, directions
    target = functional.one_hot(classes, num_classes).float()[:, None, None]
    weight = weights[:, :, None, :, None]
    pull = 2 * penalties[:, None, None]
    bound = CURVATURE * weights.amax(-1)[:, :, None, None, None] * eigenvalues[:, None, None, :, None] + pull

    found = rows.new_zeros(*weights.shape[:2], len(penalties), rows.shape[1], num_classes)
    ahead, since = found, rows.new_zeros(*found.shape[:3], 1, 1)  # steps since it started over
    for step in range(steps):
        error = (labelled @ ahead).softmax(-1).sub_(target).mul_(weight)
        gradient = (labelled.mT @ error).add_(ahead * pull)
        new = ahead - gradient / bound
        move = new - found
        uphill = (gradient * move).sum((-1, -2), keepdim=True) > 0
        since = torch.where(uphill, 0.0, since + 1)
        ahead, found = new + since / (since + 3) * move, new
        if step % STEPS_BETWEEN_LOOKS == STEPS_BETWEEN_LOOKS - 1 and _settled(roots * move, roots * new):
            break
    return (basis[:, None, None] @ (found / roots)) * present[:, None, None, :, None]


def _settled(move: Tensor, place: Tensor) -> bool:
    return bool((move.abs().amax((-1, -2)) <= SETTLED * place.abs().amax((-1, -2))).all())
