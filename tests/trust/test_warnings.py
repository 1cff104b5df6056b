"""Warnings where they belong, and nowhere else."""

from dataclasses import replace

import numpy as np

from fitted_models import Model, with_labels
from mtgcn.graph import Graph
from mtgcn.trust.warnings import (
    collapse_warning,
    component_warning,
    homophily_warning,
    label_warnings,
    model_warnings,
    predicted_homophily_warning,
    single_label_warning,
)


def ring(classes, same_class):
    """60 nodes, each with edges to two others that are of its class or of another."""
    labels = np.arange(60) % classes
    edges = np.zeros((60, 60))
    step = classes if same_class else 1
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
        assert homophily_warning(ring(3, same_class=True)) is None
        text = homophily_warning(ring(3, same_class=False))
        assert text.startswith("Of 60 edges between given labels 0 join nodes of the same class, and chance alone")
        assert "would give 20" in text

    def test_two_edges_prove_nothing(self):
        graph = ring(3, same_class=False)
        assert homophily_warning(with_labels(graph, [0, 1, 2])) is None
        assert homophily_warning(with_labels(graph, [0])) is None

    def test_predictions_that_do_not_follow_the_edges(self):
        graph = ring(3, same_class=False)
        probabilities = np.eye(3)[graph.labels]
        assert predicted_homophily_warning(graph, probabilities).startswith("Only 0 % of all edges")
        assert predicted_homophily_warning(ring(3, same_class=True), probabilities) is None
        assert predicted_homophily_warning(graph, np.eye(3)[np.zeros(60, dtype=int)]) is None  # that is collapse

    def test_predictions_that_collapse(self):
        graph = with_labels(ring(4, same_class=True), range(8))
        assert collapse_warning(graph, np.eye(4)[np.arange(60) % 4]) is None
        predicted = np.zeros(60, dtype=int)
        predicted[8:10] = 1
        text = collapse_warning(graph, np.eye(4)[predicted])
        assert text.startswith("96 % of the nodes without a label are predicted as '0', though the labels show 4")

    def test_a_rare_class_is_no_collapse(self):
        labels = np.full(60, -1)
        labels[:10] = [0] * 9 + [1]
        graph = replace(ring(2, same_class=True), labels=labels)
        assert collapse_warning(graph, np.eye(2)[(np.arange(60) == 9).astype(int)]) is None

    def test_a_good_fit_has_none_and_a_bad_one_says_it_once(self, make_graph):
        graph = make_graph(nodes=60, easy=True)
        assert model_warnings(Model(graph, label_distributions_=np.eye(3)[graph.labels])) == label_warnings(graph)
        odd = ring(3, same_class=False)
        texts = model_warnings(Model(odd, label_distributions_=np.eye(3)[odd.labels]))
        assert len([text for text in texts if "little to do with each other" in text]) == 1
