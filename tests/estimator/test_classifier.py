"""`MutualTeachingClassifier`: scikit-learn's manners, graphs and labels of every kind, new nodes."""

import pickle
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtgcn import Graph, MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.methods import METHODS, create
from mtgcn.task import Prediction

FEW_EPOCHS = {"warmup_epochs": 30, "teaching_epochs": 10, "learning_rate": 0.05}


def quick(method="mt-gcn", **parameters):
    """A classifier that is done in a moment."""
    return MutualTeachingClassifier(method, **{"settings": FEW_EPOCHS, "random_state": 0} | parameters)


def baseline(name):
    epochs = {key: 10 for key in METHODS[name].__dataclass_fields__ if key.endswith("epochs")}
    return quick(name, settings=epochs | ({"walks_per_node": 2} if name == "deepwalk" else {}))


@pytest.fixture(scope="module")
def blobs():
    """Three clouds of 20 points, 2 of each labelled: rows, y with -1 for the others, and the truth."""
    rows, truth = make_blobs(60, centers=3, n_features=4, cluster_std=1.0, random_state=3)
    y = np.full(60, -1)
    for number in range(3):
        chosen = np.flatnonzero(truth == number)[:2]
        y[chosen] = number
    return rows, y, truth


@pytest.fixture(scope="module")
def model(blobs):
    rows, y, _ = blobs
    return quick().fit(rows, y)


# ---- scikit-learn's own demands


def expected_failures(_estimator):
    return {
        "check_classifiers_classes": "it trains with the classes -1 and 1, and -1 is how unlabelled rows are written "
        "here, as everywhere in sklearn.semi_supervised, whose estimators scikit-learn excuses from this by name"
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([quick()], expected_failed_checks=expected_failures)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_parameters_are_stored_untouched_and_survive_clone():
    settings, backbone = {"per_class": 3}, torch.nn.Linear(2, 2)
    model = MutualTeachingClassifier("mt-gcn", backbone=backbone, neighbors=4, settings=settings)
    assert model.settings is settings
    assert model.backbone is backbone
    copy = clone(model)
    assert copy.get_params()["neighbors"] == 4
    assert copy.settings == settings
    assert copy.set_params(neighbors=7).neighbors == 7


def test_it_stands_in_a_pipeline_a_search_and_cross_validation(blobs):
    rows, _, truth = blobs
    pipeline = make_pipeline(StandardScaler(), quick())
    folds = StratifiedKFold(3)
    assert cross_val_score(pipeline, rows, truth, cv=folds).min() > 0.9
    search = GridSearchCV(pipeline, {"mutualteachingclassifier__neighbors": [3, 5]}, cv=folds).fit(rows, truth)
    assert search.best_score_ > 0.9


def test_cross_validation_scores_only_rows_whose_class_is_known(blobs):
    rows, _, truth = blobs
    partly = np.where(np.arange(60) % 3 == 0, truth, -1)
    scores = cross_val_score(quick(), rows, partly, cv=StratifiedKFold(3))
    assert scores.min() > 0.9


def test_pickle_keeps_the_answers(model, blobs):
    rows, _, _ = blobs
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.label_distributions_, model.label_distributions_)
    np.testing.assert_array_equal(copy.predict(rows[:5] + 0.1), model.predict(rows[:5] + 0.1))


@pytest.mark.parametrize("method", ["predict", "predict_proba", "suggest", "plot"])
def test_nothing_is_answered_before_fit(method):
    with pytest.raises(NotFittedError):
        getattr(quick(), method)()


# ---- what is learnt


def test_learned_attributes(model, blobs):
    _, y, truth = blobs
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert (model.transduction_ == truth).mean() > 0.9
    np.testing.assert_allclose(model.label_distributions_.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(model.transduction_, model.label_distributions_.argmax(axis=1))
    assert model.peer_distributions_.shape == (2, 60, 3)
    np.testing.assert_allclose(model.peer_distributions_.mean(axis=0), model.label_distributions_, atol=1e-6)
    assert model.n_iter_ == 40
    assert model.history_["supervised"].shape == (40, 2)
    assert np.isnan(model.history_["consistency"][:30]).all()
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.graph_.labels, y)
    assert model.method_ == create("mt-gcn", **FEW_EPOCHS)


def test_when_nodes_were_labelled(model, blobs):
    _, y, _ = blobs
    when = model.labeled_iter_
    np.testing.assert_array_equal(when == 0, y != -1)
    taught = when[when > 0]
    assert len(taught)
    assert taught.min() == 31  # the first epoch of teaching
    assert taught.max() <= 40
    assert set(when[when < 0]) <= {-1}


