from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fitted_models import with_labels
from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import GraphNote, InputError
from mtgcn.estimator import inference
from mtgcn.estimator.inputs import positions_of_ids
from mtgcn.graph import UNLABELED
from mtgcn.linalg.neighbours import neighbour_graph
from mtgcn.methods import METHODS, Method
from mtgcn.methods.mt_plus.base import PeerMethod
from mtgcn.methods.mt_plus.views import VIEWS
from mtgcn.training.calibration import tempered
from small_models import FEW_EPOCHS, quick

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("empty_cache")]


@pytest.fixture(scope="module")
def graph(make_graph):
    """40 nodes with names, 15 of them labelled; each has the features of three others, and edges of its own."""
    whole = with_labels(make_graph(sparse=False), range(15))
    ids = np.array([f"n{number}" for number in range(40)])
    return replace(whole, features=whole.features[np.arange(40) % 10], node_ids=ids)


@pytest.fixture(scope="module", params=[*METHODS, "mt-gcn, output=first"])
def fitted(request, graph):
    """A model of each method."""
    name, _, first = request.param.partition(", ")
    settings = {key: 8 for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")}
    settings |= ({"walks_per_node": 2} if name == "deepwalk" else {}) | ({"output": "first"} if first else {})
    return MutualTeachingClassifier(name, settings=settings, random_state=0).fit_graph(graph)


def at(graph, order, **changes):
    """The nodes at these positions and the edges between them."""
    order = np.asarray(order)
    return replace(
        graph.without_labels,
        adjacency=graph.adjacency[order][:, order],
        features=graph.features[order],
        node_ids=changes.pop("node_ids", graph.node_ids[order]),
        labels=np.full(len(order), UNLABELED),
        **changes,
    )


@pytest.mark.parametrize("order", [np.arange(40)[::-1], [31, 7, 21, 1, 39, 11]], ids=["reversed", "some"])
def test_known_ids_keep_their_predictions(fitted, graph, order):
    predictions = inference.predict_nodes(fitted, at(graph, order))
    assert_array_equal(predictions.probabilities, fitted.label_distributions_[order])
    assert_array_equal(predictions.positions, order)
    if fitted.peer_distributions_ is None:
        assert predictions.peers is None
    else:
        assert_array_equal(predictions.peers, fitted.peer_distributions_[:, order])


def test_predict_is_order_invariant(fitted, graph):
    expected = fitted.label_distributions_
    assert expected.shape == (40, 3)
    assert_array_equal(fitted.predict_proba(), expected)
    assert_array_equal(fitted.predict_proba(graph=graph), expected)
    assert_array_equal(fitted.predict_proba(graph=at(graph, np.arange(40)[::-1])), expected[::-1])
    assert_array_equal(fitted.predict_proba(graph.features), expected)
    assert_array_equal(fitted.predict_proba(graph.features[:10]), expected[:10])


def test_peers_reproduce_the_fit_on_a_renamed_graph(fitted, graph):
    renamed = replace(graph, node_ids=np.arange(40) + 100)
    if fitted.parameters_ is None:
        with pytest.raises(InputError, match="has no trained parameters for other graphs"):
            inference.predict_graph(fitted, renamed)
        return
    predictions = inference.predict_graph(fitted, renamed)
    assert (predictions.positions == inference.MISSING).all()
    if fitted.method == "mt-plus":  # peers of the graph of the fit are left out
        stay = np.array([VIEWS[name].transferable for name in fitted.peer_report_.names])
        assert_allclose(predictions.peers[stay], fitted.peer_distributions_[stay], atol=1e-5)
        weights = fitted.peer_report_.weights[0][stay]
        expected = np.einsum("p,pnc->nc", weights / weights.sum(), fitted.peer_distributions_[stay])
        expected = tempered(expected, float(fitted.parameters_["calibration"][0]))
        assert_allclose(predictions.probabilities, expected, atol=1e-5)
        return
    assert_allclose(predictions.probabilities, fitted.label_distributions_, atol=1e-5)
    if fitted.peer_distributions_ is not None:
        assert_allclose(predictions.peers, fitted.peer_distributions_, atol=1e-5)


def test_known_and_new_nodes_together(fitted, graph):
    if fitted.parameters_ is None:
        return  # see test_methods_without_parameters
    nodes = at(graph, [5, 17, 30], node_ids=np.array(["n5", "new", "n30"]))
    predictions = inference.predict_nodes(fitted, nodes)
    assert_array_equal(predictions.positions, [5, inference.MISSING, 30])
    assert_array_equal(predictions.probabilities[[0, 2]], fitted.label_distributions_[[5, 30]])
    alone = inference.predict_nodes(fitted, at(nodes, [1]))
    assert_allclose(predictions.probabilities[1], alone.probabilities[0], atol=1e-6)


@pytest.fixture(scope="module")
def first_model(graph):
    return quick(settings=FEW_EPOCHS | {"output": "first"}).fit_graph(graph)


def test_output_first_applies_to_new_nodes(first_model, graph):
    new = graph.features[:4] + 0.01
    for arguments in ((new,), (new, np.ones((4, 4))), ()):
        peers = first_model.peer_probabilities(*arguments)
        assert len(peers) == 2
        assert_allclose(first_model.predict_proba(*arguments), peers[0], atol=1e-6)
        assert np.abs(peers[0] - peers[1]).max() > 1e-3


def test_nodes_with_ids_are_recognised_by_ids_alone(first_model, graph):
    changed = replace(graph, features=graph.features + 1)
    assert_array_equal(inference.predict_nodes(first_model, changed).probabilities, first_model.label_distributions_)
    renamed = inference.predict_nodes(first_model, replace(graph, node_ids=np.arange(40) + 100))
    assert (renamed.positions == inference.MISSING).all()
    assert np.abs(renamed.probabilities - first_model.label_distributions_).max() > 1e-3


@pytest.mark.parametrize("change", ["none", "features", "edges", "weights", "nodes", "ids"])
def test_different_graphs_are_not_the_fitted_graph(first_model, graph, change):
    ends = sp.coo_array(([5, 5], ([0, 39], [39, 0])), shape=(40, 40)).astype(np.float32)
    other = {
        "none": graph,
        "features": replace(graph, features=graph.features + 0.1),
        "edges": replace(graph, adjacency=graph.adjacency + ends.tocsr()),
        "weights": replace(graph, adjacency=2 * graph.adjacency),
        "nodes": at(graph, np.arange(39)),
        "ids": replace(graph, node_ids=np.arange(40) + 100),
    }[change]
    found = inference.predict_graph(first_model, other).positions
    assert found.tolist() == (list(range(40)) if change == "none" else [inference.MISSING] * other.num_nodes)


def test_nodes_without_features(graph):
    model = quick("lp", settings=None).fit_graph(replace(graph, features=None))
    known = Graph(sp.csr_array((3, 3)), node_ids=np.array(["n9", "n0", "n15"]))
    assert_array_equal(inference.predict_nodes(model, known).probabilities, model.label_distributions_[[9, 0, 15]])


def test_new_nodes_must_have_the_features_of_the_fit(first_model, graph):
    new = at(graph, [0, 1, 2], node_ids=np.array(["x", "y", "z"]))
    for features, message in (
        (None, "0 features for each node of the graph and 12 in training"),
        (new.features[:, :5], "5 features for each node of the graph and 12 in training"),
        (np.full((3, 12), 1e20), r"a feature of size \d.*e\+20"),
    ):
        with pytest.raises(InputError, match=message):
            inference.predict_nodes(first_model, replace(new, features=features))


def test_peer_weights_apply_to_new_nodes(graph, weighted_peers):
    model = quick(weighted_peers, settings=None).fit_graph(graph)
    report = model.peer_report_
    assert report.names[1] == "features"
    weighted = np.average(model.peer_distributions_, axis=0, weights=report.weights[0])
    assert_allclose(model.label_distributions_, weighted, atol=1e-9)
    # The last peer predicts nodes of the fit only; elsewhere the weights of the others are normalised.
    new = graph.features[:4] + 0.01
    for arguments in ((new,), (new, np.ones((4, 4)))):
        peers = model.peer_probabilities(*arguments)
        others = np.average(peers[:3], axis=0, weights=report.weights[0, :3])
        assert_allclose(model.predict_proba(*arguments), others, atol=1e-9)
        assert np.abs(others - peers[:3].mean(axis=0)).max() > 1e-3


def test_known_and_new_rows_together(model, blobs):
    rows, _, _ = blobs
    mixture = np.concatenate([rows[:2], rows[2:4] + 0.01])
    probabilities = model.predict_proba(mixture)
    assert_array_equal(probabilities[:2], model.label_distributions_[:2])
    assert_array_equal(probabilities[2:].argmax(axis=1), model.transduction_[2:4])
    for arguments in ((rows,), (mixture,), (rows, model.graph_.adjacency), ()):
        peers = model.peer_probabilities(*arguments)
        assert_allclose(peers.mean(axis=0), model.predict_proba(*arguments), atol=1e-6)
        assert len(peers) == 2


def test_another_graph(model, blobs):
    rows, _, _ = blobs
    assert model.predict_proba(rows[:30], graph=model.graph_.adjacency[:30][:, :30]).shape == (30, 3)
    with pytest.raises(InputError, match="the graph has 60 nodes and X has 30 rows"):
        model.predict(rows[:30], graph=model.graph_.adjacency)


PLAIN = np.full((6, 12), 0.5)  # uninformative features


@pytest.fixture(scope="module", params=["gcn", "mt-gcn", "mt-plus"])
def easy(request, make_graph):
    """A model of 60 nodes with informative features and edges, nine labelled."""
    whole = make_graph(nodes=60, easy=True, sparse=False)
    few = {"mt-plus": {"dimensions": 16, "infomax_epochs": 30}, "gcn": {"epochs": 60, "learning_rate": 0.05}}
    model = quick(request.param, settings=few.get(request.param, FEW_EPOCHS), scale=False)
    return model.fit_graph(with_labels(whole, range(9))), whole.labels


def joined(model, features, to_known, among_new=()):
    """Predictions for new nodes; edges are pairs of a new and a known node, or of new nodes."""
    links, between = np.zeros((len(features), 60), dtype=np.float32), np.zeros((len(features), len(features)))
    links[tuple(np.array(to_known, dtype=int).reshape(-1, 2).T)] = 1
    between[tuple(np.array(among_new, dtype=int).reshape(-1, 2).T)] = 1
    return inference.predict_new_nodes(model, Graph(between + between.T, features), sp.csr_array(links))


def test_new_nodes_use_edges(easy):
    model, truth = easy
    found = []
    for number in range(3):
        mine = np.flatnonzero(truth == number)[:8]
        predictions = joined(model, PLAIN, [(0, node) for node in mine], [(0, other) for other in range(1, 6)])
        assert predictions.probabilities[0].argmax() == number
        assert (predictions.positions == inference.MISSING).all()
        found.append(predictions.probabilities[1:].mean(axis=0))
    # A class is more probable two edges from its nodes than two edges from other nodes.
    assert np.argmax(found, axis=0).tolist() == [0, 1, 2]


def test_new_nodes_use_features(easy):
    model, _ = easy
    features = PLAIN[:3].copy()
    features[np.arange(3), 1 + np.arange(3)] = 4.5
    assert joined(model, features, []).probabilities.argmax(axis=1).tolist() == [0, 1, 2]


def test_new_nodes_join_the_fitted_graph(easy):
    model, _ = easy
    predictions = joined(model, PLAIN[:2], [(0, 7), (1, 30)], [(0, 1)])
    edges = np.zeros((62, 62))
    edges[[60, 61, 60], [7, 30, 61]] = 1
    edges += edges.T
    edges[:60, :60] = model.graph_.adjacency.toarray()
    whole = Graph(edges, np.concatenate([model.graph_.features, PLAIN[:2]]), class_names=model.graph_.class_names)
    expected = model.predict_proba(graph=whole)[60:]
    assert_array_equal(predictions.probabilities.argmax(1), expected.argmax(1))
    if model.method != "mt-plus":  # whose nodes of the fit keep their rows: see mt_plus/test_new_nodes.py
        assert_allclose(predictions.probabilities, expected, atol=1e-6)
    assert_array_equal(model.predict_proba(), model.label_distributions_)


def test_new_rows_join_by_edges_from_python(easy):
    model, _ = easy
    expected = joined(model, PLAIN[:2], [(0, 7), (1, 30)], [(0, 1)]).probabilities
    frame = pd.DataFrame(PLAIN[:2], index=["new", "newer"])
    for table, edges in (
        (PLAIN[:2], [(60, 7), (30, 61), (61, 60)]),
        (frame, [("new", 7), ("newer", 30), ("new", "newer")]),
        (frame, np.array([["new", "7", 1.0], ["newer", "30", 1.0], ["new", "newer", 1.0]], dtype=object)),
        (frame, pd.DataFrame({"a": ["new", "newer", "new"], "b": ["7", "30", "newer"], "weight": [1.0, 1, 1]})),
    ):
        assert_allclose(model.predict_proba(table, edges=edges), expected, atol=1e-6)
    with pytest.warns(GraphNote, match="1 of 2 edges connect two nodes of the model and are dropped"):
        assert len(model.predict(PLAIN[:1], edges=[(60, 7), (1, 2)])) == 1
    for table, edges, message in (
        (PLAIN[:1], [(60, 99)], "1 ends of edges are neither in X nor in the fit, such as '99'"),
        (PLAIN[:1], [60, 7], r"edges of shape \(2,\); give pairs of ids"),
        (frame.set_axis([5, 6]), [(5, 6)], "some ids of X are nodes of the fit"),
        (None, [(60, 7)], "give X and no graph"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict(table, edges=edges)


def test_only_new_rows_are_computed(make_graph):
    """By mt-plus; the class is that in the joint graph, and other rows of the call do not matter."""
    whole = make_graph(nodes=60, easy=True, sparse=False)
    settings = {"dimensions": 16, "infomax_epochs": 30}
    model = quick("mt-plus", settings=settings, scale=False).fit_graph(with_labels(whole, range(9)))
    new = whole.features[:6] + 0.1
    together = model.predict_proba(new)
    assert_allclose([model.predict_proba(row[None])[0] for row in new], together, atol=1e-6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PeerMethod, "apply_to_new", Method.apply_to_new)
        assert_array_equal(model.predict_proba(new).argmax(1), together.argmax(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtgcn.methods.mt_plus.views.personalized_page_rank", lambda *_: pytest.fail("walks everywhere"))
        model.predict_proba(new + 0.1)


def test_predictions_that_are_not_finite(graph):
    model = quick("gcn", settings={"epochs": 2}).fit_graph(graph)
    model.parameters_["weight1"][:] = np.nan
    others = replace(graph, node_ids=np.arange(1000, 1000 + graph.num_nodes))
    with pytest.raises(InputError, match=r"the predictions for these nodes are not finite \(NaN\); look for huge"):
        model.predict_proba(None, others)


def test_nearest_neighbour_graph(blobs):
    rows, y, _ = blobs
    model = quick("lp", settings=None, neighbors=3, mutual_neighbors=True).fit(rows, y)
    expected = neighbour_graph(model.graph_.features, 3, mutual=True)
    assert (model.graph_.adjacency != expected).nnz == 0
    few = quick(neighbors=10).fit(np.array([[0.0], [0.1], [5.0]]), [0, -1, 1])
    assert few.graph_.num_edges == 3


def test_new_rows_are_attached_to_their_nearest_rows(blobs):
    rows, y, truth = blobs
    old = (np.arange(60) % 2 == 0) | (y != -1)
    model = quick(scale=False).fit(rows[old], y[old])
    assert model.score(rows[~old], truth[~old]) > 0.9
    # By hand: the graph with the one new node in it.
    new, count = rows[~old][:1], old.sum()
    nearest = np.argsort(np.linalg.norm(rows[old] - new, axis=1))[:10]
    edges = np.zeros((count + 1, count + 1))
    edges[:-1, :-1] = model.graph_.adjacency.toarray()
    edges[-1, nearest] = edges[nearest, -1] = 1
    by_hand = model.predict_proba(np.concatenate([rows[old], new]), graph=edges)[-1:]
    assert_allclose(model.predict_proba(new), by_hand, atol=1e-5)


def as_dense(table):
    return np.asarray(table, dtype=np.float32)


def as_sparse(table):
    return sp.csr_array(as_dense(table))


@pytest.mark.parametrize("form", [as_dense, as_sparse])
@pytest.mark.parametrize("other", [as_dense, as_sparse])
def test_positions_of_equal_rows(form, other):
    random = np.random.default_rng(0)
    table = random.integers(0, 3, (200, 4))  # at most 81 distinct rows
    rows = np.concatenate([table[::7], random.integers(0, 4, (150, 4))])
    expected = []
    for number, row in enumerate(rows):
        equal = np.flatnonzero((table == row).all(axis=1))
        before = (rows[:number] == row).all(axis=1).sum()
        expected.append(equal[before % len(equal)] if len(equal) else inference.MISSING)
    graph = Graph(sp.csr_array((200, 200)), form(table))
    assert_array_equal(inference.positions_of_rows(graph, other(rows)), expected)
    assert_array_equal(inference.positions_of_rows(graph, other(table)), np.arange(200))
    longer = np.concatenate([table, [[7, 7, 7, 7]]])  # without the shortcut for equal tables
    assert_array_equal(inference.positions_of_rows(graph, other(longer)), [*range(200), inference.MISSING])


def test_row_hashes(monkeypatch):
    def graph(rows):
        return Graph(np.zeros((2, 2)), rows)

    found = inference.positions_of_rows(graph([[0.0, 1.0], [5.0, 5.0]]), as_dense([[-0.0, 1.0]]))
    assert found == [0]
    monkeypatch.setattr(inference, "_hashes", lambda table: [0] * len(table))
    assert inference.positions_of_rows(graph([[1.0], [3.0]]), as_dense([[2.0]])) == [inference.MISSING]  # a collision


@pytest.mark.parametrize(
    ("known", "ids", "places"),
    [
        ([30, 10, 20], [10, 11, 30, 10], [1, inference.MISSING, 0, 1]),
        (["c", "a", "b"], ["a", "d", "c"], [1, inference.MISSING, 0]),
        (["7", "007", "x"], [7, 8], [0, inference.MISSING]),
        ([7, 8], ["7", "007", "x"], [0, inference.MISSING, inference.MISSING]),
        (["short"], ["short but longer"], [inference.MISSING]),
        ([0.5, 1.5], [1.5, 2.5], [1, inference.MISSING]),
    ],
)
def test_positions_of_ids(known, ids, places):
    assert_array_equal(positions_of_ids(np.array(known), np.array(ids)), places)
