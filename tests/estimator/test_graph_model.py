"""A model without scikit-learn's manners: it learns, answers and keeps what the classifier does."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.graph_model import GraphModel


def test_it_is_the_classifier_but_for_the_manners(farm, tmp_path, assert_equal, quick_settings):
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


def test_before_a_fit_there_is_nothing_to_ask(tmp_path):
    model = GraphModel()
    for ask in (
        model.suggest,
        model.plot,
        lambda: model.label({}),
        lambda: model.save(tmp_path),
        lambda: model.report("p"),
    ):
        with pytest.raises(NotFittedError, match="this GraphModel is not fitted yet; call fit first"):
            ask()
