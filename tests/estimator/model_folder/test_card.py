"""The card of a model: it tells a person what the model is, and one that misleads is refused."""

import json
from dataclasses import dataclass

import pytest

from mtgcn.errors import InputError
from mtgcn.estimator.classifier import MutualTeachingClassifier
from mtgcn.estimator.model_card import FORMAT
from mtgcn.estimator.persistence import load_model, read_card, save_model
from mtgcn.methods import Method, create


def test_the_card_tells_a_person_what_this_is(folder, farm):
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


def test_what_else_is_known_of_training_joins_the_card(farm_model, tmp_path):
    save_model(farm_model, tmp_path / "model", training={"seconds": 1.5})
    assert read_card(tmp_path / "model")["training"]["seconds"] == 1.5


def test_a_changed_card_is_refused(folder):
    card = folder / "card.json"
    card.write_text(card.read_text().replace('"cat"', '"cow"'))
    with pytest.raises(InputError, match=r"damaged: card\.json was changed after it was written"):
        load_model(folder)


def test_half_a_card_is_refused(folder):
    content = (folder / "card.json").read_bytes()
    (folder / "card.json").write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"damaged: card.json is not JSON"):
        load_model(folder)


def test_a_newer_format_says_who_wrote_it_and_what_to_do(folder, rewritten):
    rewritten(format=FORMAT + 1, versions={"mtgcn": "9.0"})
    with pytest.raises(
        InputError, match=rf"format {FORMAT + 1}, written by mtgcn 9.0, .* up to {FORMAT}; update mtgcn"
    ):
        load_model(folder)


# As mtgcn 0.2.0 wrote it; the files it names need not be there, since nothing but the card is read.
OLD_CARD = {
    "kind": "mtgcn model",
    "format": 1,
    "method": {"name": "mt-gcn", "settings": {"answer": "first", "warmup_epochs": 3}},
    "estimator": {"method": "mt-gcn", "settings": {"answer": "first"}, "random_state": 0},
    "classes": ["cat", "dog"],
    "classes_type": "<U3",
    "class_names": ["cat", "dog"],
    "graph": {"name": "farm", "nodes": 40, "links": 93, "features": 12, "feature_names": []},
    "training": {"epochs": 6, "labels_given": {"cat": 3, "dog": 3}},
    "versions": {"mtgcn": "0.2.0"},
    "files": {"graph.safetensors": {"bytes": 8, "sha256": "0"}},
    "sha256": "not looked at",
}


def test_an_older_format_says_who_wrote_it_and_what_to_do(tmp_path):
    (tmp_path / "card.json").write_text(json.dumps(OLD_CARD))
    for read in (read_card, load_model):
        with pytest.raises(InputError) as refused:
            read(tmp_path)
        assert str(refused.value) == (
            f"model folder {tmp_path} has format 1, written by mtgcn 0.2.0, which reads it, and this version reads 4 "
            "alone; fit the model again with the same files"
        )


def test_an_older_format_whose_writer_is_not_known(tmp_path):
    (tmp_path / "card.json").write_text(json.dumps({"kind": "mtgcn model", "format": 1}))
    with pytest.raises(InputError, match="has format 1, written by mtgcn of unknown version"):
        read_card(tmp_path)


def test_a_model_of_an_older_format_may_be_replaced(tmp_path, farm_model):
    (tmp_path / "card.json").write_text(json.dumps(OLD_CARD))
    save_model(farm_model, tmp_path)
    assert read_card(tmp_path)["format"] == FORMAT == 4


def test_a_method_that_is_not_here_is_named(folder, rewritten):
    rewritten(method={"name": "mt-hypergcn", "settings": {}})
    with pytest.raises(InputError, match="needs what this mtgcn lacks: unknown method 'mt-hypergcn'"):
        load_model(folder)


@pytest.mark.parametrize(
    "changes",
    [
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
        {"format": "1"},
        {"format": 0},
        {"format": True},
    ],
    ids=str,
)
def test_a_card_made_to_mislead_is_one_clear_error(folder, changes, rewritten):
    rewritten(**changes)
    with pytest.raises(InputError, match="model folder"):
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


def test_code_is_never_saved(farm, tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Mine(Method):
        def fit(self, task):
            return create("lp").fit(task)

    fitted = MutualTeachingClassifier(Mine(), random_state=0).fit_graph(farm)
    with pytest.raises(InputError, match="method Mine is not registered, so a model folder could not name it"):
        save_model(fitted, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