def test_without_pseudo_labels_only_given_nodes_are_marked(blobs):
    rows, y, _ = blobs
    when = baseline("gcn").fit(rows, y).labeled_iter_
    np.testing.assert_array_equal(when, np.where(y == -1, -1, 0))


def test_random_state_decides_everything_random(blobs):
    rows, y, _ = blobs
    again = quick().fit(rows, y).label_distributions_
    np.testing.assert_array_equal(quick().fit(rows, y).label_distributions_, again)
    assert not np.array_equal(quick(random_state=1).fit(rows, y).label_distributions_, again)
    generator = quick(random_state=np.random.RandomState(0))
    assert not np.array_equal(generator.fit(rows, y).label_distributions_, generator.fit(rows, y).label_distributions_)


def test_all_rows_may_be_labelled(blobs):
    rows, _, truth = blobs
    assert quick().fit(rows, truth).score(rows, truth) > 0.9


# ---- labels


@pytest.mark.parametrize("missing", [None, "", float("nan")], ids=["None", "empty", "NaN"])
@pytest.mark.parametrize("as_array", [False, True], ids=["list", "array"])
def test_named_classes(blobs, missing, as_array):
    rows, y, truth = blobs
    names = np.array(["ant", "bee", "crane fly"])
    given = [missing if label == -1 else str(names[label]) for label in y]
    model = quick().fit(rows, np.array(given, dtype=object) if as_array else given)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.classes_.dtype.kind == "U"
    assert (model.transduction_ == names[truth]).mean() > 0.9
    assert model.graph_.class_names == tuple(names)
    assert model.score(rows, [*names[truth][:30], *[missing] * 30]) > 0.9


def test_whole_numbers_as_floats_with_nan_for_unknown(blobs):
    rows, y, _ = blobs
    model = quick().fit(rows, np.where(y == -1, np.nan, y * 10.0))
    np.testing.assert_array_equal(model.classes_, [0.0, 10.0, 20.0])


def test_booleans_are_two_classes(blobs):
    rows, _, truth = blobs
    np.testing.assert_array_equal(quick().fit(rows, truth == 0).classes_, [False, True])


@pytest.mark.parametrize(
    ("labels", "complaint"),
    [
        (None, "y is None"),
        ([-1] * 60, "no node is labelled"),
        ([1, 1] + [-1] * 58, "one class only, 1, and 2 are the least"),
        ([0.5, 1] + [-1] * 58, "for instance 0.5; give whole numbers"),
        ([0, np.inf] + [-1] * 58, "contains infinity"),
        (["a", 1] + [None] * 58, "types int, str; give names alone"),
        ([0, 1] + [-1] * 50, "inconsistent numbers of samples"),
        (np.zeros((60, 2)), "1d array"),
    ],
)
def test_bad_labels_are_one_clear_error(blobs, labels, complaint):
    rows, _, _ = blobs
    with pytest.raises(ValueError, match=complaint):
        quick().fit(rows, labels)


# ---- graphs


@pytest.fixture(scope="module")
def ring():
    """Two rings of 8 nodes, one label in each, features without any meaning: rows, y, truth, edges as an edge index."""
    nodes = np.arange(16)
    forward = np.where(nodes % 8 == 7, nodes - 7, nodes + 1)
    y = np.full(16, -1)
    y[0], y[8] = 0, 1
    rows = np.random.default_rng(0).random((16, 3))
    return rows, y, nodes // 8, np.stack([nodes, forward])


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)


def networkx_graph(edges):
    graph = nx.Graph()
    graph.add_nodes_from(range(16))
    graph.add_edges_from(edges.T.tolist())
    return graph


GRAPHS = {
    "scipy": adjacency_of,
    "scipy coo, both directions not listed": lambda edges: sp.coo_matrix((np.ones(16), tuple(edges)), shape=(16, 16)),
    "dense": lambda edges: adjacency_of(edges).toarray(),
    "nested lists": lambda edges: adjacency_of(edges).toarray().tolist(),
    "edge index": lambda edges: edges,
    "edge index, torch": torch.from_numpy,
    "edge index, listed twice": lambda edges: np.concatenate([edges, edges[::-1], edges], axis=1),
    "sparse tensor": lambda edges: torch.from_numpy(adjacency_of(edges).toarray()).to_sparse_coo(),
    "networkx": networkx_graph,
    "Graph": lambda edges: Graph(adjacency=adjacency_of(edges)),
}


