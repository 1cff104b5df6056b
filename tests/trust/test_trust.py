"""Temperatures that can be told beforehand, coverage by counting, and warnings where they belong."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.methods import Method, create
from mtgcn.task import Prediction
from mtgcn.trust.calibration import folds, temperature, temperature_from, tempered
from mtgcn.trust.conformal import conformal_threshold, prediction_sets
from mtgcn.trust.warnings import (
    collapse_warning,
    component_warning,
    homophily_warning,
    label_warnings,
    model_warnings,
    predicted_homophily_warning,
    single_label_warning,
)


@dataclass(frozen=True)
class Model:
    """What a fitted estimator has."""

    graph_: Graph
    method_: Any = None
    label_distributions_: Any = None
    peer_distributions_: Any = None
    history_: Any = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Knows(Method):
    """Believes the same whatever it is shown, and remembers what that was."""

    probabilities: Any
    shown: list = field(default_factory=list)

    def fit(self, task):
        self.shown.extend(set(row[row >= 0].tolist()) for row in task.labelled.index)
        return Prediction(np.repeat(self.probabilities[None], task.runs, axis=0))


def drawn_beliefs(nodes, classes, seed, sharpness):
    """Beliefs, the same beliefs `sharpness` times as sure, and classes drawn from the former."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(nodes, classes)) * 1.5
    true = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (true.cumsum(1) > random.random((nodes, 1))).argmax(1)
    return true, tempered(true, 1 / sharpness), labels


def with_labels(graph, labelled):
    labels = np.full(graph.num_nodes, -1)
    labels[labelled] = graph.labels[labelled]
    return replace(graph, labels=labels)


class TestTemperature:
    def test_one_changes_nothing_and_no_temperature_changes_the_prediction(self):
        probabilities = np.random.default_rng(0).dirichlet(np.ones(4), 50)
        np.testing.assert_allclose(tempered(probabilities, 1), probabilities, atol=1e-6)
        for heat in (0.1, 0.5, 3, 10):
            assert (tempered(probabilities, heat).argmax(1) == probabilities.argmax(1)).all()
            np.testing.assert_allclose(tempered(probabilities, heat).sum(1), 1)

    def test_certainty_stays_finite(self):
        assert np.isfinite(tempered(np.array([[1.0, 0.0]]), 0.1)).all()

    @pytest.mark.parametrize("sharpness", [0.5, 1, 2])
    def test_many_held_out_labels_find_the_temperature_that_undoes_it(self, sharpness):
        _, told, labels = drawn_beliefs(4000, 4, seed=1, sharpness=sharpness)
        held_out = np.array_split(np.arange(4000), 5)
        found = temperature_from(told, np.stack([told] * 5), held_out, labels)
        assert found == pytest.approx(sharpness, rel=0.08)

    def test_only_the_fit_that_lacked_a_label_is_asked_about_it(self):
        _, told, labels = drawn_beliefs(4000, 4, seed=2, sharpness=2)
        held_out = np.array_split(np.arange(4000), 4)
        fits = np.stack([told] * 4)
        for fit, nodes in zip(fits, held_out, strict=True):
            others = np.setdiff1d(np.arange(4000), nodes)
            fit[others] = np.eye(4)[(labels[others] + 1) % 4]  # all wrong, but never asked
        assert temperature_from(told, fits, held_out, labels) == pytest.approx(2, rel=0.08)

    def test_few_labels_take_the_confidence_of_the_average_fit(self):
        random = np.random.default_rng(3)
        fits = random.dirichlet(np.full(3, 0.3), (6, 200))
        probabilities = fits[0]
        heat = temperature_from(probabilities, fits, [np.array([number]) for number in range(6)], np.arange(200) % 3)
        rest = np.arange(6, 200)
        expected = fits.mean(0)[rest].max(1).mean()
        assert heat > 1  # an average is less sure than its parts
        assert tempered(probabilities, heat)[rest].max(1).mean() == pytest.approx(expected, abs=1e-3)

    def test_fits_that_agree_are_believed(self):
        probabilities = np.random.default_rng(4).dirichlet(np.ones(3), 100)
        fits = np.stack([probabilities] * 4)
        assert temperature_from(
            probabilities, fits, [np.array([n]) for n in range(4)], np.arange(100) % 3
        ) == pytest.approx(1, abs=1e-2)

    def test_folds_hold_every_label_out_once_but_the_only_one_of_a_class(self, make_graph):
        graph = with_labels(make_graph(), [0, 3, 6, 9, 1, 4, 2])  # four, two and one
        dealt = np.concatenate(folds(graph))
        assert sorted(dealt) == [0, 1, 3, 4, 6, 9]
        many = make_graph(nodes=90)
        assert len(folds(many)) == 10
        for hand in folds(many):
            assert np.bincount(many.labels[hand]).tolist() == [3, 3, 3]

    def test_without_a_second_label_there_is_nothing_to_hold_out(self, make_graph):
        with pytest.raises(InputError, match=r"no class has a second label.*label a second node"):
            folds(with_labels(make_graph(), [0, 1, 2]))

    def test_a_real_fit_has_one(self, make_graph):
        graph = with_labels(make_graph(), range(12))
        method = create("mt-gcn", warmup_epochs=20, teaching_epochs=20)
        probabilities = np.full((graph.num_nodes, 3), 1 / 3)
        probabilities[:, 0] += 0.1
        heat = temperature(Model(graph, method, probabilities / probabilities.sum(1, keepdims=True)))
        assert 0.1 <= heat <= 10


