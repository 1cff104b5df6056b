import json
from dataclasses import asdict, dataclass, fields, replace

import numpy as np
import pytest
import torch

from mtgcn.environment import chosen_device
from mtgcn.errors import InputError
from mtgcn.experiments.comparisons import paired_with
from mtgcn.experiments.rows import ResultRow, StoredRow
from mtgcn.experiments.run import run_cell
from mtgcn.experiments.tables import summarise_cell
from mtgcn.splits import Split, draw_over_all, draw_splits
from mtgcn.task import run_seed


def test_a_row_has_the_fields_that_everything_later_reads():
    names = ", ".join(field.name for field in fields(ResultRow))
    assert names == (
        "dataset, labels_per_class, split, method, settings, run, seed, accuracy, macro_f1, calibration_error, "
        "seconds, device, threads, versions, group"
    )


def test_a_row_says_where_its_split_is_from(ring, constant):
    splits = draw_over_all(ring, labels_per_class=2, runs=3, seed=0)
    rows = run_cell(ring, splits, constant(favourite=1), name="constant", seed=0, split_source="over-all")
    assert [(row.split, row.labels_per_class) for row in rows] == [("over-all", 2)] * 3
    cell = summarise_cell(rows)
    assert (cell.split, cell.labels_per_class) == ("over-all", 2)


def test_rows_of_a_cell(ring, constant):
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=3)
    rows = run_cell(ring, splits, constant(favourite=1), name="constant", seed=3)
    assert [row.run for row in rows] == [0, 1, 2, 3]
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


def test_seconds_of_a_cell_are_its_whole_fit(ring, constant, monkeypatch):
    clock = iter([10.0, 16.0])
    monkeypatch.setattr("mtgcn.experiments.run.perf_counter", lambda: next(clock))
    splits = draw_splits(ring, labels_per_class=1, runs=4, seed=0)
    rows = run_cell(ring, splits, constant(), name="constant", seed=0)
    assert [row.seconds for row in rows] == [1.5] * 4
    assert summarise_cell(rows).seconds == 6


def test_only_a_method_that_asks_sees_validation_labels(ring, constant, constant_with_validation):
    # Of the two, only the second can know that class 2 is the commonest among the validation nodes.
    split = Split(train=[0, 1], validation=[2, 5], test=[8, 11])
    [without] = run_cell(ring, [split], constant(), name="constant", seed=0)
    [with_validation] = run_cell(ring, [split], constant_with_validation(), name="constant+v", seed=0)
    assert (without.accuracy, with_validation.accuracy) == (0, 1)


def test_a_method_with_validation_needs_some(ring, constant_with_validation):
    splits = draw_splits(ring, labels_per_class=1, runs=2, seed=0)
    with pytest.raises(InputError, match="validation"):
        run_cell(ring, splits, constant_with_validation(), name="constant+v", seed=0)


def test_what_cannot_be_scored_is_refused_before_fitting(ring, constant, monkeypatch):
    monkeypatch.setattr(constant, "fit", lambda *_: pytest.fail("fitted in vain"))
    with pytest.raises(InputError, match="0 test nodes"):
        run_cell(ring, [Split(train=[0], validation=[], test=[])], constant(), name="constant", seed=0)


def test_a_cell_in_one_line(ring, constant):
    splits = [Split(train=[0, 1, 2], validation=[], test=[3, 4]), Split(train=[0, 1, 2], validation=[], test=[4, 5])]
    cell = summarise_cell(run_cell(ring, splits, constant(), name="constant", seed=0))
    assert (cell.runs, cell.labels_per_class) == (2, 1)
    assert cell.accuracy.per_run == (0.5, 0.0)
    assert cell.accuracy.mean == 0.25


def test_label_counts_that_differ_between_runs_are_not_one_number(ring, constant):
    splits = [Split(train=[0, 1, 2], validation=[], test=[3]), Split(train=[0, 1], validation=[], test=[3])]
    assert summarise_cell(run_cell(ring, splits, constant(), name="constant", seed=0)).labels_per_class is None


def test_differences_are_paired_by_split(ring, constant):
    splits = [Split(train=[0], validation=[], test=test) for test in ([3, 4], [3, 6], [4, 7])]
    cells = [
        summarise_cell(run_cell(ring, splits, constant(favourite=favourite), name=name, seed=0))
        for name, favourite in (("zero", 0), ("one", 1))
    ]
    differences, p_values = paired_with(cells, reference="one")
    assert list(differences) == list(p_values) == ["zero"]
    np.testing.assert_allclose(differences["zero"].per_run, [0.5 - 0.5, 1 - 0, 0 - 1])
    assert p_values["zero"] == 1  # one gained, one lost


def test_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert chosen_device("auto") == chosen_device("cpu") == torch.device("cpu")
    with pytest.raises(InputError, match="use --device cpu or auto"):
        chosen_device("cuda")
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        chosen_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert chosen_device("auto") == chosen_device("cuda") == torch.device("cuda")


def test_rows_say_which_runs_share_random_parts(ring, constant):
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
    # What the reference shares among its runs is in the interval of every difference.
    sharing = [replace(row, accuracy=0.5 + 0.1 * row.group + 0.01 * row.run) for row in rows]
    apart, together = (
        paired_with([summarise_cell(alone), summarise_cell(some)], "sharing")[0]["alone"].ci95
        for some in ([replace(row, group=None) for row in sharing], sharing)
    )
    assert together[0] < apart[0] < apart[1] < together[1]
    assert 0 <= cell.accuracy.ci95[0] <= cell.accuracy.ci95[1] <= 1


def test_rows_stored_before_there_were_groups_can_be_read(ring, constant):
    [row] = run_cell(ring, draw_splits(ring, 1, runs=1, seed=0), constant(), name="constant", seed=0)
    stored = StoredRow(**vars(row), unit="1", protocol="ours", validation=0, runs=1, averages=1)
    content = json.loads(json.dumps(asdict(stored)))
    del content["group"]
    assert StoredRow.from_json(content) == StoredRow.from_json(asdict(stored))
