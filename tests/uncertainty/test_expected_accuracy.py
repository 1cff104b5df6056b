"""Expected accuracy: each given label is predicted once by a run that was not given it."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from mtgcn.graph import UNKNOWN
from mtgcn.methods import Method, create
from mtgcn.task import Prediction
from mtgcn.uncertainty import held_out
from mtgcn.uncertainty.expected_accuracy import expected_accuracy, why_not_measurable

QUICK = {"warmup_epochs": 20, "teaching_epochs": 20}


@pytest.fixture
def some_labels(make_graph):
    """60 nodes of 3 classes, 8 labels of each."""
    graph = make_graph(nodes=60, easy=True)
    return replace(graph, labels=np.where(np.arange(60) < 24, graph.labels, UNKNOWN))


@dataclass(frozen=True, kw_only=True)
class KnowsWhatItIsGiven(Method):
    """Right about the labels of its task, and says class 0 of everything else."""

    def fit(self, task):
        probabilities = np.zeros((task.runs, task.num_nodes, task.num_classes))
        probabilities[..., 0] = 1.0
        for run in range(task.runs):
            probabilities[run, task.labelled.index[run]] = 0.0
            probabilities[run, task.labelled.index[run], task.labelled.classes[run]] = 1.0
        return Prediction(probabilities)


def test_no_label_is_predicted_with_its_own_help(some_labels):
    measured = expected_accuracy(some_labels, KnowsWhatItIsGiven(), seed=0)
    assert measured.accuracy == pytest.approx(8 / 24)  # the labels of class 0, and no other
    assert (measured.labels, measured.folds) == (24, 5)
    # Wilson's interval by hand, z = 1.96: (x + z²/2 ± z √(x (n - x) / n + z²/4)) / (n + z²) for x = 8 of n = 24.
    middle, reach, scale = 8 + 3.8415 / 2, 1.95996 * (8 * 16 / 24 + 3.8415 / 4) ** 0.5, 24 + 3.8415
    assert measured.ci95 == pytest.approx(((middle - reach) / scale, (middle + reach) / scale), abs=1e-4)


def test_the_interval_of_labels_that_are_all_right_ends_at_one(some_labels):
    of_one_class = replace(some_labels, labels=np.where(some_labels.labels == UNKNOWN, UNKNOWN, 0))
    measured = expected_accuracy(of_one_class, KnowsWhatItIsGiven(), seed=0)
    assert (measured.accuracy, measured.ci95[1]) == (1, 1)
    assert measured.ci95[0] == pytest.approx(1 - 3.8415 / (24 + 3.8415), abs=1e-4)


def test_an_easy_graph_is_expected_to_be_easy(some_labels):
    measured = expected_accuracy(some_labels, create("mt-gcn", **QUICK), seed=0)
    assert measured.accuracy > 0.9
    assert 0.6 < measured.ci95[0] < measured.accuracy


def test_without_features_folds_see_what_the_model_sees(some_labels):
    bare = replace(some_labels, features=None)
    assert expected_accuracy(bare, create("mt-gcn", **QUICK), seed=0).accuracy > 0.4


def test_all_folds_are_one_stack(some_labels, monkeypatch):
    tasks = []
    monkeypatch.setattr(held_out, "fit_in_chunks", lambda method, task: tasks.append(task) or method.fit(task))
    expected_accuracy(some_labels, KnowsWhatItIsGiven(), seed=0, folds=4)
    [task] = tasks
    assert task.runs == 4
    # Each class has 8 labels, so each of 4 folds holds out 2 of each.
    for run in range(4):
        assert np.bincount(task.labelled.classes[run]).tolist() == [6, 6, 6]


def test_the_seed_decides_the_folds(some_labels):
    first, again, other = (held_out.stratified_folds(some_labels, some_labels.known, 5, seed) for seed in (0, 0, 1))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert np.array_equal(np.sort(np.concatenate(first)), some_labels.known)


@pytest.mark.parametrize(
    ("labelled", "method", "statement"),
    [
        (range(24), "mt-gcn", None),
        (range(15), "mt-gcn", "15 labels are too few to tell; 20 are needed"),
        ([*range(0, 60, 3), *range(1, 15, 3)], "mt-gcn", "class '2' has 0 labels, too few to tell; 5 of each class"),
        (range(24), "gcn+v", "validation"),
    ],
)
def test_it_is_said_when_labels_cannot_tell(make_graph, labelled, method, statement):
    graph = make_graph(nodes=60)
    labels = np.full(60, UNKNOWN)
    labels[list(labelled)] = graph.labels[list(labelled)]
    told = why_not_measurable(replace(graph, labels=labels), create(method), folds=5)
    assert told == statement or statement in told
