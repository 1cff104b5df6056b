"""Multinomial logistic regression for a stack of runs.

    loss = - Σ_i m_i log p_i[y_i] + λ |W|²,  p_i = softmax(x_i W),  with weights m_i.

With a handful of labels on thousands of columns the minimum lies in the span of the labelled rows, W = Xᵀ α. That makes
it a small problem, and in the eigenbasis of X Xᵀ the bound of its curvature is diagonal: every direction has a step of
its own. With every node as an example, the bound is a matrix of the width's square, and dividing by it serves as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.shapes import Float, Int

SMALLEST_EIGENVALUE = 1e-7  # of X Xᵀ, whose own rounding is about as large
CURVATURE = 0.5  # what the second derivative of a softmax's loss never exceeds
STEPS_BETWEEN_LOOKS = 25  # at whether all have settled
SETTLED = 1e-7  # a step so small, relative to the logits, changes no more than their rounding
ROUNDING = 1e-6  # of the weights, which a bound must exceed to be positive in 32 bits

Total = Callable[[Tensor], Tensor]
InverseBound = Float[Tensor, "runs width width"]


def fit_to_labels(
    kernel: Float[Tensor, "runs labelled labelled"],
    classes: Int[Tensor, "runs labelled"],
    num_classes: int,
    weights: Float[Tensor, "runs parts labelled"],
    penalties: Float[Tensor, "penalties"],
    steps: int = 150,
) -> Float[Tensor, "runs parts penalties labelled classes"]:
    """The coefficients α of every run, for each of several weightings of its labels and each penalty λ.

    The kernel is X Xᵀ of a run's labelled rows X. What the coefficients say of a node: (its row · Xᵀ) α, or its row ·
    (Xᵀ α), are its logits. A constant is a column of ones among the rows, and is penalised as any other. The weights of
    a part sum to 1; an absent label has weight 0 in all parts, and whatever its row holds, its coefficients are 0.

    At most `steps` of accelerated gradient descent that starts over where it goes uphill (Nesterov, 1983; O'Donoghue
    and Candès, 2015), fewer where all have settled. With rows of length 1 and a penalty of 1e-4, 150 bring logits
    within about 1e-3; a smaller penalty takes more, and who stops before has a fit that is regularised more.
    Eigenvectors are found in doubles, all else is in 32 bits, which leaves about 1e-4. Memory: about 8 times the
    result, and 40 bytes for every pair of labels of a run.
    """
    present = weights.sum(1) > 0
    eigenvalues, basis = torch.linalg.eigh(torch.where(present[:, None] & present[..., None], kernel, 0.0).double())
    eigenvalues, basis = eigenvalues.clamp(min=SMALLEST_EIGENVALUE).float(), basis.float()
    (runs, parts, labels), trials = weights.shape, weights.shape[1] * len(penalties)
    roots = eigenvalues.sqrt()[..., None, None]
    labelled = basis * eigenvalues.sqrt()[:, None]  # the rows in the eigenbasis: runs, labels, directions
    # Coefficients of all parts and penalties lie side by side, classes before them: one product serves all of a run,
    # and a softmax over few classes goes along many contiguous numbers.
    target = functional.one_hot(classes, num_classes).float()[..., None]  # runs, labels, classes, 1
    weight = weights.mT[:, :, None, :, None].expand(-1, -1, -1, -1, len(penalties)).flatten(3)
    pull = 2 * penalties.repeat(parts)
    largest = weights.amax(-1)[:, :, None].expand(-1, -1, len(penalties)).reshape(runs, 1, 1, trials)
    bound = CURVATURE * largest * eigenvalues[..., None, None] + pull

    found = kernel.new_zeros(runs, labels, num_classes, trials)
    ahead, since = found, kernel.new_zeros(runs, 1, 1, trials)  # steps since it started over
    for step in range(steps):
        error = (labelled @ ahead.flatten(2)).view_as(ahead).softmax(2).sub_(target).mul_(weight)
        gradient = (labelled.mT @ error.flatten(2)).view_as(ahead).add_(ahead * pull)
        new = ahead - gradient / bound
        move = new - found
        uphill = (gradient * move).sum((1, 2), keepdim=True) > 0
        since = torch.where(uphill, 0.0, since + 1)
        ahead, found = new + since / (since + 3) * move, new
        if step % STEPS_BETWEEN_LOOKS == STEPS_BETWEEN_LOOKS - 1 and _settled(roots * move, roots * new):
            break
    coefficients = (basis @ (found / roots).flatten(2)).view(runs, labels, num_classes, parts, len(penalties))
    return coefficients.permute(0, 3, 4, 1, 2).contiguous() * present[:, None, None, :, None]


def _settled(move: Tensor, place: Tensor) -> bool:
    return bool((move.abs().amax((1, 2)) <= SETTLED * place.abs().amax((1, 2))).all())


def fit_to_all(
    rows: Float[Tensor, "nodes width"],
    weights: Float[Tensor, "runs nodes"],
    classes: Int[Tensor, "runs nodes"],
    penalty: Float[Tensor, "runs"],
    start: Float[Tensor, "runs width classes"],
    steps: int,
    total: Total = lambda of_these_nodes: of_these_nodes,
    bound: InverseBound | None = None,
) -> tuple[Float[Tensor, "runs width classes"], InverseBound]:
    """So many steps from `start` towards W with every node as an example: each run has its own weights and classes of
    the nodes, and its own penalty. Two dozen steps from 0 leave a loss within a percent of the smallest; the smaller
    the penalty and the further off the start, the more they leave. Where nodes are spread over many processes, `total`
    is the sum of what each of them has found of its own.

    The bound of the curvature comes with the result. To make it takes as long as several steps, so one that was made
    for examples much like these may be given; a run that it leads uphill goes again with one of its own.
    """
    counting = (weights > 0).any(0).nonzero()[:, 0]  # the others need not be looked at in every step
    examples = _Examples(rows.index_select(0, counting), weights[:, counting], classes[:, counting], penalty, total)
    start = start.mT.contiguous()  # runs, classes, width
    if bound is None:
        bound = examples.inverse_bound()
        return examples.after(steps, start, bound).mT.contiguous(), bound
    found = examples.after(steps, start, bound)
    uphill = ~(examples.loss(found) <= examples.loss(start))[:, None, None]
    if bool(uphill.any()):
        own = examples.inverse_bound()
        bound = torch.where(uphill, own, bound)
        found = torch.where(uphill, examples.after(steps, start, own), found)
    return found.mT.contiguous(), bound


@dataclass(frozen=True, eq=False)
class _Examples:
    """What W is fitted to."""

    rows: Float[Tensor, "nodes width"]
    weights: Float[Tensor, "runs nodes"]
    classes: Int[Tensor, "runs nodes"]
    penalty: Float[Tensor, "runs"]
    total: Total

    def after(
        self, steps: int, start: Float[Tensor, "runs classes width"], bound: InverseBound
    ) -> Float[Tensor, "runs classes width"]:
        """W after steps of accelerated gradient descent."""
        pull = 2 * self.penalty[:, None, None]
        answer = self.classes[:, None]  # runs, 1, nodes
        ahead, found, since = start, start, start.new_zeros(len(start), 1, 1)
        for _ in range(steps):
            error = _by_class(self.rows, ahead).softmax(1)
            error.scatter_add_(1, answer, error.new_full((), -1.0).expand(answer.shape))
            error.mul_(self.weights[:, None])
            gradient = self.total((error.flatten(0, 1) @ self.rows).view_as(ahead)) + pull * ahead
            new = ahead - gradient @ bound  # which is symmetric
            move = new - found
            since = torch.where((gradient * move).sum((1, 2), keepdim=True) > 0, 0.0, since + 1)
            ahead, found = new + since / (since + 3) * move, new
        return found

    def loss(self, weight: Float[Tensor, "runs classes width"]) -> Float[Tensor, "runs"]:
        told = _by_class(self.rows, weight).log_softmax(1).gather(1, self.classes[:, None])[:, 0]
        return self.penalty * weight.square().sum((1, 2)) - self.total((self.weights * told).sum(1))

    def inverse_bound(self) -> InverseBound:
        """One over what the second derivative never exceeds."""
        return torch.stack([self._inverse_bound(*one) for one in zip(self.weights, self.penalty, strict=True)])

    def _inverse_bound(
        self, weights: Float[Tensor, "nodes"], penalty: Float[Tensor, ""]
    ) -> Float[Tensor, "width width"]:
        mine = weights > 0
        counting = self.rows if bool(mine.all()) else self.rows[mine]
        bound = self.total(CURVATURE * (counting * weights[mine][:, None]).T @ counting)
        bound.diagonal().add_(2 * penalty + ROUNDING * self.total(weights.sum()))
        inverse: Tensor = torch.cholesky_inverse(torch.linalg.cholesky(bound))
        return inverse


def probabilities_of(
    rows: Float[Tensor, "nodes width"],
    weight: Float[Tensor, "runs width classes"],
    temperature: Float[Tensor, "runs"] | None = None,
) -> Float[Tensor, "runs nodes classes"]:
    """How probable every run takes each class of every node to be. In memory, nodes lie side by side."""
    logits = _by_class(rows, weight.mT)
    return (logits if temperature is None else logits / temperature[:, None, None]).softmax(1).mT


def _by_class(
    rows: Float[Tensor, "nodes width"], weight: Float[Tensor, "runs classes width"]
) -> Float[Tensor, "runs classes nodes"]:
    """Logits with nodes last: a softmax over few classes then goes along many contiguous numbers, which takes a
    twentieth of the time."""
    return (weight.flatten(0, 1) @ rows.T).view(*weight.shape[:2], len(rows))
