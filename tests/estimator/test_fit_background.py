"""What a model knows of its own fit beside its answers."""

from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.estimator import MutualTeachingClassifier
from mtgcn.estimator.graph_model import HOW_TO_MEASURE, fit_background
from mtgcn.estimator.persistence import save_model
from mtgcn.report.fit_page import Background
from mtgcn.uncertainty.expected_accuracy import expected_accuracy


@pytest.fixture(scope="module")
def model(make_graph):
    graph = make_graph(nodes=60, easy=True)
    labels = np.where(np.arange(60) < 24, graph.labels, -1)
    return MutualTeachingClassifier("lp", random_state=0).fit_graph(replace(graph, labels=labels))


def test_after_a_fit_nothing_is_known_but_how_to_know(model):
    assert fit_background(model) == Background(None, HOW_TO_MEASURE, ())


def test_accuracy_is_measured_if_asked(model):
    measured = expected_accuracy(model.graph_, model.method_, seed=0, folds=4)
    assert fit_background(model, folds=4) == Background(measured)


def test_too_few_labels_are_said_to_be(model):
    labels = np.where(np.arange(60) < 6, model.graph_.labels, -1)
    few = MutualTeachingClassifier("lp").fit_graph(replace(model.graph_, labels=labels))
    assert "6 labels are too few to tell" in fit_background(few, folds=5).why_no_expected_accuracy


def test_a_stored_model_knows_what_its_folder_tells(model, tmp_path):
    told = {"accuracy": 0.75, "ci95": [0.6, 0.9], "labels": 20, "folds": 5}
    save_model(model, tmp_path / "model", training={"expected_accuracy": told, "notes": ["income: standardised"]})
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    background = fit_background(loaded)
    assert (background.expected_accuracy.accuracy, background.notes) == (0.75, ("income: standardised",))
    # Fitted again, it is another model, of which the folder knows nothing.
    assert fit_background(loaded.fit_graph(model.graph_)).expected_accuracy is None


def test_one_fold_is_refused(model):
    with pytest.raises(InputError, match="folds is 1; give at least 2"):
        fit_background(model, folds=1)
