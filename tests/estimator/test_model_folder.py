"""A model folder: everything comes back, nothing in it runs, and what is not whole is refused."""

import errno
import json
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtgcn.errors import InputError
from mtgcn.estimator import model_folder
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_folder import FORMAT, check_destination, load_model, read_card, save_model
from mtgcn.graph import UNKNOWN
from mtgcn.methods import Method, create

QUICK = {"warmup_epochs": 3, "teaching_epochs": 3, "hidden_channels": 4}


@pytest.fixture(scope="module")
def graph(make_graph):
    """40 nodes with names, 9 of them labelled."""
    whole = make_graph(weighted=True)
    return replace(
        whole,
        labels=np.where(np.arange(40) < 9, whole.labels, UNKNOWN),
        node_ids=np.array([f"Knoten {number} ✓" for number in range(40)]),
        class_names=("cat", "dog", "hen"),
        name="farm",
        feature_names=tuple(f"f{number}" for number in range(12)),
    )


@pytest.fixture(scope="module")
def model(graph):
    return MutualTeachingClassifier("mt-gcn", settings=QUICK, random_state=3).fit_graph(graph)


@pytest.fixture
def folder(model, tmp_path):
    save_model(model, tmp_path / "model")
    return tmp_path / "model"


def assert_equal(loaded, saved):
    assert loaded.get_params() == saved.get_params()
    assert loaded.method_ == saved.method_
    for name in ("classes_", "transduction_", "label_distributions_", "peer_distributions_", "labeled_iter_"):
        mine, theirs = getattr(loaded, name), getattr(saved, name)
        assert np.array_equal(mine, theirs), name
        assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None), name
    assert (loaded.n_iter_, loaded.n_features_in_) == (saved.n_iter_, saved.n_features_in_)
    for name in ("history_", "parameters_"):
        mine, theirs = getattr(loaded, name), getattr(saved, name)
        if theirs is None:
            assert mine is None
        else:
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[key], theirs[key], equal_nan=True) for key in theirs)
    for name in ("labels", "node_ids"):
        mine, theirs = getattr(loaded.graph_, name), getattr(saved.graph_, name)
        assert np.array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    assert (loaded.graph_.class_names, loaded.graph_.name) == (saved.graph_.class_names, saved.graph_.name)
    assert (loaded.graph_.adjacency != saved.graph_.adjacency).nnz == 0


def test_everything_comes_back(model, folder):
    assert sorted(path.name for path in folder.iterdir()) == [
        *("answers.safetensors", "card.json", "graph.safetensors", "weights.safetensors")
    ]
    loaded = load_model(folder)
    assert_equal(loaded, model)
    assert (loaded.graph_.features != model.graph_.features).nnz == 0
    assert np.allclose(loaded.predict_proba(graph=model.graph_), model.predict_proba(graph=model.graph_))


@pytest.mark.parametrize("method", ["gcn", "lp"])
def test_methods_without_peers_or_parameters_too(graph, tmp_path, method):
    fitted = MutualTeachingClassifier(method, random_state=0).fit_graph(graph)
    fitted.save(tmp_path / "model")
    loaded = MutualTeachingClassifier.load(tmp_path / "model")
    assert_equal(loaded, fitted)
    assert (tmp_path / "model" / "weights.safetensors").exists() == (fitted.parameters_ is not None)


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
def test_ids_come_back_as_they_were(model, tmp_path, ids):
    renamed = MutualTeachingClassifier(**model.get_params())
    renamed.__dict__.update(model.__dict__, graph_=replace(model.graph_, node_ids=ids))
    save_model(renamed, tmp_path / "model")
    back = load_model(tmp_path / "model").graph_.node_ids
    assert back.tolist() == ids.tolist()
    assert back.dtype == ids.dtype


def test_dense_features_and_none(graph, tmp_path):
    for features in (graph.features.toarray(), None):
        fitted = MutualTeachingClassifier("mt-gcn", settings=QUICK, random_state=0).fit_graph(
            replace(graph, features=features, feature_names=() if features is None else graph.feature_names)
        )
        save_model(fitted, tmp_path / "model")  # the second replaces the first
        loaded = load_model(tmp_path / "model")
        assert_equal(loaded, fitted)
        assert np.array_equal(loaded.graph_.features, features) if features is not None else not loaded.n_features_in_


def test_classes_keep_their_type(tmp_path):
    table = np.random.default_rng(0).random((30, 4))
    y = np.array([30, 10, 20] * 2 + [-1] * 24)
    fitted = MutualTeachingClassifier("mt-gcn", settings=QUICK, neighbors=3, random_state=0).fit(table, y)
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes_.tolist() == [10, 20, 30]
    assert loaded.predict(table).dtype == fitted.predict(table).dtype
    assert np.array_equal(loaded.predict(table[:5]), fitted.predict(table[:5]))


