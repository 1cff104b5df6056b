import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from fitted_models import Model, with_labels
from mtgcn.errors import GraphNote
from mtgcn.graph import Graph
from mtgcn.io.read import read_graph
from mtgcn.linalg.neighbours import neighbour_graph
from mtgcn.methods import create
from mtgcn.uncertainty.held_out import (
    ExpectedAccuracy,
    expected_accuracy,
    label_copies,
    predictive_columns,
    why_not_measurable,
)
from mtgcn.uncertainty.warnings import (
    chance_warning,
    collapse_warning,
    component_warning,
    copies_warning,
    homophily_warning,
    label_warnings,
    model_warnings,
    predicted_homophily_warning,
    single_label_warning,
    uneven_warning,
    unlike_columns_warning,
)


def ring(classes, same_class=True, nodes=60):
    """Nodes with two edges each, within classes or between them."""
    start = np.arange(nodes)
    edges = np.zeros((nodes, nodes))
    edges[start, (start + (classes if same_class else 1)) % nodes] = 1
    return Graph(adjacency=np.maximum(edges, edges.T), labels=start % classes)


def first_words(graph, probabilities):
    return [text.split()[0] for text in model_warnings(Model(graph, label_distributions_=probabilities))]


@pytest.mark.parametrize(("share", "warns"), [(0.0, True), (0.9, False)])
def test_accuracy_of_chance(share, warns):
    graph = ring(3)
    model = Model(
        graph, label_distributions_=np.eye(3)[graph.labels], expected_accuracy_=ExpectedAccuracy.of(share, 30, 5)
    )
    text = chance_warning(model)
    assert (text is not None and "is no better than guessing one of 3 classes" in text) == warns
    assert (text in model_warnings(model)) == warns


@pytest.mark.parametrize(
    ("labelled", "start"),
    [
        ([0, 3, 1, 4, 2, 5], None),
        ([0, 3, 1, 4, 2], "Class '2': one label only"),
        ([0, 1, 4, 2], "Classes '0', '2': one label only"),
    ],
)
def test_single_label(make_graph, labelled, start):
    text = single_label_warning(with_labels(make_graph(), labelled))
    assert text is None if start is None else text.startswith(start)


def test_components_without_a_label():
    edges = np.diag(np.ones(29), 1)
    edges[19, 20] = edges[28, 29] = 0  # paths of 20 and of 9 nodes, and one isolated node
    labels = np.full(30, -1)
    labels[[0, 5, 9, 12]] = [0, 1, 0, 1]
    graph = Graph(adjacency=edges + edges.T, labels=labels, node_ids=[f"n{number}" for number in range(30)])
    text = component_warning(graph)
    assert "10 of 30 nodes lie in 2 components without any label, the largest of 9 nodes (with node n20" in text
    assert "guesses" in text
    assert "features alone" in component_warning(replace(graph, features=np.ones((30, 1))))
    labels[22] = 1
    assert component_warning(replace(graph, labels=labels)) is None  # one isolated node is left
    labels[[22, 29]] = -1, 1
    text = component_warning(replace(graph, labels=labels))
    assert text.startswith("9 of 30 nodes lie in a component without any label (with node n20)")


def test_small_components_without_a_label():
    edges = np.zeros((100, 100))
    edges[:90, :90] = ring(1, nodes=90).adjacency.toarray()
    pairs = np.arange(90, 100, 2)
    edges[pairs, pairs + 1] = edges[pairs + 1, pairs] = 1
    labels = np.full(100, -1)
    labels[[0, 1, 50, 51]] = [0, 1, 0, 1]
    graph = Graph(adjacency=edges, labels=labels)
    assert component_warning(graph).startswith("10 of 100 nodes lie in 5 components without any label")
    edges[89, 90] = edges[90, 89] = 1
    assert component_warning(replace(graph, adjacency=edges)) is None


