from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from fitted_models import Model, with_labels
from mtgcn.graph import Graph
from mtgcn.uncertainty.warnings import (
    collapse_warning,
    component_warning,
    homophily_warning,
    label_warnings,
    model_warnings,
    predicted_homophily_warning,
    single_label_warning,
    unlike_columns_warning,
)


def ring(classes, same_class):
    """60 nodes with two edges each, within classes or between them."""
    labels = np.arange(60) % classes
    edges = np.zeros((60, 60))
    step = classes if same_class else 1
    for node in range(60):
        edges[node, (node + step) % 60] = edges[(node + step) % 60, node] = 1
    return Graph(adjacency=edges, labels=labels)


class TestWarnings:
    def test_single_label(self, make_graph):
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
        assert "10 of 30 nodes lie in 2 components without any label, the largest of 9 nodes (with node n20" in text
        assert "guesses" in text
        assert "features alone" in component_warning(replace(graph, features=np.ones((30, 1))))
        labels[22] = 1
        assert component_warning(replace(graph, labels=labels)) is None  # one isolated node is left

    def test_small_components_without_a_label(self):
        edges = np.zeros((100, 100))
        for node in range(90):
            edges[node, (node + 1) % 90] = edges[(node + 1) % 90, node] = 1
        for node in range(90, 100, 2):  # five pairs
            edges[node, node + 1] = edges[node + 1, node] = 1
        labels = np.full(100, -1)
        labels[[0, 1, 50, 51]] = [0, 1, 0, 1]
        graph = Graph(adjacency=edges, labels=labels)
        assert component_warning(graph).startswith("10 of 100 nodes lie in 5 components without any label")
        edges[89, 90] = edges[90, 89] = 1
        assert component_warning(replace(graph, adjacency=edges)) is None

    def test_edges_between_classes(self):
        assert homophily_warning(ring(3, same_class=True)) is None
        text = homophily_warning(ring(3, same_class=False))
        assert text.startswith(
            "0 of 60 edges between labelled nodes join nodes of the same class, and chance alone would give 20"
        )

    def test_homophily_threshold(self):
        around = ring(1, same_class=True).adjacency
        text = homophily_warning(Graph(around, labels=np.arange(60) // 2 % 2))
        assert text.startswith(
            "30 of 60 edges between labelled nodes join nodes of the same class, and chance alone would give"
        )
        assert homophily_warning(Graph(around, labels=np.arange(60) // 3 % 2)) is None

    def test_predicted_homophily_threshold(self):
        graph = Graph(ring(1, same_class=True).adjacency, labels=np.arange(60) % 2)
        two_of_three, four_of_five = (np.eye(2)[np.arange(60) // length % 2] for length in (3, 5))
        assert predicted_homophily_warning(graph, two_of_three).startswith("Only 67 % of all edges join nodes")
        assert predicted_homophily_warning(graph, four_of_five) is None

    def test_few_edges_are_no_evidence(self):
        graph = ring(3, same_class=False)
        assert homophily_warning(with_labels(graph, [0, 1, 2])) is None
        assert homophily_warning(with_labels(graph, [0])) is None

    def test_predicted_homophily(self):
        graph = ring(3, same_class=False)
        probabilities = np.eye(3)[graph.labels]
        assert predicted_homophily_warning(graph, probabilities).startswith("Only 0 % of all edges")
        assert predicted_homophily_warning(ring(3, same_class=True), probabilities) is None
        assert predicted_homophily_warning(graph, np.eye(3)[np.zeros(60, dtype=int)]) is None  # a collapse

    def test_collapse(self):
        graph = with_labels(ring(4, same_class=True), range(8))
        assert collapse_warning(graph, np.eye(4)[np.arange(60) % 4]) is None
        predicted = np.zeros(60, dtype=int)
        predicted[8:10] = 1
        text = collapse_warning(graph, np.eye(4)[predicted])
        assert text.startswith("96 % of the nodes without a label are predicted as '0', though the labels show 4")

    def test_rare_class_is_no_collapse(self):
        labels = np.full(60, -1)
        labels[:10] = [0] * 9 + [1]
        graph = replace(ring(2, same_class=True), labels=labels)
        assert collapse_warning(graph, np.eye(2)[(np.arange(60) == 9).astype(int)]) is None

    def test_homophily_is_reported_once(self, make_graph):
        graph = make_graph(nodes=60, easy=True)
        assert model_warnings(Model(graph, label_distributions_=np.eye(3)[graph.labels])) == label_warnings(graph)
        odd = ring(3, same_class=False)
        texts = model_warnings(Model(odd, label_distributions_=np.eye(3)[odd.labels]))
        assert len([text for text in texts if "little homophily" in text]) == 1

    def test_missing_class(self):
        graph = with_labels(ring(3, same_class=True), range(9))
        predicted = np.arange(60) % 2
        text = collapse_warning(graph, np.eye(3)[predicted])
        assert text == (
            "None of the 51 nodes without a label is predicted as '2', of which 3 labels were given; look at these "
            "labels, or give more of them."
        )
        predicted[30] = 2
        assert collapse_warning(graph, np.eye(3)[predicted]) is None

    def test_no_collapse_where_all_nodes_are_labelled(self):
        graph = ring(3, same_class=True)
        assert collapse_warning(graph, np.eye(3)[np.zeros(60, dtype=int)]) is None


class TestUnlikeColumns:
    def graph(self, table, names=()):
        return replace(ring(3, same_class=True), features=table, feature_names=names)

    def test_dominant_columns(self):
        random = np.random.default_rng(0)
        table = random.normal(3, 1, (60, 8))
        assert unlike_columns_warning(self.graph(table)) is None
        table[:, 2] = random.normal(45000, 9000, 60)
        text = unlike_columns_warning(self.graph(table, tuple("abcdefgh")))
        assert text.startswith("Column 'c' of size 4.")
        assert "and 7 others of about 3." in text
        assert "StandardScaler" in text
        assert unlike_columns_warning(self.graph(table)).startswith("Column 2 of size")
        table[:, 5] = random.normal(30000, 9000, 60)
        assert unlike_columns_warning(self.graph(table, tuple("abcdefgh"))).startswith("Columns 'c', 'f' of size")
        scaled = (table - table.mean(axis=0)) / table.std(axis=0)
        assert unlike_columns_warning(self.graph(scaled)) is None

    def test_wine_and_digits(self):
        from sklearn.datasets import load_digits, load_wine

        wine, digits = load_wine().data[:60], load_digits().data[:60]
        assert "rows are compared as a whole" in unlike_columns_warning(self.graph(wine))
        assert unlike_columns_warning(self.graph(digits)) is None

    def test_few_columns(self):
        table = np.tile([45000.0, 3.0], (60, 1))
        assert unlike_columns_warning(self.graph(table)) is not None
        assert unlike_columns_warning(self.graph(table[:, :1])) is None
        assert unlike_columns_warning(self.graph(np.zeros((60, 3)))) is None

    def test_size_ratio(self):
        assert unlike_columns_warning(self.graph(np.tile([19.5, 1.0], (60, 1)))) is None
        assert unlike_columns_warning(self.graph(np.tile([20.5, 1.0], (60, 1)))).startswith("Column 0 of size 20.5")

    def test_sparse_columns_are_not_checked(self):
        random = np.random.default_rng(0)
        often = np.array([0.9, *np.full(99, 0.01)])
        words = (random.random((60, 100)) < often) * random.integers(1, 50, (60, 100))
        assert unlike_columns_warning(self.graph(words)) is None
        assert unlike_columns_warning(self.graph(sp.csr_array(np.tile([45000.0, 3.0], (60, 1))))) is None
        assert unlike_columns_warning(replace(ring(3, same_class=True), features=None)) is None


class TestOrder:
    def test_causes_come_first(self):
        graph = with_labels(ring(3, same_class=False), [0, 4, 8, 13, 17, 21])
        unlike = replace(graph, features=np.tile([45000.0, 3.0, 1.0, 2.0], (60, 1)))
        probabilities = np.eye(3)[np.arange(60) % 3]
        texts = model_warnings(Model(unlike, label_distributions_=probabilities))
        assert [text.split()[0] for text in texts] == ["Column"]
        texts = model_warnings(Model(graph, label_distributions_=probabilities))
        assert texts[-1].startswith("Only 0 % of all edges join nodes predicted as the same class")
        missing = probabilities.copy()
        missing[missing[:, 2] == 1] = [1, 0, 0]
        texts = model_warnings(Model(replace(unlike, labels=graph.labels), label_distributions_=missing))
        assert [text.split()[0] for text in texts] == ["Column", "None"]

    def test_components_come_before_homophily(self):
        odd = ring(3, same_class=False)
        labels = np.where(np.arange(60) < 40, odd.labels, -1)
        edges = odd.adjacency.toarray()
        edges[40:, 40:] = edges[:40, 40:] = edges[40:, :40] = 0
        graph = Graph(edges, labels=labels)
        texts = model_warnings(Model(graph, label_distributions_=np.eye(3)[odd.labels]))
        assert [text.split()[0] for text in texts] == ["20", "0"]
