"""Splits, rows and scores of a cell; scores by hand and against scikit-learn."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, balanced_accuracy_score, f1_score, roc_auc_score

from mtgcn import datasets
from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.experiments import scoring
from mtgcn.graph import Graph
from mtgcn.splits import Split, draw_over_all, draw_splits
from mtgcn.task import Prediction, run_seed

FIELDS = (
    *("dataset", "labels_per_class", "split", "method", "settings", "run", "seed", "accuracy", "macro_f1"),
    *("calibration_error", "seconds", "device", "threads", "versions", "group", "balanced_accuracy", "roc_auc"),
    "average_precision",
)


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
    assert scoring.calibration_error(probabilities, np.where(correct, 0, 1)) == pytest.approx(expected)


def test_accuracy_over_epochs(ring):
    splits = [Split([0, 1, 2], [], [3, 4, 5]), Split([0, 1, 2], [], [6, 7])]
    predicted = np.zeros((2, 2, 12), dtype=np.int32)  # first all zeros, then all correct but node 4
    predicted[:, 1] = ring.labels
    predicted[:, 1, 4] = 0
    np.testing.assert_allclose(scoring.accuracy_over_epochs(predicted, ring, splits), [[1 / 3, 2 / 3], [1 / 2, 1]])


def test_pseudo_label_precision_by_hand(ring):
    labels = ring.labels.copy()
    labels[9] = -1  # unknown
    graph = Graph(ring.adjacency, ring.features, labels)
    # One run, two snapshots, two peers, three classes, two slots; classes are node numbers modulo 3.
    chosen = np.full((1, 2, 2, 3, 2), -1)
    chosen[0, 1, 0] = [[0, 3], [1, 2], [-1, -1]]
    chosen[0, 1, 1] = [[4, 9], [4, -1], [-1, -1]]
    expected = [[[np.nan] * 3, [2 / 3, 2 / 3, np.nan]]]
    np.testing.assert_allclose(scoring.pseudo_label_precision(chosen, graph), expected)
    assert np.isnan(scoring.pseudo_label_precision(np.empty((2, 3, 2, 3, 0), dtype=np.int32), ring)).all()


@pytest.mark.parametrize("seed", range(5))
def test_scores_agree_with_scikit_learn(seed):
    random = np.random.default_rng(seed)
    truth, predicted = random.integers(5, size=(2, 40))
    truth[truth == 3] = 4  # a class that is not tested
    predicted[predicted == 2] = 1  # and one that is never predicted
    assert scoring.macro_f1(predicted, truth, 6) == pytest.approx(f1_score(truth, predicted, average="macro"))
    predicted[predicted == 3] = 4
    assert scoring.balanced_accuracy(predicted, truth) == pytest.approx(balanced_accuracy_score(truth, predicted))
    scores = random.integers(10, size=40) / 10  # with ties
    assert scoring.roc_auc(scores, truth == 1) == pytest.approx(roc_auc_score(truth == 1, scores))
    assert scoring.average_precision(scores, truth == 1) == pytest.approx(average_precision_score(truth == 1, scores))


def test_ranking_scores_need_two_classes(ring):
    assert scoring.roc_auc(np.array([0.2, 0.7]), np.array([True, True])) is None
    assert scoring.average_precision(np.array([0.2, 0.7]), np.array([True, True])) is None
    split = Split(train=[0, 1], validation=[], test=[2, 3, 4, 5])
    [result] = scoring.score(Prediction(np.full((1, 12, 3), 1 / 3)), ring, [split])
    assert result.roc_auc is None
    two = replace(ring, labels=np.arange(12) % 2, class_names=("a", "b"))
    [result] = scoring.score(Prediction(np.eye(2)[two.labels][None]), two, [split])
    assert (result.roc_auc, result.balanced_accuracy) == (1, 1)
    rare = replace(ring, labels=np.arange(12) % 3 % 2, class_names=("a", "b"))  # b is rarer
    shares = np.tile([0.4, 0.6], (12, 1))
    shares[4] = [0.1, 0.9]  # of class b, as are nodes 1, 7 and 10
    [result] = scoring.score(Prediction(shares[None]), rare, [split])
    assert result.average_precision == 1  # 4 is the only b among the test nodes, and first
    with pytest.raises(InputError, match="roc-auc requires two classes, not 3; use --score macro-f1"):
        scoring.check_score("roc-auc", 3)
    with pytest.raises(InputError, match="unknown score 'f1'"):
        scoring.check_score("f1")


def test_order_of_classes_does_not_decide_ties():
    probabilities = np.full((4000, 4), 0.25, dtype=np.float32)
    probabilities[:, 3] = 0.25 * (1 - 1e-7)  # equal up to rounding
    for truth in range(4):
        assert scoring.scores_of(probabilities, np.full(4000, truth)).accuracy == pytest.approx(0.25, abs=0.03)


def test_score_uses_the_test_nodes_of_each_run(ring):
    splits = draw_splits(ring, labels_per_class=1, runs=3, seed=0)
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, ring.num_nodes))
    results = scoring.score(Prediction(probabilities), ring, splits)
    tested = [
        (of_run[split.test], ring.labels[split.test]) for of_run, split in zip(probabilities, splits, strict=True)
    ]
    assert results == [scoring.scores_of(*one) for one in tested]
    assert [one.accuracy for one in results] == [np.mean(shares.argmax(1) == truth) for shares, truth in tested]


@pytest.mark.parametrize(
    ("test", "message"), [([], "0 test nodes; leave at least 1"), ([2], "test node 2 has no known class")]
)
def test_invalid_test_nodes(test, message):
    graph = Graph(np.ones((3, 3)) - np.eye(3), labels=[0, 1, -1])
    with pytest.raises(InputError, match=message):
        scoring.score(Prediction(np.full((1, 3, 2), 0.5)), graph, [Split(train=[0], validation=[], test=test)])


def test_better_peer_is_selected_by_test_accuracy(ring):
    correct = np.eye(3)[ring.labels]
    wrong = np.roll(correct, 1, axis=1)
    half = correct.copy()
    half[[4, 5]] = wrong[[4, 5]]
    splits = [Split(train=[0, 1, 2], validation=[], test=[4, 5, 6, 7])] * 2
    peers = np.stack([[wrong, half], [correct, wrong]])
    prediction = Prediction(peers.mean(axis=1), peers=peers)
    assert [result.accuracy for result in scoring.score_better_peer(prediction, ring, splits)] == [0.5, 1.0]
    [alone] = scoring.score(Prediction(half[None]), ring, splits[:1])
    assert scoring.score_better_peer(prediction, ring, splits)[0] == alone
    with pytest.raises(InputError, match="this method has no peers"):
        scoring.score_better_peer(Prediction(half[None]), ring, splits[:1])


def test_rows_of_a_cell(ring, constant):
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=3)
    rows = scoring.run_cell(ring, splits, constant(favourite=1), name="constant", seed=3)
    assert [row.run for row in rows] == [0, 1, 2, 3]
    shared = {"dataset": "ring", "labels_per_class": 1, "split": "random", "method": "constant"}
    shared |= {"settings": {"favourite": 1, "confidence": 0.6}, "seed": 3, "seconds": rows[0].seconds}
    shared |= {"device": "cpu", "threads": torch.get_num_threads(), "group": None}
    scores = {"accuracy": 3 / 9, "macro_f1": (0.5 + 0 + 0) / 3, "calibration_error": 0.6 - 1 / 3}  # 3 of each class
    for row in rows:
        assert tuple(vars(row)) == FIELDS
        assert {name: getattr(row, name) for name in shared} == shared
        assert {name: getattr(row, name) for name in scores} == pytest.approx(scores)
        assert set(row.versions) == {"mtgcn", "python", "torch", "numpy", "scipy"}


def test_rows_of_over_all_splits(ring, constant):
    splits = draw_over_all(ring, labels_per_class=2, runs=3, seed=0)
    rows = scoring.run_cell(ring, splits, constant(favourite=1), name="constant", seed=0, split_source="over-all")
    assert {(row.split, row.labels_per_class) for row in [*rows, scoring.summarise_cell(rows)]} == {("over-all", 2)}


def test_seconds_cover_the_whole_fit(ring, constant, monkeypatch):
    clock = iter([10.0, 16.0])
    monkeypatch.setattr(scoring, "perf_counter", lambda: next(clock))
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=0)
    rows = scoring.run_cell(ring, splits, constant(), name="constant", seed=0)
    assert [row.seconds for row in rows] == [1.5] * 4
    assert scoring.summarise_cell(rows).seconds == 6


def test_only_methods_with_validation_see_its_labels(ring, constant, constant_with_validation):
    # Only the second can predict class 2, the most frequent one among the validation nodes.
    split = Split(train=[0, 1], validation=[2, 5], test=[8, 11])
    [without] = scoring.run_cell(ring, [split], constant(), name="constant", seed=0)
    [with_validation] = scoring.run_cell(ring, [split], constant_with_validation(), name="constant+v", seed=0)
    assert (without.accuracy, with_validation.accuracy) == (0, 1)


def test_splits_are_checked_before_fitting(ring, constant, constant_with_validation, monkeypatch):
    monkeypatch.setattr(constant, "fit", lambda *_: pytest.fail("fitted"))
    without_test, without_validation = Split([0], [], []), Split([0, 1], [], [2])
    with pytest.raises(InputError, match="0 test nodes"):
        scoring.run_cell(ring, [without_test], constant(), name="constant", seed=0)
    with pytest.raises(InputError, match="validation"):
        scoring.run_cell(ring, [without_validation], constant_with_validation(), name="constant+v", seed=0)


def test_summarise_cell(ring, constant):
    splits = [Split([0, 1, 2], [], [3, 4]), Split([0, 1, 2], [], [4, 5])]
    unequal = [splits[0], Split([0, 1], [], [3])]
    cell, other = (
        scoring.summarise_cell(scoring.run_cell(ring, some, constant(), name="constant", seed=0))
        for some in (splits, unequal)
    )
    assert (cell.runs, cell.labels_per_class, other.labels_per_class) == (2, 1, None)
    assert (cell.accuracy.per_run, cell.accuracy.mean) == ((0.5, 0.0), 0.25)


def test_devices(monkeypatch):
    for available, name in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert chosen_device("auto") == chosen_device(name) == torch.device(name)
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        chosen_device("gpu")


def test_groups_of_runs_with_shared_random_parts(ring, constant):
    @dataclass(frozen=True, kw_only=True)
    class Sharing(constant):
        def fit(self, task):
            return replace(super().fit(task), groups=np.array([seed % 2 for seed in task.seeds]))

    splits = draw_splits(ring, 1, runs=6, seed=0)
    rows = scoring.run_cell(ring, splits, Sharing(), name="sharing", seed=0)
    assert [row.group for row in rows] == [run_seed(0, run) % 2 for run in range(6)]
    cell = scoring.summarise_cell(rows)
    assert cell.groups == tuple(row.group for row in rows)
    alone = scoring.run_cell(ring, splits, constant(), name="alone", seed=0)
    assert {row.group for row in alone} == {None}
    assert scoring.summarise_cell(alone).groups is None
    assert 0 <= cell.accuracy.ci95[0] <= cell.accuracy.ci95[1] <= 1


@pytest.fixture
def split_file(tmp_path):
    def written(*train):
        path = tmp_path / "splits.json"
        path.write_text(json.dumps([{"train": nodes} for nodes in train]))
        return str(path)

    return written


@pytest.mark.parametrize("source", ["random", "over-all"])
def test_random_splits(ring, source, monkeypatch):
    assert len(scoring.chosen_splits(source, ring, labels_per_class=2)) == 30
    monkeypatch.setattr(scoring, "VALIDATION_NODES", 3)
    options = {"labels_per_class": 2, "runs": 4, "seed": 5}
    drawn = (draw_splits if source == "random" else draw_over_all)(ring, **options)
    without, with_some = (scoring.chosen_splits(source, ring, **options, with_validation=one) for one in (False, True))
    for expected, bare, split in zip(drawn, without, with_some, strict=True):
        np.testing.assert_array_equal(bare.train, expected.train)
        np.testing.assert_array_equal(split.train, expected.train)
        assert scoring.labels_per_class_of(split, ring, source) == 2
        assert (len(bare.validation), len(bare.test)) == (0, 6)
        assert (len(split.validation), len(split.test)) == (3, 3)
        assert set(split.test) < set(bare.test)
    per_class = scoring.chosen_splits(source, ring, **options, with_validation=True, validation_per_class=1)
    assert all(sorted(ring.labels[split.validation]) == [0, 1, 2] for split in per_class)


def test_public_split_is_repeated(ring, monkeypatch):
    public = Split(train=[0, 1, 2], validation=[3], test=[4])
    monkeypatch.setattr(datasets, "public_split", {"ring": public}.__getitem__)
    for labels in (None, 1):
        assert scoring.chosen_splits("public", ring, runs=4, labels_per_class=labels) == (public,) * 4


def test_split_file(ring, split_file):
    [first, *others] = scoring.chosen_splits(split_file([0, 1, 2]), ring, runs=3)  # a single split is repeated
    assert others == [first] * 2
    path = split_file([0, 1, 2, 3], [3, 4, 5, 6])
    for options in ({}, {"runs": 2}, {"labels_per_class": [2, 1, 1]}):
        assert [split.train[0] for split in scoring.chosen_splits(path, ring, **options)] == [0, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 7}, r"runs is 7 but .* holds 2 splits; omit --runs"),
        ({"labels_per_class": 1}, r"asks for 1 but split .* gives \(2, 1, 1\); omit --labels-per-class"),
        ({"validation_per_class": 1}, "has its own validation nodes; omit --validation-per-class"),
    ],
    ids=str,
)
def test_options_that_differ_from_the_split_file(ring, split_file, options, message):
    path = split_file([0, 1, 2, 3], [4, 5, 6, 7])
    with pytest.raises(InputError, match=message):
        scoring.chosen_splits(path, ring, **options)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        *((source, {"labels_per_class": None}, f"{source} splits need .* add") for source in ("random", "over-all")),
        *((source, {"runs": 0}, "runs is 0; give at least 1") for source in ("random", "public")),
        *((source, {"seed": -1}, "seed is -1; give at least 0") for source in ("random", "public")),
        ("over-all", {"labels_per_class": [1, 2, 3]}, "labels-per-class lists 3 numbers; over-all splits take one"),
        ("publik", {}, "'publik' is neither 'random', 'over-all', 'public' nor a file"),
    ],
)
def test_invalid_split_options(ring, source, options, message):
    with pytest.raises(InputError, match=message):
        scoring.chosen_splits(source, ring, **{"labels_per_class": 1} | options)
