"""The record of who was pseudo-labelled when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mtgcn.shapes import Bool, Int

if TYPE_CHECKING:
    from mtgcn.task import Task


class PseudoLabelRecord:
    """For each run and node, the first epoch that learned from a pseudo label of it. Epochs count from 1."""

    def __init__(self, task: Task, epochs_before: int = 0) -> None:
        # A tensor, so that an epoch recorded once as a CUDA graph sees the counter move.
        self._epoch = torch.full((), epochs_before, dtype=torch.int32, device=task.device)
        self._first = torch.zeros(task.num_nodes, task.runs, dtype=torch.int32, device=task.device)

    def next_epoch(self, pseudo_labelled: Bool[Tensor, "nodes runs"]) -> None:
        """The pseudo labels of the next epoch, the first after `epochs_before`."""
        self._epoch += 1
        self.add(pseudo_labelled, self._epoch)

    def add(self, pseudo_labelled: Bool[Tensor, "nodes runs"], epoch: int | Tensor) -> None:
        """Pseudo labels from this epoch on; who has had one before keeps the earlier epoch."""
        new = pseudo_labelled & (self._first == 0)
        self._first.copy_(torch.where(new, epoch, self._first))

    def go_on(self, first: Int[np.ndarray, "runs nodes"], epoch: int) -> None:
        """Go on with what `first_epochs` said after this epoch."""
        self._epoch.fill_(epoch)
        self._first.copy_(torch.from_numpy(np.ascontiguousarray(first.T)))

    def first_epochs(self) -> Int[np.ndarray, "runs nodes"]:
        """As a prediction has them; 0 for a node that never had a pseudo label."""
        return self._first.T.contiguous().cpu().numpy()
