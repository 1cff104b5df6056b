from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from fitted_models import with_labels
from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED
from mtgcn.methods import Method, create
from mtgcn.task import Prediction
from mtgcn.uncertainty import held_out as module
from mtgcn.uncertainty.held_out import (
    binomial_cdf,
    check_folds,
    expected_accuracy,
    stratified_folds,
    why_not_measurable,
    wilson_interval,
)

QUICK = {"warmup_epochs": 20, "teaching_epochs": 20}


@pytest.fixture
def some_labels(make_graph):
    """60 nodes of 3 classes, 8 labels of each."""
    return with_labels(make_graph(nodes=60, easy=True), range(24))


@dataclass(frozen=True, kw_only=True)
class Memorises(Method):
    """Predicts the labels of its task, and class 0 for all other nodes."""

    def fit(self, task):
        probabilities = np.zeros((task.runs, task.num_nodes, task.num_classes))
        probabilities[..., 0] = 1.0
        for run in range(task.runs):
            probabilities[run, task.labelled.index[run]] = 0.0
            probabilities[run, task.labelled.index[run], task.labelled.classes[run]] = 1.0
        return Prediction(probabilities)


def test_labels_are_held_out(some_labels):
    measured = expected_accuracy(some_labels, Memorises(), seed=0)
    assert measured.accuracy == pytest.approx(8 / 24)  # the labels of class 0, and no other
    assert (measured.labels, measured.folds) == (24, 5)
    # Wilson's interval by hand, z = 1.96: (x + z²/2 ± z √(x (n - x) / n + z²/4)) / (n + z²) for x = 8 of n = 24.
    middle, reach, scale = 8 + 3.8415 / 2, 1.95996 * (8 * 16 / 24 + 3.8415 / 4) ** 0.5, 24 + 3.8415
    assert measured.ci95 == pytest.approx(((middle - reach) / scale, (middle + reach) / scale), abs=1e-4)


def test_interval_of_perfect_accuracy_ends_at_one(some_labels):
    of_one_class = replace(some_labels, labels=np.where(some_labels.labels == UNLABELED, UNLABELED, 0))
    measured = expected_accuracy(of_one_class, Memorises(), seed=0)
    assert (measured.accuracy, measured.ci95[1]) == (1, 1)
    assert measured.ci95[0] == pytest.approx(1 - 3.8415 / (24 + 3.8415), abs=1e-4)


def test_graphs_with_and_without_features(some_labels):
    measured = expected_accuracy(some_labels, create("mt-gcn", **QUICK), seed=0)
    assert measured.accuracy > 0.9
    assert 0.6 < measured.ci95[0] < measured.accuracy
    bare = replace(some_labels, features=None)
    assert expected_accuracy(bare, create("mt-gcn", **QUICK), seed=0).accuracy > 0.4


def test_folds_are_runs_of_one_task(some_labels, monkeypatch):
    tasks = []
    monkeypatch.setattr(module, "fit_in_chunks", lambda method, task: tasks.append(task) or method.fit(task))
    expected_accuracy(some_labels, Memorises(), seed=0, folds=4)
    [task] = tasks
    assert task.runs == 4
    # Each class has 8 labels, so each of 4 folds holds out 2 of each.
    for run in range(4):
        assert np.bincount(task.labelled.classes[run]).tolist() == [6, 6, 6]


def test_stratified_folds_depend_on_the_seed(some_labels):
    first, again, other = (stratified_folds(some_labels, some_labels.known, 5, seed) for seed in (0, 0, 1))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert np.array_equal(np.sort(np.concatenate(first)), some_labels.known)


@pytest.mark.parametrize(
    ("labelled", "method", "reason"),
    [
        (range(15), "mt-gcn", "15 labels are too few to tell; 20 are needed"),
        ([*range(0, 60, 3), *range(1, 15, 3)], "mt-gcn", "class '2' has 0 labels, too few to tell; 5 of each class"),
        (range(24), "gcn+v", "validation"),
    ],
)
def test_why_not_measurable(make_graph, some_labels, labelled, method, reason):
    graph = with_labels(make_graph(nodes=60), list(labelled))
    assert reason in why_not_measurable(graph, create(method), folds=5)
    assert why_not_measurable(some_labels, create("mt-gcn"), folds=5) is None


def test_check_folds():
    for folds in (0, 2, 5):
        check_folds(folds)
    for folds in (-1, 1):
        with pytest.raises(InputError, match=f"folds is {folds}; give at least 2, or 0"):
            check_folds(folds)


TRIALS = (1, 2, 7, 60, 2708, 5_000_000)
SHARES = (0.0, 1e-6, 0.2, 0.25, 0.5, 0.875, 1 - 1e-6, 1.0)


def counts(trials):
    return np.unique(np.linspace(0, trials, 25).astype(int)).tolist()


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("share", SHARES)
def test_binomial_cdf_equals_scipy(trials, share):
    found = [binomial_cdf(successes, trials, share) for successes in counts(trials)]
    assert found == pytest.approx(binom.cdf(counts(trials), trials, share), rel=0, abs=1e-12)


@pytest.mark.parametrize("trials", TRIALS)
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_wilson_interval_equals_scipy(trials, confidence):
    for successes in counts(trials):
        expected = binomtest(successes, trials).proportion_ci(confidence, method="wilson")
        assert wilson_interval(successes, trials, confidence) == pytest.approx(tuple(expected), rel=0, abs=1e-12)
