"""The attributes of a fitted model that explanations read, and the weights of its peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from mtgcn.uncertainty.held_out import ExpectedAccuracy

LEADING_SHARE = 0.8  # share of the total weight that the leading peers have together
DECIDES_ABOVE = 0.5  # share of the total weight from which a single peer decides
WEAK_TEACHING = 0.5
FEATURES = "features"  # the peer that uses no edges


class FittedModel:
    """The attributes of a `GraphModel` that explanations read."""

    graph_: Graph
    method_: Method
    label_distributions_: Float[np.ndarray, "nodes classes"]
    peer_distributions_: Float[np.ndarray, "peers nodes classes"] | None
    peer_report_: PeerReport | None
    expected_accuracy_: ExpectedAccuracy | None  # from the cross-validation of the method
    history_: dict[str, Float[np.ndarray, "epochs peers"]]
    parameters_: dict[str, np.ndarray] | None
    explain: Callable[..., Any]


@dataclass(frozen=True)
class PeerContribution:
    """The contribution of one peer to the predictions of a fit."""

    name: str
    weight: float  # the weights of all peers sum to 1
    held_out_accuracy: float | None  # None if it was not measured
    agreement: float  # share of nodes for which peer and model predict the same class


def contributions(report: PeerReport) -> list[PeerContribution]:
    """The peers of the first run, by decreasing weight."""
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
    """A clause on the peers with the largest weights; `peers` are sorted by weight.

    >>> who_decides([PeerContribution("far neighbourhood", 0.6, 0.7, 0.9), PeerContribution("features", 0.4, 0.5, 0.5)])
    'the far neighbourhood decides here'
    """
    first = peers[0]
    if first.weight > DECIDES_ABOVE:
        plural = first.name.endswith("s") and not first.name.endswith("ss")
        return f"the {first.name} {'decide' if plural else 'decides'} here"
    if first.weight + peers[1].weight > DECIDES_ABOVE:
        return f"the {first.name} and the {peers[1].name} decide together"
    return f"all {len(peers)} peers decide together, the largest weight is {100 * first.weight:.0f} %"


def accuracy_of_features(peers: Sequence[PeerContribution]) -> float | None:
    """Held-out accuracy of the peer that uses features alone; None without such a peer."""
    return next((peer.held_out_accuracy for peer in peers if peer.name == FEATURES), None)


def teaching_remark(teaching: float) -> str | None:
    """A clause for fits with weak teaching; None for others."""
    if teaching >= WEAK_TEACHING:
        return None
    return "the given labels carry little information, so the peers hardly teach each other"


def peer_weights(model: FittedModel) -> Float[np.ndarray, "peers"] | None:
    """The weights of the peers; None if the method does not report them."""
    return None if model.peer_report_ is None else model.peer_report_.weights[0]


def leading_peers(weights: Float[np.ndarray, "peers"]) -> Int[np.ndarray, "leading"]:
    """The peers with the largest weights, in decreasing order, which together have 80 % of the total weight.

    Peers with small weights are left out: they often disagree but hardly affect predictions.
    """
    order = np.argsort(-weights, kind="stable")
    total = np.cumsum(weights[order], dtype=np.float64)
    return order[: np.argmax(total >= LEADING_SHARE - 1e-6) + 1]  # allows for rounding


def peers_agree(
    peers: Float[np.ndarray, "peers nodes classes"], weights: Float[np.ndarray, "peers"] | None
) -> Bool[np.ndarray, "nodes"]:
    """Whether all peers, or the leading peers if weights are given, predict the same class, for each node."""
    predicted = (peers if weights is None else peers[leading_peers(weights)]).argmax(axis=2)
    return (predicted == predicted[0]).all(axis=0)
