"""APPNP (Gasteiger, Bojchevski and Günnemann, ICLR 2019): predict from the features, then propagate the predictions.

    Z_0 = ReLU(X Θ0) Θ1,  Z_k+1 = (1 - α) Â Z_k + α Z_0,  P = softmax(Z_K),
    Â = D̃^-1/2 (A + I) D̃^-1/2,  loss = - mean over labelled i of log P[i, y_i] + λ/2 |Θ0|².

The weights are trained through K = 10 steps of personalised PageRank with restart probability α = 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mtgcn.methods.base import TrainedOnLabels
from mtgcn.nn.base import FeatureScaling, StackedNetwork
from mtgcn.nn.networks import APPNP
from mtgcn.settings import NonNegativeFloat, PositiveInt


@dataclass(frozen=True, kw_only=True)
class PredictThenPropagate(TrainedOnLabels):
    """The paper's network and optimiser; predicts with the last of `epochs` epochs, without validation nodes.

    The paper scales feature rows to sum 1 and trains for up to 10,000 epochs. In 200 epochs the loss of such small
    features hardly decreases, so rows have length 1."""

    architecture: ClassVar[type[StackedNetwork]] = APPNP
    hidden_channels: PositiveInt = 64  # width of the hidden layer
    weight_decay: NonNegativeFloat = 5e-3  # λ: weight decay of Adam
    decay_on: Literal["all", "first-layer"] = "first-layer"  # parameters with weight decay
    bias: bool = False  # whether layers have a bias
    init: Literal["uniform", "glorot"] = "glorot"  # initial weights; uniform: within 1 / sqrt(outputs)
    feature_scaling: FeatureScaling = "length"  # norm that feature rows are divided by
