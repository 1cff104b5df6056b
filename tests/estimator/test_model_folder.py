"""A model folder: everything comes back, and nothing in it runs."""

import pickle
import shutil
import subprocess
import sys
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import FILES, load_model, save_model
from mtgcn.methods import create


def test_everything_comes_back(farm_model, folder, assert_equal):
    assert sorted(path.name for path in folder.iterdir()) == [
        *("answers.safetensors", "card.json", "graph.safetensors", "weights.safetensors")
    ]
    loaded = MutualTeachingClassifier.load(folder)
    assert_equal(loaded, farm_model)
    assert (loaded.graph_.features != farm_model.graph_.features).nnz == 0
    other = replace(
        farm_model.graph_, node_ids=np.arange(40)
    )  # the same nodes under other names, for the peers to judge
    assert np.array_equal(loaded.predict_proba(graph=other), farm_model.predict_proba(graph=other))


@pytest.mark.parametrize("method", ["gcn", "lp"])
def test_methods_without_peers_or_parameters_too(farm, tmp_path, method, assert_equal):
    fitted = MutualTeachingClassifier(method, random_state=0).fit_graph(farm)
    fitted.save(tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert_equal(loaded, fitted)
    assert (tmp_path / "model" / "weights.safetensors").exists() == (fitted.parameters_ is not None)


def test_what_the_peers_contributed_comes_back(farm, tmp_path, weighted_votes, assert_equal):
    fitted = MutualTeachingClassifier(weighted_votes, random_state=0).fit_graph(farm)
    card = save_model(fitted, tmp_path / "model")
    assert card["format"] == 4
    assert card["peer_names"] == ["far neighbourhood", "features", "near neighbourhood", "structure"]
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert_equal(loaded, fitted)
    assert loaded.peer_report_.weights.tolist() == [[0.3, 0.1, 0.55, 0.05]]
    new = farm.features[:3] * 1.1
    np.testing.assert_array_equal(loaded.predict_proba(new), fitted.predict_proba(new))


def test_a_method_object_is_named_and_described(farm, tmp_path, quick_settings):
    fitted = MutualTeachingClassifier(create("mt-gcn", **quick_settings), random_state=0).fit_graph(farm)
    save_model(fitted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.method == "mt-gcn"
    assert loaded.method_ == fitted.method_
    assert np.array_equal(loaded.fit_graph(farm).transduction_, fitted.transduction_)


@pytest.mark.slow
def test_reading_imports_no_more_than_it_needs(folder):
    unwanted = ["matplotlib", "networkx", "numba", "pandas", "pyarrow", "pynndescent", "sklearn", "torch_geometric"]
    program = (
        "import sys; from mtgcn.estimator.persistence import load_model; "
        f"load_model({str(folder)!r}); "
        f"print(*[name for name in {unwanted} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_moved_folder_is_the_same_model(folder, farm_model, tmp_path, assert_equal):
    shutil.copytree(folder, tmp_path / "elsewhere" / "model")
    assert_equal(load_model(str(tmp_path / "elsewhere" / "model")), farm_model)
    assert isinstance(MutualTeachingClassifier.load(Path(tmp_path / "elsewhere/model")), MutualTeachingClassifier)


def test_a_model_that_was_read_has_all_of_scikit_learns_manners(folder, farm_model, tmp_path, assert_equal):
    loaded = MutualTeachingClassifier.load(folder)
    assert loaded.get_params() == farm_model.get_params()
    assert repr(loaded) == repr(farm_model) == repr(clone(loaded))
    assert_equal(pickle.loads(pickle.dumps(loaded)), farm_model)
    assert_equal(deepcopy(loaded), farm_model)


def test_what_a_command_wrote_and_what_the_classifier_wrote_are_the_same(folder, tmp_path):
    load_model(folder).save(tmp_path / "again")
    assert (tmp_path / "again" / "card.json").read_bytes() == (folder / "card.json").read_bytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_whatever_byte_is_changed_it_is_refused_or_the_same_model(folder, farm_model, name, place, byte, assert_equal):
    path = folder / name
    before = path.read_bytes()
    content = bytearray(before)
    content[int(place * len(content))] = byte
    path.write_bytes(content)
    with suppress(InputError):
        assert_equal(load_model(folder), farm_model)  # the byte was that already, or stands where the card has a space
    path.write_bytes(before)
