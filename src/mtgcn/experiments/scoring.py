"""Scores of predictions. Only this module reads the labels of test nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.shapes import Float, Int
from mtgcn.splits import Split
from mtgcn.task import MISSING, Prediction

CALIBRATION_BINS = 15


@dataclass(frozen=True)
class Score:
    """Scores of one run on its test nodes, each between 0 and 1."""

    accuracy: float
    macro_f1: float
    calibration_error: float


def score(prediction: Prediction, graph: Graph, splits: Sequence[Split]) -> list[Score]:
    """One score per run, each on the test nodes of its own split."""
    return [
        _score_run(probabilities, check_scorable(split, graph), graph)
        for probabilities, split in zip(prediction.probabilities, splits, strict=True)
    ]


def score_better_peer(prediction: Prediction, graph: Graph, splits: Sequence[Split]) -> list[Score]:
    """One score per run: that of the peer with the highest test accuracy.

    The authors report it. It is optimistic, since test labels select the peer.
    """
    if prediction.peers is None:
        raise InputError("this method has no peers to take the better of; score its answer, as --protocol ours does")
    return [
        max(
            (_score_run(probabilities, check_scorable(split, graph), graph) for probabilities in peers),
            key=lambda result: result.accuracy,
        )
        for peers, split in zip(prediction.peers, splits, strict=True)
    ]


def accuracy_over_epochs(
    predicted: Int[np.ndarray, "runs snapshots nodes"], graph: Graph, splits: Sequence[Split]
) -> Float[np.ndarray, "runs snapshots"]:
    """Test accuracy of each run at each recorded epoch."""
    return np.stack(
        [
            np.mean(snapshots[:, check_scorable(split, graph).test] == graph.labels[split.test], axis=1)
            for snapshots, split in zip(predicted, splits, strict=True)
        ]
    )


def pseudo_label_precision(
    chosen: Int[np.ndarray, "runs snapshots peers classes slots"], graph: Graph
) -> Float[np.ndarray, "runs snapshots classes"]:
    """Share of the pseudo labels of each class, over all peers, that are correct; NaN without pseudo labels. Nodes of
    unknown class are not counted."""
    truth = np.where(chosen == MISSING, UNLABELED, graph.labels[chosen])
    correct = truth == np.arange(graph.num_classes)[:, None]
    known = (truth != UNLABELED).sum(axis=(2, 4))
    return np.divide(correct.sum(axis=(2, 4)), known, out=np.full(known.shape, np.nan), where=known > 0)


def check_scorable(split: Split, graph: Graph) -> Split:
    """Return the split, or refuse it if it has no test nodes or test nodes of unknown class."""
    if not len(split.test):
        raise InputError("a split has 0 test nodes; leave at least 1 node of known class to be scored")
    unknown = split.test[graph.labels[split.test] == UNLABELED]
    if len(unknown):
        raise InputError(f"test node {graph.node_ids[unknown[0]]} has no known class; take it out of the split")
    return split


def _score_run(answer: Float[np.ndarray, "nodes classes"], split: Split, graph: Graph) -> Score:
    truth = graph.labels[split.test]
    probabilities = answer[split.test]
    predicted = probabilities.argmax(axis=1)
    return Score(
        accuracy=float(np.mean(predicted == truth)),
        macro_f1=macro_f1(predicted, truth, graph.num_classes),
        calibration_error=calibration_error(probabilities, truth),
    )


def macro_f1(predicted: Int[np.ndarray, "nodes"], truth: Int[np.ndarray, "nodes"], num_classes: int) -> float:
    """The mean over classes of F1 = 2 TP / (2 TP + FP + FN).

    Classes that are neither tested nor predicted (0 / 0) are left out.

    >>> macro_f1(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), num_classes=3)  # (2/3 + 4/5) / 2
    0.7333333333333334
    """
    hits = np.bincount(truth[predicted == truth], minlength=num_classes)
    total = np.bincount(predicted, minlength=num_classes) + np.bincount(truth, minlength=num_classes)  # 2 TP + FP + FN
    seen = total > 0
    return float(np.mean(2 * hits[seen] / total[seen]))


def calibration_error(
    probabilities: Float[np.ndarray, "nodes classes"], truth: Int[np.ndarray, "nodes"], bins: int = CALIBRATION_BINS
) -> float:
    """Expected calibration error (Guo et al., 2017): |confidence - accuracy| averaged over bins of equal width.

    Nodes are binned by the probability of their predicted class, and bins are weighted by their number of nodes.

    >>> calibration_error(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))  # confidence 0.9, accuracy 0.5
    0.4
    """
    confidence = probabilities.max(axis=1).astype(np.float64)
    correct = probabilities.argmax(axis=1) == truth
    bin_of = np.minimum((confidence * bins).astype(np.int64), bins - 1)  # 1.0 joins the last bin
    surplus = np.bincount(bin_of, weights=confidence - correct, minlength=bins)  # nodes x (confidence - accuracy)
    return float(np.abs(surplus).sum() / len(truth))
