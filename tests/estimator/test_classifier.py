"""`MutualTeachingClassifier`: scikit-learn's manners, graphs and labels of every kind, new nodes."""

import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtgcn import FitWarning, Graph, MutualTeachingClassifier
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


def test_the_page_of_a_fit_is_one_file(model, tmp_path):
    with pytest.raises(NotFittedError):
        quick().report(tmp_path / "page.html")
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "model.report(path, folds=5)" in page  # how to have the accuracy measured
    model.report(tmp_path / "page.html", folds=2)
    assert "labels are too few to tell" in (tmp_path / "page.html").read_text(encoding="utf-8")


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


# ---- graphs


def adjacency_of(edges, nodes=16):
    matrix = sp.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes)).tocsr()
    return matrix.maximum(matrix.T)


def test_edges_alone_are_enough(ring):
    _, y, truth, edges = ring
    model = quick().fit(None, y, graph=adjacency_of(edges))
    np.testing.assert_array_equal(model.transduction_, truth)
    assert model.graph_.features is None
    assert model.n_features_in_ == 0
    np.testing.assert_array_equal(model.predict(), truth)
    np.testing.assert_array_equal(model.predict(None, graph=adjacency_of(edges)), truth)
    with pytest.raises(InputError, match="fitted without features and knows its own graph alone"):
        model.predict(np.ones((16, 3)))
    with pytest.raises(InputError, match="its numbers mean nothing on another graph"):
        model.predict(None, graph=adjacency_of(edges[:, :-1]))


def test_a_graph_fits_itself(ring):
    rows, y, _, edges = ring
    graph = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right"))
    model = quick().fit_graph(graph)
    assert quick(scale=False).fit_graph(graph).graph_ is graph
    np.testing.assert_array_equal(model.classes_, ["left", "right"])
    np.testing.assert_array_equal(model.label_distributions_, quick().fit(rows, y, graph).label_distributions_)
    third = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right", "middle"))
    with pytest.raises(InputError, match="class 'middle' has no labelled node; label one, or leave the class out"):
        quick().fit_graph(third)


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
        ({"random_state": -1}, "random_state is '-1'; give a whole number >= 0"),
        ({"metric": None}, "unknown metric None of type NoneType; choose from euclidean"),
        ({"device": None}, "unknown device None of type NoneType"),
        ({"settings": "per_class"}, "settings are 'per_class'; give a dictionary"),
        ({"method": 5, "settings": None}, "method is '5'; give a name"),
    ],
)
def test_bad_parameters_are_found_in_fit(blobs, parameters, complaint):
    rows, y, _ = blobs
    model = quick(**parameters)
    with pytest.raises(InputError, match=complaint):
        model.fit(rows, y)


def test_a_device_of_torch_is_a_device(blobs, tmp_path):
    rows, y, _ = blobs
    model = quick(device=torch.device("cpu")).fit(rows, y)
    np.testing.assert_array_equal(model.predict_proba(), quick(device="cpu").fit(rows, y).predict_proba())
    model.save(tmp_path / "model")
    assert MutualTeachingClassifier.load(tmp_path / "model").device == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_one_clear_error(blobs):
    rows, y, _ = blobs
    with pytest.raises(InputError, match="'cuda' asked for, but torch finds no CUDA device"):
        quick(device="cuda").fit(rows, y)


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


# ---- what it says while it works, and of its work


def test_verbose_tells_every_stage_on_standard_error(blobs, capsys):
    rows, y, _ = blobs
    quick(verbose=True).fit(rows, y)
    out, err = capsys.readouterr()
    assert (out, err.rpartition(", ")[0]) == ("", "fitting mt-gcn: done")
    settings = {"dimensions": 8, "infomax_epochs": 5}
    MutualTeachingClassifier(settings=settings, random_state=0, verbose=True).fit(rows, y)
    out, err = capsys.readouterr()
    stages = ("features and edges", "embeddings", "votes", "teaching")
    assert out == ""
    assert [line.rpartition(", ")[0] for line in err.splitlines()] == [
        *(f"fitting mt-plus, {title}" for title in stages),
        "fitting mt-plus: done",
    ]


def test_without_verbose_nothing_is_printed(blobs, capsys):
    rows, y, _ = blobs
    quick().fit(rows, y)
    assert capsys.readouterr() == ("", "")


def test_a_fit_that_may_be_worth_little_says_so(blobs):
    rows, y, _ = blobs
    few = y.copy()
    few[np.flatnonzero(y == 2)[0]] = -1
    with pytest.warns(FitWarning, match="Class '2': one label only") as caught:
        quick().fit(rows, few)
    assert {warning.filename for warning in caught} == {__file__}  # in the name of whoever called
    unlike = rows * [10_000, 1, 1, 1]
    with pytest.warns(FitWarning, match="Column 0 of size .* the others hardly count") as caught:
        quick(scale=False).fit(unlike, few)
    assert str(caught[0].message).startswith("Column 0")  # the cause first


def test_a_good_fit_warns_of_nothing(blobs):
    rows, _, truth = blobs
    y = np.where(np.arange(60) < 20, truth, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(rows, y)


@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (50, 50, "the graph has 60 nodes and X has 50 rows; give one for each node, in the same order"),
        (None, 50, "the graph has 60 nodes and y has 50 labels; give one for each node, in the same order"),
    ],
)
def test_a_graph_of_another_size_is_told_as_such(blobs, rows, labels, message):
    table, y, _ = blobs
    with pytest.raises(InputError, match=message):
        quick().fit(None if rows is None else table[:rows], y[:labels], graph=np.ones((60, 60)))
