"""Settings of the method are reached one by one, as scikit-learn reaches parts of an estimator."""

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError


def test_a_search_over_a_setting(blobs):
    rows, _, truth = blobs
    model = MutualTeachingClassifier("gcn", settings={"epochs": 20, "learning_rate": 0.05}, random_state=0)
    search = GridSearchCV(model, {"settings__hidden_channels": [1, 8]}, cv=2, error_score="raise").fit(rows, truth)
    assert search.best_estimator_.method_.epochs == 20
    assert [entry["settings__hidden_channels"] for entry in search.cv_results_["params"]] == [1, 8]
    assert search.best_estimator_.method_.hidden_channels == search.best_params_["settings__hidden_channels"] == 8
    pipeline = make_pipeline(StandardScaler(), model)
    name = "mutualteachingclassifier__settings__hidden_channels"
    assert GridSearchCV(pipeline, {name: [4]}, cv=2, error_score="raise").fit(rows, truth).best_params_ == {name: 4}


def test_what_somebody_handed_over_is_left_as_it_is():
    own = {"per_class": 3}
    model = MutualTeachingClassifier("mt-gcn", settings=own).set_params(settings__peers=3, neighbors=4)
    assert own == {"per_class": 3}
    assert (model.settings, model.neighbors) == ({"per_class": 3, "peers": 3}, 4)
    assert clone(model).settings == model.settings
    assert model.set_params(settings={"peers": 2}, settings__per_class=9).settings == {"peers": 2, "per_class": 9}
    assert model.set_params(settings=None).settings is None
    assert MutualTeachingClassifier().set_params(settings__rounds=3).settings == {"rounds": 3}


def test_a_setting_that_no_method_has(blobs):
    rows, y, _ = blobs
    model = MutualTeachingClassifier("gcn").set_params(settings__hidden=3)
    with pytest.raises(InputError, match="unknown setting of gcn 'hidden'; did you mean 'hidden_channels'"):
        model.fit(rows, y)
    with pytest.raises(ValueError, match="Invalid parameter 'setting'"):
        model.set_params(setting__hidden=3)
