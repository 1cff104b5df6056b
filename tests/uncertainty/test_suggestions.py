"""Suggestions are in doubt, apart, reach components without labels, and say why."""

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
from mtgcn.uncertainty.suggestions import appearance, centrality, choose, suggest, uncertainty_of
from weighted_votes import made_up_report


@dataclass(frozen=True)
class Model:
    """What a fitted estimator has."""

    graph_: Graph
    label_distributions_: Any
    peer_distributions_: Any = None
    peer_report_: Any = None
    method_: Any = None
    history_: Any = field(default_factory=dict)


def blocks(sizes, features=True):
    """Complete components of these sizes; the features tell them apart."""
    number = np.repeat(np.arange(len(sizes)), sizes)
    edges = (number[:, None] == number).astype(float) - np.eye(len(number))
    looks = np.eye(len(sizes))[number] + np.random.default_rng(0).normal(size=(len(number), len(sizes))) * 0.05
    return number, Graph(adjacency=edges, features=looks if features else None, class_names=("a", "b"))


def labelled(graph, labels_of):
    labels = np.full(graph.num_nodes, -1)
    for node, label in labels_of.items():
        labels[node] = label
    return replace(graph, labels=labels)


def test_doubt_is_entropy_and_disagreement():
    peers = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    # Both means say half and half; the first because the peers contradict each other, which counts once more.
    np.testing.assert_allclose(uncertainty_of(peers.mean(0), peers), [2, 1])
    np.testing.assert_allclose(uncertainty_of(peers.mean(0), None), [1, 1])
    np.testing.assert_allclose(uncertainty_of(np.array([[1.0, 0.0]]), None), [0])


def test_disagreement_counts_as_much_as_the_votes_of_those_who_disagree():
    peers = np.array([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]])
    half = np.array([[0.5, 0.5], [0.5, 0.5]])
    # One against a quarter: the peers' mean is as uncertain as a coin that falls three times out of four.
    three_to_one = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25))
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0.75, 0.25, 0])), [1 + three_to_one, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.array([0, 0.25, 0.75])), [1, 1])
    np.testing.assert_allclose(uncertainty_of(half, peers, np.full(3, 1 / 3)), uncertainty_of(half, peers, None))
    # One is sure, the other is not: the mean says three to one, and a quarter of the vote is in full doubt.
    unlike, weights = np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.5, 0.5]]]), np.array([0.625, 0.125, 0.25])
    np.testing.assert_allclose(uncertainty_of(half[:1], unlike, weights), [1 + three_to_one - 0.25])


