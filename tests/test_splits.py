import json
from collections import Counter

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.graph import Graph
from mtgcn.splits import LARGEST_SEED, Split, draw_over_all, draw_splits, read_splits


@pytest.fixture
def graph():
    """Ten nodes: four of class 0, three of class 1, two of class 2, and node 6 of unknown class."""
    return Graph(np.zeros((10, 10)), labels=[0, 1, 2, 0, 1, 0, -1, 2, 1, 0], node_ids=list("abcdefghij"))


DRAWS = pytest.mark.parametrize("draw", [draw_splits, draw_over_all])


def trained(draw, graph, runs, seed, validation=0):
    return [split.train.tolist() for split in draw(graph, 1, runs, seed, validation)]


def assert_parts(graph, splits, sizes):
    for split in splits:
        assert [len(split.train), len(split.validation), len(split.test)] == sizes
        assert sorted([*split.train, *split.validation, *split.test]) == graph.known.tolist()
        assert split.test.tolist() == sorted(split.test)


@DRAWS
def test_parts(graph, draw):
    splits = draw(graph, 2, runs=20, seed=0)
    assert_parts(graph, splits, [6, 0, 3])
    assert all(set(graph.labels[split.train]) == {0, 1, 2} for split in splits)
    assert_parts(graph, draw(graph, 1, runs=20, seed=0, validation=4), [3, 4, 2])


def test_labels_per_class(graph):
    splits = draw_splits(graph, [2, 2, 1], runs=20, seed=0)
    assert_parts(graph, splits, [5, 0, 4])
    assert all(Counter(graph.labels[split.train].tolist()) == {0: 2, 1: 2, 2: 1} for split in splits)


def test_draws_are_uniform(graph):
    drawn = Counter(int(node) for split in draw_splits(graph, 1, runs=600, seed=1) for node in split.train)
    for members in ([0, 3, 5, 9], [1, 4, 8], [2, 7]):
        share = 1 / len(members)
        margin = 5 * np.sqrt(600 * share * (1 - share))
        assert all(abs(drawn[node] - 600 * share) < margin for node in members)


def test_draws_over_all_are_uniform(graph):
    """Three labels, one of each class: 4 x 3 x 2 of the 84 possible sets."""
    drawn = Counter(frozenset(train) for train in trained(draw_over_all, graph, runs=2400, seed=1))
    assert len(drawn) == 24
    assert all(abs(count - 100) < 5 * np.sqrt(2400 / 24 * (1 - 1 / 24)) for count in drawn.values())


def test_class_imbalance():
    graph = Graph(np.zeros((1000, 1000)), labels=np.repeat([0, 1, 2], [700, 200, 100]))
    labels = np.concatenate([graph.labels[split.train] for split in draw_over_all(graph, 20, runs=50, seed=0)])
    # One of 500 draws of 60 misses a class and is drawn again, which does not matter here.
    np.testing.assert_allclose(np.bincount(labels) / len(labels), [0.7, 0.2, 0.1], atol=0.04)


@DRAWS
def test_validation_per_class(graph, draw):
    splits = draw(graph, 1, runs=20, seed=0, validation_per_class=1)
    assert_parts(graph, splits, [3, 3, 3])
    assert all(sorted(graph.labels[split.validation]) == [0, 1, 2] for split in splits)
    assert {tuple(split.train) for split in splits} == {tuple(train) for train in trained(draw, graph, 20, seed=0)}
    assert len({tuple(split.validation) for split in splits}) > 4
    assert_parts(graph, draw(graph, 1, runs=5, seed=0, validation=2, validation_per_class=1), [3, 5, 1])


@DRAWS
def test_training_nodes_depend_on_seed_and_run_only(graph, draw):
    many = trained(draw, graph, 8, seed=5)
    assert trained(draw, graph, 3, seed=5) == trained(draw, graph, 3, seed=5, validation=3) == many[:3]
    assert len({tuple(train) for train in many}) > 1
    assert trained(draw, graph, 8, seed=6) != many


@DRAWS
def test_neighbouring_seeds(draw):
    """Otherwise final runs under one seed could repeat development runs under another."""
    graph = Graph(np.zeros((300, 300)), labels=np.arange(300) % 3)
    drawn = [tuple(split.train) for seed in range(5) for split in draw(graph, 4, runs=5, seed=seed)]
    assert len(set(drawn)) == len(drawn)


def test_rare_class(monkeypatch):
    graph = Graph(np.zeros((5000, 5000)), labels=np.repeat([0, 1], [4999, 1]), class_names=("frequent", "rare"))
    monkeypatch.setattr("mtgcn.splits.DRAWS", 20)
    message = (
        r"2 labels drawn over all nodes missed a class 20 times \('rare' has 1 of 5000 nodes\); raise labels-per-class"
    )
    with pytest.raises(InputError, match=message + " from 1, or draw from each class"):
        draw_over_all(graph, 1, runs=1, seed=0)


