import errno
import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
from copy import deepcopy
from dataclasses import dataclass, replace
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

from mtgcn import __version__
from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import FORMAT, check_destination, file_entry, load_model, read_card, save_model
from mtgcn.methods import Method, create
from mtgcn.storage.files import LOCK, READY, exclusive_lock


@pytest.mark.parametrize("name", ["answers.safetensors", "graph.safetensors", "weights.safetensors"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "was changed after it was written"),
        (lambda content: content[: len(content) // 2], "has .* bytes, not"),
        (None, "is missing"),
    ],
    ids=["changed", "truncated", "missing"],
)
def test_damaged_arrays(folder, name, change, message):
    path = folder / name
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    with pytest.raises(InputError, match=rf"model folder .*model is damaged: {name} {message}.*fit the model again"):
        load_model(folder)


def test_other_files_stay(folder, farm, tmp_path):
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "link").symlink_to(folder)
    save_model(MutualTeachingClassifier("lp").fit_graph(farm), tmp_path / "link")
    assert read_card(folder)["method"]["name"] == "lp"
    assert names_in(folder) == ["answers.safetensors", "card.json", "graph.safetensors", "notes.txt"]
    assert names_in(tmp_path) == ["link", "model"]
    assert (tmp_path / "link").is_symlink()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_folder_without_a_model(farm_model, tmp_path, monkeypatch):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(InputError, match="thesis has files and is not a model folder; give another folder"):
        save_model(farm_model, tmp_path / "thesis")
    with pytest.raises(InputError, match="is a file; give another folder"):
        save_model(farm_model, tmp_path / "thesis" / "chapter1.tex" / "model")
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "chapter1.tex"]
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match="permission denied; give another folder"):
        check_destination(tmp_path / "model")


