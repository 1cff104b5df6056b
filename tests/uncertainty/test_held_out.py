from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import beta

from fitted_models import Model, with_labels
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.methods import Method, create
from mtgcn.task import Prediction
from mtgcn.training.calibration import tempered
from mtgcn.uncertainty import held_out as module
from mtgcn.uncertainty.held_out import (
    conformal_threshold,
    expected_accuracy,
    expected_gain,
    folds,
    prediction_sets,
    stratified_folds,
    temperature,
    why_not_measurable,
)


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


@dataclass(frozen=True, kw_only=True)
class Knows(Method):
    """Predicts the same for any labels, and keeps the labelled nodes of each run."""

    probabilities: Any
    shown: list = field(default_factory=list)

    def fit(self, task):
        self.shown.extend(set(row[row >= 0].tolist()) for row in task.labelled.index)
        return Prediction(np.repeat(self.probabilities[None], task.runs, axis=0))


def test_labels_are_held_out(some_labels):
    measured = expected_accuracy(some_labels, Memorises(), seed=0)
    assert (measured.labels, measured.folds) == (24, 5)
    # The labels of class 0, and no other, are predicted: 8 of 24. They count as 24 · 0.65 / (1 + 24 / 210) labels, and
    # the prior as 2.8 labels, of which 61 % are correct.
    worth = 24 * 0.65 / (1 + 24 / 210)
    right, wrong = 2.8 * 0.61 + worth / 3, 2.8 * 0.39 + worth * 2 / 3
    assert measured.accuracy == pytest.approx(right / (right + wrong))
    assert measured.ci90 == pytest.approx(beta(right, wrong).interval(0.9))
    assert measured.ci95 == pytest.approx(beta(right, wrong).interval(0.95))


def test_two_labels_per_class_are_enough(make_graph):
    graph = with_labels(make_graph(), range(6))
    assert why_not_measurable(graph, Memorises()) is None
    measured = expected_accuracy(graph, Memorises(), seed=0)
    assert (measured.labels, measured.folds) == (6, 5)
    low, high = measured.ci90
    assert 0 < low < 0.25 < 0.6 < high < 1


def test_folds_are_runs_of_one_task(some_labels, monkeypatch):
    tasks = []
    monkeypatch.setattr(module, "fit_in_chunks", lambda method, task: tasks.append(task) or method.fit(task))
    expected_accuracy(some_labels, Memorises(), seed=0, folds=4)
    [task] = tasks
    # Each class has 8 labels, so each of 4 folds holds out 2 of each. The learning curve uses two quarters of all.
    shown = [index[index >= 0].numpy() for index in task.labelled.index]
    assert [np.bincount(some_labels.labels[nodes]).tolist() for nodes in shown] == [[6, 6, 6]] * 4 + [[2, 2, 2]] * 2
    assert not set(shown[4]) & set(shown[5])


def test_stratified_folds_depend_on_the_seed(some_labels):
    first, again, other = (stratified_folds(some_labels, some_labels.known, 5, seed) for seed in (0, 0, 1))
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))
    assert np.array_equal(np.sort(np.concatenate(first)), some_labels.known)


@pytest.mark.parametrize(
    ("labelled", "method", "reason"),
    [
        ([0, 1, 2, 3, 4], "mt-gcn", "class '2' has 1 label, and none can be held out; 2 of each class are needed"),
        ([0, 1, 3, 4], "mt-gcn", "class '2' has 0 labels"),
        (range(24), "gcn+v", "validation"),
    ],
)
def test_why_not_measurable(make_graph, some_labels, labelled, method, reason):
    graph = with_labels(make_graph(nodes=60), list(labelled))
    assert reason in why_not_measurable(graph, create(method))
    assert why_not_measurable(some_labels, create("mt-gcn")) is None


def test_folds_keep_the_only_label_of_a_class(make_graph):
    graph = with_labels(make_graph(), [0, 3, 6, 9, 1, 4, 2])  # four, two and one
    assert sorted(np.concatenate(folds(graph))) == [0, 1, 3, 4, 6, 9]
    many = make_graph(nodes=90)
    assert [np.bincount(many.labels[fold]).tolist() for fold in folds(many)] == [[3, 3, 3]] * 10
    with pytest.raises(InputError, match=r"no class has two labels.*label another node"):
        folds(with_labels(make_graph(), [0, 1, 2]))


def test_gain_of_more_labels(some_labels):
    never = np.zeros(98)
    found = expected_gain(never, (80, 20), labels=100)
    step = (1 / 100**0.5 - 1 / 110**0.5) / (1 / 20**0.5 - 1 / 80**0.5)
    assert found.gain == pytest.approx(step / 100, abs=1e-6)  # one of two added labels is gained
    assert found.enough
    assert expected_gain(never, (7, 7), labels=8) is None
    assert not expected_gain(never + 1, (80, 20), labels=100).enough
    assert GraphModel("lp", random_state=0).fit_graph(some_labels).expected_gain(folds=4).labels == 10
    few = with_labels(some_labels, range(6))
    assert GraphModel("lp", random_state=0).fit_graph(few).expected_gain() is None