def test_empty_class():
    graph = Graph(np.zeros((4, 4)), labels=[0, 1, 0, 1], class_names=("a", "b", "c"))
    with pytest.raises(InputError, match="exceeds the 0 nodes of class 'c'"):
        draw_over_all(graph, 1, runs=1, seed=0)


@DRAWS
@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"labels_per_class": 0}, "labels-per-class is 0; give at least 1"),
        ({"runs": 0}, "runs is 0; give at least 1"),
        ({"runs": 10_001}, "runs is 10001; give at most 10000"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": LARGEST_SEED + 1}, r"seed is 34028236692093846346…; give at most 2\*\*128"),
        ({"validation": 6}, "3 training and 6 validation nodes leave no test node among 9 labelled nodes"),
        ({"validation_per_class": 2}, "3 training and 6 validation nodes leave no test node among 9 labelled nodes"),
        ({"validation_per_class": -1}, "validation-per-class is -1; give at least 0"),
    ],
)
def test_limits(graph, draw, numbers, message):
    with pytest.raises(InputError, match=message):
        draw(graph, **{"labels_per_class": 1, "runs": 1, "seed": 0, **numbers})


@pytest.mark.parametrize(
    ("draw", "labels_per_class", "message"),
    [
        (draw_splits, 3, "labels-per-class 3 exceeds the 2 nodes of class '2'"),
        (draw_splits, [1, 4, 1], "labels-per-class 4 exceeds the 3 nodes of class '1'"),
        (draw_splits, [1, 0, 1], "labels-per-class is 0"),
        (draw_splits, [1, 2], "lists 2 numbers for 3 classes"),
        (draw_splits, [4, 3, 2], "9 training and 0 validation nodes leave no test node among 9 labelled nodes"),
        (draw_over_all, 3, "9 training and 0 validation nodes leave no test node among 9 labelled nodes"),
    ],
)
def test_invalid_labels_per_class(graph, draw, labels_per_class, message):
    with pytest.raises(InputError, match=message):
        draw(graph, labels_per_class, runs=1, seed=0)


def test_too_few_nodes_for_validation():
    graph = Graph(np.zeros((10, 10)), labels=np.repeat([0, 1], [8, 2]), class_names=("frequent", "rare"))
    message = "validation-per-class 2 exceeds the 1 nodes of class 'rare' that training leaves; lower it"
    with pytest.raises(InputError, match=message):
        draw_splits(graph, 1, runs=1, seed=0, validation_per_class=2)


def test_parts_are_disjoint():
    for parts in (([1, 1], [], [2]), ([1], [2], [2]), ([1], [], [1])):
        with pytest.raises(InputError, match="occurs twice in a split"):
            Split(*parts)
    with pytest.raises(InputError, match="has no training node"):
        Split([], [], [1])


def test_split_file(graph, tmp_path):
    path = tmp_path / "splits.json"
    path.write_text(json.dumps([{"train": ["b", "a"], "validation": ["j"], "test": ["c"]}, {"train": ["c"]}]))
    first, second = read_splits(path, graph)
    assert [first.train.tolist(), first.validation.tolist(), first.test.tolist()] == [[1, 0], [9], [2]]
    # Without "test": every other node of known class.
    assert second.test.tolist() == [0, 1, 3, 4, 5, 7, 8, 9]
    assert len(second.validation) == 0


def test_split_file_with_one_split(tmp_path):
    graph = Graph(np.zeros((3, 3)), labels=[0, 1, 0], node_ids=[30, 10, 20])
    (tmp_path / "splits.json").write_text('{"train": [10], "validation": [30]}')
    (split,) = read_splits(tmp_path / "splits.json", graph)
    assert [split.train.tolist(), split.validation.tolist(), split.test.tolist()] == [[1], [0], [2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"train": ["zebra"]}', "'train' of split file .* names node 'zebra', which is not in the graph"),
        ('{"train": ["a"], "test": ["g"]}', "node .*g.* in 'test' of .* has no known class"),
        ('{"train": "a"}', "'train' of split file .* is not a list"),
        ('{"test": ["a"]}', "no list 'train'"),
        ("[]", "contains no split"),
        ('{"train": ["a"], "val": ["b"]}', "unknown part of split file .* 'val'; did you mean 'validation'"),
        ('[{"train": ["a"]}, {"train": ["b"], "name": 3}]', "unknown part of split file .* 'name'; choose from train"),
        ('{"train": ["a"', "is not JSON"),
        ('{"train": []}', "has no training node"),
        ('{"train": ["a"], "train": ["b"]}', "key 'train' is given twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"train": ["a"], "test": ["a"]}', "occurs twice"),
    ],
)
def test_invalid_split_files(graph, tmp_path, content, message):
    path = tmp_path / "splits.json"
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_splits(path, graph)


def test_missing_split_file(graph, tmp_path):
    with pytest.raises(InputError, match=r"cannot read split file .*none\.json: No such file"):
        read_splits(tmp_path / "none.json", graph)
