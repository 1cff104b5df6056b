import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
import scipy.sparse as sp

from fitted_models import Model, with_labels
from mtgcn.errors import InputError
from mtgcn.estimator.graph_model import GraphModel
from mtgcn.estimator.persistence import load_model
from mtgcn.graph import Graph
from mtgcn.uncertainty import suggestions
from mtgcn.uncertainty.suggestions import (
    centrality,
    choose,
    first_suggestions,
    smoothed_features,
    suggest,
    uncertainty_of,
)
from weighted_peers import made_up_report

ONE, OTHER = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))


def model_of(graph, probabilities, peers=None, weights=None):
    names = ("features", "near neighbourhood", "far neighbourhood")
    report = None
    if weights is not None:
        report = made_up_report(weights, names[: len(weights)], held_out=(0.5,) * len(weights))
    return Model(graph, None, probabilities, peers, report)


def labelled(graph, labels_of):
    labels = np.full(graph.num_nodes, -1)
    labels[list(labels_of)] = list(labels_of.values())
    return replace(graph, labels=labels)


@pytest.fixture
def three_labels(make_graph):
    """40 nodes of three classes, the first three labelled."""
    return with_labels(make_graph(), range(3))


def blocks(sizes, labels_of, joined=False):
    """Complete components of these sizes with distinct features, and the component of each node."""
    number = np.repeat(np.arange(len(sizes)), sizes)
    edges = (number[:, None] == number).astype(float) - np.eye(len(number))
    if joined:  # into one component
        first = np.cumsum([0, *sizes[:-1]])
        edges[first[:-1], first[1:]] = edges[first[1:], first[:-1]] = 1
    rows = np.eye(len(sizes))[number] + np.random.default_rng(0).normal(size=(len(number), len(sizes))) * 0.05
    return number, labelled(Graph(edges, rows, class_names=("a", "b")), labels_of)


def test_uncertainty_is_entropy_and_disagreement():
    peers = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    half = np.full((2, 2), 0.5)
    three_to_one = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25))
    # Both means are uniform; the peers disagree on the first node, which adds 1.
    np.testing.assert_allclose(uncertainty_of(half, peers[:2]), [2, 1])
    np.testing.assert_allclose(uncertainty_of(half, None), [1, 1])
    np.testing.assert_allclose(uncertainty_of(np.array([[1.0, 0.0]]), None), [0])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0.75, 0.25, 0])), [1 + three_to_one, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0, 0.25, 0.75])), [1, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.full(3, 1 / 3)), uncertainty_of(half, peers, None))
    # The weighted mean is (3/4, 1/4), and a quarter of the weight has entropy 1.
    unlike, weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]]), np.array([0.625, 0.125, 0.25])
    np.testing.assert_allclose(uncertainty_of(half[:1], unlike, weights), [1 + three_to_one - 0.25])


def test_suggestions_use_the_weights(three_labels):
    alone = suggest(model_of(three_labels, ONE, ONE[None]), 2)
    weighted = suggest(model_of(three_labels, ONE, np.stack([ONE, OTHER]), (1.0, 0.0)), 2)
    assert [one.score for one in weighted] == pytest.approx([one.score for one in alone])


def test_components_without_a_label_come_first():
    number, graph = blocks([20, 40, 2, 18], {20: 0, 21: 1})
    probabilities = np.where((number == 1)[:, None], 0.5, [0.99, 0.01])
    found = suggest(model_of(graph, probabilities), 3)
    assert [number[one.index] for one in found[:2]] == [0, 3]
    assert found[0].reason.startswith("Its component of 20 nodes has no label; ")
    assert "component" not in found[2].reason  # the component of two nodes is small


def test_uncertain_regions_come_first():
    number, graph = blocks([20, 20, 20, 20], {0: 0, 1: 1}, joined=True)
    probabilities = np.where((number == 2)[:, None], [0.55, 0.45], [0.98, 0.02])
    (first,) = suggest(model_of(graph, probabilities), 1)
    assert (number[first.index], first.predicted) == (2, "a")
    assert first.reason.endswith("it may be 'a' (55 %) or 'b' (45 %).")
    assert first.score > 0


def test_labelled_regions_are_skipped():
    number, graph = blocks([20, 20, 20], {0: 0, 20: 1}, joined=True)
    (first,) = suggest(model_of(graph, np.full((60, 2), 0.5)), 1)
    assert number[first.index] == 2
    (first,) = suggest(model_of(graph, np.tile([1.0, 0.0], (60, 1))), 1)
    assert re.match("It represents .* similar nodes without a label, 0 of them uncertain", first.reason)
    assert first.score == 0


