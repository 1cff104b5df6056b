import json
import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn.errors import InputError
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


@dataclass(frozen=True)
class Model:
    """The attributes of a fitted estimator."""

    graph_: Graph
    label_distributions_: Any
    peer_distributions_: Any = None
    peer_report_: Any = None
    method_: Any = None
    history_: Any = field(default_factory=dict)


def blocks(sizes, features=True):
    """Complete components of these sizes, with distinct features."""
    number = np.repeat(np.arange(len(sizes)), sizes)
    edges = (number[:, None] == number).astype(float) - np.eye(len(number))
    rows = np.eye(len(sizes))[number] + np.random.default_rng(0).normal(size=(len(number), len(sizes))) * 0.05
    return number, Graph(adjacency=edges, features=rows if features else None, class_names=("a", "b"))


def labelled(graph, labels_of):
    labels = np.full(graph.num_nodes, -1)
    for node, label in labels_of.items():
        labels[node] = label
    return replace(graph, labels=labels)


def test_uncertainty_is_entropy_and_disagreement():
    peers = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    # Both means are uniform; the peers disagree on the first node, which adds 1.
    np.testing.assert_allclose(uncertainty_of(peers.mean(0), peers), [2, 1])
    np.testing.assert_allclose(uncertainty_of(peers.mean(0), None), [1, 1])
    np.testing.assert_allclose(uncertainty_of(np.array([[1.0, 0.0]]), None), [0])


def test_disagreement_uses_the_weights():
    peers = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    half = np.array([[0.5, 0.5], [0.5, 0.5]])
    three_to_one = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25))
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0.75, 0.25, 0])), [1 + three_to_one, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0, 0.25, 0.75])), [1, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.full(3, 1 / 3)), uncertainty_of(half, peers, None))
    # The weighted mean is (3/4, 1/4), and a quarter of the weight has entropy 1.
    unlike, weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]]), np.array([0.625, 0.125, 0.25])
    np.testing.assert_allclose(uncertainty_of(half[:1], unlike, weights), [1 + three_to_one - 0.25])


