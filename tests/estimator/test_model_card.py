import json
from dataclasses import dataclass

import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.persistence import FORMAT, load_model, read_card, save_model
from mtgcn.methods import Method, create


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
        ({"format": FORMAT + 1, "versions": {"mtgcn": "9.0"}}, f"has format '{FORMAT + 1}', written by mtgcn 9.0"),
        ({"format": FORMAT - 1, "versions": None}, f"has format '{FORMAT - 1}', written by mtgcn of unknown version"),
        ({"format": str(FORMAT)}, f"this version reads format {FORMAT}; use that version, or fit the model again"),
        ({"format": True}, "has format 'True'"),
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
        {"classes": None},
        {"classes_type": "nonsense"},
        {"graph": {"name": "", "nodes": 41, "edges": 0, "features": 12, "has_node_ids": True, "feature_names": []}},
        {"graph": {"name": "", "nodes": 40, "edges": 0, "features": 3, "has_node_ids": True, "feature_names": []}},
        {"training": {}},
        {"method": 3},
        {"estimator": {"methud": "gcn"}},
        {"estimator": None},
        {"files": {}},
        {"files": None},
        {"files": {"../elsewhere": {"bytes": 0, "sha256": ""}}},
        {"files": {"graph.safetensors": 3}},
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
        with pytest.raises(InputError, match=r"is no model folder, it has no card\.json of one"):
            load_model(path)


def test_unregistered_method(farm, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Mine(Method):
        def fit(self, task):
            return create("lp").fit(task)

    fitted = MutualTeachingClassifier(Mine(), random_state=0).fit_graph(farm)
    with pytest.raises(InputError, match="method Mine is not registered, so a model folder could not name it"):
        save_model(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