def test_suggestions_heed_the_votes(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    report = made_up_report((1.0, 0.0), ("near neighbourhood", "features"), held_out=(0.5, 0.5))
    alone = suggest(Model(graph, one, one[None]), 2)
    assert [suggestion.score for suggestion in suggest(Model(graph, one, np.stack([one, other]), report), 2)] == (
        pytest.approx([suggestion.score for suggestion in alone])
    )


def test_large_components_without_a_label_come_first():
    number, graph = blocks([20, 40, 2, 18])
    graph = labelled(graph, {20: 0, 21: 1})
    probabilities = np.full((80, 2), 0.5)
    probabilities[number != 1] = [0.99, 0.01]  # these look decided, but nothing speaks for them
    told = suggest(Model(graph, probabilities), 3)
    assert [number[one.index] for one in told[:2]] == [0, 3]
    assert told[0].reason.startswith("Its component of 20 nodes has no label at all; ")
    assert "component" not in told[2].reason  # two nodes do not deserve a label before all others


def test_regions_in_doubt_are_preferred_to_those_decided():
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


def test_a_region_that_holds_a_label_is_passed_over():
    number, graph = blocks([20, 20, 20])
    edges = graph.adjacency.toarray()
    edges[0, 20] = edges[20, 40] = 1
    graph = labelled(replace(graph, adjacency=edges + edges.T), {0: 0, 20: 1})
    told = suggest(Model(graph, np.full((60, 2), 0.5)), 1)
    assert number[told[0].index] == 2


def test_two_neighbours_are_not_both_suggested_unless_nobody_else_is_left(make_graph):
    graph = make_graph(nodes=60)
    graph = labelled(graph, {node: node % 3 for node in range(6)})
    probabilities = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    chosen = [one.index for one in suggest(Model(graph, probabilities), 5)]
    assert graph.adjacency[chosen][:, chosen].nnz == 0
    everyone = [one.index for one in suggest(Model(graph, probabilities), 54)]
    assert sorted(everyone) == list(range(6, 60))


def test_peers_that_disagree_are_named(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    told = suggest(Model(graph, (one + other) / 2, np.stack([one, other])), 2)
    assert all("the peers disagree about it: '0' or '1'." in suggestion.reason for suggestion in told)


def test_peers_that_nobody_hears_do_not_disagree(make_graph):
    graph = labelled(make_graph(classes=3), {0: 0, 1: 1, 2: 2})
    one, other = np.tile([0.8, 0.1, 0.1], (40, 1)), np.tile([0.1, 0.8, 0.1], (40, 1))
    peers, names = np.stack([one, other, one]), ("features", "near neighbourhood", "far neighbourhood")
    for weights, said in (((0.5, 0.1, 0.4), "it may be '0' ("), ((0.3, 0.6, 0.1), "disagree about it: '1' or '0'.")):
        report = made_up_report(weights, names, held_out=(0.5,) * 3)
        told = suggest(Model(graph, np.average(peers, axis=0, weights=weights), peers, report), 2)
        assert all(said in suggestion.reason for suggestion in told), weights


def test_ids_come_back_as_they_were_given_and_fit_into_json(make_graph):
    graph = labelled(make_graph(), {0: 0, 1: 1, 2: 2})
    probabilities = np.full((40, 3), 1 / 3)
    for ids in (np.array([f"paper {number}" for number in range(40)]), np.arange(40) * 7):
        told = suggest(Model(replace(graph, node_ids=ids), probabilities), 4)
        assert [one.node for one in told] == [ids[one.index] for one in told]
        assert json.loads(json.dumps([asdict(one) for one in told]))[0]["node"] == told[0].node


def test_centrality_is_page_rank():
    star = np.zeros((5, 5))
    star[0, 1:4] = star[1:4, 0] = 1  # and one node without edges
    leave = star / np.maximum(star.sum(axis=0), 1)
    expected = np.linalg.solve(np.eye(5) - 0.85 * leave, np.full(5, 0.15 / 5))
    graph = Graph(adjacency=star, features=None, class_names=("a", "b"))
    np.testing.assert_allclose(suggestions.centrality(graph), expected, rtol=1e-3)


def test_of_the_middle_of_a_region_the_best_connected_is_chosen():
    edges = np.zeros((40, 40))
    edges[np.arange(39), np.arange(1, 40)] = 1
    edges[20, ::3] = edges[3, ::4] = 1
    looks = np.arange(40.0)[:, None]  # 18 to 22 are the middle eighth
    graph = Graph(adjacency=edges + edges.T, features=np.ones((40, 2)))  # without classes, one is chosen in a round
    central = suggestions.centrality(graph)
    (region,) = choose(graph, looks, central, np.ones(40), np.array([], dtype=int), np.ones(40, dtype=bool), 1)
    assert region.node == 20


def test_the_middle_of_a_region_is_an_eighth_of_its_nodes():
    looks = np.arange(40.0)[:, None]
    graph = Graph(adjacency=np.ones((40, 40)) - np.eye(40), features=np.ones((40, 2)))
    everyone, nobody = np.ones(40, dtype=bool), np.array([], dtype=int)
    for node in range(40):
        central = (np.arange(40) == node).astype(float)
        (choice,) = choose(graph, looks, central, np.ones(40), nobody, everyone, 1)
        assert (choice.node == node) == (17 <= node <= 21), node  # of 17 and 22, as far from 19.5, the first


def test_where_nothing_is_in_doubt_regions_are_chosen_from_all_the_same():
    _, graph = blocks([20, 20, 20])
    edges = graph.adjacency.toarray()
    edges[0, 20] = edges[20, 40] = 1
    graph = labelled(replace(graph, adjacency=edges + edges.T), {0: 0, 20: 1})
    (first,) = suggest(Model(graph, np.tile([1.0, 0.0], (60, 1))), 1)
    assert re.match("It stands for .* nodes that look alike and have no label, 0 of them in doubt", first.reason)
    assert first.score == 0


@pytest.mark.parametrize("count", [0, -1, 38])
def test_a_count_that_cannot_be_met_is_refused(make_graph, count):
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
            told = suggest(Model(graph, probabilities), 7)
            assert len({one.index for one in told}) == 7
            assert not {0, 1, 2} & {one.index for one in told}
            assert np.isfinite([one.score for one in told]).all()
            assert all(one.reason.endswith(".") for one in told)


def test_the_same_fit_gives_the_same_suggestions(make_graph):
    graph = labelled(make_graph(nodes=80), {0: 0, 1: 1, 2: 2})
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), 80)
    assert suggest(Model(graph, probabilities), 8) == suggest(Model(graph, probabilities), 8)


