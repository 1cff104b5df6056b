import numpy as np
import pytest

from mtgcn.uncertainty.peer_weights import (
    accuracy_of_features,
    contributions,
    leading_peers,
    peers_agree,
    teaching_remark,
    who_decides,
)
from weighted_peers import made_up_report


def test_contributions_are_sorted_by_weight():
    peers = contributions(made_up_report())
    assert [peer.name for peer in peers] == ["near neighbourhood", "far neighbourhood", "features", "structure"]
    assert (peers[0].weight, peers[0].held_out_accuracy, peers[0].agreement) == (0.55, 0.8, 0.95)
    assert peers[3].held_out_accuracy is None  # NaN in the report
    assert accuracy_of_features(peers) == 0.52
    assert accuracy_of_features(peers[:2]) is None


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ({"infomax embeddings": 0.2, "far neighbourhood": 0.6, "features": 0.2}, "the far neighbourhood decides here"),
        ({"infomax embeddings": 0.51, "features": 0.49}, "the infomax embeddings decide here"),
        ({"likeness": 1.0}, "the likeness decides here"),
        (
            {"features": 0.2, "far neighbourhood": 0.3, "infomax embeddings": 0.5},
            "the infomax embeddings and the far neighbourhood decide together",
        ),
        (
            {"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25},
            "all 4 peers decide together, the largest weight is 25 %",
        ),
    ],
)
def test_who_decides(weights, sentence):
    report = made_up_report(
        tuple(weights.values()), tuple(weights), held_out=(0.5,) * len(weights), agreement=(0.5,) * len(weights)
    )
    assert who_decides(contributions(report)) == sentence


def test_teaching_remark():
    assert teaching_remark(0.5) is None
    assert teaching_remark(0.49) == "the given labels carry little information, so the peers hardly teach each other"


@pytest.mark.parametrize(
    ("weights", "leading"),
    [
        ([0.1, 0.5, 0.3, 0.1], [1, 2]),
        ([0.1, 0.5, 0.29, 0.11], [1, 2, 3]),
        ([0.9, 0.1], [0]),
        ([0.2] * 5, [0, 1, 2, 3]),
        ([0.5, 0.5], [0, 1]),
    ],
)
def test_leading_peers(weights, leading):
    for kind in (np.float64, np.float32):
        assert leading_peers(np.array(weights, dtype=kind)).tolist() == leading


def test_peers_agree_ignores_small_weights():
    predicted = np.array([[0, 1, 0], [0, 1, 1], [1, 1, 1]])  # peers, nodes
    peers = np.eye(2)[predicted]
    assert peers_agree(peers, None).tolist() == [False, True, False]
    assert peers_agree(peers, np.array([0.5, 0.4, 0.1])).tolist() == [True, True, False]
    assert peers_agree(peers, np.array([0.1, 0.4, 0.5])).tolist() == [False, True, True]