# -------------------------------------------------------------------------------------------------------- temperature


def test_temperature_matches_the_expected_accuracy(some_labels):
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    value = temperature(Model(some_labels, Memorises(), probabilities))
    confidence = tempered(probabilities, value)[24:].max(axis=1).mean()
    assert confidence == pytest.approx(expected_accuracy(some_labels, Memorises(), seed=0).accuracy, abs=1e-3)
    with pytest.raises(InputError, match="no temperature: class '0' has 1 label, and none can be held out"):
        temperature(Model(with_labels(some_labels, [0, 1, 2]), Memorises(), probabilities))


# ----------------------------------------------------------------------------------------------------- prediction sets


@pytest.mark.parametrize("coverage", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("count", [9, 10, 19, 33])
def test_threshold_covers_the_promised_share(count, coverage):
    scores = np.random.default_rng(count).permutation(count + 1) / (count + 1)
    thresholds = [conformal_threshold(np.delete(scores, new), coverage) for new in range(count + 1)]
    covered = (scores <= thresholds).mean()
    assert coverage <= covered + 1e-12
    assert covered < coverage + 1 / (count + 1)


@pytest.mark.parametrize(("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.8, 4), (0.5, 1), (0.99, 99)])
def test_number_of_labels_needed(make_graph, coverage, needed):
    assert conformal_threshold(np.arange(float(needed)), coverage) == needed - 1
    few = Model(with_labels(make_graph(nodes=120), range(needed + 2)), Knows(probabilities=np.ones((120, 3)) / 3))
    with pytest.raises(InputError, match=f"coverage {coverage:g} needs {needed} held-out labels; {needed - 1} of"):
        prediction_sets(few, coverage)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, float("nan")])
def test_coverage_is_a_share(make_graph, coverage):
    with pytest.raises(InputError, match=r"coverage is .*between 0 and 1"):
        prediction_sets(Model(make_graph(), Knows(probabilities=np.ones((40, 3)) / 3)), coverage)


def test_sets_follow_from_held_out_labels(make_graph):
    graph = make_graph(nodes=300)
    given = with_labels(graph, range(60))
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    method = Knows(probabilities=probabilities)
    sets = prediction_sets(Model(given, method), 0.8, seed=1)
    assert len(sets.held_out) == 30
    assert method.shown == [set(range(60)) - set(sets.held_out.tolist())]
    of_true_class = np.sort(probabilities[sets.held_out, graph.labels[sets.held_out]])
    assert sets.least_probability == pytest.approx(of_true_class[30 - 25])  # the 25th from the top: ceil(31 · 0.8)
    free = np.arange(60, 300)
    expected = probabilities[free] >= sets.least_probability - 1e-12
    expected[np.arange(240), probabilities[free].argmax(1)] = True
    assert (sets.contains[free] == expected).all()
    assert (sets.contains[:60] == np.eye(3, dtype=bool)[graph.labels[:60]]).all()
    assert sets[0] == (graph.class_names[graph.labels[0]],)
    assert sets.sizes.min() == 1


def test_no_set_is_empty(make_graph):
    given = with_labels(make_graph(nodes=300), range(60))
    probabilities = np.random.default_rng(0).dirichlet(np.full(3, 5.0), 300)
    sets = prediction_sets(Model(given, Knows(probabilities=probabilities)), 0.1)
    free = np.arange(60, 300)
    empty = probabilities[free].max(1) < sets.least_probability - 1e-9
    assert empty.sum() > 50
    assert (sets.sizes[free][empty] == 1).all()
    assert (sets.contains[free].argmax(1) == probabilities[free].argmax(1))[empty].all()


def test_coverage(make_graph):
    covered = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        true = softmax(1.5 * random.normal(size=(600, 3)), axis=1)
        labels = (true.cumsum(1) > random.random((600, 1))).argmax(1)
        graph = replace(make_graph(nodes=600), labels=labels)
        given = with_labels(graph, np.random.default_rng(seed).choice(600, 60, replace=False))
        sets = prediction_sets(Model(given, Knows(probabilities=true)), 0.8, seed=seed)
        free = np.flatnonzero(given.labels < 0)
        covered.append(sets.contains[free, labels[free]].mean())
    assert np.mean(covered) == pytest.approx(0.81, abs=0.03)  # between 0.8 and 0.8 + 1 / 31


def test_too_few_labels(make_graph):
    model = Model(with_labels(make_graph(), range(6)), Knows(probabilities=np.ones((40, 3)) / 3))
    message = r"needs 9 held-out labels; 3 of 6 are available.*label 6 more nodes, or ask for at most 0\.75"
    with pytest.raises(InputError, match=message):
        prediction_sets(model)
    assert prediction_sets(model, 0.75).held_out.size == 3
    with pytest.raises(InputError, match="needs validation labels"):
        prediction_sets(Model(with_labels(make_graph(), range(30)), create("gcn+v")))