@pytest.mark.filterwarnings("ignore::mtgcn.files.notes.GraphNote")
@pytest.mark.parametrize("form", GRAPHS)
def test_a_graph_may_come_in_many_forms(ring, form):
    rows, y, _, edges = ring
    model = quick().fit(rows, y, graph=GRAPHS[form](edges))
    np.testing.assert_array_equal(model.graph_.adjacency.toarray(), adjacency_of(edges).toarray())
    np.testing.assert_allclose(model.graph_.features, rows, rtol=1e-6)


def test_pyg_data(ring):
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    rows, y, _, edges = ring
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    data = Data(x=torch.from_numpy(rows).float(), edge_index=both)
    by_parts, alone = quick().fit(rows, y, graph=data), quick().fit(None, y, graph=data)
    np.testing.assert_array_equal(by_parts.graph_.adjacency.toarray(), adjacency_of(edges).toarray())
    np.testing.assert_array_equal(alone.label_distributions_, by_parts.label_distributions_)


def test_edges_alone_are_enough(ring):
    _, y, truth, edges = ring
    model = quick().fit(None, y, graph=adjacency_of(edges))
    np.testing.assert_array_equal(model.transduction_, truth)
    assert model.graph_.features is None
    assert model.n_features_in_ == 0
    np.testing.assert_array_equal(model.predict(), truth)
    with pytest.raises(InputError, match="fitted without features and knows its own graph alone"):
        model.predict(np.ones((16, 3)))
    with pytest.raises(InputError, match="its numbers mean nothing on another graph"):
        model.predict(None, graph=adjacency_of(edges))


def test_node_ids_come_along(ring):
    _, y, _, edges = ring
    named = nx.relabel_nodes(networkx_graph(edges), {node: f"n{node}" for node in range(16)})
    model = quick().fit(None, y, graph=named)
    assert list(model.graph_.node_ids) == [f"n{node}" for node in range(16)]


def test_a_graph_fits_itself(ring):
    rows, y, _, edges = ring
    graph = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right"))
    model = quick().fit_graph(graph)
    assert model.graph_ is graph
    np.testing.assert_array_equal(model.classes_, ["left", "right"])
    np.testing.assert_array_equal(model.label_distributions_, quick().fit(rows, y, graph).label_distributions_)
    third = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right", "middle"))
    with pytest.raises(InputError, match="class 'middle' has no labelled node; label one, or leave the class out"):
        quick().fit_graph(third)


def test_without_a_graph_rows_are_linked_to_their_nearest(blobs):
    rows, y, _ = blobs
    either = quick(neighbors=3).fit(rows, y).graph_.adjacency
    mutual = quick(neighbors=3, mutual_neighbors=True).fit(rows, y).graph_.adjacency
    assert either.sum(axis=1).min() >= 3
    assert mutual.sum(axis=1).max() <= 3
    assert mutual.nnz < either.nnz


def test_a_table_of_few_rows_has_as_many_neighbours_as_there_are():
    rows = np.array([[0.0], [0.1], [5.0]])
    model = quick(neighbors=10).fit(rows, [0, -1, 1])
    assert model.graph_.num_edges == 3


def test_sparse_tables_are_taken_as_they_are(blobs):
    rows, y, _ = blobs
    rows = rows - rows.min()
    dense, sparse = quick().fit(rows, y), quick().fit(sp.csr_matrix(rows), y)
    assert sp.issparse(sparse.graph_.features)
    np.testing.assert_allclose(sparse.label_distributions_, dense.label_distributions_, atol=1e-3)
    new = rows[:7] + 0.5
    np.testing.assert_allclose(sparse.predict_proba(new), dense.predict_proba(sp.csr_array(new)), atol=1e-3)


@pytest.mark.parametrize(
    ("graph", "complaint"),
    [
        (np.ones((16, 15)), r"shape \(16, 15\)"),
        (np.ones((17, 17)), "for 17 nodes; give one per node"),
        (-np.ones((16, 16)), "weight -1"),
        (np.array([[0, 1], [1, 99]]), "99"),
        (np.array([["a", "b"], ["b", "a"]]), "graph of type <U1"),
        ("edges.csv", "graph of type str; give a scipy matrix"),
    ],
)
def test_bad_graphs_are_one_clear_error(ring, graph, complaint):
    rows, y, _, _ = ring
    with pytest.raises(InputError, match=complaint):
        quick().fit(rows, y, graph=graph)


