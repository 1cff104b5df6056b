"""The fitted model as seen by explanations of a fit, and the weights of its peers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mtgcn.graph import Graph
from mtgcn.methods import Method
from mtgcn.shapes import Bool, Float, Int
from mtgcn.task import PeerReport

if TYPE_CHECKING:
    from mtgcn.uncertainty.held_out import ExpectedAccuracy

LEADING_SHARE = 0.8  # of the total weight, held by the leading peers
DECIDES_ABOVE = 0.5  # of the total weight
WEAK_TEACHING = 0.5
FEATURES = "features"  # the peer that uses no edges


class FittedModel(Protocol):
    """The attributes of a `GraphModel` that explanations read."""

    @property
    def graph_(self) -> Graph: ...
    @property
    def expected_accuracy_(self) -> ExpectedAccuracy | None: ...
    @property
    def method_(self) -> Method: ...
    @property
    def label_distributions_(self) -> Float[np.ndarray, "nodes classes"]: ...
    @property
    def peer_distributions_(self) -> Float[np.ndarray, "peers nodes classes"] | None: ...
    @property
    def peer_report_(self) -> PeerReport | None: ...
    @property
    def history_(self) -> Mapping[str, Float[np.ndarray, "epochs peers"]]: ...
    @property
    def parameters_(self) -> Mapping[str, np.ndarray] | None: ...
    def explain(self, node: Any) -> Any: ...


@dataclass(frozen=True)
class PeerContribution:
    """The part of one peer in the prediction of one fit."""

    name: str
    weight: float  # the weights of all peers sum to 1
    held_out_accuracy: float | None  # None where it was not measured
    agreement: float  # share of nodes where peer and model predict the same class


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
    """Held-out accuracy of the peer that uses features alone; None where it is not among these peers."""
    return next((peer.held_out_accuracy for peer in peers if peer.name == FEATURES), None)


def teaching_remark(teaching: float) -> str | None:
    """A clause for fits with weak teaching; None for others."""
    if teaching >= WEAK_TEACHING:
        return None
    return "the given labels carry little information, so the peers hardly teach each other"


def peer_weights(model: FittedModel) -> Float[np.ndarray, "peers"] | None:
    """The weights of the peers; None where the method does not report any."""
    return None if model.peer_report_ is None else model.peer_report_.weights[0]


def leading_peers(weights: Float[np.ndarray, "peers"]) -> Int[np.ndarray, "leading"]:
    """The peers with the largest weights, in decreasing order, that hold 80 % of the total weight together.

    Peers of little weight differ from the others nearly everywhere without any effect on predictions.
    """
    order = np.argsort(-weights, kind="stable")
    total = np.cumsum(weights[order], dtype=np.float64)
    return order[: np.argmax(total >= LEADING_SHARE - 1e-6) + 1]  # up to rounding


def peers_agree(
    peers: Float[np.ndarray, "peers nodes classes"], weights: Float[np.ndarray, "peers"] | None
) -> Bool[np.ndarray, "nodes"]:
    """Whether all peers, or the leading peers where weights are given, predict the same class for each node."""
    predicted = (peers if weights is None else peers[leading_peers(weights)]).argmax(axis=2)
    return (predicted == predicted[0]).all(axis=0)
