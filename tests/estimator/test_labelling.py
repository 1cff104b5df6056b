"""More labels for a fitted model: what changes, what is refused, and that the fit is the one all labels would give."""

from dataclasses import replace

import numpy as np
import pytest

from mtgcn import MutualTeachingClassifier
from mtgcn.errors import InputError
from mtgcn.estimator.labelling import Correction, with_more_labels
from mtgcn.estimator.persistence import load_model

QUICK_PLUS = {"dimensions": 8, "infomax_epochs": 10}


def name(number):
    return f"Knoten {number} ✓"


@pytest.fixture
def more(farm_model):
    """What these labels make of the farm's, nine of which are given: cat, dog, hen in turn."""

    def with_labels(labels, **options):
        return with_more_labels(farm_model, labels, **options)

    return with_labels


def test_what_was_made_of_the_graph_for_one_fit_serves_the_next_unless_there_are_new_classes(more, farm_model):
    made_of = farm_model.graph_.without_labels
    assert more({name(20): "dog"})[0].without_labels is made_of
    assert more({name(20): "cow"}, new_classes=["cow"])[0].without_labels is not made_of


def test_labels_are_added_corrected_or_known(more, farm):
    graph, classes, changes = more({name(20): "dog", name(21): "dog", name(30): "cat", name(0): "hen", name(1): "dog"})
    assert changes.added == {"cat": 1, "dog": 2}
    assert changes.corrected == [Correction(name(0), "cat", "hen")]
    assert (changes.repeated, changes.new_classes, changes.any) == (1, [], True)
    assert classes.tolist() == ["cat", "dog", "hen"]
    expected = farm.labels.copy()
    expected[[20, 21, 30, 0]] = [1, 1, 0, 2]
    np.testing.assert_array_equal(graph.labels, expected)
    assert (graph.node_ids.tolist(), graph.feature_names) == (farm.node_ids.tolist(), farm.feature_names)


def test_nothing_new(more):
    _, _, changes = more({name(0): "cat", name(5): None, name(6): ""})
    assert (changes.added, changes.repeated, changes.any) == ({}, 1, False)
    assert more({})[2].any is False


def test_nodes_that_are_not_there_are_told_together(more):
    message = "2 of 3 labels are of nodes that the model does not have, for instance 'nobody', 'Knoten'; leave them out"
    with pytest.raises(InputError, match=message):
        more({"nobody": "cat", name(20): "cat", "Knoten": "dog"})


def test_a_class_is_new_only_if_that_is_said(more, farm):
    with pytest.raises(InputError, match=r"unknown class 'catt'; did you mean 'cat'\? .*--new-classes catt"):
        more({name(20): "catt"})
    graph, classes, changes = more({name(20): "cow", name(21): "hen"}, new_classes=["cow", "pig"])
    assert (classes.tolist(), changes.new_classes) == (["cat", "cow", "dog", "hen"], ["cow"])
    assert graph.class_names == ("cat", "cow", "dog", "hen")
    assert changes.added == {"cow": 1, "hen": 1}
    kept = [graph.class_names[graph.labels[node]] for node in range(9)]
    assert kept == [farm.class_names[farm.labels[node]] for node in range(9)]


@pytest.mark.parametrize(
    ("method", "settings"),
    [("mt-gcn", {"warmup_epochs": 3, "teaching_epochs": 3}), ("mt-plus", QUICK_PLUS), ("lp", {})],
)
def test_labels_one_after_the_other_are_labels_at_once(farm, method, settings, assert_equal, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    extra = {node: farm.class_names[node % 3] for node in (20, 21, 25)}
    labels = farm.labels.copy()
    labels[list(extra)] = [node % 3 for node in extra]
    at_once = MutualTeachingClassifier(method, settings=settings, random_state=3).fit_graph(
        replace(farm, labels=labels)
    )
    first = MutualTeachingClassifier(method, settings=settings, random_state=3).fit_graph(farm)
    first.save(tmp_path / "model")
    later = load_model(tmp_path / "model").label({name(node): kind for node, kind in extra.items()})
    assert_equal(later, at_once)
    assert later.seed_ == 3


def test_embeddings_come_from_the_model_alone(farm, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path / "cache"))
    for graph in (farm, replace(farm, features=None, feature_names=())):  # there they are made of random numbers
        MutualTeachingClassifier(settings=QUICK_PLUS).fit_graph(graph).save(tmp_path / "model")
        with monkeypatch.context() as patch:
            patch.setenv("MTGCN_CACHE", str(tmp_path / "another machine"))
            patch.setattr("mtgcn.methods.mt_plus.encoders.train", lambda *_: pytest.fail("trains encoders"))
            model = load_model(tmp_path / "model")
            before = {
                key: model.parameters_[key] for key in model.parameters_ if key.endswith("infomax embeddings/weight")
            }
            model.label({name(20): "dog"})
        assert before.keys() == {"infomax embeddings/weight", "held infomax embeddings/weight"}
        assert all(np.array_equal(model.parameters_[key], values) for key, values in before.items())


def test_a_model_of_an_older_version_whose_seed_is_lost_learns_all_anew(farm, monkeypatch, tmp_path):
    monkeypatch.setenv("MTGCN_CACHE", str(tmp_path))
    model = MutualTeachingClassifier(settings=QUICK_PLUS).fit_graph(farm)
    model.seed_ = None
    monkeypatch.setattr(type(model.method_), "remember", lambda *_: pytest.fail("whose features?"))
    assert model.label({name(20): "dog"}).seed_ is not None


def test_rows_without_ids_are_named_by_their_place(blobs, quick_settings):
    rows, y, truth = blobs
    model = MutualTeachingClassifier("mt-gcn", settings=quick_settings, random_state=0).fit(rows, y)
    model.label({40: truth[40], 41: truth[41]})
    assert model.graph_.labels[[40, 41]].tolist() == truth[[40, 41]].tolist()
    assert model.classes_.dtype == truth.dtype
    with pytest.raises(InputError, match=r"'7' would be a new class, and the classes of this model are numbers"):
        model.label({42: 7}, new_classes=[7])


def test_the_last_label_of_a_class_cannot_be_taken_away(farm_model):
    labels = {name(node): "dog" for node in range(9) if node % 3 == 0}
    with pytest.raises(InputError, match="class 'cat' has no labelled node"):
        farm_model.label(labels)


@pytest.mark.parametrize(
    ("new", "classes", "labels"),
    [
        ("1.0", ["1", "1.0", "2"], [0, 2, 1]),
        ("-1", ["-1", "1", "2"], [1, 2, 0]),
        ("01", ["01", "1", "2"], [1, 2, 0]),
        ("10", ["1", "2", "10"], [0, 1, 2]),
    ],
)
def test_names_of_digits_stay_apart(new, classes, labels):
    """`1` and `1.0` are two names where a person says so."""
    path = np.eye(4, k=1) + np.eye(4, k=-1)
    model = MutualTeachingClassifier("lp").fit(np.arange(4.0)[:, None], ["1", "2", None, None], graph=path)
    model.has_node_ids_ = True
    model.label({"2": new}, new_classes=[new])
    assert model.classes_.tolist() == classes
    assert model.graph_.labels.tolist() == [*labels, -1]