@pytest.mark.parametrize(
    ("graph", "start"),
    [
        (ring(3), None),
        (
            ring(3, same_class=False),
            "0 of 60 edges between labelled nodes join nodes of the same class, and chance alone would give 20:",
        ),
        (replace(ring(1), labels=np.arange(60) // 2 % 2, class_names=("a", "b")), "30 of 60 edges"),
        (replace(ring(1), labels=np.arange(60) // 3 % 2, class_names=("a", "b")), None),
        (with_labels(ring(3, same_class=False), [0, 1, 2]), None),  # few edges are no evidence
        (with_labels(ring(3, same_class=False), [0]), None),
    ],
)
def test_homophily(graph, start):
    text = homophily_warning(graph)
    assert text is None if start is None else text.startswith(start)


@pytest.mark.parametrize(
    ("graph", "predicted", "start"),
    [
        (ring(3, same_class=False), np.arange(60) % 3, "Only 0 % of all edges join nodes predicted as the same class"),
        (ring(3), np.arange(60) % 3, None),
        (ring(3, same_class=False), np.zeros(60, dtype=int), None),  # a collapse
        (ring(2, same_class=False), np.arange(60) // 3 % 2, "Only 67 % of all edges join nodes"),
        (ring(2, same_class=False), np.arange(60) // 5 % 2, None),
    ],
)
def test_predicted_homophily(graph, predicted, start):
    text = predicted_homophily_warning(graph, np.eye(graph.num_classes)[predicted])
    assert text is None if start is None else text.startswith(start)


def test_homophily_is_reported_once(make_graph):
    graph = make_graph(nodes=60, easy=True)
    assert model_warnings(Model(graph, label_distributions_=np.eye(3)[graph.labels])) == label_warnings(graph)
    odd = ring(3, same_class=False)
    texts = model_warnings(Model(odd, label_distributions_=np.eye(3)[odd.labels]))
    assert len([text for text in texts if "little homophily" in text]) == 1


def test_collapse():
    graph, predicted = with_labels(ring(4), range(8)), np.zeros(60, dtype=int)
    predicted[8:10] = 1
    text = collapse_warning(graph, np.eye(4)[predicted])
    assert text.startswith("96 % of the nodes without a label are predicted as '0', though the labels show 4")
    assert collapse_warning(graph, np.eye(4)[np.arange(60) % 4]) is None
    assert collapse_warning(ring(3), np.eye(3)[np.zeros(60, dtype=int)]) is None  # all nodes are labelled
    rare = replace(ring(2), labels=np.where(np.arange(60) < 10, np.arange(60) == 9, -1))
    assert collapse_warning(rare, np.eye(2)[(np.arange(60) == 9).astype(int)]) is None
    assert uneven_warning(rare, np.eye(2)[(np.arange(60) == 9).astype(int)]).startswith("100 % of the nodes without a")
    assert uneven_warning(rare, np.eye(2)[np.arange(60) % 4 // 3]) is None  # 75 %


def test_missing_class():
    graph, predicted = with_labels(ring(3), range(9)), np.arange(60) % 2
    assert collapse_warning(graph, np.eye(3)[predicted]) == (
        "None of the 51 nodes without a label is predicted as '2', of which 3 labels were given; look at these "
        "labels, or give more of them."
    )
    predicted[30] = 2
    assert collapse_warning(graph, np.eye(3)[predicted]) is None


def unlike_columns(table, names=()):
    return unlike_columns_warning(replace(ring(3), features=table, feature_names=names))


def test_dominant_columns():
    random = np.random.default_rng(0)
    table = random.normal(3, 1, (60, 8))
    assert unlike_columns(table) is None
    table[:, 2] = random.normal(45000, 9000, 60)
    text = unlike_columns(table, tuple("abcdefgh"))
    assert text.startswith("Column 'c' of size 4.")
    assert "and 7 others of about 3." in text
    assert "StandardScaler" in text
    assert unlike_columns(table).startswith("Column 2 of size")
    table[:, 5] = random.normal(30000, 9000, 60)
    assert unlike_columns(table, tuple("abcdefgh")).startswith("Columns 'c', 'f' of size")
    assert unlike_columns((table - table.mean(axis=0)) / table.std(axis=0)) is None


@pytest.mark.parametrize(
    ("row", "is_unlike"),
    [([45000, 3], True), ([45000], False), ([0, 0, 0], False), ([19.5, 1], False), ([20.5, 1], True)],
)
def test_few_columns(row, is_unlike):
    table = np.tile(np.array(row, dtype=float), (60, 1))
    assert (unlike_columns(table) is not None) == is_unlike
    assert unlike_columns(sp.csr_array(table)) is None


def test_sparse_columns_are_not_checked():
    random = np.random.default_rng(0)
    often = np.array([0.9, *np.full(99, 0.01)])
    words = (random.random((60, 100)) < often) * random.integers(1, 50, (60, 100))
    assert unlike_columns(words) is None
    assert unlike_columns(None) is None


def test_causes_come_first():
    graph = with_labels(ring(3, same_class=False), [0, 4, 8, 13, 17, 21])
    unlike = replace(graph, features=np.tile([45000.0, 3.0, 1.0, 2.0], (60, 1)))
    probabilities = np.eye(3)[np.arange(60) % 3]
    assert first_words(unlike, probabilities) == ["Column"]
    assert first_words(graph, probabilities)[-1] == "Only"
    missing = np.where(probabilities[:, 2:] == 1, [1, 0, 0], probabilities)
    assert first_words(unlike, missing) == ["Column", "None"]


def copied(graph, kind, labelled=36):
    """The graph with `labelled` labels and a last column made from them."""
    random, labels, known = np.random.default_rng(0), graph.labels, np.arange(graph.num_nodes) < labelled
    if kind == "one-hot":
        column = np.eye(3)[labels] * known[:, None]
    else:
        elsewhere = {"filled": 7.0, "mark": 0, "telling": labels}.get(kind, random.permutation(labels))
        column = np.where(known, 1 if kind == "mark" else labels, elsewhere)[:, None]
        column = column + {"noisy": 0.01, "telling": 0.1}.get(kind, 0) * random.normal(size=column.shape)
    features = np.concatenate([graph.features.toarray(), column], axis=1)
    return replace(with_labels(graph, np.flatnonzero(known)), features=sp.csr_array(features))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    ("kind", "labelled", "copies"),
    [
        *((kind, 36, 1) for kind in ("filled", "mark", "permuted", "noisy")),
        *(("one-hot", 36, 3), ("telling", 36, 0), ("permuted", 6, 0)),
    ],
)
def test_copies_of_the_labels(make_graph, kind, labelled, copies, dense):
    graph = copied(make_graph(nodes=120, features=8), kind, labelled)
    graph = replace(graph, features=graph.features.toarray()) if dense else graph
    assert label_copies(graph).tolist() == list(range(8, 8 + copies))
    assert (copies_warning(graph) or "").startswith("Column" if copies else "")


@pytest.mark.parametrize("metric", [None, "euclidean", "cosine"])
def test_expected_accuracy_without_copies(make_graph, metric):
    graph = copied(make_graph(nodes=120, features=8), "filled")
    plain, method = replace(graph, features=graph.features[:, :8]), create("sgc")
    if metric is not None:  # edges between neighbours, which are a copy, too
        graph = replace(graph, adjacency=neighbour_graph(graph.features, 5, metric))
        plain = replace(plain, adjacency=neighbour_graph(plain.features, 5, metric))
    assert expected_accuracy(graph, method, seed=0) == expected_accuracy(plain, method, seed=0)


def test_copied_category_is_named(tmp_path):
    classes = np.array(["bee", "ant", "cat"])[np.arange(90) % 3]
    rows = [f"n{i},{i * 7 % 11},{classes[i]},{classes[i]}" if i < 30 else f"n{i},{i * 7 % 11},," for i in range(90)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,a,kind,label", *rows]))
    graph = read_graph(nodes=tmp_path / "nodes.csv", knn=3)
    assert {graph.feature_names[column] for column in label_copies(graph)} >= {"kind=ant", "kind=bee", "kind=cat"}
    assert copies_warning(graph).startswith("Column 'kind' (30 of 30 labels) predicts label alone: is it a copy?")


@pytest.mark.parametrize(
    ("answers", "wrong", "told"),
    [
        (["yes", "no"], 0, 40),  # one to one
        (["yes", "no"], 2, 38),  # nearly
        (["yes", "no"], 6, None),
        (["a b", "c d"], 0, 40),  # several values for each class
    ],
)
def test_column_that_predicts_the_target(tmp_path, answers, wrong, told):
    generator, rows = np.random.default_rng(0), []
    for row in range(120):
        survived = row % 2
        own = answers[survived ^ (row < wrong)].split()
        rows.append(f"{generator.normal():.2f},{own[row // 2 % len(own)]},{survived if row < 40 else ''}")
    (tmp_path / "t.csv").write_text("\n".join(["age,alive,survived", *rows, ""]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GraphNote)
        graph = read_graph(nodes=tmp_path / "t.csv", knn=3)
    assert predictive_columns(graph) == ({} if told is None else {"alive": told})
    start = None if told is None else f"Column 'alive' ({told} of 40 labels) predicts survived alone: is it a copy?"
    assert (copies_warning(graph) or "").startswith(start or "")
    left_out = {graph.feature_names[column].partition("=")[0] for column in label_copies(graph)}
    assert left_out == ({"alive"} if told == 40 else set())


def test_copies_alone_tell_no_accuracy(make_graph):
    graph = copied(replace(make_graph(nodes=120, features=8), adjacency=np.zeros((120, 120))), "filled")
    graph = replace(graph, features=graph.features[:, 8:])
    assert why_not_measurable(graph, create("logistic")) == "every column looks like a copy of the labels"
