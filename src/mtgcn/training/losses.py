"""The three losses of the paper, one value per model, from log-probabilities of a stack of models.

The paper treats targets as constants, so detach the teacher's predictions before passing them. With several
processes, each returns a partial sum of the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from mtgcn.communicator import ONE_PROCESS, Communicator
from mtgcn.nn.base import CLASSES
from mtgcn.shapes import Float

if TYPE_CHECKING:
    from mtgcn.task import Nodes
    from mtgcn.training.pseudo_labels import PseudoLabels

Reduction = Literal["mean", "sum"]


def supervised_loss(
    log_probabilities: Float[Tensor, "labelled classes runs peers"],
    labelled: Nodes,
    reduction: Reduction = "mean",
    communicator: Communicator = ONE_PROCESS,
) -> Float[Tensor, "runs peers"]:
    """Cross-entropy at the labelled nodes, given their rows."""
    classes = labelled.classes.T[:, None, :, None].expand(-1, 1, -1, log_probabilities.shape[-1])
    target_log_prob = log_probabilities.gather(CLASSES, classes).squeeze(CLASSES)  # labelled, runs, peers
    present = labelled.present.T[..., None]
    return _reduced(-torch.where(present, target_log_prob, 0), communicator.sum(present.sum(0)), reduction)


def pseudo_label_loss(
    log_probabilities: Float[Tensor, "slots classes runs peers"],
    certainty: Float[Tensor, "slots runs peers"],
    chosen: PseudoLabels,
) -> Float[Tensor, "runs peers"]:
    """Mean cross-entropy with the pseudo labels, weighted by certainty."""
    weight = torch.where(chosen.filled, certainty, 0)
    return _reduced(-weight * chosen.own_class(log_probabilities), chosen.total, "mean")


def consistency_loss(
    log_probabilities: Float[Tensor, "slots classes runs peers"],
    log_teacher: Float[Tensor, "slots classes runs peers"],
    chosen: PseudoLabels,
    reduction: Reduction = "mean",
) -> Float[Tensor, "runs peers"]:
    """Kullback-Leibler divergence from the teacher's probabilities at the pseudo-labelled nodes."""
    divergence = (log_teacher.exp() * (log_teacher - log_probabilities)).sum(CLASSES)
    return _reduced(torch.where(chosen.filled, divergence, 0), chosen.total, reduction)


def _reduced(terms: Tensor, count: Tensor, reduction: Reduction) -> Tensor:
    return terms.sum(0) / count.clamp(min=1) if reduction == "mean" else terms.sum(0)
