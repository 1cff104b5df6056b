import numpy as np
import scipy.sparse as sp

from mtgcn.graph import Graph
from mtgcn.uncertainty import first_labels
from mtgcn.uncertainty.first_labels import first_suggestions

NOBODY = np.zeros(0, dtype=np.int64)


def chosen(graph, count, spoken_for=NOBODY, free=None):
    free = np.ones(graph.num_nodes, dtype=bool) if free is None else free
    return [one.index for one in first_suggestions(graph, spoken_for, free, count)]


def groups(sizes, seed=0):
    """Rings of nodes that look alike, each with one node in the middle that all others of its group are joined with."""
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


def test_one_of_each_group_the_best_connected_and_the_largest_group_first():
    graph, group = groups([40, 20, 30])
    first = chosen(graph, 3)
    assert group[first].tolist() == [0, 2, 1]
    assert first == [0, 60, 40]  # the middles


def test_each_choice_is_made_as_if_those_before_it_were_labelled():
    graph, _ = groups([40, 20, 30])
    many = chosen(graph, 8)
    free = np.ones(graph.num_nodes, dtype=bool)
    for number in range(8):
        assert chosen(graph, 8 - number, np.array(many[:number], dtype=np.int64), free) == many[number:]
        free[many[number]] = False


def test_only_free_nodes_are_chosen_and_each_once():
    graph, _ = groups([6, 6])
    free = np.arange(12) % 2 == 1
    assert sorted(chosen(graph, 100, free=free)) == [1, 3, 5, 7, 9, 11]


def test_a_group_that_has_a_label_is_left_for_later():
    graph, group = groups([40, 20, 30])
    assert group[chosen(graph, 1, np.array([7]))].tolist() == [2]  # any node of the first group will do


def test_the_reason_says_for_how_many_nodes_it_stands():
    graph, _ = groups([40, 20, 30])
    first = first_suggestions(graph, NOBODY, np.ones(90, dtype=bool), 1)[0]
    assert first.reason.endswith("nodes that look alike and have no label yet; it has 39 neighbours.")
    last = first_suggestions(graph, np.arange(89), np.arange(90) == 89, 1)[0]
    assert "labels already" in last.reason


def test_nodes_of_which_nothing_is_known_are_asked_for_last_and_break_nothing():
    graph, _ = groups([10, 10])
    lonely = sp.block_diag([graph.adjacency, sp.csr_array((3, 3))]).tocsr()
    features = np.concatenate([graph.features, np.zeros((3, 2))])
    everybody = chosen(Graph(lonely, features), 23)
    assert sorted(everybody) == list(range(23))
    assert chosen(Graph(lonely), 2)  # and without features


def test_labels_are_not_looked_at():
    graph, group = groups([12, 12])
    with_labels = Graph(graph.adjacency, graph.features, labels=group)
    assert chosen(graph, 5) == chosen(with_labels, 5)


def test_large_graphs_are_sampled(monkeypatch):
    monkeypatch.setattr(first_labels, "MOST_NODES", 30)
    graph, group = groups([40, 20, 30])
    first = first_suggestions(graph, NOBODY, np.ones(90, dtype=bool), 3)
    assert set(group[[one.index for one in first]]) == {0, 1, 2}
    assert first[0].score > 10  # in nodes of the graph, not of the sample
    assert len(chosen(graph, 60)) == 60  # also more than are compared


def test_of_a_large_graph_as_many_nodes_as_may_be_compared_stand_for_it_each_once(monkeypatch):
    monkeypatch.setattr(first_labels, "MOST_NODES", 30)
    graph, _ = groups([40, 20, 30])
    likeness = first_labels._Likeness(graph)
    assert len(set(likeness.sample.tolist())) == 30
    assert likeness.weight == 3