def test_suggestions_use_the_weights(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    report = made_up_report((1.0, 0.0), ("near neighbourhood", "features"), held_out=(0.5, 0.5))
    alone = suggest(Model(graph, one, one[None]), 2)
    assert [suggestion.score for suggestion in suggest(Model(graph, one, np.stack([one, other]), report), 2)] == (
        pytest.approx([suggestion.score for suggestion in alone])
    )


def test_components_without_a_label_come_first():
    number, graph = blocks([20, 40, 2, 18])
    graph = labelled(graph, {20: 0, 21: 1})
    probabilities = np.full((80, 2), 0.5)
    probabilities[number != 1] = [0.99, 0.01]
    found = suggest(Model(graph, probabilities), 3)
    assert [number[one.index] for one in found[:2]] == [0, 3]
    assert found[0].reason.startswith("Its component of 20 nodes has no label; ")
    assert "component" not in found[2].reason  # the component of two nodes is small


def test_uncertain_regions_come_first():
    number, graph = blocks([20, 20, 20, 20])
    edges = graph.adjacency.toarray()
    edges[0, 20] = edges[20, 40] = edges[40, 60] = 1  # one component
    graph = labelled(replace(graph, adjacency=edges + edges.T), {0: 0, 1: 1})
    probabilities = np.full((80, 2), [0.98, 0.02])
    probabilities[number == 2] = [0.55, 0.45]
    (first,) = suggest(Model(graph, probabilities), 1)
    assert number[first.index] == 2
    assert first.predicted == "a"
    assert first.reason.endswith("it may be 'a' (55 %) or 'b' (45 %).")
    assert first.score > 0


def test_labelled_regions_are_skipped():
    number, graph = blocks([20, 20, 20])
    edges = graph.adjacency.toarray()
    edges[0, 20] = edges[20, 40] = 1
    graph = labelled(replace(graph, adjacency=edges + edges.T), {0: 0, 20: 1})
    found = suggest(Model(graph, np.full((60, 2), 0.5)), 1)
    assert number[found[0].index] == 2


def test_neighbours_are_avoided(make_graph):
    graph = make_graph(nodes=60)
    graph = labelled(graph, {node: node % 3 for node in range(6)})
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    chosen = [one.index for one in suggest(Model(graph, probabilities), 5)]
    assert graph.adjacency[chosen][:, chosen].nnz == 0
    everyone = [one.index for one in suggest(Model(graph, probabilities), 54)]
    assert sorted(everyone) == list(range(6, 60))


def test_reason_names_disagreeing_peers(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    found = suggest(Model(graph, (one + other) / 2, np.stack([one, other])), 2)
    assert all("the peers disagree: '0' or '1'." in suggestion.reason for suggestion in found)


def test_reason_ignores_small_weights(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    peers, names = np.stack([one, other, one]), ("features", "near neighbourhood", "far neighbourhood")
    for weights, expected in (
        ((0.5, 0.1, 0.4), "it may be '0' ("),
        ((0.3, 0.6, 0.1), "the peers disagree: '1' or '0'."),
    ):
        report = made_up_report(weights, names, held_out=(0.5,) * 3)
        found = suggest(Model(graph, np.average(peers, axis=0, weights=weights), peers, report), 2)
        assert all(expected in suggestion.reason for suggestion in found), weights


def test_ids_keep_their_type(make_graph):
    graph = labelled(make_graph(), {0: 0, 1: 1, 2: 2})
    probabilities = np.full((40, 3), 1 / 3)
    for ids in (np.array([f"paper {number}" for number in range(40)]), np.arange(40) * 7):
        found = suggest(Model(replace(graph, node_ids=ids), probabilities), 4)
        assert [one.node for one in found] == [ids[one.index] for one in found]
        assert json.loads(json.dumps([asdict(one) for one in found]))[0]["node"] == found[0].node


def test_centrality_is_pagerank():
    star = np.zeros((5, 5))
    star[0, 1:4] = star[1:4, 0] = 1  # and one node without edges
    leave = star / np.maximum(star.sum(axis=0), 1)
    expected = np.linalg.solve(np.eye(5) - 0.85 * leave, np.full(5, 0.15 / 5))
    graph = Graph(adjacency=star, features=None, class_names=("a", "b"))
    np.testing.assert_allclose(suggestions.centrality(graph), expected, rtol=1e-3)


def test_most_central_node_of_the_centre():
    edges = np.zeros((40, 40))
    edges[np.arange(39), np.arange(1, 40)] = 1
    edges[20, ::3] = edges[3, ::4] = 1
    features = np.arange(40.0)[:, None]  # 18 to 22 are the middle eighth
    graph = Graph(adjacency=edges + edges.T, features=np.ones((40, 2)))  # without classes, one is chosen in a round
    central = suggestions.centrality(graph)
    (region,) = choose(graph, features, central, np.ones(40), np.array([], dtype=int), np.ones(40, dtype=bool), 1)
    assert region.node == 20


def test_centre_is_an_eighth_of_the_region():
    features = np.arange(40.0)[:, None]
    graph = Graph(adjacency=np.ones((40, 40)) - np.eye(40), features=np.ones((40, 2)))
    all_nodes, none = np.ones(40, dtype=bool), np.array([], dtype=int)
    for node in range(40):
        central = (np.arange(40) == node).astype(float)
        (choice,) = choose(graph, features, central, np.ones(40), none, all_nodes, 1)
        assert (choice.node == node) == (17 <= node <= 21), node  # 17 and 22 are equally far from 19.5


def test_suggestions_without_uncertainty():
    _, graph = blocks([20, 20, 20])
    edges = graph.adjacency.toarray()
    edges[0, 20] = edges[20, 40] = 1
    graph = labelled(replace(graph, adjacency=edges + edges.T), {0: 0, 20: 1})
    (first,) = suggest(Model(graph, np.tile([1.0, 0.0], (60, 1))), 1)
    assert re.match("It represents .* similar nodes without a label, 0 of them uncertain", first.reason)
    assert first.score == 0


@pytest.mark.parametrize("count", [0, -1, 38])
def test_count_is_checked(make_graph, count):
    graph = labelled(make_graph(), {0: 0, 1: 1, 2: 2})
    with pytest.raises(InputError, match=f"count is {count}; give at least 1 and at most 37"):
        suggest(Model(graph, np.full((40, 3), 1 / 3)), count)


def test_awkward_graphs_get_suggestions_too(make_graph):
    awkward = [
        make_graph(unreached=True),
        Graph(adjacency=make_graph().adjacency, class_names=("a", "b", "c")),  # without features
        Graph(adjacency=np.zeros((40, 40)), features=np.ones((40, 2)), class_names=("a", "b", "c")),  # all alike
        Graph(adjacency=make_graph().adjacency, features=np.zeros((40, 2)), class_names=("a", "b", "c")),
        make_graph(weighted=True, sparse=False, features=70),
    ]
    for graph in awkward:
        graph = labelled(graph, {0: 0, 1: 1, 2: 2})
        for probabilities in (np.full((40, 3), 1 / 3), np.eye(3)[np.arange(40) % 3]):
            found = suggest(Model(graph, probabilities), 7)
            assert len({one.index for one in found}) == 7
            assert not {0, 1, 2} & {one.index for one in found}
            assert np.isfinite([one.score for one in found]).all()
            assert all(one.reason.endswith(".") for one in found)


def test_large_graphs_are_sampled(make_graph, monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_CLUSTERED_NODES", 30)
    graph = labelled(make_graph(nodes=200, easy=True), {0: 0, 1: 1, 2: 2})
    probabilities = np.full((200, 3), [1.0, 0.0, 0.0])
    probabilities[150:] = 1 / 3
    assert {one.index >= 150 for one in suggest(Model(graph, probabilities), 4)} == {True}


def test_only_free_nodes_are_chosen(make_graph):
    graph = make_graph(nodes=60)
    free = np.zeros(60, dtype=bool)
    free[40:] = True
    chosen = choose(graph, smoothed_features(graph), centrality(graph), np.ones(60), np.arange(6), free, 5)
    assert min(choice.node for choice in chosen) >= 40
    assert free.sum() == 20  # not modified


def test_smoothed_features():
    path = Graph(adjacency=sp.csr_array(np.diag([1.0, 1], 1) + np.diag([1.0, 1], -1)), features=np.eye(3)[:, :2])
    walk = np.array([[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]])
    rows = walk @ walk @ np.eye(3)[:, :2]
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(smoothed_features(path), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):  # cached
        smoothed_features(path)[0, 0] = 0


@pytest.mark.parametrize("features", [True, False])
def test_more_suggestions_extend_fewer(make_graph, features):
    graph = labelled(make_graph(nodes=120, unreached=True), {0: 0, 1: 1, 2: 2})
    if not features:
        graph = replace(graph, features=None)
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), 120)
    model = Model(graph, probabilities)
    every = suggest(model, 117)
    assert len({one.index for one in every}) == 117
    for count in (1, 2, 3, 4, 10, 11, 50):
        assert suggest(model, count) == every[:count], count


def test_notebook_table():
    _, graph = blocks([6, 6])
    graph = labelled(replace(graph, node_ids=[f"<b>{number}" for number in range(12)]), {0: 0, 6: 1})
    found = suggest(Model(graph, np.full((12, 2), 0.5)), 2)
    html = found._repr_html_()
    assert html.count("<tr>") == 3
    assert f"<td>&lt;b&gt;{found[0].index}</td><td>a</td>" in html
    assert "<b>" not in html
    assert found == list(found)


def first_chosen(graph, count, labelled=(), free=None):
    free = np.ones(graph.num_nodes, dtype=bool) if free is None else free
    return [one.index for one in first_suggestions(graph, np.array(labelled, dtype=np.int64), free, count)]


def groups(sizes, seed=0):
    """Wheels of nodes with similar features: a ring, and a hub joined to all its nodes."""
    random = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    edges = sp.lil_array((len(group), len(group)))
    for number in range(len(sizes)):
        members = np.flatnonzero(group == number)
        for one, other in zip(members, np.roll(members, 1), strict=True):
            edges[one, other] = edges[other, one] = 1
            if one != members[0]:
                edges[one, members[0]] = edges[members[0], one] = 1
    features = np.eye(len(sizes))[group] + 0.1 * random.standard_normal((len(group), len(sizes)))
    return Graph(edges, features), group


def test_first_suggestions_are_hubs_of_the_largest_groups():
    graph, group = groups([40, 20, 30])
    first = first_chosen(graph, 3)
    assert group[first].tolist() == [0, 2, 1]
    assert first == [0, 60, 40]  # the hubs


def test_first_suggestions_are_greedy():
    graph, _ = groups([40, 20, 30])
    many = first_chosen(graph, 8)
    free = np.ones(graph.num_nodes, dtype=bool)
    for number in range(8):
        assert first_chosen(graph, 8 - number, np.array(many[:number], dtype=np.int64), free) == many[number:]
        free[many[number]] = False


def test_first_suggestions_are_free_nodes():
    graph, _ = groups([6, 6])
    free = np.arange(12) % 2 == 1
    assert sorted(first_chosen(graph, 100, free=free)) == [1, 3, 5, 7, 9, 11]


def test_labelled_groups_are_covered():
    graph, group = groups([40, 20, 30])
    assert group[first_chosen(graph, 1, np.array([7]))].tolist() == [2]


def test_first_reasons():
    graph, _ = groups([40, 20, 30])
    first = first_suggestions(graph, np.zeros(0, dtype=np.int64), np.ones(90, dtype=bool), 1)[0]
    assert first.reason.endswith("similar nodes without a label; it has 39 neighbours.")
    last = first_suggestions(graph, np.arange(89), np.arange(90) == 89, 1)[0]
    assert "labels already" in last.reason


def test_first_suggestions_include_isolated_nodes():
    graph, _ = groups([10, 10])
    isolated = sp.block_diag([graph.adjacency, sp.csr_array((3, 3))]).tocsr()
    features = np.concatenate([graph.features, np.zeros((3, 2))])
    found = first_chosen(Graph(isolated, features), 23)
    assert sorted(found) == list(range(23))
    assert first_chosen(Graph(isolated), 2)


def test_first_suggestions_ignore_labels():
    graph, group = groups([12, 12])
    with_labels = Graph(graph.adjacency, graph.features, labels=group)
    assert first_chosen(graph, 5) == first_chosen(with_labels, 5)


def test_first_suggestions_sample_large_graphs(monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_COMPARED_NODES", 30)
    graph, group = groups([40, 20, 30])
    first = first_suggestions(graph, np.zeros(0, dtype=np.int64), np.ones(90, dtype=bool), 3)
    assert set(group[[one.index for one in first]]) == {0, 1, 2}
    assert first[0].score > 10  # in nodes of the graph, not of the sample
    assert len(first_chosen(graph, 60)) == 60  # more than are compared


def test_similarity_sample(monkeypatch):
    monkeypatch.setattr(suggestions, "MAX_COMPARED_NODES", 30)
    graph, _ = groups([40, 20, 30])
    similarity = suggestions._Similarity(graph)
    assert len(set(similarity.sample.tolist())) == 30
    assert similarity.nodes_per_sample == 3
