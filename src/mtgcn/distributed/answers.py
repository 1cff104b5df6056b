"""What a method answers of the nodes of one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from mtgcn.shapes import Float, Int
from mtgcn.task import PeerReport


@dataclass(frozen=True, eq=False)
class LocalAnswer:
    """As `Prediction` has it, of one run and of this rank's nodes; what is of no node is the same on every rank."""

    probabilities: Float[np.ndarray, "here classes"]
    peers: Float[np.ndarray, "peers here classes"]
    pseudo_labelled_at: Int[np.ndarray, "here"]  # the epoch a node first taught; 0 never
    parameters: Mapping[str, np.ndarray]  # runs first, as a model folder keeps them
    history: Mapping[str, Float[np.ndarray, "epochs runs peers"]] = field(default_factory=dict)
    peer_report: PeerReport | None = None  # where peers have votes of different weight
