from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fitted_models import with_labels
from mtgcn.errors import InputError
from mtgcn.estimator import graph_model
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import load_model, save_model
from mtgcn.report.fit_page import Background
from mtgcn.splits import LARGEST_SEED
from mtgcn.uncertainty.held_out import expected_accuracy


def test_graph_model_equals_classifier(farm, tmp_path, assert_equal, quick_settings):
    model = graph_model.GraphModel("mt-gcn", settings=quick_settings, random_state=0).fit_graph(farm)
    assert_equal(model, MutualTeachingClassifier("mt-gcn", settings=quick_settings, random_state=0).fit_graph(farm))
    model.save(tmp_path / "model")
    for kind in (graph_model.GraphModel, MutualTeachingClassifier):
        loaded = kind.load(tmp_path / "model")
        assert type(loaded) is kind
        assert np.array_equal(loaded.label_distributions_, model.label_distributions_)
    more = dict.fromkeys(farm.node_ids[-2:].tolist(), farm.class_names[0])
    assert_equal(
        graph_model.GraphModel.load(tmp_path / "model").label(more),
        MutualTeachingClassifier.load(tmp_path / "model").label(more),
    )


@pytest.mark.parametrize("ask", ["suggest", "plot", "label", "save", "report", "predict", "predict_proba"])
def test_not_fitted(ask, tmp_path):
    arguments = {"label": [{}], "save": [tmp_path / "model"], "report": [tmp_path / "page"]}.get(ask, [])
    with pytest.raises(NotFittedError, match="this MutualTeachingClassifier is not fitted yet; call fit first"):
        getattr(MutualTeachingClassifier(), ask)(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_seed_limit():
    assert graph_model.seed_of(LARGEST_SEED) == LARGEST_SEED
    with pytest.raises(InputError, match=r"give at most 2\*\*128"):
        graph_model.seed_of(LARGEST_SEED + 1)


@pytest.fixture(scope="module")
def model(make_graph):
    graph = with_labels(make_graph(nodes=60, easy=True), range(24))
    return MutualTeachingClassifier("lp", random_state=0).fit_graph(graph)


def test_background_after_a_fit(model):
    assert graph_model.fit_background(model) == Background(None, graph_model.HOW_TO_MEASURE, ())
    measured = expected_accuracy(model.graph_, model.method_, seed=0, folds=4)
    assert graph_model.fit_background(model, folds=4) == Background(measured)
    few = MutualTeachingClassifier("lp").fit_graph(with_labels(model.graph_, range(3)))
    message = "class '0' has 1 label, and none can be held out"
    assert message in graph_model.fit_background(few, folds=5).why_no_expected_accuracy
    with pytest.raises(InputError, match="folds is 1; give at least 2"):
        graph_model.fit_background(model, folds=1)


def test_accuracy_by_the_cross_validation_of_the_method(model, tmp_path):
    quick = MutualTeachingClassifier(settings={"infomax_epochs": 3}, random_state=0).fit_graph(model.graph_)
    expected = quick.expected_accuracy_
    assert (expected.labels, expected.folds) == (24, 5)
    assert graph_model.fit_background(quick) == Background(expected)
    quick.save(tmp_path / "model")
    assert MutualTeachingClassifier.load(tmp_path / "model").expected_accuracy_ == expected


def test_background_of_a_loaded_model(model, tmp_path):
    stored = {"accuracy": 0.75, "ci90": [0.62, 0.88], "ci95": [0.6, 0.9], "labels": 20, "folds": 5}
    save_model(model, tmp_path / "model", training={"expected_accuracy": stored, "notes": ["income: standardised"]})
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    background = graph_model.fit_background(loaded)
    assert (background.expected_accuracy.accuracy, background.notes) == (0.75, ("income: standardised",))
    assert graph_model.fit_background(loaded.fit_graph(model.graph_)).expected_accuracy is None


QUICK_PLUS = {"dimensions": 8, "infomax_epochs": 10}


def name(number):
    return f"Knoten {number} ✓"


@pytest.fixture
def more(farm_model):
    """More labels for the farm, whose first nine nodes are cat, dog, hen in turn."""
    return partial(graph_model.with_more_labels, farm_model)


def test_cached_values_are_reused_without_new_classes(more, farm_model):
    unlabelled = farm_model.graph_.without_labels
    assert more({name(20): "dog"})[0].without_labels is unlabelled
    assert more({name(20): "cow"}, new_classes=["cow"])[0].without_labels is not unlabelled


def test_label_changes(more, farm):
    graph, classes, changes = more({name(20): "dog", name(21): "dog", name(30): "cat", name(0): "hen", name(1): "dog"})
    assert changes.added == {"cat": 1, "dog": 2}
    assert changes.corrected == [graph_model.Correction(name(0), "cat", "hen")]
    assert (changes.repeated, changes.new_classes, changes.any) == (1, [], True)
    assert classes.tolist() == ["cat", "dog", "hen"]
    expected = farm.labels.copy()
    expected[[20, 21, 30, 0]] = [1, 1, 0, 2]
    np.testing.assert_array_equal(graph.labels, expected)
    assert (graph.node_ids.tolist(), graph.feature_names) == (farm.node_ids.tolist(), farm.feature_names)


def test_no_changes(more):
    _, _, changes = more({name(0): "cat", name(5): None, name(6): ""})
    assert (changes.added, changes.repeated, changes.any) == ({}, 1, False)
    assert more({})[2].any is False


def test_unknown_nodes(more):
    message = "2 of 3 labels refer to unknown nodes, for instance 'unknown', 'Knoten'"
    with pytest.raises(InputError, match=message):
        more({"unknown": "cat", name(20): "cat", "Knoten": "dog"})


def test_new_classes(more, farm):
    with pytest.raises(InputError, match=r"unknown class 'catt'; did you mean 'cat'\? .*--new-classes catt"):
        more({name(20): "catt"})
    graph, classes, changes = more({name(20): "cow", name(21): "hen"}, new_classes=["cow", "pig"])
    assert (classes.tolist(), changes.new_classes) == (["cat", "cow", "dog", "hen"], ["cow"])
    assert graph.class_names == ("cat", "cow", "dog", "hen")
    assert changes.added == {"cow": 1, "hen": 1}
    kept = [graph.class_names[graph.labels[node]] for node in range(9)]
    assert kept == [farm.class_names[farm.labels[node]] for node in range(9)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [("mt-gcn", {"warmup_epochs": 3, "teaching_epochs": 3}), ("mt-plus", QUICK_PLUS), ("lp", {})],
)
def test_label_equals_a_fit_with_all_labels(farm, method, settings, assert_equal, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    new, labels = [20, 21, 25], farm.labels.copy()
    labels[new] = [2, 0, 1]
    at_once, first = (
        MutualTeachingClassifier(method, settings=settings, random_state=3).fit_graph(graph)
        for graph in (replace(farm, labels=labels), farm)
    )
    first.save(tmp_path / "model")
    later = load_model(tmp_path / "model").label({name(node): farm.class_names[labels[node]] for node in new})
    assert_equal(later, at_once)
    assert later.seed_ == 3


@pytest.mark.slow
def test_label_reuses_embeddings(farm, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    for graph in (farm, replace(farm, features=None, feature_names=())):  # structural features are random
        MutualTeachingClassifier(settings=QUICK_PLUS).fit_graph(graph).save(tmp_path / "model")
        with monkeypatch.context() as patch:
            patch.setenv("MTGCN_CACHE", str(tmp_path / "another machine"))
            patch.setattr("mtgcn.methods.mt_plus.encoders.train", lambda *_: pytest.fail("trains encoders"))
            model = load_model(tmp_path / "model")
            before = model.parameters_
            model.label({name(20): "dog"})
        for key in ("infomax embeddings/weight", "held infomax embeddings/weight"):
            assert np.array_equal(model.parameters_[key], before[key])


def test_label_rows_by_position(blobs, quick_settings):
    rows, y, truth = blobs
    model = MutualTeachingClassifier("mt-gcn", settings=quick_settings, random_state=0).fit(rows, y)
    model.label({40: truth[40], 41: truth[41]})
    assert model.graph_.labels[[40, 41]].tolist() == truth[[40, 41]].tolist()
    assert model.classes_.dtype == truth.dtype
    with pytest.raises(InputError, match=r"'7' would be a new class, and the classes of this model are numbers"):
        model.label({42: 7}, new_classes=[7])


def test_last_label_of_a_class(farm_model):
    labels = {name(node): "dog" for node in range(9) if node % 3 == 0}
    with pytest.raises(InputError, match="class 'cat' has no labelled node"):
        farm_model.label(labels)


@pytest.mark.parametrize(
    ("new", "classes", "labels"),
    [
        ("1.0", ["1", "1.0", "2"], [0, 2, 1]),
        ("-1", ["-1", "1", "2"], [1, 2, 0]),
        ("01", ["01", "1", "2"], [1, 2, 0]),
        ("10", ["1", "2", "10"], [0, 1, 2]),
    ],
)
def test_new_classes_that_look_like_numbers(new, classes, labels):
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    model = MutualTeachingClassifier("lp").fit(np.arange(4.0)[:, None], ["1", "2", None, None], graph=path)
    model.has_node_ids_ = True
    model.label({"2": new}, new_classes=[new])
    assert model.classes_.tolist() == classes
    assert model.graph_.labels.tolist() == [*labels, -1]
