import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from fitted_models import with_labels
from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.graph_model import HOW_TO_MEASURE, GraphModel, fit_background, seed_of
from mtgcn.estimator.persistence import save_model
from mtgcn.report.fit_page import Background
from mtgcn.splits import LARGEST_SEED
from mtgcn.uncertainty.held_out import expected_accuracy


def test_graph_model_equals_classifier(farm, tmp_path, assert_equal, quick_settings):
    model = GraphModel("mt-gcn", settings=quick_settings, random_state=0).fit_graph(farm)
    assert_equal(model, MutualTeachingClassifier("mt-gcn", settings=quick_settings, random_state=0).fit_graph(farm))
    model.save(tmp_path / "model")
    for kind in (GraphModel, MutualTeachingClassifier):
        loaded = kind.load(tmp_path / "model")
        assert type(loaded) is kind
        assert np.array_equal(loaded.label_distributions_, model.label_distributions_)
    more = dict.fromkeys(farm.node_ids[-2:].tolist(), farm.class_names[0])
    assert_equal(
        GraphModel.load(tmp_path / "model").label(more), MutualTeachingClassifier.load(tmp_path / "model").label(more)
    )


@pytest.mark.parametrize("ask", ["suggest", "plot", "label", "save", "report", "predict", "predict_proba"])
def test_not_fitted(ask, tmp_path):
    arguments = {"label": [{}], "save": [tmp_path / "model"], "report": [tmp_path / "page"]}.get(ask, [])
    with pytest.raises(NotFittedError, match="this MutualTeachingClassifier is not fitted yet; call fit first"):
        getattr(MutualTeachingClassifier(), ask)(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_seed_limit():
    assert seed_of(LARGEST_SEED) == LARGEST_SEED
    with pytest.raises(InputError, match=r"give at most 2\*\*128"):
        seed_of(LARGEST_SEED + 1)


@pytest.fixture(scope="module")
def model(make_graph):
    graph = with_labels(make_graph(nodes=60, easy=True), range(24))
    return MutualTeachingClassifier("lp", random_state=0).fit_graph(graph)


def test_background_after_a_fit(model):
    assert fit_background(model) == Background(None, HOW_TO_MEASURE, ())
    measured = expected_accuracy(model.graph_, model.method_, seed=0, folds=4)
    assert fit_background(model, folds=4) == Background(measured)
    few = MutualTeachingClassifier("lp").fit_graph(with_labels(model.graph_, range(6)))
    assert "6 labels are too few to tell" in fit_background(few, folds=5).why_no_expected_accuracy
    with pytest.raises(InputError, match="folds is 1; give at least 2"):
        fit_background(model, folds=1)


def test_background_of_a_loaded_model(model, tmp_path):
    stored = {"accuracy": 0.75, "ci95": [0.6, 0.9], "labels": 20, "folds": 5}
    save_model(model, tmp_path / "model", training={"expected_accuracy": stored, "notes": ["income: standardised"]})
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    background = fit_background(loaded)
    assert (background.expected_accuracy.accuracy, background.notes) == (0.75, ("income: standardised",))
    assert fit_background(loaded.fit_graph(model.graph_)).expected_accuracy is None
