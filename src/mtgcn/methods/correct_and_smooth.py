"""Correct and Smooth (Huang, He, Singh, Lim and Benson, ICLR 2021): propagated residuals, then propagated predictions.

With S = D^-1/2 A D^-1/2, the one-hot labels Y and the probabilities Z of `logistic`:

    correct:  E_0 = Y - Z at labelled nodes, 0 elsewhere,  E_k+1 = α1 S E_k + (1 - α1) E_0,
              Z'_i = Z_i + σ / |E_i| · E_i,  σ the mean size of the errors at labelled nodes (the paper's autoscale),
    smooth:   G_0 = Y at labelled nodes, Z' elsewhere,  G_k+1 = α2 S G_k + (1 - α2) G_0.

Neighbours are expected to have similar errors and similar classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from mtgcn.linalg.normalisation import normalized_laplacian
from mtgcn.linalg.operators import SparseOperator
from mtgcn.methods.base import Method
from mtgcn.methods.linear import Logistic
from mtgcn.settings import Ge, Le, NonNegativeInt, PositiveFloat
from mtgcn.task import Prediction, Task

NODES, CLASSES = 0, 1  # axes of the tensors here: nodes, classes, runs
LARGEST_SCALE = 1000  # above this, a propagated error is not scaled


@dataclass(frozen=True, kw_only=True)
class CorrectAndSmooth(Method):
    """Defaults are those of the authors' program for a linear prediction with autoscale."""

    correction_alpha: Annotated[float, Ge(0), Le(1)] = 0.98  # α1: how far errors are propagated
    correction_steps: NonNegativeInt = 50  # propagation steps of the errors
    smoothing_alpha: Annotated[float, Ge(0), Le(1)] = 0.65  # α2: how far predictions are propagated
    smoothing_steps: NonNegativeInt = 50  # propagation steps of the predictions
    penalty: PositiveFloat | None = None  # penalty of `logistic`

    def fit(self, task: Task) -> Prediction:
        # S has empty rows for nodes without edges, and self-loops only where the graph has them.
        matrix = sp.csr_array(sp.eye_array(task.num_nodes) - normalized_laplacian(task.graph), dtype=np.float32)
        matrix.eliminate_zeros()
        adjacency = SparseOperator(matrix, task.device, symmetric=True)
        predicted = torch.from_numpy(self._logistic.fit(task).probabilities).to(task.device).permute(1, 2, 0)  # Z
        run, place = task.labelled.present.nonzero(as_tuple=True)
        nodes = task.labelled.index[run, place]
        labels, is_labelled = torch.zeros_like(predicted), torch.zeros_like(predicted[:, :1])
        labels[nodes, task.labelled.classes[run, place], run] = 1  # Y
        is_labelled[nodes, 0, run] = 1

        def propagated(start: Tensor, alpha: float, steps: int, smallest: float) -> Tensor:
            first = start.flatten(1).contiguous()
            values = first
            for _ in range(steps):
                values = adjacency.multiply(values).mul_(alpha).add_(first, alpha=1 - alpha).clamp_(smallest, 1)
            return values.view(start.shape)

        error = is_labelled * (labels - predicted)
        errors = propagated(error, self.correction_alpha, self.correction_steps, -1)  # E
        usual = error.abs().sum((NODES, CLASSES)) / is_labelled.sum((NODES, CLASSES)).clamp(min=1)  # σ
        scale = usual / errors.abs().sum(CLASSES, keepdim=True)
        corrected = predicted + errors * torch.where(scale <= LARGEST_SCALE, scale, 1.0)  # Z'

        start = torch.where(is_labelled > 0, labels, corrected)
        smoothed = propagated(start, self.smoothing_alpha, self.smoothing_steps, 0).clamp(0, 1)  # G
        total = smoothed.sum(CLASSES, keepdim=True)
        answer = torch.where(total > 0, smoothed / total, predicted)
        return Prediction(answer.permute(2, 0, 1).contiguous().cpu().numpy())

    @property
    def _logistic(self) -> Logistic:
        return Logistic(penalty=self.penalty)

    def bytes_per_run(self, task: Task) -> int:
        return self._logistic.bytes_per_run(task) + 4 * 8 * task.num_nodes * task.num_classes