def test_a_method_object_is_named_and_described(graph, tmp_path):
    fitted = MutualTeachingClassifier(create("mt-gcn", **QUICK), random_state=0).fit_graph(graph)
    save_model(fitted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.method == "mt-gcn"
    assert loaded.method_ == fitted.method_
    assert np.array_equal(loaded.fit_graph(graph).transduction_, fitted.transduction_) or loaded.settings == QUICK


def test_the_card_tells_a_person_what_this_is(folder):
    card = json.loads((folder / "card.json").read_text())
    assert (card["kind"], card["format"]) == ("mtgcn model", FORMAT)
    assert card["method"]["name"] == "mt-gcn"
    assert card["method"]["settings"]["warmup_epochs"] == 3
    assert card["classes"] == ["cat", "dog", "hen"]
    assert (card["graph"]["name"], card["graph"]["nodes"], card["graph"]["features"]) == ("farm", 40, 12)
    assert card["graph"]["feature_names"] == [f"f{number}" for number in range(12)]
    assert card["training"] == {"epochs": 6, "labels_given": {"cat": 3, "dog": 3, "hen": 3}}
    assert {"mtgcn", "torch", "numpy"} <= card["versions"].keys()
    assert card["files"]["graph.safetensors"]["bytes"] == (folder / "graph.safetensors").stat().st_size


def test_what_else_is_known_of_training_joins_the_card(model, tmp_path):
    save_model(model, tmp_path / "model", training={"seconds": 1.5})
    assert read_card(tmp_path / "model")["training"]["seconds"] == 1.5


# ---- what must not be loaded


def altered(path, change):
    content = bytearray(path.read_bytes())
    change(content)
    path.write_bytes(content)


def flip_last_byte(content):
    content[-1] ^= 1


def cut_in_half(content):
    del content[len(content) // 2 :]


@pytest.mark.parametrize("name", ["answers.safetensors", "graph.safetensors", "weights.safetensors"])
@pytest.mark.parametrize(
    ("change", "message"), [(flip_last_byte, "was changed after it was written"), (cut_in_half, "bytes, not")]
)
def test_changed_arrays_are_refused(folder, name, change, message):
    altered(folder / name, change)
    with pytest.raises(InputError, match=rf"model folder .*model is damaged: {name} .*{message}.*fit the model again"):
        load_model(folder)


@pytest.mark.parametrize("name", ["answers.safetensors", "graph.safetensors", "weights.safetensors"])
def test_a_missing_file_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"damaged: {name} is missing"):
        load_model(folder)


def test_a_changed_card_is_refused(folder):
    card = folder / "card.json"
    card.write_text(card.read_text().replace('"cat"', '"cow"'))
    with pytest.raises(InputError, match=r"damaged: card\.json was changed after it was written"):
        load_model(folder)


def test_half_a_card_is_refused(folder):
    altered(folder / "card.json", cut_in_half)
    with pytest.raises(InputError, match=r"damaged: card.json is not JSON"):
        load_model(folder)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(model_folder.FILES), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_whatever_byte_is_changed_it_is_refused_or_the_same_model(folder, model, name, place, byte):
    path = folder / name
    before = path.read_bytes()
    content = bytearray(before)
    content[int(place * len(content))] = byte
    path.write_bytes(content)
    with suppress(InputError):
        assert_equal(load_model(folder), model)  # the byte was that already, or stands where the card has a space
    path.write_bytes(before)


def rewritten(folder, **changes):
    """The card with other content and a checksum that fits it, as somebody might make on purpose."""
    path = folder / "card.json"
    card = {**json.loads(path.read_text()), **changes}
    card["sha256"] = model_folder._card_checksum(card)
    path.write_text(json.dumps(card))


def test_a_newer_format_says_who_wrote_it_and_what_to_do(folder):
    rewritten(folder, format=FORMAT + 1, versions={"mtgcn": "9.0"})
    with pytest.raises(
        InputError, match=rf"format {FORMAT + 1}, written by mtgcn 9.0, .* up to {FORMAT}; update mtgcn"
    ):
        load_model(folder)


def test_a_method_that_is_not_here_is_named(folder):
    rewritten(folder, method={"name": "mt-hypergcn", "settings": {}})
    with pytest.raises(InputError, match="needs what this mtgcn lacks: unknown method 'mt-hypergcn'"):
        load_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": ["cat", "dog"]},
        {"classes": None},
        {"classes_type": "nonsense"},
        {"graph": {"name": "", "nodes": 41, "edges": 0, "features": 12, "feature_names": []}},
        {"graph": {"name": "", "nodes": 40, "edges": 0, "features": 3, "feature_names": []}},
        {"training": {}},
        {"method": 3},
        {"estimator": {"methud": "gcn"}},
        {"estimator": None},
        {"files": {}},
        {"files": None},
        {"files": {"../elsewhere": {"bytes": 0, "sha256": ""}}},
        {"files": {"graph.safetensors": 3}},
        {"format": "1"},
        {"format": 0},
        {"format": True},
    ],
    ids=str,
)
def test_a_card_made_to_mislead_is_one_clear_error(folder, changes):
    rewritten(folder, **changes)
    with pytest.raises(InputError, match="model folder"):
        load_model(folder)


