import json

import numpy as np
import pytest

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.experiments import split_choice
from mtgcn.experiments.split_choice import chosen_splits, labels_per_class_of
from mtgcn.splits import Split, draw_over_all


@pytest.fixture
def split_file(tmp_path):
    def written(*entries):
        path = tmp_path / "splits.json"
        path.write_text(json.dumps(list(entries)))
        return str(path)

    return written


def test_random_splits_default_to_the_papers_thirty(ring):
    assert len(chosen_splits("random", ring, labels_per_class=1)) == 30


def test_validation_nodes_do_not_move_the_labelled_ones(ring, monkeypatch):
    monkeypatch.setattr(split_choice, "VALIDATION_NODES", 4)
    without = chosen_splits("random", ring, labels_per_class=1, runs=3, seed=5)
    with_some = chosen_splits("random", ring, labels_per_class=1, runs=3, seed=5, with_validation=True)
    for bare, given in zip(without, with_some, strict=True):
        np.testing.assert_array_equal(bare.train, given.train)
        assert (len(bare.validation), len(bare.test)) == (0, 9)
        assert (len(given.validation), len(given.test)) == (4, 5)
        assert set(given.test) < set(bare.test)


@pytest.mark.parametrize("source", ["random", "over-all"])
def test_random_splits_need_a_number_of_labels(ring, source):
    with pytest.raises(InputError, match=rf"{source} splits need .* add --labels-per-class"):
        chosen_splits(source, ring)


def test_labels_may_be_drawn_over_all_nodes(ring, monkeypatch):
    monkeypatch.setattr(split_choice, "VALIDATION_NODES", 3)
    splits = chosen_splits("over-all", ring, labels_per_class=2, runs=4, seed=5, with_validation=True)
    for split, drawn in zip(splits, draw_over_all(ring, 2, runs=4, seed=5), strict=True):
        np.testing.assert_array_equal(split.train, drawn.train)
        assert len(split.validation) == 3
        assert labels_per_class_of(split, ring, "over-all") == 2
    with pytest.raises(InputError, match="labels-per-class lists 3 numbers; over-all splits take one"):
        chosen_splits("over-all", ring, labels_per_class=[1, 2, 3])


def test_the_public_split_is_repeated(ring, monkeypatch):
    public = Split(train=[0, 1, 2], validation=[3], test=[4])
    monkeypatch.setattr(datasets, "public_split", {"ring": public}.__getitem__)
    assert chosen_splits("public", ring, runs=4) == (public,) * 4
    assert chosen_splits("public", ring, runs=4, labels_per_class=1) == (public,) * 4


def test_a_file_of_one_split_is_repeated(ring, split_file):
    path = split_file({"train": [0, 1, 2]})
    splits = chosen_splits(path, ring, runs=3)
    assert len(splits) == 3
    assert all(split is splits[0] for split in splits)


def test_a_file_of_several_splits_says_how_many_runs_there_are(ring, split_file):
    path = split_file({"train": [0, 1, 2]}, {"train": [3, 4, 5]})
    assert [split.train[0] for split in chosen_splits(path, ring)] == [0, 3]
    assert len(chosen_splits(path, ring, runs=2)) == 2
    with pytest.raises(InputError, match=r"runs is 7 but .* holds 2 splits; leave --runs out"):
        chosen_splits(path, ring, runs=7)


def test_contradicting_label_counts_are_refused(ring, split_file):
    path = split_file({"train": [0, 1, 2, 3]})
    assert chosen_splits(path, ring, labels_per_class=[2, 1, 1])
    with pytest.raises(InputError, match=r"asks for 1 but split .* gives \(2, 1, 1\); leave --labels-per-class out"):
        chosen_splits(path, ring, labels_per_class=1)


def test_a_source_that_is_nothing_is_refused(ring):
    with pytest.raises(InputError, match="'publik' is neither 'random', 'over-all', 'public' nor a file"):
        chosen_splits("publik", ring)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"runs": 0}, "runs is 0; give at least 1"), ({"seed": -1}, "seed is -1; give at least 0")],
)
@pytest.mark.parametrize("source", ["random", "public"])
def test_numbers_below_their_least_are_refused(ring, source, wrong, message):
    with pytest.raises(InputError, match=message):
        chosen_splits(source, ring, labels_per_class=1, **wrong)


def test_labels_per_class_of_a_split(ring):
    assert labels_per_class_of(Split(train=[0, 1, 2], validation=[], test=[3]), ring) == 1
    assert labels_per_class_of(Split(train=[0, 1, 3], validation=[], test=[4]), ring) == (2, 1, 0)