def test_neighbours_are_avoided(make_graph):
    graph = with_labels(make_graph(nodes=60), range(6))
    model = model_of(graph, np.random.default_rng(0).dirichlet(np.ones(3), 60))
    chosen = [one.index for one in suggest(model, 5)]
    assert graph.adjacency[chosen][:, chosen].nnz == 0
    assert sorted(one.index for one in suggest(model, 54)) == list(range(6, 60))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (None, "the peers disagree: '0' or '1'."),
        ((0.5, 0.1, 0.4), "it may be '0' ("),  # the second peer has little weight
        ((0.3, 0.6, 0.1), "the peers disagree: '1' or '0'."),
    ],
)
def test_reason_names_disagreeing_peers(three_labels, weights, expected):
    peers = np.stack([ONE, OTHER, ONE])
    found = suggest(model_of(three_labels, np.average(peers, axis=0, weights=weights), peers, weights), 2)
    assert all(expected in one.reason for one in found)


@pytest.mark.parametrize("ids", [np.array([f"paper {number}" for number in range(40)]), np.arange(40) * 7])
def test_ids_keep_their_type(three_labels, ids):
    found = suggest(model_of(replace(three_labels, node_ids=ids), np.full((40, 3), 1 / 3)), 4)
    assert [one.node for one in found] == [ids[one.index] for one in found]
    assert json.loads(json.dumps([asdict(one) for one in found]))[0]["node"] == found[0].node


def test_centrality_is_pagerank():
    star = np.zeros((5, 5))
    star[0, 1:4] = star[1:4, 0] = 1  # and one node without edges
    leave = star / np.maximum(star.sum(axis=0), 1)
    expected = np.linalg.solve(np.eye(5) - 0.85 * leave, np.full(5, 0.15 / 5))
    np.testing.assert_allclose(centrality(Graph(star)), expected, rtol=1e-3)


def chosen_node(graph, central):
    """The one node that is chosen where features are 0 to 39; without classes, one is chosen in a round."""
    features, none = np.arange(40.0)[:, None], np.array([], dtype=int)
    (choice,) = choose(graph, features, central, np.ones(40), none, np.ones(40, dtype=bool), 1)
    return choice.node


def test_centre_is_an_eighth_of_the_region():
    graph = Graph(adjacency=np.ones((40, 40)) - np.eye(40), features=np.ones((40, 2)))
    central = [node for node in range(40) if chosen_node(graph, (np.arange(40) == node).astype(float)) == node]
    assert central == [17, 18, 19, 20, 21]  # 17 and 22 are equally far from 19.5


@pytest.mark.parametrize("count", [0, -1, 38])
def test_count_is_checked(three_labels, count):
    with pytest.raises(InputError, match=f"count is {count}; give at least 1 and at most 37"):
        suggest(model_of(three_labels, ONE), count)


def test_degenerate_graphs(make_graph):
    edges, names = make_graph().adjacency, ("a", "b", "c")
    for graph in (
        make_graph(unreached=True),
        Graph(adjacency=edges, class_names=names),  # without features
        Graph(adjacency=np.zeros((40, 40)), features=np.ones((40, 2)), class_names=names),
        Graph(adjacency=edges, features=np.zeros((40, 2)), class_names=names),
        make_graph(weighted=True, sparse=False, features=70),
    ):
        for probabilities in (np.full((40, 3), 1 / 3), np.eye(3)[np.arange(40) % 3]):
            found = suggest(model_of(labelled(graph, {0: 0, 1: 1, 2: 2}), probabilities), 7)
            assert len({one.index for one in found} - {0, 1, 2}) == 7
            assert np.isfinite([one.score for one in found]).all()
            assert all(one.reason.endswith(".") for one in found)


def test_large_graphs_are_sampled(make_graph, monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_CLUSTERED_NODES", 30)
    graph = with_labels(make_graph(nodes=200, easy=True), range(3))
    probabilities = np.where((np.arange(200) >= 150)[:, None], 1 / 3, [1.0, 0.0, 0.0])
    assert {one.index >= 150 for one in suggest(model_of(graph, probabilities), 4)} == {True}


def test_smoothed_features():
    path = Graph(adjacency=np.diag([1.0, 1], 1) + np.diag([1.0, 1], -1), features=np.eye(3)[:, :2])
    walk = np.array([[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]])
    rows = walk @ walk @ np.eye(3)[:, :2]
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(smoothed_features(path), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):  # cached
        smoothed_features(path)[0, 0] = 0


@pytest.mark.parametrize("features", [True, False])
def test_more_suggestions_extend_fewer(make_graph, features):
    graph = with_labels(make_graph(nodes=120, unreached=True), range(3))
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), 120)
    model = model_of(graph if features else replace(graph, features=None), probabilities)
    every = suggest(model, 117)
    assert len({one.index for one in every}) == 117
    for count in (1, 2, 3, 4, 10, 11, 50):
        assert suggest(model, count) == every[:count], count


def test_notebook_table():
    _, graph = blocks([6, 6], {0: 0, 6: 1})
    graph = replace(graph, node_ids=[f"<b>{number}" for number in range(12)])
    found = suggest(model_of(graph, np.full((12, 2), 0.5)), 2)
    html = found._repr_html_()
    assert html.count("<tr>") == 3
    assert f"<td>&lt;b&gt;{found[0].index}</td><td>a</td>" in html
    assert "<b>" not in html