def test_indices_out_of_range_are_not_followed(folder, model):
    from safetensors.numpy import load_file, save_file

    arrays = load_file(folder / "graph.safetensors")
    arrays["adjacency.indices"][0] = 10**6
    save_file(arrays, folder / "graph.safetensors")
    card = json.loads((folder / "card.json").read_text())
    path = folder / "graph.safetensors"
    entry = {"bytes": path.stat().st_size, "sha256": model_folder._file_checksum(path)}
    rewritten(folder, files={**card["files"], "graph.safetensors": entry})
    with pytest.raises(InputError, match="damaged: its parts do not fit together"):
        load_model(folder)


@pytest.mark.parametrize("content", [None, "{}", "[]", "3", '{"kind": "another program\'s"}'])
def test_what_is_no_model_is_called_that(tmp_path, content):
    if content is not None:
        (tmp_path / "card.json").write_text(content)
    with pytest.raises(InputError, match=r"is no model folder, it has no card\.json of one"):
        load_model(tmp_path)


def test_no_folder_and_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(InputError, match="is no model folder"):
            load_model(path)


# ---- what must not be saved


def test_code_is_never_saved(graph, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Mine(Method):
        def fit(self, task):
            return create("lp").fit(task)

    fitted = MutualTeachingClassifier(Mine(), random_state=0).fit_graph(graph)
    with pytest.raises(InputError, match="method Mine is not registered, so a model folder could not name it"):
        save_model(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_older_model_is_replaced_and_a_persons_files_stay(folder, graph):
    (folder / "notes.txt").write_text("mine")
    other = MutualTeachingClassifier("lp").fit_graph(graph)
    save_model(other, folder)
    assert read_card(folder)["method"]["name"] == "lp"
    assert sorted(path.name for path in folder.iterdir()) == [
        *("answers.safetensors", "card.json", "graph.safetensors", "notes.txt")
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_empty_folder_and_a_link_to_one_will_do(model, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "edge").symlink_to(tmp_path / "real")
    save_model(model, tmp_path / "edge")
    assert (tmp_path / "real" / "card.json").exists()
    assert (tmp_path / "edge").is_symlink()


def test_other_peoples_folders_are_left_alone(model, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(InputError, match="thesis holds files and is no model folder; give another folder"):
        save_model(model, tmp_path / "thesis")
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter1.tex"]


@pytest.mark.parametrize("where", ["file", "file/model", "file/a/b/model"])
def test_a_file_in_the_way(model, tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is a file; give"):
        save_model(model, tmp_path / where)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "mine")]


def test_a_folder_one_may_not_write_to(tmp_path, monkeypatch):
    monkeypatch.setattr("mtgcn.estimator.model_folder.os.access", lambda *_: False)  # root may write everywhere
    with pytest.raises(InputError, match="permission denied; give another folder"):
        check_destination(tmp_path / "model")


def disk_is_full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def safetensors_disk_is_full(*_):
    from safetensors import SafetensorError

    raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")


@pytest.mark.parametrize(
    ("what", "failure"),
    [
        ("safetensors.numpy.save_file", safetensors_disk_is_full),
        ("mtgcn.estimator.model_folder.os.fsync", disk_is_full),
        ("mtgcn.estimator.model_folder._write_bytes", disk_is_full),
    ],
)
@pytest.mark.parametrize("place", ["model", "new/parents/model"])
def test_a_full_disk_changes_nothing(model, tmp_path, monkeypatch, what, failure, place):
    target = tmp_path / place
    if place == "model":
        save_model(model, target)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(what, failure)
        with pytest.raises(InputError, match=r"cannot write model folder .*: .*No space left .*nothing was changed"):
            save_model(model, target)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (tmp_path / "new").exists() is False


def test_when_the_new_model_cannot_be_moved_in_the_old_one_returns(folder, model, monkeypatch):
    rename = model_folder.os.rename

    def fails_for_the_new(source, target):
        if str(source).endswith(".partial"):
            disk_is_full()
        rename(source, target)

    before = (folder / "card.json").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("mtgcn.estimator.model_folder.os.rename", fails_for_the_new)
        with pytest.raises(InputError, match="cannot write model folder"):
            save_model(model, folder)
    assert (folder / "card.json").read_bytes() == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.slow
def test_reading_imports_no_more_than_it_needs(folder):
    unwanted = ["matplotlib", "pandas", "networkx", "pyarrow", "pynndescent", "numba", "torch_geometric"]
    program = (
        f"import sys; from mtgcn.estimator.model_folder import load_model; load_model({str(folder)!r}); "
        f"print(*[name for name in {unwanted} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_moved_folder_is_the_same_model(folder, model, tmp_path):
    shutil.copytree(folder, tmp_path / "elsewhere" / "model")
    assert_equal(load_model(str(tmp_path / "elsewhere" / "model")), model)
    assert isinstance(load_model(Path(tmp_path / "elsewhere/model")), MutualTeachingClassifier)
