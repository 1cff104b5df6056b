import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mtgcn import FitWarning, Graph, LabelFolds, MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.methods import METHODS, create
from mtgcn.task import Prediction
from small_models import FEW_EPOCHS, adjacency_of, quick


@pytest.fixture(scope="module")
def fit(blobs):
    """Fits a classifier with few epochs to the blobs."""
    rows, y, _ = blobs
    return lambda *arguments, **parameters: quick(*arguments, **parameters).fit(rows, y)


def expected_failures(_estimator):
    return {
        "check_classifiers_classes": "-1 marks unlabelled rows, as in sklearn.semi_supervised, whose estimators "
        "scikit-learn excludes from this check by name"
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [quick(settings={"warmup_epochs": 15, "teaching_epochs": 2, "learning_rate": 0.1})],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parameters_and_clone():
    settings, backbone = {"per_class": 3}, torch.nn.Linear(2, 2)
    model = MutualTeachingClassifier("mt-gcn", backbone=backbone, neighbors=4, settings=settings)
    assert model.settings is settings
    assert model.backbone is backbone
    assert clone(model).get_params()["neighbors"] == 4
    model.set_params(settings__peers=3, neighbors=7)
    assert (model.settings, model.neighbors) == ({"per_class": 3, "peers": 3}, 7)
    assert settings == {"per_class": 3}  # not changed
    assert clone(model).settings == model.settings
    assert model.set_params(settings={"peers": 2}, settings__per_class=9).settings == {"peers": 2, "per_class": 9}
    assert model.set_params(settings=None).settings is None
    assert model.set_params(settings__rounds=3).settings == {"rounds": 3}
    with pytest.raises(ValueError, match="Invalid parameter 'setting'"):
        model.set_params(setting__hidden=3)


def test_graph_is_routed(make_graph):
    graph = make_graph(nodes=90, easy=True, sparse=False)
    rows, truth = graph.features, graph.labels
    y = np.where(np.arange(90) < 30, truth, -1)
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            quick("gcn", settings={"epochs": 20, "learning_rate": 0.05})
            .set_fit_request(graph=True)
            .set_score_request(graph=True)
        )
        pipeline = make_pipeline(StandardScaler(), model)
        fitted = pipeline.fit(rows, y, graph=graph.adjacency)
        assert fitted[-1].graph_.num_edges == graph.num_edges
        grid = {"mutualteachingclassifier__settings__hidden_channels": [1, 16]}
        search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(rows, truth, graph=graph)
        with pytest.raises(UnsetMetadataPassedError, match="graph"):
            make_pipeline(StandardScaler(), quick("lp")).fit(rows, y, graph=graph)
    assert search.best_params_ == {"mutualteachingclassifier__settings__hidden_channels": 16}
    assert (search.best_estimator_[-1].method_.hidden_channels, search.best_estimator_[-1].method_.epochs) == (16, 20)
    assert search.best_score_ > 0.8  # the test parts have the edges among their own nodes
    assert search.best_estimator_[-1].graph_.num_edges == graph.num_edges


def test_report(model, tmp_path):
    model.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "model.report(path, folds=5)" in page
    model.report(tmp_path / "page.html", folds=2)
    assert "2-fold cross-validation on 6 given labels" in (tmp_path / "page.html").read_text(encoding="utf-8")


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


def test_labeled_iter(model, blobs, fit):
    _, y, _ = blobs
    when = model.labeled_iter_
    np.testing.assert_array_equal(when == 0, y != -1)
    assert when[when > 0].min() == 31  # the first epoch of teaching
    assert when.max() <= 40
    assert when.min() == -1
    for method in ("gcn", "gcn+v"):  # without pseudo-labels
        when = fit(method, settings={"epochs": 10}).labeled_iter_
        np.testing.assert_array_equal(when, np.where(y == -1, -1, 0))


