"""The two encoders of `mt-plus`, trained over all ranks, and kept in checkpoints meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mtgcn.distributed.checkpoints import Checkpoints
from mtgcn.distributed.infomax import LocalInfomax, local_batches, local_views
from mtgcn.distributed.local_graph import LocalGraph
from mtgcn.distributed.ranks import Ranks
from mtgcn.distributed.training import Progress, begin, train
from mtgcn.linalg.operators import Operator, SparseOperator
from mtgcn.nn.infomax import InfomaxSettings, Propagation, activated
from mtgcn.shapes import Float, UInt64
from mtgcn.training.loop import Adam, Phase, Step


@dataclass(frozen=True, eq=False)
class TrainedEncoder:
    """What an encoder makes of this rank's nodes, at length 1; and the encoder, as it is applied to features."""

    embeddings: Float[Tensor, "here dimensions"]
    weight: Float[np.ndarray, "features dimensions"]
    bias: Float[np.ndarray, "dimensions"]


def trained_encoders(
    local: LocalGraph,
    adjacency: SparseOperator,
    features: Operator,
    keys: UInt64[np.ndarray, "here"],
    propagation: Propagation,
    basis: Float[Tensor, "features width"],
    settings: InfomaxSettings,
    seed: int,
    checkpoints: Checkpoints | None,
) -> list[TrainedEncoder]:
    """The encoders, as they stand side by side in training."""
    views = local_views(local, adjacency, features, keys, propagation, basis, settings, seed)
    network = LocalInfomax(local, views, local_batches(local, keys, settings, seed), settings, seed)
    progress = begin(network, Adam(settings.learning_rate))
    found = checkpoints.found() if checkpoints else None
    if found is not None:
        progress.go_on(found.epoch, found.shared, network)
        network.go_to(found.epoch)

    def after_epoch(progress: Progress) -> None:
        if checkpoints and checkpoints.due(progress.done):
            checkpoints.save(progress.done, progress.shared(network), {})

    phase = Phase(settings.epochs, lambda: Step({"infomax": network.loss()}))
    # All ranks see the same rows and take the same step, so there is nothing to be summed.
    train(network, [phase], progress, Ranks(device=local.ranks.device), after_epoch)
    with torch.no_grad():
        return [_applied(network, views.rows, basis, number) for number in range(network.peers)]


def _applied(network: LocalInfomax, rows: Tensor, basis: Tensor, number: int) -> TrainedEncoder:
    weight, bias = network.weight[:, 0, number], network.bias[0, number]
    embeddings = functional.normalize(activated(rows @ weight, bias, network.slope), dim=-1).float()
    return TrainedEncoder(embeddings, (basis @ weight).float().cpu().numpy(), bias.float().cpu().numpy())