def test_numbers_too_large_to_reckon_with_are_refused(ring):
    rows, y, _, edges = ring
    with pytest.raises(InputError, match=r"a feature of size 1e\+20, the limit is 1e\+15; scale all of them down"):
        quick().fit(np.where(rows == rows.max(), -1e20, rows), y)
    with pytest.raises(InputError, match=r"an edge weight of size 1e\+20, the limit is 1e\+15"):
        quick().fit(rows, y, graph=1e20 * adjacency_of(edges))
    with pytest.raises(ValueError, match="infinity"):
        quick().fit(1e300 * rows, y)


# ---- methods


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_an_estimator(blobs, name):
    rows, y, truth = blobs
    labels = np.where(np.arange(60) < 20, truth, y)  # enough for methods that hold some back
    model = baseline(name).fit(rows - rows.min(), labels)
    assert model.label_distributions_.shape == (60, 3)
    np.testing.assert_array_equal(model.predict(rows - rows.min()), model.transduction_)


@dataclass(frozen=True)
class AlwaysTheFirst:
    def fit(self, task):
        probabilities = np.zeros((task.runs, task.num_nodes, task.num_classes), dtype=np.float32)
        probabilities[..., 0] = 1
        return Prediction(probabilities)


def test_a_persons_own_method(blobs):
    rows, y, _ = blobs
    model = MutualTeachingClassifier(AlwaysTheFirst()).fit(rows, y)
    assert (model.transduction_ == 0).all()
    assert model.n_iter_ == 0
    assert (pickle.loads(pickle.dumps(clone(model).fit(rows, y))).transduction_ == 0).all()
    with pytest.raises(InputError, match="keeps nothing that could be applied"):
        model.predict(rows + 1)


def test_methods_without_parameters_refuse_new_rows(blobs):
    rows, y, _ = blobs
    model = quick("lp", settings=None).fit(rows, y)
    np.testing.assert_array_equal(model.predict(rows[::2]), model.transduction_[::2])
    with pytest.raises(InputError, match="ParWalks keeps nothing that could be applied to another graph"):
        model.predict(rows + 1)


def test_a_backbone_needs_a_method_that_has_one(blobs):
    rows, y, _ = blobs
    with pytest.raises(InputError, match="method 'lp' has no backbone to choose; use 'mt-gcn'"):
        quick("lp", backbone="gcn", settings=None).fit(rows, y)
    with pytest.raises(InputError, match="MTGCN has its settings already"):
        quick(create("mt-gcn"), backbone="gcn").fit(rows, y)


def test_a_backbone_alone_means_mt_gcn(blobs):
    rows, y, truth = blobs
    model = quick(None, backbone="appnp").fit(rows, y)
    assert type(model.method_) is METHODS["mt-gcn"]
    assert model.method_.backbone == "appnp"
    assert (model.transduction_ == truth).mean() > 0.8
    assert len(model.predict(rows[:3] + 0.01)) == 3


def test_a_method_that_needs_validation_labels_gets_some_of_the_given(blobs):
    rows, y, _ = blobs
    model = baseline("gcn+v").fit(rows, y)
    np.testing.assert_array_equal(model.labeled_iter_, np.where(y == -1, -1, 0))
    alone = np.full(60, -1)
    alone[[np.flatnonzero(y == number)[0] for number in range(3)]] = range(3)
    with pytest.raises(InputError, match="no class has 2; label more nodes"):
        baseline("gcn+v").fit(rows, alone)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"method": "mt-gnc"}, "did you mean 'mt-gcn'"),
        ({"settings": {"per_clas": 3}}, "did you mean 'per_class'"),
        ({"settings": {"per_class": 0}}, "per_class is 0; give at least 1"),
        ({"neighbors": 0}, "neighbors is 0; give a whole number, at least 1"),
        ({"neighbors": 2.5}, "neighbors is 2.5; give a whole number"),
        ({"metric": "no such metric"}, "no such metric"),
        ({"device": "abacus"}, "unknown device 'abacus'"),
        ({"random_state": "dice"}, "dice"),
    ],
)
def test_bad_parameters_are_found_in_fit(blobs, parameters, complaint):
    rows, y, _ = blobs
    model = quick(**parameters)
    with pytest.raises(ValueError, match=complaint):
        model.fit(rows, y)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_error(blobs):
    rows, y, _ = blobs
    with pytest.raises(InputError, match="'cuda' asked for, but torch finds no CUDA device"):
        quick(device="cuda").fit(rows, y)


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
    np.testing.assert_array_equal(model.predict(np.ones((1, 2))), model.transduction_[:1])