class TestPredictionSets:
    @pytest.mark.parametrize("coverage", [0.5, 0.7, 0.8, 0.9])
    @pytest.mark.parametrize("count", [9, 10, 19, 33])
    def test_the_threshold_covers_as_many_ranks_as_promised_and_hardly_more(self, count, coverage):
        everyone = np.random.default_rng(count).permutation(count + 1) / (count + 1)
        covered = 0
        for new in range(count + 1):  # whoever is the new one; all are as likely
            threshold = conformal_threshold(np.delete(everyone, new), coverage)
            covered += everyone[new] <= threshold
        assert coverage <= covered / (count + 1) + 1e-12
        assert covered / (count + 1) < coverage + 1 / (count + 1)

    @pytest.mark.parametrize(("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.8, 4), (0.5, 1), (0.99, 99)])
    def test_as_many_labels_are_needed_as_the_rank_asks_for(self, coverage, needed):
        assert conformal_threshold(np.arange(needed), coverage) == needed - 1
        if needed > 1:
            with pytest.raises(InputError, match=f"coverage {coverage:g} needs {needed} held-out labels and there are"):
                conformal_threshold(np.arange(needed - 1), coverage)

    @pytest.mark.parametrize("coverage", [0, 1, -0.1, 1.5, float("nan")])
    def test_a_coverage_is_a_share(self, coverage):
        with pytest.raises(InputError, match=r"coverage is .*between 0 and 1"):
            conformal_threshold(np.arange(100), coverage)

    def test_sets_follow_from_the_labels_that_the_fit_was_not_shown(self, make_graph):
        graph = make_graph(nodes=300)
        given = with_labels(graph, range(60))
        probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 300)
        method = Knows(probabilities=probabilities)
        sets = prediction_sets(Model(given, method), 0.8, seed=1)
        assert len(sets.held_out) == 30
        assert method.shown == [set(range(60)) - set(sets.held_out.tolist())]
        told = np.sort(probabilities[sets.held_out, graph.labels[sets.held_out]])
        assert sets.least_probability == pytest.approx(told[30 - 25])  # the 25th of 30 from the top: ceil(31 · 0.8)
        free = np.arange(60, 300)
        expected = probabilities[free] >= sets.least_probability - 1e-12
        expected[np.arange(240), probabilities[free].argmax(1)] = True
        assert (sets.contains[free] == expected).all()
        assert (sets.contains[:60] == np.eye(3, dtype=bool)[graph.labels[:60]]).all()
        assert sets[0] == (graph.class_names[graph.labels[0]],)
        assert sets.sizes.min() == 1

    def test_they_cover_what_they_promise(self, make_graph):
        covered = []
        for seed in range(40):
            true, _, labels = drawn_beliefs(600, 3, seed, sharpness=1)
            graph = replace(make_graph(nodes=600), labels=labels)
            given = with_labels(graph, np.random.default_rng(seed).choice(600, 60, replace=False))
            sets = prediction_sets(Model(given, Knows(probabilities=true)), 0.8, seed=seed)
            free = np.flatnonzero(given.labels < 0)
            covered.append(sets.contains[free, labels[free]].mean())
        assert np.mean(covered) == pytest.approx(0.81, abs=0.03)  # between 0.8 and 0.8 + 1 / 31

    def test_too_few_labels_say_how_many_are_missing(self, make_graph):
        given = with_labels(make_graph(), range(6))
        with pytest.raises(
            InputError,
            match=r"coverage 0\.9 needs 9 labels to hold out, and of 6 given ones 3 can be spared.*"
            r"label 6 more nodes, or ask for at most 0\.75",
        ):
            prediction_sets(Model(given, Knows(probabilities=np.ones((40, 3)) / 3)))
        assert prediction_sets(Model(given, Knows(probabilities=np.ones((40, 3)) / 3)), 0.75).held_out.size == 3

    def test_methods_that_want_validation_labels_are_refused(self, make_graph):
        with pytest.raises(InputError, match="chooses by validation labels"):
            prediction_sets(Model(with_labels(make_graph(), range(30)), create("gcn+v")))

    @pytest.mark.slow
    @pytest.mark.data
    def test_on_cora(self):
        from mtgcn.datasets import load

        cora = load("cora")
        covered = []
        for seed in range(6):
            given = with_labels(cora, np.random.default_rng(seed).choice(cora.num_nodes, 140, replace=False))
            sets = prediction_sets(Model(given, create("lp")), 0.9, seed=seed)
            free = np.flatnonzero(given.labels < 0)
            covered.append(sets.contains[free, cora.labels[free]].mean())
        assert np.mean(covered) == pytest.approx(0.9, abs=0.05)


def ring(classes, linked_to_same):
    """60 nodes, each linked to two others that are of its class or of another."""
    labels = np.arange(60) % classes
    edges = np.zeros((60, 60))
    step = classes if linked_to_same else 1
    for node in range(60):
        edges[node, (node + step) % 60] = edges[(node + step) % 60, node] = 1
    return Graph(adjacency=edges, labels=labels)


class TestWarnings:
    def test_one_label_only(self, make_graph):
        graph = make_graph(classes=3)
        assert single_label_warning(with_labels(graph, [0, 3, 1, 4, 2, 5])) is None
        assert "Class '2': one label only" in single_label_warning(with_labels(graph, [0, 3, 1, 4, 2]))
        assert "Classes '0', '2': one label only" in single_label_warning(with_labels(graph, [0, 1, 4, 2]))

    def test_components_without_a_label(self):
        edges = np.zeros((30, 30))
        for start, end in ((0, 20), (20, 29)):
            for node in range(start, end - 1):
                edges[node, node + 1] = edges[node + 1, node] = 1
        labels = np.full(30, -1)
        labels[[0, 5, 9, 12]] = [0, 1, 0, 1]
        graph = Graph(adjacency=edges, labels=labels, node_ids=[f"n{number}" for number in range(30)])
        text = component_warning(graph)
        assert "10 of 30 nodes lie in 2 components without any label, the largest of 9 nodes (node n20" in text
        assert "guesses" in text
        assert "features alone" in component_warning(replace(graph, features=np.ones((30, 1))))
        labels[22] = 1
        assert component_warning(replace(graph, labels=labels)) is None  # one isolated node is not worth a warning

    def test_edges_that_join_different_classes(self):
        assert homophily_warning(ring(3, linked_to_same=True)) is None
        text = homophily_warning(ring(3, linked_to_same=False))
        assert text.startswith("Of 60 edges between given labels 0 join nodes of the same class, and chance alone")
        assert "would give 20" in text

    def test_two_edges_prove_nothing(self):
        graph = ring(3, linked_to_same=False)
        assert homophily_warning(with_labels(graph, [0, 1, 2])) is None
        assert homophily_warning(with_labels(graph, [0])) is None

    def test_predictions_that_do_not_follow_the_edges(self):
        graph = ring(3, linked_to_same=False)
        probabilities = np.eye(3)[graph.labels]
        assert predicted_homophily_warning(graph, probabilities).startswith("Only 0 % of all edges")
        assert predicted_homophily_warning(ring(3, linked_to_same=True), probabilities) is None
        assert predicted_homophily_warning(graph, np.eye(3)[np.zeros(60, dtype=int)]) is None  # that is collapse

    def test_predictions_that_collapse(self):
        graph = with_labels(ring(4, linked_to_same=True), range(8))
        assert collapse_warning(graph, np.eye(4)[np.arange(60) % 4]) is None
        predicted = np.zeros(60, dtype=int)
        predicted[8:10] = 1
        text = collapse_warning(graph, np.eye(4)[predicted])
        assert text.startswith("96 % of the nodes without a label are predicted as '0', though the labels show 4")

    def test_a_rare_class_is_no_collapse(self):
        labels = np.full(60, -1)
        labels[:10] = [0] * 9 + [1]
        graph = replace(ring(2, linked_to_same=True), labels=labels)
        assert collapse_warning(graph, np.eye(2)[(np.arange(60) == 9).astype(int)]) is None

    def test_a_good_fit_has_none_and_a_bad_one_says_it_once(self, make_graph):
        graph = make_graph(nodes=60, easy=True)
        assert model_warnings(Model(graph, label_distributions_=np.eye(3)[graph.labels])) == label_warnings(graph)
        odd = ring(3, linked_to_same=False)
        told = model_warnings(Model(odd, label_distributions_=np.eye(3)[odd.labels]))
        assert len([text for text in told if "little to do with each other" in text]) == 1