def test_random_state(fit):
    first, again, other = (fit(random_state=seed).label_distributions_ for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    generator = np.random.RandomState(0)
    first, other = (fit(random_state=generator).label_distributions_ for _ in range(2))
    assert not np.array_equal(first, other)


def test_graph_without_features(ring):
    _, y, truth, edges = ring
    model = quick().fit(None, y, graph=adjacency_of(edges))
    assert (model.graph_.features, model.n_features_in_) == (None, 0)
    for found in (model.transduction_, model.predict(), model.predict(None, graph=adjacency_of(edges))):
        np.testing.assert_array_equal(found, truth)
    with pytest.raises(InputError, match="fitted without features and predicts its own nodes only"):
        model.predict(np.ones((16, 3)))
    with pytest.raises(InputError, match="does not apply to other nodes"):
        model.predict(None, graph=adjacency_of(edges[:, :-1]))


def test_fit_graph(ring):
    rows, y, _, edges = ring
    rows = rows.astype(np.float32)  # as a graph stores them
    graph = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right"))
    model = quick().fit_graph(graph)
    assert quick(scale=False).fit_graph(graph).graph_ is graph
    np.testing.assert_array_equal(model.classes_, ["left", "right"])
    np.testing.assert_array_equal(model.label_distributions_, quick().fit(rows, y, graph).label_distributions_)
    third = Graph(adjacency=adjacency_of(edges), features=rows, labels=y, class_names=("left", "right", "middle"))
    with pytest.raises(InputError, match="class 'middle' has no labelled node"):
        quick().fit_graph(third)


@dataclass(frozen=True)
class FirstClass:
    def fit(self, task):
        probabilities = np.zeros((task.runs, task.num_nodes, task.num_classes), dtype=np.float32)
        probabilities[..., 0] = 1
        return Prediction(probabilities)


def test_methods_without_parameters(fit, blobs):
    rows, y, _ = blobs
    model = fit(FirstClass(), settings=None)
    assert (model.transduction_ == 0).all()
    assert model.n_iter_ == 0
    assert (pickle.loads(pickle.dumps(clone(model).fit(rows, y))).transduction_ == 0).all()
    for without in (model, fit("lp", settings=None)):
        np.testing.assert_array_equal(without.predict(rows[::2]), without.transduction_[::2])
        with pytest.raises(InputError, match=r"\w+ has no trained parameters for other graphs"):
            without.predict(rows + 1)


def test_backbone(fit, blobs):
    rows, _, truth = blobs
    model = fit(None, backbone="appnp")
    assert type(model.method_) is METHODS["mt-gcn"]
    assert model.method_.backbone == "appnp"
    assert (model.transduction_ == truth).mean() > 0.8
    assert len(model.predict(rows[:3] + 0.01)) == 3


def test_validation_labels(blobs):
    rows, y, _ = blobs
    alone = np.full(60, -1)
    alone[[np.flatnonzero(y == number)[0] for number in range(3)]] = range(3)
    with pytest.raises(InputError, match="no class has 2 labels; label more nodes"):
        quick("gcn+v", settings=None).fit(rows, alone)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "mt-gnc"}, "did you mean 'mt-gcn'"),
        ({"settings": {"per_clas": 3}}, "did you mean 'per_class'"),
        ({"settings": {"per_class": 0}}, "per_class is 0; give at least 1"),
        ({"neighbors": 0}, "neighbors is 0; give a whole number, at least 1"),
        ({"metric": "no such metric"}, "no such metric"),
        ({"device": "abacus"}, "unknown device 'abacus'"),
        ({"random_state": "dice"}, "dice"),
        ({"random_state": -1}, "random_state is '-1'; give a whole number >= 0"),
        ({"settings": "per_class"}, "settings are 'per_class'; give a dictionary"),
        ({"method": 5, "settings": None}, "method is '5'; give a name"),
        ({"method": "lp", "backbone": "gcn", "settings": None}, "method 'lp' has no backbone to choose; use 'mt-gcn'"),
        ({"method": create("mt-gcn"), "backbone": "gcn"}, "MTGCN has its own settings"),
    ],
)
def test_invalid_parameters(fit, parameters, message):
    with pytest.raises(InputError, match=message):
        fit(**parameters)


def test_device(fit, tmp_path):
    model = fit(device=torch.device("cpu"))
    np.testing.assert_array_equal(model.predict_proba(), fit(device="cpu").predict_proba())
    model.save(tmp_path / "model")
    assert MutualTeachingClassifier.load(tmp_path / "model").device == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="'cuda' requested, but torch finds no CUDA device"):
            fit(device="cuda")


def test_score(model, blobs):
    rows, _, truth = blobs
    partly = np.where(np.arange(60) % 3 == 0, truth, -1)
    assert model.score(rows, partly) == (model.transduction_ == truth)[::3].mean()
    with pytest.raises(InputError, match="no row has a known class"):
        model.score(rows, np.full(60, -1))
    with pytest.raises(InputError, match="3 labels for 60 rows"):
        model.score(rows, [0, 1, 2])
    assert quick().fit(rows, truth).score(rows, truth) > 0.9  # all rows labelled


