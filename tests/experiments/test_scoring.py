"""Scores, by hand and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from mtgcn.errors import InputError
from mtgcn.experiments.scoring import (
    accuracy_over_epochs,
    calibration_error,
    macro_f1,
    pseudo_label_precision,
    score,
    score_better_peer,
)
from mtgcn.graph import Graph
from mtgcn.splits import Split, draw_splits
from mtgcn.task import Prediction


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        # Two nodes in [9/15, 10/15): confidence 0.63, accuracy 0.5. Two in the last bin: 0.975 and 1.
        ([0.61, 0.65, 0.95, 1.0], [True, False, True, True], 2 / 4 * (0.63 - 0.5) + 2 / 4 * (1 - 0.975)),
        ([0.62, 0.68], [True, False], (0.38 + 0.68) / 2),  # on either side of 10/15, so that nothing cancels
        ([14.1 / 15, 1.0], [True, False], 14.1 / 15 / 2),  # both in the last bin
        ([0.51, 0.52], [True, False], 0.515 - 0.5),  # errors in one bin cancel
        ([0.55, 0.95], [True, False], (0.45 + 0.95) / 2),
        ([1.0, 1.0], [True, True], 0),
    ],
)
def test_calibration_error_by_hand(confidence, correct, expected):
    probabilities = np.stack([confidence, 1 - np.array(confidence)], axis=1)
    assert calibration_error(probabilities, np.where(correct, 0, 1)) == pytest.approx(expected)


def test_accuracy_over_epochs(ring):
    splits = [Split([0, 1, 2], [], [3, 4, 5]), Split([0, 1, 2], [], [6, 7])]
    predicted = np.zeros((2, 2, 12), dtype=np.int32)  # first all zeros, then all correct but node 4
    predicted[:, 1] = ring.labels
    predicted[:, 1, 4] = 0
    np.testing.assert_allclose(accuracy_over_epochs(predicted, ring, splits), [[1 / 3, 2 / 3], [1 / 2, 1]])


def test_pseudo_label_precision_by_hand(ring):
    labels = ring.labels.copy()
    labels[9] = -1  # unknown
    graph = Graph(ring.adjacency, ring.features, labels)
    # One run, two snapshots, two peers, three classes, two slots; classes are node numbers modulo 3.
    chosen = np.full((1, 2, 2, 3, 2), -1)
    chosen[0, 1, 0] = [[0, 3], [1, 2], [-1, -1]]
    chosen[0, 1, 1] = [[4, 9], [4, -1], [-1, -1]]
    expected = [[[np.nan] * 3, [2 / 3, 2 / 3, np.nan]]]
    np.testing.assert_allclose(pseudo_label_precision(chosen, graph), expected)
    assert np.isnan(pseudo_label_precision(np.empty((2, 3, 2, 3, 0), dtype=np.int32), ring)).all()


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_agrees_with_scikit_learn(seed):
    truth, predicted = np.random.default_rng(seed).integers(5, size=(2, 40))
    assert macro_f1(predicted, truth, num_classes=5) == pytest.approx(f1_score(truth, predicted, average="macro"))


def test_macro_f1_of_missing_classes():
    # Class 1 is never predicted and class 2 never tested: F1 is 0 for both. Class 3 is neither tested nor predicted.
    truth, predicted = np.array([0, 0, 1]), np.array([0, 0, 2])
    assert macro_f1(predicted, truth, num_classes=4) == pytest.approx((1 + 0 + 0) / 3)


def test_score_uses_the_test_nodes_of_each_run(ring):
    splits = draw_splits(ring, labels_per_class=1, runs=3, seed=0)
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3), size=(3, ring.num_nodes))
    results = score(Prediction(probabilities), ring, splits)
    for of_run, split, result in zip(probabilities, splits, results, strict=True):
        truth, predicted = ring.labels[split.test], of_run[split.test].argmax(1)
        assert result.accuracy == pytest.approx(accuracy_score(truth, predicted))
        assert result.macro_f1 == pytest.approx(f1_score(truth, predicted, average="macro"))
        assert result.calibration_error == pytest.approx(calibration_error(of_run[split.test], truth))


def test_score_ignores_training_and_validation_nodes(ring):
    correct = np.eye(3)[ring.labels]
    spoiled = correct.copy()
    split = Split(train=[0, 1, 2], validation=[3], test=[4, 5])
    spoiled[[0, 1, 2, 3]] = np.roll(correct[[0, 1, 2, 3]], 1, axis=1)
    [result] = score(Prediction(spoiled[None]), ring, [split])
    assert (result.accuracy, result.macro_f1, result.calibration_error) == (1, 1, 0)


@pytest.mark.parametrize(
    ("test", "message"), [([], "0 test nodes; leave at least 1"), ([2], "test node 2 has no known class")]
)
def test_invalid_test_nodes(test, message):
    graph = Graph(np.ones((3, 3)) - np.eye(3), labels=[0, 1, -1])
    with pytest.raises(InputError, match=message):
        score(Prediction(np.full((1, 3, 2), 0.5)), graph, [Split(train=[0], validation=[], test=test)])


def test_better_peer_is_selected_by_test_accuracy(ring):
    correct = np.eye(3)[ring.labels]
    wrong = np.roll(correct, 1, axis=1)
    half = correct.copy()
    half[[4, 5]] = wrong[[4, 5]]
    splits = [Split(train=[0, 1, 2], validation=[], test=[4, 5, 6, 7])] * 2
    peers = np.stack([[wrong, half], [correct, wrong]])
    prediction = Prediction(peers.mean(axis=1), peers=peers)
    assert [result.accuracy for result in score_better_peer(prediction, ring, splits)] == [0.5, 1.0]
    [alone] = score(Prediction(half[None]), ring, splits[:1])
    assert score_better_peer(prediction, ring, splits)[0] == alone


def test_better_peer_needs_peers(ring):
    with pytest.raises(InputError, match="no peers to take the better of"):
        score_better_peer(Prediction(np.full((1, 12, 3), 1 / 3)), ring, [Split([0], [], [1])])
