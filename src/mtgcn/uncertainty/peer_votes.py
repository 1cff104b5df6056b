"""Who of the peers decides: their votes, how good each proved on labels it was not given, and words for both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from mtgcn.uncertainty.fitted_model import FittedModel

LEADING_SHARE = 0.8  # of the vote is held by the peers that are asked whether they agree
DECIDES_ABOVE = 0.5  # of the vote
LITTLE_TEACHING = 0.5
FEATURES = "features"  # the peer that sees no edge: what one would get without a graph
_ROUNDING = 1e-6


@dataclass(frozen=True)
class PeerContribution:
    """What one peer contributed to the answer of one fit."""

    name: str
    weight: float  # of its vote; those of all peers sum to 1
    held_out_accuracy: float | None  # on given labels that were kept from it; None where nobody knows
    agreement: float  # the share of all nodes of which it says what the answer says


def contributions(report: PeerReport) -> list[PeerContribution]:
    """Of the peers of the first run, the largest vote first."""
    accuracy = report.held_out_accuracy[0].tolist()
    return [
        PeerContribution(
            name=report.names[peer],
            weight=float(report.weights[0, peer]),
            held_out_accuracy=accuracy[peer] if math.isfinite(accuracy[peer]) else None,
            agreement=float(report.agreement[0, peer]),
        )
        for peer in np.argsort(-report.weights[0], kind="stable")
    ]


def who_decides(peers: Sequence[PeerContribution]) -> str:
    """A sentence on peers in the order of their votes, to be continued: it begins small and has no full stop.

    >>> who_decides([PeerContribution("far neighbourhood", 0.6, 0.7, 0.9), PeerContribution("features", 0.4, 0.5, 0.5)])
    'the far neighbourhood decides here'
    """
    first = peers[0]
    if first.weight > DECIDES_ABOVE:
        many = first.name.endswith("s") and not first.name.endswith("ss")
        return f"the {first.name} {'decide' if many else 'decides'} here"
    if first.weight + peers[1].weight > DECIDES_ABOVE:
        return f"the {first.name} and the {peers[1].name} decide together"
    return f"all {len(peers)} peers decide together, the largest vote being {100 * first.weight:.0f} %"


def accuracy_of_features(peers: Sequence[PeerContribution]) -> float | None:
    """On held-out labels, of the one of these peers that sees features alone; None where it is not among them."""
    return next((peer.held_out_accuracy for peer in peers if peer.name == FEATURES), None)


def teaching_remark(teaching: float) -> str | None:
    """Why the peers hardly learned from each other, if that is so."""
    if teaching >= LITTLE_TEACHING:
        return None
    return "the given labels say little, so the peers hardly teach each other"


def vote_weights(model: FittedModel) -> Float[np.ndarray, "peers"] | None:
    """The weights of the peers' votes; None where all weigh the same or there are none."""
    return None if model.peer_report_ is None else model.peer_report_.weights[0]


def leading_peers(weights: Float[np.ndarray, "peers"]) -> Int[np.ndarray, "leading"]:
    """The peers with the largest votes, the largest first, as many as it takes to hold 80 % of the vote.

    Of many peers of very different worth the least contradict the others nearly everywhere, and nobody hears them.
    """
    order = np.argsort(-weights, kind="stable")
    held = np.cumsum(weights[order], dtype=np.float64)
    return order[: np.argmax(held >= LEADING_SHARE - _ROUNDING) + 1]


def peers_agree(
    peers: Float[np.ndarray, "peers nodes classes"], weights: Float[np.ndarray, "peers"] | None
) -> Bool[np.ndarray, "nodes"]:
    """Whether the peers predict the same class, for each node; where votes have weights, the leading peers."""
    votes = (peers if weights is None else peers[leading_peers(weights)]).argmax(axis=2)
    return (votes == votes[0]).all(axis=0)