def test_default_method(blobs, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    rows, y, truth = blobs
    model = MutualTeachingClassifier(settings={"infomax_epochs": 20, "dimensions": 8}, random_state=0).fit(rows, y)
    assert type(model.method_) is METHODS["mt-plus"]
    assert (model.transduction_ == truth).mean() > 0.9
    assert (model.predict(rows[:9] + 0.01) == truth[:9]).mean() > 0.8


def test_verbose(fit, capsys):
    fit()
    assert capsys.readouterr() == ("", "")
    fit(None, settings={"dimensions": 8, "infomax_epochs": 5}, verbose=True)
    out, err = capsys.readouterr()
    stages = ("features and edges", "embeddings", "cross-validation", "teaching")
    assert out == ""
    assert [line.rpartition(", ")[0] for line in err.splitlines()] == [
        *(f"fitting mt-plus, {title}" for title in stages),
        "fitting mt-plus: done",
    ]


def test_fit_warnings(blobs):
    rows, y, truth = blobs
    few = np.where(np.arange(60) == np.flatnonzero(y == 2)[0], -1, y)
    with pytest.warns(FitWarning, match="Class '2': one label only") as caught:
        quick().fit(rows, few)
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(FitWarning) as caught:
        quick(scale=False).fit(rows * [10_000, 1, 1, 1], few)
    assert str(caught[0].message).startswith("Column 0 of size")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(rows, np.where(np.arange(60) < 20, truth, -1))


def test_column_that_predicts_the_target_is_named():
    random = np.random.default_rng(0)
    kinds = random.choice(["cat", "dog"], 90)
    frame = pd.DataFrame({"size": random.normal(size=90), "code": np.where(kinds == "cat", "x", "y")})
    frame["kind"] = [kind if place < 40 else None for place, kind in enumerate(kinds)]
    with pytest.warns(FitWarning, match=r"Column 'code' \(40 of 40 labels\) predicts kind alone"):
        model = MutualTeachingClassifier(random_state=0).fit(frame, target="kind")
    assert model.expected_accuracy_ is None  # that column predicts held-out labels, too
    assert MutualTeachingClassifier(random_state=0).fit(frame.drop(columns="code"), target="kind").expected_accuracy_


def labels_of(truth, kind):
    """Twelve labels, four of each class; the first row has one."""
    chosen = np.concatenate([np.flatnonzero(truth == number)[:4] for number in range(3)])
    y = np.full(len(truth), {"names": None, "numbers": -1, "floats": np.nan}[kind], dtype=object)
    y[chosen] = np.array(["ant", "bee", "cat"])[truth[chosen]] if kind == "names" else truth[chosen]
    assert 0 in chosen
    return y if kind == "names" else y.astype(float if kind == "floats" else int)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["names", "numbers", "floats"])
def test_cross_val_score(blobs, kind):
    rows, _, truth = blobs
    scores = cross_val_score(quick(), rows, labels_of(truth, kind), cv=LabelFolds(4))
    assert scores.shape == (4,)
    assert scores.min() > 0.9


@pytest.mark.slow
def test_plain_folds_of_unknown_labels(blobs):
    rows, _, truth = blobs
    few = labels_of(truth, "numbers")
    with pytest.warns(UserWarning, match=r"Scoring failed(.|\n)*16 of 20 rows .*cv=mtgcn.LabelFolds\(\), which keeps"):
        assert np.isnan(cross_val_score(quick(), rows, few, cv=3)).all()
    assert cross_val_score(quick(), rows, truth, cv=3).min() > 0.9


def test_cross_val_predict(blobs):
    rows, _, truth = blobs
    found = cross_val_predict(quick(), rows, labels_of(truth, "numbers"), cv=LabelFolds(3, all_rows=True))
    assert (found == truth).mean() > 0.9


def test_folds(blobs):
    _, _, truth = blobs
    y = labels_of(truth, "names")
    known = np.flatnonzero([name is not None for name in y])
    folds = list(LabelFolds(4).split(None, y))
    assert LabelFolds(4).get_n_splits() == len(folds) == 4
    assert sorted(np.concatenate([held_out for _, held_out in folds])) == known.tolist()
    for train, held_out in folds:
        assert sorted([*train, *held_out]) == list(range(60))
        assert sorted(y[held_out]) == ["ant", "bee", "cat"]


@pytest.mark.parametrize(
    ("splits", "y", "message"),
    [
        (3, ["a", "a", "a", "b", "b", None], "n_splits is 3, and there are 2 labels of class b"),
        (1, ["a", "a", "b", "b"], "n_splits is 1"),
        (2, [None, None], "there are no labels"),
    ],
)
def test_invalid_folds(splits, y, message):
    with pytest.raises(InputError, match=message):
        next(LabelFolds(splits).split(None, y))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_fit_of_a_frame_with_a_target(kind, tmp_path):
    columns = {"age": [20, 22, 24, 60, 62, 64], "city": ["Ulm", "Ulm", None, "Hof", "Hof", "Hof"]}
    frame = kind(columns | {"segment": ["young", None, None, "old", None, None]})
    model = MutualTeachingClassifier("logistic", neighbors=2, random_state=0).fit(frame, target="segment")
    assert model.transduction_.tolist() == ["young"] * 3 + ["old"] * 3
    same = MutualTeachingClassifier("logistic", neighbors=2, random_state=0).fit(kind(columns), frame["segment"])
    assert np.array_equal(model.label_distributions_, same.label_distributions_)
    model.save(tmp_path / "model")
    for fitted in (model, MutualTeachingClassifier.load(tmp_path / "model")):
        assert fitted.predict(frame).tolist() == model.transduction_.tolist()  # the target is ignored
        assert fitted.predict(kind(columns)).tolist() == model.transduction_.tolist()
    with pytest.raises(InputError, match="classes as y or as target='segment', not both"):
        model.fit(frame, [0] * 6, target="segment")
