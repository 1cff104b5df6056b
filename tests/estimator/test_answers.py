"""The one road to an answer: nodes of the fit get the fit's, in any order; others are judged by the trained peers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.answers import of_fit, of_graph, of_new_nodes, of_nodes, of_rows, share_of_absent_peers
from mtgcn.estimator.preparing import rows_for
from mtgcn.estimator.row_lookup import NOWHERE
from mtgcn.graph import UNKNOWN
from mtgcn.methods import METHODS
from mtgcn.methods.mt_plus.views import VIEWS

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier that is done in a moment."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)


# ---- what holds for every method


@pytest.fixture(autouse=True, scope="module")
def empty_cache(tmp_path_factory):
    """What a method keeps between fits is not added to the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTGCN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def graph(make_graph):
    """40 nodes with names, 15 of them labelled; each has the features of three others, and edges of its own."""
    whole = make_graph(sparse=False)
    return replace(
        whole,
        features=whole.features[np.arange(40) % 10],
        labels=np.where(np.arange(40) < 15, whole.labels, UNKNOWN),
        node_ids=np.array([f"n{number}" for number in range(40)]),
    )


@pytest.fixture(scope="module", params=[*METHODS, "mt-gcn, output=first"])
def fitted(request, graph):
    """A model of each method, with the graph above."""
    name, _, first = request.param.partition(", ")
    settings = {key: 8 for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")}
    settings |= {"walks_per_node": 2} if name == "deepwalk" else {}
    settings |= {"output": "first"} if first else {}
    return MutualTeachingClassifier(name, settings=settings, random_state=0).fit_graph(graph)


def in_order(graph, order):
    """The nodes at these places and the edges between them."""
    return Graph(
        graph.adjacency[order][:, order],
        graph.features[order],
        node_ids=graph.node_ids[order],
        class_names=graph.class_names,
    )


ORDERS = {
    "reversed": np.arange(40)[::-1],
    "some": np.array([31, 7, 21, 1, 39, 11]),
    "all": np.arange(40),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_nodes_that_the_model_knows_by_id_get_the_answers_of_the_fit(fitted, graph, order):
    answers = of_nodes(fitted, in_order(graph, order))
    np.testing.assert_array_equal(answers.probabilities, fitted.label_distributions_[order])
    np.testing.assert_array_equal(answers.place, order)
    if fitted.peer_distributions_ is None:
        assert answers.peers is None
    else:
        np.testing.assert_array_equal(answers.peers, fitted.peer_distributions_[:, order])


def test_the_graph_of_the_fit_gets_its_answers_in_any_order(fitted, graph):
    for order in (ORDERS["reversed"], ORDERS["all"]):
        found = fitted.predict_proba(graph=in_order(graph, order))
        np.testing.assert_array_equal(found, fitted.label_distributions_[order])


def test_the_table_of_the_fit_gets_its_answers(fitted, graph):
    np.testing.assert_array_equal(fitted.predict_proba(graph.features), fitted.label_distributions_)
    np.testing.assert_array_equal(fitted.predict_proba(graph.features[:10]), fitted.label_distributions_[:10])


def test_what_the_peers_say_of_the_graph_under_other_names_is_what_the_fit_found(fitted, graph):
    renamed = replace(graph, node_ids=np.arange(40) + 100)
    if fitted.parameters_ is None:
        with pytest.raises(InputError, match="keeps nothing that could be applied"):
            of_graph(fitted, renamed)
        return
    answers = of_graph(fitted, renamed)
    assert (answers.place == NOWHERE).all()
    if fitted.method == "mt-plus":  # its peers that know nodes by their edges leave the vote
        stay = np.array([VIEWS[name].transferable for name in fitted.peer_report_.names])
        np.testing.assert_allclose(answers.peers[stay], fitted.peer_distributions_[stay], atol=1e-5)
        votes = fitted.peer_report_.weights[0][stay]
        expected = np.einsum("p,pnc->nc", votes / votes.sum(), fitted.peer_distributions_[stay])
        np.testing.assert_allclose(answers.probabilities, expected, atol=1e-5)
        return
    np.testing.assert_allclose(answers.probabilities, fitted.label_distributions_, atol=1e-5)
    if fitted.peer_distributions_ is not None:
        np.testing.assert_allclose(answers.peers, fitted.peer_distributions_, atol=1e-5)


def test_new_nodes_are_answered_beside_those_that_are_known(fitted, graph):
    nodes = replace(in_order(graph, np.array([5, 17, 30])), node_ids=np.array(["n5", "new", "n30"]))
    if fitted.parameters_ is None:
        with pytest.raises(InputError, match="keeps nothing that could be applied"):
            of_nodes(fitted, nodes)
        return
    answers = of_nodes(fitted, nodes)
    np.testing.assert_array_equal(answers.place, [5, NOWHERE, 30])
    np.testing.assert_array_equal(answers.probabilities[[0, 2]], fitted.label_distributions_[[5, 30]])
    alone = of_nodes(fitted, in_order(nodes, np.array([1])))
    np.testing.assert_allclose(answers.probabilities[1], alone.probabilities[0], atol=1e-6)


# ---- which nodes are meant


@pytest.fixture(scope="module")
def first_peer_answers(graph):
    return quick(settings=FEW_EPOCHS | {"output": "first"}).fit_graph(graph)


def test_where_the_first_peer_answers_it_also_answers_of_new_nodes(first_peer_answers, graph):
    model, new = first_peer_answers, graph.features[:4] + 0.01
    for arguments in ((new,), (new, np.ones((4, 4))), ()):
        peers = model.peer_probabilities(*arguments)
        assert len(peers) == 2
        np.testing.assert_allclose(model.predict_proba(*arguments), peers[0], atol=1e-6)
        assert np.abs(peers[0] - peers[1]).max() > 1e-3


def test_a_new_node_is_no_node_of_the_fit_though_its_features_are_those_of_one(first_peer_answers, graph):
    renamed = replace(graph, node_ids=np.array([f"m{number}" for number in range(40)]))
    answers = of_nodes(first_peer_answers, renamed)
    assert (answers.place == NOWHERE).all()
    assert np.abs(answers.probabilities - first_peer_answers.label_distributions_).max() > 1e-3


def test_a_node_that_is_known_keeps_its_answer_though_its_features_changed(first_peer_answers, graph):
    changed = replace(graph, features=graph.features + 1)
    np.testing.assert_array_equal(
        of_nodes(first_peer_answers, changed).probabilities, first_peer_answers.label_distributions_
    )


def test_a_graph_of_which_anything_differs_is_another_graph(first_peer_answers, graph):
    ends = np.zeros((40, 40), dtype=np.float32)
    ends[0, 39] = ends[39, 0] = 5
    others = {
        "features": replace(graph, features=graph.features + 0.1),
        "edges": replace(graph, adjacency=graph.adjacency + sp.csr_array(ends)),
        "weights": replace(graph, adjacency=2 * graph.adjacency),
        "nodes": in_order(graph, np.arange(39)),
        "ids": replace(graph, node_ids=np.array([f"m{number}" for number in range(40)])),
    }
    assert (of_graph(first_peer_answers, graph).place == np.arange(40)).all()
    for what, other in others.items():
        assert (of_graph(first_peer_answers, other).place == NOWHERE).all(), what


def test_rows_without_ids_are_known_by_their_features_in_their_order(first_peer_answers, graph):
    model = first_peer_answers
    # The features of node 3 are those of nodes 13, 23 and 33.
    np.testing.assert_array_equal(of_rows(model, rows_for(model, graph.features[[3] * 5])).place, [3, 13, 23, 33, 3])
    np.testing.assert_array_equal(
        of_rows(model, rows_for(model, graph.features[::-1])).place, np.arange(40).reshape(4, 10)[:, ::-1].ravel()
    )
    np.testing.assert_array_equal(of_fit(model).place, np.arange(40))


def test_nodes_that_never_had_ids_are_not_known_by_their_numbers(blobs):
    rows, y, _ = blobs
    model = quick().fit(rows, y)
    assert not model.has_node_ids_
    # A table that counts its rows from 1 would otherwise get every answer from one row further.
    table = Graph(sp.csr_array((60, 60)), rows, node_ids=np.arange(60) + 1)
    np.testing.assert_array_equal(of_nodes(model, table).place, np.arange(60))


def test_nodes_without_features(ring):
    _, y, _, edges = ring
    model = quick().fit_graph(Graph(adjacency_of(edges), labels=y))
    known = Graph(sp.csr_array((3, 3)), node_ids=np.array([9, 0, 15]))
    np.testing.assert_array_equal(of_nodes(model, known).probabilities, model.label_distributions_[[9, 0, 15]])
    with pytest.raises(InputError, match="fitted without features, so its numbers mean nothing on another graph"):
        of_nodes(model, replace(known, node_ids=np.array([9, 0, 16])))


def test_new_nodes_must_have_the_features_of_the_fit(first_peer_answers, graph):
    new = replace(in_order(graph, np.arange(3)), node_ids=np.array(["x", "y", "z"]))
    for features, found in ((None, 0), (new.features[:, :5], 5)):
        with pytest.raises(InputError, match=f"{found} features for each node of the graph and 12 in training"):
            of_nodes(first_peer_answers, replace(new, features=features))
    with pytest.raises(InputError, match=r"a feature of size \d.*e\+20"):
        of_nodes(first_peer_answers, replace(new, features=np.full((3, 12), 1e20)))


# ---- votes of different weight


def test_the_votes_of_the_fit_hold_for_nodes_it_has_not_seen(graph, weighted_votes):
    model = quick(weighted_votes, settings=None).fit_graph(graph)
    report = model.peer_report_
    assert report.names[1] == "features"
    weighted = np.average(model.peer_distributions_, axis=0, weights=report.weights[0])
    np.testing.assert_allclose(model.label_distributions_, weighted, atol=1e-9)
    # The last peer knows the nodes of the fit alone: elsewhere the others share its vote.
    new = graph.features[:4] + 0.01
    for arguments in ((new,), (new, np.ones((4, 4)))):
        peers = model.peer_probabilities(*arguments)
        others = np.average(peers[:3], axis=0, weights=report.weights[0, :3])
        np.testing.assert_allclose(model.predict_proba(*arguments), others, atol=1e-9)
        assert np.abs(others - peers[:3].mean(axis=0)).max() > 1e-3


# ---- new nodes


def test_each_peer_answers_the_same_rows(model, blobs):
    rows, _, _ = blobs
    mixture = np.concatenate([rows[:2], rows[2:4] + 0.01])
    for arguments in ((rows,), (mixture,), (rows, model.graph_.adjacency), ()):
        peers = model.peer_probabilities(*arguments)
        np.testing.assert_allclose(peers.mean(axis=0), model.predict_proba(*arguments), atol=1e-6)
        assert len(peers) == 2


def test_training_rows_get_the_transduction(model, blobs):
    rows, _, _ = blobs
    np.testing.assert_array_equal(model.predict(rows), model.transduction_)
    np.testing.assert_array_equal(model.predict_proba(rows.copy()), model.label_distributions_)
    some = [5, 3, 3, 40]
    np.testing.assert_array_equal(model.predict_proba(rows[some]), model.label_distributions_[some])
    np.testing.assert_array_equal(model.predict_proba(), model.label_distributions_)


def test_equal_rows_at_different_places_keep_their_own_answers(ring):
    _, y, _, edges = ring
    model = quick().fit(np.ones((16, 2)), y, graph=adjacency_of(edges))
    np.testing.assert_array_equal(model.predict(np.ones((16, 2))), model.transduction_)
    np.testing.assert_array_equal(model.predict_proba(np.ones((3, 2))), model.label_distributions_[:3])


def test_a_mixture_of_old_and_new_rows(model, blobs):
    rows, _, _ = blobs
    mixture = np.concatenate([rows[:2], rows[2:4] + 0.01])
    probabilities = model.predict_proba(mixture)
    np.testing.assert_array_equal(probabilities[:2], model.label_distributions_[:2])
    np.testing.assert_array_equal(probabilities[2:].argmax(axis=1), model.transduction_[2:4])


def test_another_graph_is_judged_by_the_trained_peers(model, blobs):
    rows, _, _ = blobs
    renamed = Graph(model.graph_.adjacency, rows, node_ids=np.arange(60) + 1000)
    np.testing.assert_allclose(model.predict_proba(graph=renamed), model.label_distributions_, atol=1e-6)
    fewer = model.predict_proba(rows[:30], graph=model.graph_.adjacency[:30][:, :30])
    assert fewer.shape == (30, 3)
    with pytest.raises(InputError, match="the graph has 60 nodes and X has 30 rows"):
        model.predict(rows[:30], graph=model.graph_.adjacency)
    with pytest.raises(InputError, match="0 features for each node of the graph and 4 in training"):
        model.predict(None, graph=model.graph_.adjacency)


# ---- new nodes that join the graph of the fit

PLAIN = np.full((6, 12), 0.5)  # features that speak for no class


@pytest.fixture(scope="module", params=["gcn", "mt-gcn", "mt-plus"])
def easy(request, make_graph):
    """A model of 60 nodes whose classes features and edges both tell; nine are labelled."""
    whole = make_graph(nodes=60, easy=True, sparse=False)
    labels = np.where(np.arange(60) < 9, whole.labels, UNKNOWN)
    few = {"mt-plus": {"dimensions": 16, "infomax_epochs": 30}, "gcn": {"epochs": 60, "learning_rate": 0.05}}
    settings = few.get(request.param, FEW_EPOCHS)
    model = MutualTeachingClassifier(request.param, settings=settings, scale=False, random_state=0)
    return model.fit_graph(replace(whole, labels=labels)), whole.labels


def joined(model, features, to_known, among_new=()):
    """What the model says of new nodes with these edges: pairs of a new node and a known one, and of new ones."""
    count, known = len(features), model.graph_.num_nodes
    links = np.zeros((count, known), dtype=np.float32)
    links[tuple(np.array(to_known, dtype=int).reshape(-1, 2).T)] = 1
    between = np.zeros((count, count))
    for one, other in among_new:
        between[one, other] = between[other, one] = 1
    return of_new_nodes(model, Graph(between, features), sp.csr_array(links))


def test_a_new_node_is_told_by_its_edges_and_by_those_of_the_new_ones_it_is_linked_to(easy):
    model, truth = easy
    found = []
    for number in range(3):
        mine = np.flatnonzero(truth == number)[:8]
        answers = joined(model, PLAIN, [(0, node) for node in mine], [(0, other) for other in range(1, 6)])
        assert answers.probabilities[0].argmax() == number
        assert (answers.place == NOWHERE).all()
        found.append(answers.probabilities[1:].mean(axis=0))  # of those that have an edge to the first alone
    # Each class is the more probable two edges from its nodes than two edges from others.
    assert np.argmax(found, axis=0).tolist() == [0, 1, 2]


def test_a_new_node_is_told_by_its_features_too(easy):
    model, _ = easy
    features = PLAIN[:3].copy()
    features[np.arange(3), 1 + np.arange(3)] = 4.5
    assert joined(model, features, []).probabilities.argmax(axis=1).tolist() == [0, 1, 2]


def test_the_graph_that_new_nodes_join_is_the_one_of_the_fit_and_theirs(easy):
    model, _ = easy
    answers = joined(model, PLAIN[:2], [(0, 7), (1, 30)], [(0, 1)])
    grown = np.zeros((62, 62))
    grown[:60, :60] = model.graph_.adjacency.toarray()
    for one, other in ((60, 7), (61, 30), (60, 61)):
        grown[one, other] = grown[other, one] = 1
    whole = Graph(grown, np.concatenate([model.graph_.features, PLAIN[:2]]), class_names=model.graph_.class_names)
    np.testing.assert_allclose(answers.probabilities, model.predict_proba(graph=whole)[60:], atol=1e-6)
    np.testing.assert_array_equal(model.predict_proba(), model.label_distributions_)


def test_nodes_that_join_must_have_the_features_of_the_fit(easy):
    with pytest.raises(InputError, match="3 features for each node of the graph and 12 in training"):
        joined(easy[0], PLAIN[:, :3], [(0, 1)])


def test_who_is_absent_where_nodes_are_new(easy):
    model, _ = easy
    if model.peer_report_ is None:
        assert share_of_absent_peers(model) == 0
        return
    votes = dict(zip(model.peer_report_.names, model.peer_report_.weights[0], strict=True))
    assert share_of_absent_peers(model) == pytest.approx(votes["edges"] + votes["far edges"])


def test_an_answer_that_is_not_finite_is_refused(graph):
    model = quick("gcn", settings={"epochs": 2}).fit_graph(graph)
    model.parameters_["weight1"][:] = np.nan
    others = replace(graph, node_ids=np.arange(1000, 1000 + graph.num_nodes))
    with pytest.raises(InputError, match=r"what the model says of these nodes is not finite \(NaN\); look for huge"):
        model.predict_proba(None, others)
