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


def test_calibration_error_by_hand():
    # Bins of width 1/15: 0.61 and 0.65 share [0.6, 0.667), 0.95 lies in [0.933, 1].
    confidence = np.array([0.61, 0.65, 0.95, 1.0])
    truth = np.array([0, 1, 0, 0])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    # First bin: confidence 0.63, accuracy 0.5, two nodes. Last bin: confidence 0.975, accuracy 1, two nodes.
    expected = 2 / 4 * abs(0.63 - 0.5) + 2 / 4 * abs(0.975 - 1.0)
    assert calibration_error(probabilities, truth) == pytest.approx(expected)


def test_calibration_error_has_fifteen_bins():
    # 0.62 and 0.68 lie on either side of 10/15: their errors do not cancel, as they would in tenths.
    confidence = np.array([0.62, 0.68])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    assert calibration_error(probabilities, np.array([0, 1])) == pytest.approx((0.38 + 0.68) / 2)
    # 14.5/15 is in the last of them together with 1.
    confidence = np.array([14.1 / 15, 1.0])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    assert calibration_error(probabilities, np.array([0, 1])) == pytest.approx((14.1 / 15 + 1 - 1) / 2)


def test_calibration_errors_cancel_within_a_bin():
    truth = np.array([0, 1])
    same_bin = np.array([[0.51, 0.49], [0.52, 0.48]])
    two_bins = np.array([[0.55, 0.45], [0.95, 0.05]])
    assert calibration_error(same_bin, truth) == pytest.approx(abs(0.515 - 0.5))
    assert calibration_error(two_bins, truth) == pytest.approx((0.45 + 0.95) / 2)


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


def test_pseudo_label_precision_without_pseudo_labels(ring):
    assert np.isnan(pseudo_label_precision(np.empty((2, 3, 2, 3, 0), dtype=np.int32), ring)).all()


def test_confident_correct_predictions_are_calibrated():
    assert calibration_error(np.eye(3), np.arange(3)) == 0


@pytest.mark.parametrize("seed", range(5))
def test_macro_f1_agrees_with_scikit_learn(seed):
    random = np.random.default_rng(seed)
    truth, predicted = random.integers(5, size=40), random.integers(5, size=40)
    assert macro_f1(predicted, truth, num_classes=5) == pytest.approx(f1_score(truth, predicted, average="macro"))


def test_macro_f1_of_missing_classes():
    truth, predicted = np.array([0, 0, 1]), np.array([0, 0, 2])
    # Class 1 is never predicted and class 2 never tested: F1 is 0 for both. Class 3 is neither tested nor predicted.
    assert macro_f1(predicted, truth, num_classes=4) == pytest.approx((1 + 0 + 0) / 3)
    assert macro_f1(predicted, truth, num_classes=4) == pytest.approx(f1_score(truth, predicted, average="macro"))


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
