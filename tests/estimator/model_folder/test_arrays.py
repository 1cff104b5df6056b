"""A model's numbers as arrays: of every type they come back as they were."""

import json
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import file_entry, load_model, save_model


@pytest.mark.parametrize(
    "ids",
    [
        np.arange(40) * 10**12,
        np.arange(40) + 0.5,
        np.array([f"{number:03}" for number in range(40)]),
        np.array(["", *map(str, range(39))]),
    ],
    ids=["integers", "floats", "texts", "one empty"],
)
def test_ids_come_back_as_they_were(farm_model, tmp_path, ids):
    renamed = MutualTeachingClassifier(**farm_model.get_params())
    renamed.__dict__.update(farm_model.__dict__, graph_=replace(farm_model.graph_, node_ids=ids))
    save_model(renamed, tmp_path / "model")
    back = load_model(tmp_path / "model").graph_.node_ids
    assert back.tolist() == ids.tolist()
    assert back.dtype == ids.dtype


def test_dense_features_and_none(farm, tmp_path, assert_equal, quick_settings):
    for features in (farm.features.toarray(), None):
        quick = MutualTeachingClassifier("mt-gcn", settings=quick_settings, random_state=0, scale=False)
        fitted = quick.fit_graph(
            replace(farm, features=features, feature_names=() if features is None else farm.feature_names)
        )
        save_model(fitted, tmp_path / "model")  # the second replaces the first
        loaded = load_model(tmp_path / "model")
        assert_equal(loaded, fitted)
        assert np.array_equal(loaded.graph_.features, features) if features is not None else not loaded.n_features_in_


def test_classes_keep_their_type(tmp_path, quick_settings):
    table = np.random.default_rng(0).random((30, 4))
    y = np.array([30, 10, 20] * 2 + [-1] * 24)
    fitted = MutualTeachingClassifier("mt-gcn", settings=quick_settings, neighbors=3, random_state=0).fit(table, y)
    fitted.save(tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert loaded.classes_.tolist() == [10, 20, 30]
    assert loaded.predict(table).dtype == fitted.predict(table).dtype
    assert np.array_equal(loaded.predict(table[:5]), fitted.predict(table[:5]))


def test_votes_of_more_or_fewer_peers_than_there_are_names_are_refused(farm, folder, rewritten, weighted_votes):
    save_model(MutualTeachingClassifier(weighted_votes, random_state=0).fit_graph(farm), folder)
    rewritten(peer_names=["features"])
    with pytest.raises(InputError, match=r"its parts do not fit together .*shape \(1, 4\) where \(1, 1\) is due"):
        load_model(folder)


def test_a_folder_that_is_older_than_such_reports_has_none(folder):
    assert "peer_names" not in json.loads((folder / "card.json").read_text())
    assert load_model(folder).peer_report_ is None


def test_indices_out_of_range_are_not_followed(folder, rewritten):
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "graph.safetensors")
    arrays["adjacency.indices"][0] = 10**6
    save_file(arrays, folder / "graph.safetensors")
    card = json.loads((folder / "card.json").read_text())
    path = folder / "graph.safetensors"
    rewritten(files={**card["files"], "graph.safetensors": file_entry(path)})
    with pytest.raises(InputError, match="damaged: its parts do not fit together"):
        load_model(folder)


@pytest.mark.parametrize(
    "epochs", [lambda epochs: 0 * epochs, lambda epochs: epochs - 1, lambda epochs: 0 * epochs - 1]
)
def test_epochs_that_contradict_the_labels_are_refused(folder, rewritten, epochs):
    from safetensors.numpy import load_file, save_file

    path = folder / "answers.safetensors"
    arrays = load_file(path)
    arrays["labeled_iter"] = epochs(arrays["labeled_iter"])
    save_file(arrays, path)
    files = json.loads((folder / "card.json").read_text())["files"]
    rewritten(files={**files, "answers.safetensors": file_entry(path)})
    with pytest.raises(InputError, match="epochs that are not those of nodes without a label"):
        load_model(folder)