def test_new_rows_are_attached_to_their_nearest(blobs):
    rows, y, truth = blobs
    old = np.arange(60) % 2 == 0
    old |= y != -1
    model = quick().fit(rows[old], y[old])
    assert model.score(rows[~old], truth[~old]) > 0.9
    # By hand: the graph with the one new node in it.
    distance = np.linalg.norm(rows[old] - rows[~old][:1], axis=1)
    edges = np.zeros((old.sum() + 1, old.sum() + 1))
    edges[:-1, :-1] = model.graph_.adjacency.toarray()
    edges[-1, np.argsort(distance)[:10]] = edges[np.argsort(distance)[:10], -1] = 1
    by_hand = model.predict_proba(np.concatenate([rows[old], rows[~old][:1]]), graph=edges)[-1:]
    np.testing.assert_allclose(model.predict_proba(rows[~old][:1]), by_hand, atol=1e-5)


def test_a_mixture_of_old_and_new_rows(model, blobs):
    rows, _, _ = blobs
    mixture = np.concatenate([rows[:2], rows[2:4] + 0.01])
    probabilities = model.predict_proba(mixture)
    np.testing.assert_array_equal(probabilities[:2], model.label_distributions_[:2])
    np.testing.assert_array_equal(probabilities[2:].argmax(axis=1), model.transduction_[2:4])


def test_another_graph_is_judged_by_the_trained_peers(model, blobs):
    rows, _, _ = blobs
    same = model.predict_proba(rows, graph=model.graph_.adjacency)
    np.testing.assert_allclose(same, model.label_distributions_, atol=1e-6)
    fewer = model.predict_proba(rows[:30], graph=model.graph_.adjacency[:30][:, :30])
    assert fewer.shape == (30, 3)
    with pytest.raises(InputError, match=r"features of shape \(30, 4\) for 60 nodes"):
        model.predict(rows[:30], graph=model.graph_.adjacency)
    with pytest.raises(InputError, match="0 features for each node of the graph and 4 in training"):
        model.predict(None, graph=model.graph_.adjacency)


def test_nothing_to_score_is_said(model, blobs):
    rows, _, _ = blobs
    with pytest.raises(InputError, match="no row has a known class"):
        model.score(rows, np.full(60, -1))
    with pytest.raises(InputError, match="3 labels for 60 rows"):
        model.score(rows, [0, 1, 2])


# ---- beyond one fit


def test_the_default_is_mt_plus(blobs, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))  # where it keeps what it learns without labels
    rows, y, truth = blobs
    model = MutualTeachingClassifier(settings={"infomax_epochs": 20, "dimensions": 8}, random_state=0).fit(rows, y)
    assert type(model.method_) is METHODS["mt-plus"]
    assert (model.transduction_ == truth).mean() > 0.9
    assert (model.predict(rows[:9] + 0.01) == truth[:9]).mean() > 0.8
    with pytest.raises(InputError, match="'mt-plus' has no backbone to choose; use 'mt-gcn'"):
        MutualTeachingClassifier("mt-plus", backbone="gcn").fit(rows, y)


def test_a_model_is_saved_loaded_and_asked_what_to_label(model, blobs, tmp_path):
    rows, y, _ = blobs
    model.save(tmp_path / "model")
    again = MutualTeachingClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transduction_, model.transduction_)
    np.testing.assert_allclose(again.predict_proba(rows[:4] + 0.1), model.predict_proba(rows[:4] + 0.1), atol=1e-6)
    suggested = [suggestion.index for suggestion in again.suggest(3)]
    assert len(suggested) == 3
    assert (y[suggested] == -1).all()


def test_digits_with_two_labels_per_class():
    """Half of the digits, one split; the comparison with LabelSpreading is examples/table_without_graph.py."""
    pixels, truth = load_digits(n_class=5, return_X_y=True)
    y = np.full(len(truth), -1)
    for number in range(5):
        y[np.flatnonzero(truth == number)[:2]] = number
    settings = {"warmup_epochs": 60, "teaching_epochs": 60}
    model = MutualTeachingClassifier("mt-gcn", settings=settings, random_state=0).fit(pixels, y)
    assert (model.transduction_ == truth)[y == -1].mean() > 0.9
