"""GCN (Kipf and Welling, ICLR 2017): two graph convolutions trained on the labels alone.

    Z = softmax(Â ReLU(Â X Θ0) Θ1)  with  Â = D̃^-1/2 (A + I) D̃^-1/2,  D̃ the row sums of A + I,
    loss = - mean over labelled i of log Z[i, y_i].

X are the features, A the adjacency, Θ the weights. `gcn` is GCN-V of the MT-GCN paper: a fixed number of epochs, no
validation. `gcn+v` takes the epoch with the best validation accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mtgcn.methods.base import TrainedOnLabels


@dataclass(frozen=True, kw_only=True)
class GCNWithoutValidation(TrainedOnLabels):
    """Predicts with the last of `epochs` epochs."""


@dataclass(frozen=True, kw_only=True)
class GCNWithValidation(GCNWithoutValidation):
    """Predicts with the epoch of best validation accuracy; ties go to the smallest validation loss."""

    uses_validation: ClassVar[bool] = True
