"""Multinomial logistic regression for a stack of runs.

    loss = - Σ_i m_i log p_i[y_i] + λ |W|²,  p_i = softmax(x_i W),  with weights m_i.

With few labels and many columns the minimum lies in the span of the labelled rows, W = Xᵀ α. In the eigenbasis of X Xᵀ
the bound of the curvature is diagonal, so that every direction has its own step size. With many labels or classes, each
problem is solved separately in the columns of X by L-BFGS, with variables scaled by the same bound. If every node is an
example, the bound is a width x width matrix, and its inverse scales the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.shapes import Float, Int

MIN_EIGENVALUE = 1e-7  # smallest eigenvalue of X Xᵀ that is used, about its rounding error
CURVATURE = 0.5  # upper bound of the second derivative of the loss
STEPS_BETWEEN_CHECKS = 25  # steps between checks of convergence
SETTLED = 1e-7  # convergence: largest step relative to the logits
ROUNDING = 1e-6  # added to the bound, relative to the weights, so that it is positive definite in 32 bits

STACK_SIZE = 2**14  # labels x classes (32 or more) up to which all problems of a view are solved as one stack
CUDA_NUMBERS = 2**28  # numbers in the weighted rows whose bounds are computed at once on a GPU
TOLERANCE = 1e-5  # relative decrease of the loss at which L-BFGS stops
MEMORY = 8  # steps that L-BFGS remembers
SUFFICIENT, SMALLEST_STEP = 1e-4, 1e-3  # line search: required share of the expected decrease, smallest step

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
    """The coefficients α of every run for each weighting ("part") of its labels and each penalty λ.

    The kernel is X Xᵀ of a run's labelled rows X; the logits of a node with row x are (x Xᵀ) α. An intercept is a
    column of ones, penalised like any other. The weights of a part sum to 1; those of padding are 0.

    Takes at most `steps` steps of accelerated gradient descent with restarts (Nesterov, 1983; O'Donoghue and Candès,
    2015). With rows of length 1 and a penalty of 1e-4, the error of logits is about 1e-3 after 150 steps; smaller
    penalties need more steps. The memory is about 8 times the result, plus 40 bytes per pair of labels of a run.
    """
    present = weights.sum(1) > 0
    eigenvalues, basis = torch.linalg.eigh(torch.where(present[:, None] & present[..., None], kernel, 0.0).double())
    eigenvalues, basis = eigenvalues.clamp(min=MIN_EIGENVALUE).float(), basis.float()
    (runs, parts, labels), trials = weights.shape, weights.shape[1] * len(penalties)
    roots = eigenvalues.sqrt()[..., None, None]
    labelled = basis * eigenvalues.sqrt()[:, None]  # the rows in the eigenbasis: runs, labels, directions
    # Classes come before parts and penalties: one product per run, and a softmax along contiguous memory.
    target = functional.one_hot(classes, num_classes).float()[..., None]  # runs, labels, classes, 1
    weight = weights.mT[:, :, None, :, None].expand(-1, -1, -1, -1, len(penalties)).flatten(3)
    pull = 2 * penalties.repeat(parts)
    largest = weights.amax(-1)[:, :, None].expand(-1, -1, len(penalties)).reshape(runs, 1, 1, trials)
    bound = CURVATURE * largest * eigenvalues[..., None, None] + pull

    found = kernel.new_zeros(runs, labels, num_classes, trials)
    ahead, since = found, kernel.new_zeros(runs, 1, 1, trials)  # steps since the last restart
    for step in range(steps):
        error = (labelled @ ahead.flatten(2)).view_as(ahead).softmax(2).sub_(target).mul_(weight)
        gradient = (labelled.mT @ error.flatten(2)).view_as(ahead).add_(ahead * pull)
        new = ahead - gradient / bound
        move = new - found
        uphill = (gradient * move).sum((1, 2), keepdim=True) > 0
        since = torch.where(uphill, 0.0, since + 1)
        ahead, found = new + since / (since + 3) * move, new
        if step % STEPS_BETWEEN_CHECKS == STEPS_BETWEEN_CHECKS - 1 and _settled(roots * move, roots * new):
            break
    coefficients = (basis @ (found / roots).flatten(2)).view(runs, labels, num_classes, parts, len(penalties))
    return coefficients.permute(0, 3, 4, 1, 2).contiguous() * present[:, None, None, :, None]


def _settled(move: Tensor, place: Tensor) -> bool:
    return bool((move.abs().amax((1, 2)) <= SETTLED * place.abs().amax((1, 2))).all())


def are_many(labels: int, num_classes: int) -> bool:
    """Whether problems of this size are solved one by one with `FitToMany`."""
    return labels * max(num_classes, 32) > STACK_SIZE


class FitToMany:
    """Fits W to many labels, one weighting of the labels and one penalty at a time.

    Cost and memory grow linearly with the number of labels.
    """

    def __init__(self, rows: Float[Tensor, "labelled width"], classes: Int[Tensor, "labelled"], num_classes: int):
        eigenvalues, self.basis = torch.linalg.eigh(rows.T @ rows / len(rows))
        self.curvature = CURVATURE * eigenvalues.clamp(min=0)[:, None]
        self.rows = rows @ self.basis  # labelled, directions
        self.classes, self.num_classes = classes, num_classes

    def coefficients(
        self,
        weights: Float[Tensor, "labelled"],
        penalty: float,
        start: Float[Tensor, "directions classes"] | None,
        steps: int,
        tolerance: float = TOLERANCE,
    ) -> Float[Tensor, "directions classes"]:
        """W in the eigenbasis after at most `steps` steps of L-BFGS from `start`."""
        used = weights.nonzero()[:, 0]
        rows, weight, answer = self.rows[used], weights[used][:, None], self.classes[used][:, None]
        scale = (self.curvature + 2 * penalty).rsqrt()

        def loss_and_gradient(variable: Tensor) -> tuple[float, Tensor]:
            found = scale * variable
            log_probabilities = (rows @ found).log_softmax(1)
            loss = penalty * found.square().sum() - (weight * log_probabilities.gather(1, answer)).sum()
            error = log_probabilities.exp_().scatter_add_(1, answer, torch.full_like(weight, -1)).mul_(weight)
            return loss.item(), scale * (rows.T @ error + 2 * penalty * found)

        first = rows.new_zeros(len(scale), self.num_classes) if start is None else start / scale
        return scale * _lbfgs(loss_and_gradient, first, steps, tolerance)

    def weight(self, coefficients: Float[Tensor, "directions classes"]) -> Float[Tensor, "width classes"]:
        return self.basis @ coefficients


def _lbfgs(evaluate: Callable[[Tensor], tuple[float, Tensor]], found: Tensor, steps: int, tolerance: float) -> Tensor:
    """L-BFGS (Liu and Nocedal, 1989): at most `steps` steps, each halved until the loss decreases sufficiently."""
    loss, gradient = evaluate(found)
    moves: list[tuple[Tensor, Tensor, Tensor]] = []  # last steps: move, change of the gradient, 1 / product
    for _ in range(steps):
        direction, shares = -gradient, []
        for move, change, inverse in reversed(moves):
            shares.append(inverse * (move * direction).sum())
            direction = direction - shares[-1] * change
        if moves:
            move, change, _ = moves[-1]
            direction = direction * ((move * change).sum() / change.square().sum())
        for (move, change, inverse), share in zip(moves, reversed(shares), strict=True):
            direction = direction + (share - inverse * (change * direction).sum()) * move
        slope, size = float((gradient * direction).sum()), 1.0
        new_loss, new_gradient = evaluate(found + direction)
        while not new_loss <= loss + SUFFICIENT * size * slope:
            size /= 2
            if size < SMALLEST_STEP:
                return found
            new_loss, new_gradient = evaluate(found + size * direction)
        move, change = size * direction, new_gradient - gradient
        product = (move * change).sum()
        if product > 0:
            moves = [*moves[1 - MEMORY :], (move, change, 1 / product)]
        gain, found, loss, gradient = loss - new_loss, found + move, new_loss, new_gradient
        if gain <= tolerance * abs(loss):
            break
    return found


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
    """W after `steps` steps from `start` with every node as an example, and the inverse bound of the curvature.

    Weights, classes and penalty differ between runs. After two dozen steps from 0, the loss is within a percent of the
    minimum. If nodes are distributed over processes, `total` sums over them.

    The bound costs as much as several steps, so the bound of similar examples may be passed. If it increases the loss
    of a run, this run is fitted again with a new bound.
    """
    counting = (weights > 0).any(0).nonzero()[:, 0]  # nodes with a weight in any run
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
    """Weighted examples to which W is fitted."""

    rows: Float[Tensor, "nodes width"]
    weights: Float[Tensor, "runs nodes"]
    classes: Int[Tensor, "runs nodes"]
    penalty: Float[Tensor, "runs"]
    total: Total

    def after(
        self, steps: int, start: Float[Tensor, "runs classes width"], bound: InverseBound
    ) -> Float[Tensor, "runs classes width"]:
        """W after `steps` steps of accelerated gradient descent from `start`."""
        pull = 2 * self.penalty[:, None, None]
        answer = self.classes[:, None]  # runs, 1, nodes
        ahead, found, since = start, start, start.new_zeros(len(start), 1, 1)
        for _ in range(steps):
            error = _by_class(self.rows, ahead).softmax(1)
            error.scatter_add_(1, answer, error.new_full((), -1.0).expand(answer.shape))
            error.mul_(self.weights[:, None])
            gradient = self.total((error.flatten(0, 1) @ self.rows).view_as(ahead)) + pull * ahead
            new = ahead - gradient @ bound  # the bound is symmetric
            move = new - found
            since = torch.where((gradient * move).sum((1, 2), keepdim=True) > 0, 0.0, since + 1)
            ahead, found = new + since / (since + 3) * move, new
        return found

    def loss(self, weight: Float[Tensor, "runs classes width"]) -> Float[Tensor, "runs"]:
        log_likelihood = _by_class(self.rows, weight).log_softmax(1).gather(1, self.classes[:, None])[:, 0]
        return self.penalty * weight.square().sum((1, 2)) - self.total((self.weights * log_likelihood).sum(1))

    def inverse_bound(self) -> InverseBound:
        """The inverse of an upper bound of the second derivative."""
        # Several runs at once on a GPU, where kernels would be small; on a CPU one by one, with their own nodes.
        at_once = max(1, CUDA_NUMBERS // self.rows.numel()) if self.rows.is_cuda else 1
        parts = zip(self.weights.split(at_once), self.penalty.split(at_once), strict=True)
        return torch.cat([self._inverse_bound(*part) for part in parts])

    def _inverse_bound(
        self, weights: Float[Tensor, "runs nodes"], penalty: Float[Tensor, "runs"]
    ) -> Float[Tensor, "runs width width"]:
        rows, given = self.rows, weights
        if len(weights) == 1 and not bool((used := weights[0] > 0).all()):
            rows, given = rows[used], weights[:, used]
        bound = self.total(CURVATURE * (rows * given[..., None]).mT @ rows)
        bound.diagonal(dim1=1, dim2=2).add_((2 * penalty + ROUNDING * self.total(weights.sum(1)))[:, None])
        factor, failed = torch.linalg.cholesky_ex(bound)
        if bool(failed.any()):
            if bound.dtype == torch.float64:
                torch.linalg.cholesky(bound)  # raises
            # With few distinct rows, rounding errors in 32 bits can exceed the penalty.
            exact = replace(self, rows=self.rows.double())._inverse_bound(weights.double(), penalty.double())
            return exact.to(bound.dtype)
        inverse: Tensor = torch.cholesky_inverse(factor)
        return inverse


def dual_part(
    rows: Float[Tensor, "nodes width"],
    weights: Float[Tensor, "runs nodes"],
    classes: Int[Tensor, "runs nodes"],
    coefficients: Float[Tensor, "runs width classes"],
    penalty: Float[Tensor, "runs"],
) -> Float[Tensor, "runs width classes"]:
    """The contribution of these examples to W: at the minimum, W = Σ_i m_i x_i (onehot(y_i) - p_i)ᵀ / 2λ."""
    error = functional.one_hot(classes, coefficients.shape[2]) - probabilities_of(rows, coefficients)
    return rows.T @ (error * (weights / (2 * penalty[:, None]))[..., None])


def probabilities_of(
    rows: Float[Tensor, "nodes width"],
    weight: Float[Tensor, "runs width classes"],
    temperature: Float[Tensor, "runs"] | None = None,
) -> Float[Tensor, "runs nodes classes"]:
    """Class probabilities of every node in every run; the axis of the nodes is contiguous in memory."""
    logits = _by_class(rows, weight.mT)
    return (logits if temperature is None else logits / temperature[:, None, None]).softmax(1).mT


def _by_class(
    rows: Float[Tensor, "nodes width"], weight: Float[Tensor, "runs classes width"]
) -> Float[Tensor, "runs classes nodes"]:
    """Logits with nodes as the last axis, which makes a softmax over few classes 20 times faster."""
    return (weight.flatten(0, 1) @ rows.T).view(*weight.shape[:2], len(rows))