@pytest.mark.parametrize(
    ("what", "failure"),
    [
        ("safetensors.numpy.save_file", SafetensorError("I/O error: No space left on device (os error 28)")),
        ("os.fsync", OSError(errno.ENOSPC, "No space left on device")),
    ],
)
@pytest.mark.parametrize("place", ["model", "new/parents/model"])
def test_full_disk(farm_model, tmp_path, monkeypatch, what, failure, place):
    target = tmp_path / place
    if place == "model":
        save_model(farm_model, target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(what, Mock(side_effect=failure))
        with pytest.raises(InputError, match=r"cannot write model folder .*: .*No space left .*nothing was changed"):
            save_model(farm_model, target)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (tmp_path / "new").exists() is False


def test_save_times_out(folder, farm_model, monkeypatch):
    monkeypatch.setattr("mtgcn.storage.files.UPDATE_TIMEOUT", 0.1)
    with (
        exclusive_lock(folder / LOCK, "holding it"),
        pytest.raises(InputError, match=r"another process is still writing model folder .*model; try again"),
    ):
        save_model(farm_model, folder)


def test_load_during_save(folder, farm_model, farm):
    other = MutualTeachingClassifier("lp").fit_graph(farm)
    done = threading.Event()

    def save_often():
        while not done.is_set():
            for model in (other, farm_model):
                save_model(model, folder)

    thread = threading.Thread(target=save_often)
    thread.start()
    try:
        found = {load_model(folder).method for _ in range(60)}
    finally:
        done.set()
        thread.join()
    assert found <= {"lp", "mt-gcn"}


def test_interrupted_save(folder, farm_model, farm):
    """Killed after the commit, before the files are moved."""
    for name in ("card.json", "answers.safetensors"):
        (folder / READY).mkdir(exist_ok=True)
        os.rename(folder / name, folder / READY / name)
    (folder / "card.json").write_text("an older one")
    assert load_model(folder).method == "mt-gcn"
    check_destination(folder)
    save_model(MutualTeachingClassifier("lp").fit_graph(farm), folder)
    assert load_model(folder).method == "lp"
    assert names_in(folder) == ["answers.safetensors", "card.json", "graph.safetensors"]


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
def test_node_ids(farm_model, tmp_path, ids):
    renamed = MutualTeachingClassifier(**farm_model.get_params())
    renamed.__dict__.update(farm_model.__dict__, graph_=replace(farm_model.graph_, node_ids=ids))
    save_model(renamed, tmp_path / "model")
    back = load_model(tmp_path / "model").graph_.node_ids
    assert back.tolist() == ids.tolist()
    assert back.dtype == ids.dtype


@pytest.mark.parametrize(
    ("method", "features"), [("mt-gcn", "dense"), ("mt-gcn", None), ("gcn", "sparse"), ("lp", "sparse")]
)
def test_methods_and_features(farm, tmp_path, assert_equal, quick_settings, method, features):
    if features != "sparse":
        dense = farm.features.toarray() if features == "dense" else None
        farm = replace(farm, features=dense, feature_names=())
    settings = quick_settings if method == "mt-gcn" else None  # gcn has no peers, lp no parameters
    fitted = MutualTeachingClassifier(method, settings=settings, random_state=0, scale=False).fit_graph(farm)
    fitted.save(tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert_equal(loaded, fitted)
    assert (tmp_path / "model" / "weights.safetensors").exists() == (fitted.parameters_ is not None)
    if features != "sparse":
        assert np.array_equal(loaded.graph_.features, farm.features)


@pytest.mark.parametrize(
    ("file", "array", "change", "message"),
    [
        ("graph", "adjacency.indices", lambda values: values + 10**6, "its parts do not fit together"),
        ("answers", "labeled_iter", lambda values: 0 * values, "labeled_iter contradicts the labels"),
        ("answers", "labeled_iter", lambda values: values - 1, "labeled_iter out of the range"),
        ("answers", "label_distributions", lambda values: 2 * values, "probabilities do not sum to 1"),
        ("weights", "weight0", lambda values: values * np.nan, "weights .*weight0.* NaN"),
    ],
)
def test_contradictory_arrays(folder, rewritten, file, array, change, message):
    path = folder / f"{file}.safetensors"
    arrays = load_file(path)
    arrays[array] = change(arrays[array])
    save_file(arrays, path)
    rewritten(files=read_card(folder)["files"] | {path.name: file_entry(path)})
    with pytest.raises(InputError, match=f"damaged: .*{message}"):
        load_model(folder)


def test_round_trip(farm_model, farm, folder, tmp_path, assert_equal, quick_settings):
    assert names_in(folder) == ["answers.safetensors", "card.json", "graph.safetensors", "weights.safetensors"]
    shutil.copytree(folder, tmp_path / "elsewhere" / "model")
    loaded = MutualTeachingClassifier.load(str(tmp_path / "elsewhere" / "model"))
    assert_equal(loaded, farm_model)
    assert (loaded.graph_.features != farm_model.graph_.features).nnz == 0
    other = replace(farm_model.graph_, node_ids=np.arange(40))
    assert np.array_equal(loaded.predict_proba(graph=other), farm_model.predict_proba(graph=other))
    load_model(folder).save(tmp_path / "again")
    assert (tmp_path / "again" / "card.json").read_bytes() == (folder / "card.json").read_bytes()
    save_model(MutualTeachingClassifier(create("mt-gcn", **quick_settings), random_state=3).fit_graph(farm), folder)
    loaded = load_model(folder)
    assert (loaded.method, loaded.method_) == ("mt-gcn", farm_model.method_)
    assert np.array_equal(loaded.fit_graph(farm).transduction_, farm_model.transduction_)


def test_peer_report(farm, folder, weighted_peers, assert_equal, rewritten):
    fitted = MutualTeachingClassifier(weighted_peers, random_state=0).fit_graph(farm)
    card = save_model(fitted, folder)
    assert card["peer_names"] == ["far neighbourhood", "features", "near neighbourhood", "structure"]
    loaded = MutualTeachingClassifier.load(folder)
    assert_equal(loaded, fitted)
    assert loaded.peer_report_.weights.tolist() == [[0.3, 0.1, 0.55, 0.05]]
    new = farm.features[:3] * 1.1
    np.testing.assert_array_equal(loaded.predict_proba(new), fitted.predict_proba(new))
    rewritten(peer_names=["features"])
    with pytest.raises(InputError, match=r"its parts do not fit together .*shape \(1, 4\), not \(1, 1\)"):
        load_model(folder)


@pytest.mark.slow
def test_load_imports(folder):
    unwanted = ["matplotlib", "networkx", "numba", "pandas", "pyarrow", "pynndescent", "sklearn", "torch_geometric"]
    program = (
        "import sys; from mtgcn.estimator.persistence import load_model; "
        f"load_model({str(folder)!r}); "
        f"print(*[name for name in {unwanted} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_loaded_model_is_an_estimator(folder, farm_model, tmp_path, assert_equal):
    loaded = MutualTeachingClassifier.load(folder)
    assert loaded.get_params() == farm_model.get_params()
    assert repr(loaded) == repr(farm_model) == repr(clone(loaded))
    assert_equal(pickle.loads(pickle.dumps(loaded)), farm_model)
    assert_equal(deepcopy(loaded), farm_model)


def test_content_of_the_card(folder, farm):
    card = json.loads((folder / "card.json").read_text())
    assert (card["kind"], card["format"]) == ("mtgcn model", FORMAT)
    assert card["method"]["name"] == "mt-gcn"
    assert card["method"]["settings"]["warmup_epochs"] == 3
    assert card["classes"] == ["cat", "dog", "hen"]
    assert (card["graph"]["name"], card["graph"]["nodes"], card["graph"]["features"]) == ("farm", 40, 12)
    assert card["graph"]["edges"] == farm.num_edges
    assert card["graph"]["has_node_ids"] is True
    assert card["graph"]["feature_names"] == [f"f{number}" for number in range(12)]
    assert card["training"] == {"epochs": 6, "seed": 3, "labels_given": {"cat": 3, "dog": 3, "hen": 3}}
    assert {"mtgcn", "torch", "numpy"} <= card["versions"].keys()
    assert card["files"]["graph.safetensors"]["bytes"] == (folder / "graph.safetensors").stat().st_size


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"cat"', '"cow"'), "was changed after it was written"),
        (lambda text: text[: len(text) // 2], "is not JSON"),
    ],
)
def test_damaged_card(folder, change, message):
    card = folder / "card.json"
    card.write_text(change(card.read_text()))
    with pytest.raises(InputError, match=rf"damaged: card\.json {message}"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": FORMAT + 1, "versions": {"mtgcn": "9.0"}}, "; use mtgcn 9.0, which wrote it, or fit the model"),
        ({"format": FORMAT - 1, "versions": None}, f"has format '{FORMAT - 1}', .* reads format {FORMAT}; fit the"),
        ({"format": True}, f"has format 'True', and mtgcn {__version__} reads format {FORMAT}; fit the"),
    ],
)
def test_other_formats(folder, farm_model, rewritten, changes, message):
    rewritten(**changes)
    for read in (read_card, load_model):
        with pytest.raises(InputError, match=message):
            read(folder)
    save_model(farm_model, folder)  # may be replaced
    assert read_card(folder)["format"] == FORMAT


@pytest.mark.parametrize(
    "changes",
    [
        {"method": {"name": "mt-hypergcn", "settings": {}}},
        {"classes": ["cat", "dog"]},
        {"classes_type": "nonsense"},
        {"graph": {"name": "", "nodes": 41, "edges": 0, "features": 12, "has_node_ids": True, "feature_names": []}},
        {"training": {}},
        {"estimator": {"methud": "gcn"}},
        {"files": {}},
        {"files": {"../elsewhere": {"bytes": 0, "sha256": ""}}},
        {"classes": ["cat", "dog", "h\ud800n"]},
        {"class_names": ["cat", "dog", "x" * 1001]},
        {"training": {"epochs": 6, "seed": -1, "labels_given": {}}},
    ],
    ids=str,
)
def test_invalid_cards(folder, changes, rewritten):
    rewritten(**changes)
    with pytest.raises(InputError, match="model folder"):
        load_model(folder)


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"kind": "another program\'s"}'])
def test_other_json_files(tmp_path, content):
    (tmp_path / "card.json").write_text(content)
    for path in (tmp_path, tmp_path / "card.json", tmp_path / "nowhere"):
        with pytest.raises(InputError, match=r"is not a model folder \(no card\.json of a model\)"):
            load_model(path)


def test_unregistered_method(farm, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Mine(Method):
        def fit(self, task):
            return create("lp").fit(task)

    fitted = MutualTeachingClassifier(Mine(), random_state=0).fit_graph(farm)
    with pytest.raises(InputError, match="method Mine is not registered and cannot be saved"):
        save_model(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
