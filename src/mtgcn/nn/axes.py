"""The axes of values at nodes: nodes, classes, runs, peers; and the steps between them and a prediction.

Nodes come first because sparse products act on the first axis; models come last so that a softmax over few classes
still runs along many contiguous numbers.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from mtgcn.shapes import Float, Int

NODES, CLASSES, RUNS, PEERS = range(4)


def rows_at(
    values: Float[Tensor, "nodes classes runs peers"], index: Int[Tensor, "runs some"]
) -> Float[Tensor, "some classes runs peers"]:
    """The values at some nodes of each run; rows of MISSING are those of node 0, for the caller to ignore."""
    _, classes, _, peers = values.shape
    return values.gather(NODES, index.clamp(min=0).T[:, None, :, None].expand(-1, classes, -1, peers))


def mean_of_peers(probabilities: Float[Tensor, "nodes classes runs peers"]) -> Float[np.ndarray, "runs nodes classes"]:
    """The peers' average probabilities, in the order a prediction has it."""
    return probabilities.mean(PEERS).permute(2, 0, 1).contiguous().cpu().numpy()


def each_peer(
    probabilities: Float[Tensor, "nodes classes runs peers"],
) -> Float[np.ndarray, "runs peers nodes classes"]:
    """Every peer's probabilities, in the order a prediction has it."""
    return probabilities.permute(2, 3, 0, 1).contiguous().cpu().numpy()
