"""Splits of a cell, and its rows."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from mtgcn import datasets
from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.experiments import scoring as module
from mtgcn.experiments.scoring import chosen_splits, labels_per_class_of, run_cell
from mtgcn.experiments.tables import summarise_cell
from mtgcn.splits import Split, draw_over_all, draw_splits
from mtgcn.task import run_seed

FIELDS = (
    *("dataset", "labels_per_class", "split", "method", "settings", "run", "seed", "accuracy", "macro_f1"),
    *("calibration_error", "seconds", "device", "threads", "versions", "group"),
)


def test_rows_of_a_cell(ring, constant):
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=3)
    rows = run_cell(ring, splits, constant(favourite=1), name="constant", seed=3)
    assert [row.run for row in rows] == [0, 1, 2, 3]
    assert tuple(vars(rows[0])) == FIELDS
    for row in rows:
        assert (row.dataset, row.method, row.labels_per_class, row.seed) == ("ring", "constant", 1, 3)
        assert row.split == "random"
        assert row.settings == {"favourite": 1, "confidence": 0.6}
        assert row.accuracy == pytest.approx(3 / 9)  # three of each class are left to test
        assert row.macro_f1 == pytest.approx((0.5 + 0 + 0) / 3)
        assert row.calibration_error == pytest.approx(0.6 - 1 / 3)
        assert row.device == "cpu"
        assert row.threads == torch.get_num_threads()
        assert set(row.versions) == {"mtgcn", "python", "torch", "numpy", "scipy"}
    assert len({row.seconds for row in rows}) == 1


def test_rows_of_over_all_splits(ring, constant):
    splits = draw_over_all(ring, labels_per_class=2, runs=3, seed=0)
    rows = run_cell(ring, splits, constant(favourite=1), name="constant", seed=0, split_source="over-all")
    assert {(row.split, row.labels_per_class) for row in [*rows, summarise_cell(rows)]} == {("over-all", 2)}


def test_seconds_cover_the_whole_fit(ring, constant, monkeypatch):
    clock = iter([10.0, 16.0])
    monkeypatch.setattr("mtgcn.experiments.scoring.perf_counter", lambda: next(clock))
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=0)
    rows = run_cell(ring, splits, constant(), name="constant", seed=0)
    assert [row.seconds for row in rows] == [1.5] * 4
    assert summarise_cell(rows).seconds == 6


def test_only_methods_with_validation_see_its_labels(ring, constant, constant_with_validation):
    # Only the second can predict class 2, the most frequent one among the validation nodes.
    split = Split(train=[0, 1], validation=[2, 5], test=[8, 11])
    [without] = run_cell(ring, [split], constant(), name="constant", seed=0)
    [with_validation] = run_cell(ring, [split], constant_with_validation(), name="constant+v", seed=0)
    assert (without.accuracy, with_validation.accuracy) == (0, 1)


def test_splits_are_checked_before_fitting(ring, constant, constant_with_validation, monkeypatch):
    monkeypatch.setattr(constant, "fit", lambda *_: pytest.fail("fitted"))
    without_test, without_validation = Split([0], [], []), Split([0, 1], [], [2])
    with pytest.raises(InputError, match="0 test nodes"):
        run_cell(ring, [without_test], constant(), name="constant", seed=0)
    with pytest.raises(InputError, match="validation"):
        run_cell(ring, [without_validation], constant_with_validation(), name="constant+v", seed=0)


def test_summarise_cell(ring, constant):
    splits = [Split([0, 1, 2], [], [3, 4]), Split([0, 1, 2], [], [4, 5])]
    cell = summarise_cell(run_cell(ring, splits, constant(), name="constant", seed=0))
    assert (cell.runs, cell.labels_per_class) == (2, 1)
    assert (cell.accuracy.per_run, cell.accuracy.mean) == ((0.5, 0.0), 0.25)
    unequal = [splits[0], Split([0, 1], [], [3])]
    assert summarise_cell(run_cell(ring, unequal, constant(), name="constant", seed=0)).labels_per_class is None


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device("auto") == chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="use --device cpu or auto"):
        chosen_device("cuda")
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        chosen_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert chosen_device("auto") == chosen_device("cuda") == torch.device("cuda")


def test_groups_of_runs_with_shared_random_parts(ring, constant):
    @dataclass(frozen=True, kw_only=True)
    class Sharing(constant):
        def fit(self, task):
            return replace(super().fit(task), groups=np.array([seed % 2 for seed in task.seeds]))

    splits = draw_splits(ring, 1, runs=6, seed=0)
    rows = run_cell(ring, splits, Sharing(), name="sharing", seed=0)
    assert [row.group for row in rows] == [run_seed(0, run) % 2 for run in range(6)]
    cell = summarise_cell(rows)
    assert cell.groups == tuple(row.group for row in rows)
    alone = run_cell(ring, splits, constant(), name="alone", seed=0)
    assert {row.group for row in alone} == {None}
    assert summarise_cell(alone).groups is None
    assert 0 <= cell.accuracy.ci95[0] <= cell.accuracy.ci95[1] <= 1


@pytest.fixture
def split_file(tmp_path):
    def written(*train):
        path = tmp_path / "splits.json"
        path.write_text(json.dumps([{"train": nodes} for nodes in train]))
        return str(path)

    return written


@pytest.mark.parametrize("source", ["random", "over-all"])
def test_random_splits(ring, source, monkeypatch):
    assert len(chosen_splits(source, ring, labels_per_class=2)) == 30
    monkeypatch.setattr(module, "VALIDATION_NODES", 3)
    options = {"labels_per_class": 2, "runs": 4, "seed": 5}
    drawn = (draw_splits if source == "random" else draw_over_all)(ring, **options)
    without, with_some = (chosen_splits(source, ring, **options, with_validation=given) for given in (False, True))
    for expected, bare, split in zip(drawn, without, with_some, strict=True):
        np.testing.assert_array_equal(bare.train, expected.train)
        np.testing.assert_array_equal(split.train, expected.train)
        assert labels_per_class_of(split, ring, source) == 2
        assert (len(bare.validation), len(bare.test)) == (0, 6)
        assert (len(split.validation), len(split.test)) == (3, 3)
        assert set(split.test) < set(bare.test)


def test_public_split_is_repeated(ring, monkeypatch):
    public = Split(train=[0, 1, 2], validation=[3], test=[4])
    monkeypatch.setattr(datasets, "public_split", {"ring": public}.__getitem__)
    assert chosen_splits("public", ring, runs=4) == (public,) * 4
    assert chosen_splits("public", ring, runs=4, labels_per_class=1) == (public,) * 4


def test_split_file(ring, split_file):
    [first, *others] = chosen_splits(split_file([0, 1, 2]), ring, runs=3)  # a single split is repeated
    assert others == [first] * 2
    path = split_file([0, 1, 2], [3, 4, 5])
    assert [split.train[0] for split in chosen_splits(path, ring)] == [0, 3]
    assert len(chosen_splits(path, ring, runs=2)) == 2
    with pytest.raises(InputError, match=r"runs is 7 but .* holds 2 splits; leave --runs out"):
        chosen_splits(path, ring, runs=7)


def test_label_counts_of_a_file_are_checked(ring, split_file):
    path = split_file([0, 1, 2, 3])
    assert chosen_splits(path, ring, labels_per_class=[2, 1, 1])
    with pytest.raises(InputError, match=r"asks for 1 but split .* gives \(2, 1, 1\); leave --labels-per-class out"):
        chosen_splits(path, ring, labels_per_class=1)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        *((source, {"labels_per_class": None}, f"{source} splits need .* add") for source in ("random", "over-all")),
        *((source, {"runs": 0}, "runs is 0; give at least 1") for source in ("random", "public")),
        *((source, {"seed": -1}, "seed is -1; give at least 0") for source in ("random", "public")),
        ("over-all", {"labels_per_class": [1, 2, 3]}, "labels-per-class lists 3 numbers; over-all splits take one"),
        ("publik", {}, "'publik' is neither 'random', 'over-all', 'public' nor a file"),
    ],
)
def test_invalid_split_options(ring, source, options, message):
    with pytest.raises(InputError, match=message):
        chosen_splits(source, ring, **{"labels_per_class": 1} | options)


@pytest.mark.parametrize(("train", "counts"), [([0, 1, 2], 1), ([0, 1, 3], (2, 1, 0))])
def test_labels_per_class_of(ring, train, counts):
    assert labels_per_class_of(Split(train, [], [4]), ring) == counts
