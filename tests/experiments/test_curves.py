"""Training curves."""

import json

import numpy as np
import pytest

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.experiments import curves as curves_module
from mtgcn.experiments import statistics
from mtgcn.experiments.curves import CURVES_FILE, curve_cells, draw_curves, read_curves
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.scoring import run_cell
from mtgcn.methods import create
from mtgcn.splits import draw_splits
from stored_rows import CURVES

QUICK = {"warmup_epochs": 12, "teaching_epochs": 13, "hidden_channels": 4}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 50)
    monkeypatch.setattr(curves_module, "create", lambda name: create(name, **QUICK))


@pytest.fixture
def digits():
    return plan(Selection(datasets=["digits"], runs=2, curves=True))


@pytest.mark.parametrize(
    ("selection", "cells"),
    [
        ({}, {"cora": (2, 20), "citeseer": (3, 20), "pubmed": (2, 20)}),
        ({"datasets": ["digits"]}, {"digits": (2, 20)}),
        ({"tables": ["2"]}, {"cora": (2, 20)}),  # all label rates of Cora
        ({"tables": ["1", "digits"]}, {"digits": (2, 20)}),
        ({"tables": ["1"]}, {}),
    ],
)
def test_curve_cells(selection, cells):
    found = [(cell.dataset, cell.labels_per_class, cell.split) for cell in curve_cells(plan(Selection(**selection)))]
    assert found == [(dataset, rate, "random") for dataset, rates in cells.items() for rate in rates]


def test_draw_curves(digits, tmp_path):
    assert draw_curves(digits, tmp_path) == tmp_path / CURVES_FILE
    few, many = read_curves(tmp_path)
    assert (few.made["labels_per_class"], many.made["labels_per_class"]) == (2, 20)
    assert few.epochs == (10, 20, 25)
    assert few.teaching_from == 12
    assert set(few.losses) == {"supervised", "pseudo-label", "consistency"}
    assert few.losses["pseudo-label"].mean[0] is None  # no teaching in epoch 10
    assert all(value > 0 for value in few.losses["pseudo-label"].mean[1:])
    assert len(few.precision) == len(few.class_names) == 10
    for band in (few.accuracy, *few.precision):
        for mean, low, high in zip(band.mean, band.low, band.high, strict=True):
            assert mean is None or 0 <= low <= mean <= high <= 1
    # After the last epoch the accuracy is that of the cell's rows.
    graph = datasets.load("digits")
    rows = run_cell(graph, draw_splits(graph, 2, 2, 0, 500), create("mt-gcn", **QUICK), name="mt-gcn", seed=0)
    assert few.accuracy.mean[-1] == pytest.approx(np.mean([row.accuracy for row in rows]), abs=1e-4)


@pytest.mark.slow
def test_stored_curves_are_not_drawn_again(digits, tmp_path, monkeypatch):
    draw_curves(digits, tmp_path)
    before = (tmp_path / CURVES_FILE).read_bytes()
    trained = []
    original = curves_module._trained
    monkeypatch.setattr(curves_module, "_trained", lambda cell, *rest: trained.append(cell) or original(cell, *rest))
    draw_curves(digits, tmp_path)
    assert trained == []
    assert (tmp_path / CURVES_FILE).read_bytes() == before
    draw_curves(plan(Selection(datasets=["digits"], runs=1)), tmp_path)
    assert len(trained) == 2
    assert len(read_curves(tmp_path)) == 4  # those of two runs are kept


def test_each_cell_is_written_at_once(digits, tmp_path, monkeypatch):
    original = curves_module._trained

    def interrupted(cell, *rest):
        if cell.labels_per_class == 20:
            raise KeyboardInterrupt
        return original(cell, *rest)

    monkeypatch.setattr(curves_module, "_trained", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw_curves(digits, tmp_path)
    assert [one.made["labels_per_class"] for one in read_curves(tmp_path)] == [2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"made": {}}, "is not a file of curves"),
        ({"made": CURVES["made"] | {"settings": {"warmup_epochs": 2 * 10**9}}}, "is not a file of curves .*2000000000"),
        ({"epochs": [10, 2 * 10**9]}, "is not a file of curves .*2000000000"),
        ({"epochs": [10]}, "its curves are of different length"),
        ({"class_names": []}, "its classes have no curve each"),
        ({"format": 2}, "has format 2, and this mtgcn reads format 3"),
    ],
    ids=str,
)
def test_invalid_curves(tmp_path, changes, message):
    assert read_curves(tmp_path) == []
    (tmp_path / CURVES_FILE).write_text(json.dumps([CURVES]))
    [curves] = read_curves(tmp_path)
    assert (curves.epochs, curves.teaching_from) == ((10, 20), 200)
    (tmp_path / CURVES_FILE).write_text(json.dumps([CURVES | changes]))
    with pytest.raises(InputError, match=message):
        read_curves(tmp_path)