# ---------------------------------------------------------------------------------------------------- without a model


def first(graph, count, labelled=(), free=None):
    free = np.ones(graph.num_nodes, dtype=bool) if free is None else free
    return first_suggestions(graph, np.array(labelled, dtype=np.int64), free, count)


def first_nodes(graph, count, labelled=(), free=None):
    return [one.index for one in first(graph, count, labelled, free)]


def wheels(sizes):
    """Wheels of nodes with similar features: a ring, and a hub joined to all its nodes; and the wheel of each node."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    edges = sp.lil_array((len(group), len(group)))
    for number in range(len(sizes)):
        members = np.flatnonzero(group == number)
        for one, other in zip(members, np.roll(members, 1), strict=True):
            edges[one, other] = edges[other, one] = 1
            if one != members[0]:
                edges[one, members[0]] = edges[members[0], one] = 1
    noise = np.random.default_rng(0).standard_normal((len(group), len(sizes)))
    return Graph(edges, np.eye(len(sizes))[group] + 0.1 * noise), group


@pytest.fixture
def three_wheels():
    return wheels([40, 20, 30])


def test_first_suggestions_are_hubs_of_the_largest_groups(three_wheels):
    graph, group = three_wheels
    assert first_nodes(graph, 3) == [0, 60, 40]
    assert group[first_nodes(graph, 1, labelled=[7])] == [2]  # the largest is covered


def test_first_suggestions_are_greedy(three_wheels):
    graph, _ = three_wheels
    many = first_nodes(graph, 8)
    free = np.ones(graph.num_nodes, dtype=bool)
    for number in range(8):
        assert first_nodes(graph, 8 - number, many[:number], free) == many[number:]
        free[many[number]] = False


def test_first_suggestions_are_free_nodes():
    graph, _ = wheels([6, 6])
    assert sorted(first_nodes(graph, 100, free=np.arange(12) % 2 == 1)) == [1, 3, 5, 7, 9, 11]


def test_first_reasons(three_wheels):
    graph, _ = three_wheels
    assert first(graph, 1)[0].reason.endswith("similar nodes without a label; it has 39 neighbours.")
    assert "labels already" in first(graph, 1, range(89), np.arange(90) == 89)[0].reason


def test_first_suggestions_include_isolated_nodes():
    graph, _ = wheels([10, 10])
    isolated = sp.block_diag([graph.adjacency, sp.csr_array((3, 3))]).tocsr()
    features = np.concatenate([graph.features, np.zeros((3, 2))])
    assert sorted(first_nodes(Graph(isolated, features), 23)) == list(range(23))
    assert first_nodes(Graph(isolated), 2)


def test_first_suggestions_ignore_labels():
    graph, group = wheels([12, 12])
    assert first_nodes(graph, 5) == first_nodes(Graph(graph.adjacency, graph.features, labels=group), 5)


def test_first_suggestions_sample_large_graphs(monkeypatch, three_wheels):
    monkeypatch.setattr(suggestions, "MAX_COMPARED_NODES", 30)
    graph, group = three_wheels
    found = first(graph, 3)
    assert set(group[[one.index for one in found]]) == {0, 1, 2}
    assert found[0].score > 10  # in nodes of the graph, not of the sample
    assert len(first_nodes(graph, 60)) == 60  # more than are compared
    assert len(set(suggestions._sample_and_bandwidth(graph)[0].tolist())) == 30


# ----------------------------------------------------------------------------------------------------- doubtful labels

FLIPPED = (4, 13)


@pytest.fixture(scope="module")
def flipped(make_graph):
    """60 nodes of 3 classes, 8 labels of each, of which two are wrong."""
    graph = with_labels(make_graph(nodes=60, easy=True), range(24))
    labels = np.where(np.isin(np.arange(60), FLIPPED), (graph.labels + 1) % 3, graph.labels)
    return GraphModel(random_state=0).fit_graph(graph.with_labels(labels))


def test_flipped_labels_come_first(flipped, tmp_path):
    found = flipped.doubtful_labels(None)
    assert {one.index for one in found[:2]} == set(FLIPPED)
    assert sorted(one.index for one in found) == list(range(24))
    first = found[0]
    assert (first.label, first.predicted) == (str((first.index + 1) % 3), str(first.index % 3))
    assert first.probability < 0.5 < first.predicted_probability
    near = flipped.graph_.adjacency[[first.index]].indices
    unlike = int((near % 3 != (first.index + 1) % 3).sum())
    assert f"{unlike} of its {len(near)} neighbours are not {first.label!r}" in first.reason
    assert found[-1].reason.startswith("Without its label it is also predicted as")
    assert found._repr_html_().count("<tr>") == 25
    flipped.save(tmp_path / "model")
    assert load_model(tmp_path / "model").doubtful_labels(5) == found[:5]


def test_count_of_doubtful_labels_is_checked(flipped):
    with pytest.raises(InputError, match="count is 0"):
        flipped.doubtful_labels(0)
