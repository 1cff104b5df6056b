from dataclasses import replace

import numpy as np
import pytest

from fitted_models import Knows, Model, drawn_probabilities, with_labels
from mtgcn.errors import InputError
from mtgcn.methods import create
from mtgcn.uncertainty.conformal import conformal_threshold, prediction_sets


@pytest.mark.parametrize("coverage", [0.5, 0.7, 0.8, 0.9])
@pytest.mark.parametrize("count", [9, 10, 19, 33])
def test_threshold_covers_the_promised_share(count, coverage):
    scores = np.random.default_rng(count).permutation(count + 1) / (count + 1)
    thresholds = [conformal_threshold(np.delete(scores, new), coverage) for new in range(count + 1)]
    covered = (scores <= thresholds).mean()
    assert coverage <= covered + 1e-12
    assert covered < coverage + 1 / (count + 1)


@pytest.mark.parametrize(("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.8, 4), (0.5, 1), (0.99, 99)])
def test_number_of_labels_needed(coverage, needed):
    assert conformal_threshold(np.arange(float(needed)), coverage) == needed - 1
    if needed > 1:
        with pytest.raises(InputError, match=f"coverage {coverage:g} needs {needed} held-out labels and there are"):
            conformal_threshold(np.arange(needed - 1.0), coverage)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, float("nan")])
def test_coverage_is_a_share(coverage):
    with pytest.raises(InputError, match=r"coverage is .*between 0 and 1"):
        conformal_threshold(np.arange(100.0), coverage)


def test_sets_follow_from_held_out_labels(make_graph):
    graph = make_graph(nodes=300)
    given = with_labels(graph, range(60))
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    method = Knows(probabilities=probabilities)
    sets = prediction_sets(Model(given, method), 0.8, seed=1)
    assert len(sets.held_out) == 30
    assert method.shown == [set(range(60)) - set(sets.held_out.tolist())]
    of_true_class = np.sort(probabilities[sets.held_out, graph.labels[sets.held_out]])
    assert sets.least_probability == pytest.approx(
        of_true_class[30 - 25]
    )  # the 25th of 30 from the top: ceil(31 · 0.8)
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
        true, _, labels = drawn_probabilities(600, 3, seed, sharpness=1)
        graph = replace(make_graph(nodes=600), labels=labels)
        given = with_labels(graph, np.random.default_rng(seed).choice(600, 60, replace=False))
        sets = prediction_sets(Model(given, Knows(probabilities=true)), 0.8, seed=seed)
        free = np.flatnonzero(given.labels < 0)
        covered.append(sets.contains[free, labels[free]].mean())
    assert np.mean(covered) == pytest.approx(0.81, abs=0.03)  # between 0.8 and 0.8 + 1 / 31


def test_too_few_labels(make_graph):
    model = Model(with_labels(make_graph(), range(6)), Knows(probabilities=np.ones((40, 3)) / 3))
    message = r"needs 9 labels to hold out, and 3 of 6 can be held out.*label 6 more nodes, or ask for at most 0\.75"
    with pytest.raises(InputError, match=message):
        prediction_sets(model)
    assert prediction_sets(model, 0.75).held_out.size == 3


def test_methods_with_validation_are_refused(make_graph):
    with pytest.raises(InputError, match="needs validation labels"):
        prediction_sets(Model(with_labels(make_graph(), range(30)), create("gcn+v")))


@pytest.mark.slow
@pytest.mark.data
def test_on_cora():
    from mtgcn.datasets import load

    cora = load("cora")
    covered = []
    for seed in range(6):
        given = with_labels(cora, np.random.default_rng(seed).choice(cora.num_nodes, 140, replace=False))
        sets = prediction_sets(Model(given, create("lp")), 0.9, seed=seed)
        free = np.flatnonzero(given.labels < 0)
        covered.append(sets.contains[free, cora.labels[free]].mean())
    assert np.mean(covered) == pytest.approx(0.9, abs=0.05)