def test_large_graphs_are_sampled(make_graph, monkeypatch):
    monkeypatch.setattr(suggestions, "MOST_NODES", 30)
    graph = labelled(make_graph(nodes=200, easy=True), {0: 0, 1: 1, 2: 2})
    probabilities = np.full((200, 3), [1.0, 0.0, 0.0])
    probabilities[150:] = 1 / 3
    assert {one.index >= 150 for one in suggest(Model(graph, probabilities), 4)} == {True}


def test_nodes_that_may_not_be_chosen_are_not(make_graph):
    graph = make_graph(nodes=60)
    free = np.zeros(60, dtype=bool)
    free[40:] = True
    chosen = choose(graph, appearance(graph), centrality(graph), np.ones(60), np.arange(6), free, 5)
    assert min(choice.node for choice in chosen) >= 40
    assert free.sum() == 20  # what was passed in is left as it was


def test_appearance_is_the_mean_of_neighbourhoods_of_length_one():
    path = Graph(adjacency=sp.csr_array(np.diag([1.0, 1], 1) + np.diag([1.0, 1], -1)), features=np.eye(3)[:, :2])
    walk = np.array([[1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 2, 1 / 2]])
    rows = walk @ walk @ np.eye(3)[:, :2]
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(appearance(path), expected, rtol=1e-6)
    with pytest.raises(ValueError, match="read-only"):  # all who ask for it get the same array
        appearance(path)[0, 0] = 0


@pytest.mark.parametrize("features", [True, False])
def test_asking_for_more_changes_none_of_the_first(make_graph, features):
    graph = labelled(make_graph(nodes=120, unreached=True), {0: 0, 1: 1, 2: 2})
    if not features:
        graph = replace(graph, features=None)
    probabilities = np.random.default_rng(1).dirichlet(np.ones(3), 120)
    model = Model(graph, probabilities)
    every = suggest(model, 117)
    assert len({one.index for one in every}) == 117
    for count in (1, 2, 3, 4, 10, 11, 50):
        assert suggest(model, count) == every[:count], count


def test_a_notebook_shows_a_table():
    _, graph = blocks([6, 6])
    graph = labelled(replace(graph, node_ids=[f"<b>{number}" for number in range(12)]), {0: 0, 6: 1})
    told = suggest(Model(graph, np.full((12, 2), 0.5)), 2)
    html = told._repr_html_()
    assert html.count("<tr>") == 3
    assert f"<td>&lt;b&gt;{told[0].index}</td><td>a</td>" in html
    assert "<b>" not in html
    assert told == list(told)
