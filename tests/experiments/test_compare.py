"""Comparisons of methods: their rows, statistics, and storage."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from mtgcn.errors import InputError
from mtgcn.experiments.compare import compared_rows, comparison_of, stored_comparisons
from mtgcn.experiments.store import Store, read_units
from mtgcn.methods import as_method
from stored_rows import compared_row, stored_row


def compare(graph, methods, *, reference=None, **options):
    return comparison_of(compared_rows(graph, methods, reference=reference, **options), reference)


def test_compare_pairs_splits(ring, constant):
    methods = {"zero": constant(favourite=0), "one": constant(favourite=1)}
    comparison = compare(ring, methods, labels_per_class=1, runs=3)
    assert (comparison.reference, [cell.method for cell in comparison.cells]) == ("zero", ["zero", "one"])
    zero, one = (np.array(cell.accuracy.per_run) for cell in comparison.cells)
    np.testing.assert_allclose(comparison.differences["one"].per_run, one - zero)
    assert compare(ring, methods, labels_per_class=1, runs=3, reference="one").reference == "one"
    assert (comparison.scored_nodes, comparison.graph["nodes"], comparison.graph["edges"]) == (9, 12, 12)
    assert len(comparison.warnings) == 1  # 9 is few


@pytest.fixture
def fits(monkeypatch, constant):
    """The favourites that were fitted."""
    fitted, fit = [], constant.fit
    monkeypatch.setattr(constant, "fit", lambda method, task: fitted.append(method.favourite) or fit(method, task))
    return fitted


def test_stored_methods_are_not_run_again(ring, constant, tmp_path, fits):
    methods = {"zero": constant(favourite=0), "one": constant(favourite=1)}
    options = {"labels_per_class": 1, "runs": 3}
    with Store(tmp_path) as store:
        first = compare(ring, {"zero": methods["zero"]}, **options, store=store)
    with Store(tmp_path) as store:
        both = compare(ring, methods, **options, store=store)
    assert fits == [0, 1]
    assert both.cells[0] == first.cells[0]
    alone = compare(ring, methods, **options)
    assert [cell.accuracy for cell in alone.cells] == [cell.accuracy for cell in both.cells]


@pytest.mark.parametrize(
    ("of_what", "name", "value"),
    [
        ("options", "seed", 1),
        ("options", "runs", 2),
        ("options", "labels_per_class", 2),
        ("options", "split", "over-all"),
        ("graph", "labels", np.roll(np.arange(12) % 3, 1)),
        ("graph", "features", 2 * np.eye(12)),
        ("graph", "adjacency", np.ones((12, 12))),
        ("method", "confidence", 0.9),
    ],
)
def test_changes_make_new_rows(ring, constant, tmp_path, fits, of_what, name, value):
    for change in ({}, {name: value}):
        graph, settings, changed = (change if of_what == one else {} for one in ("graph", "method", "options"))
        options = {"labels_per_class": 1, "runs": 3} | changed
        with Store(tmp_path) as store:
            compare(replace(ring, **graph), {"zero": constant(**settings)}, **options, store=store)
    assert fits == [0, 0]
    comparisons = {rows[0].comparison for rows in read_units(tmp_path).values()}
    assert len(comparisons) == (1 if of_what == "method" else 2)


def test_edited_method_runs_again(ring, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    source = """
from dataclasses import dataclass
import numpy as np
from mtgcn.task import Prediction

@dataclass(frozen=True)
class Own:
    def fit(self, task):
        shares = np.zeros((task.runs, task.num_nodes, task.num_classes))
        shares[:, :, FAVOURITE] = 1
        return Prediction(shares)
"""
    accuracies = []
    for favourite in ("0", "1"):
        (tmp_path / "edited_method.py").write_text(source.replace("FAVOURITE", favourite))
        sys.modules.pop("edited_method", None)
        module = __import__("edited_method")
        # Test nodes: of class 1 all four, of class 0 three.
        graph = replace(ring, labels=[0, 1, 2, 0, 1, 2, 0, 1, -1, 0, 1, -1])
        split = tmp_path / "split.json"
        split.write_text(json.dumps({"train": [0, 2]}))
        with Store(tmp_path / "rows") as store:
            method = {"edited_method:Own": as_method(module.Own())}
            comparison = compare(graph, method, split=str(split), runs=1, store=store)
        accuracies.append(comparison.cells[0].accuracy.mean)
    sys.modules.pop("edited_method")
    assert accuracies == [3 / 8, 4 / 8]


def test_settings_without_a_json_form_are_stored_as_repr(ring, constant, tmp_path):
    method = constant(favourite=0)
    object.__setattr__(method, "confidence", np.float64(0.6))
    object.__setattr__(method, "favourite", np.int64(0))
    with Store(tmp_path) as store:
        [rows] = compared_rows(ring, {"zero": method}, labels_per_class=1, runs=1, store=store).values()
    assert read_units(tmp_path)[rows[0].unit][0].settings == {"favourite": "np.int64(0)", "confidence": 0.6}


def unit(method, accuracies, *, scored=50, **changes):
    """Rows of a method; changes that are no fields are its settings."""
    known = {key: changes.pop(key) for key in ("comparison", "labels_per_class", "dataset", "split") if key in changes}
    shared = {"dataset": "mine.csv", "settings": changes, "runs": len(accuracies), "method": method, **known}
    return tuple(
        compared_row(**shared, run=run, accuracy=accuracy, scored_nodes=scored + run)
        for run, accuracy in enumerate(accuracies)
    )


def test_intervals_account_for_groups_of_either_method():
    accuracy = [0.5, 0.52, 0.6, 0.62, 0.7, 0.72]
    base = unit("mt-plus", [0.5, 0.51, 0.49, 0.5, 0.52, 0.5])
    other = unit("gcn", accuracy)
    sharing = tuple(replace(row, group=row.run // 2) for row in other)
    apart, shared = (comparison_of({"mt-plus": base, "gcn": rows}) for rows in (other, sharing))
    means = [0.51, 0.61, 0.71]
    low, high = t.interval(0.95, df=2, loc=np.mean(means), scale=np.std(means, ddof=1) / np.sqrt(3))
    assert shared.cells[1].accuracy.ci95 == pytest.approx((low, high))
    wide, narrow = (np.diff(one.differences["gcn"].ci95)[0] for one in (shared, apart))
    assert wide > 1.2 * narrow
    turned = comparison_of({"mt-plus": base, "gcn": sharing}, reference="gcn")
    assert np.diff(turned.differences["mt-plus"].ci95)[0] == pytest.approx(wide)


def test_differences_and_p_values_by_hand():
    # Six differences of one sign: 2 of the 2^6 equally likely patterns of signs, for each of two methods.
    steps = [0.01 * number for number in range(1, 7)]
    rows = {
        "base": unit("base", [0.5] * 6),
        "better": unit("better", [0.5 + step for step in steps]),
        "same": unit("same", [0.5] * 6),
    }
    comparison = comparison_of(rows)
    assert comparison.differences["better"].mean == pytest.approx(0.035)
    assert comparison.p_values == {"better": pytest.approx(2 * 2 / 2**6), "same": 1.0}  # Holm doubles the smallest
    assert not comparison.is_significant("better")
    assert comparison_of({name: rows[name] for name in ("base", "better")}).is_significant("better")
    assert comparison.is_best("better")
    assert not comparison.is_best("base")
    assert not comparison_of({"base": rows["base"]}).is_best("base")  # a single method


def test_score_decides_the_comparison():
    def rows(name, accuracy, balanced):
        return [replace(row, balanced_accuracy=balanced) for row in unit(name, [accuracy] * 6)]

    found = {"majority": rows("majority", 0.9, 0.5), "fair": rows("fair", 0.8, 0.7)}
    by_accuracy, balanced = (comparison_of(found, score=score) for score in ("accuracy", "balanced-accuracy"))
    assert by_accuracy.is_best("majority")
    assert balanced.is_best("fair")
    assert balanced.differences["fair"].mean == pytest.approx(0.2)
    [warning] = by_accuracy.warnings
    assert warning.startswith("classes are uneven: accuracy is up to 40 points above balanced accuracy (majority)")
    assert not balanced.warnings
    assert not stored_comparisons(found.values(), score="roc-auc")
    with pytest.raises(InputError, match="roc-auc of fair is not known: it needs two classes"):
        comparison_of(found, score="roc-auc")


@pytest.mark.parametrize(
    ("scored", "warnings"),
    [
        (30, ()),
        (29, ("a run is scored on 29 nodes, fewer than 30, so that one node is 3.4 points of accuracy; ",)),
        (1, ("a run is scored on 1 node, fewer than 30, so that one node is 100.0 points of accuracy; ",)),
    ],
)
def test_few_scored_nodes_warn(scored, warnings):
    found = comparison_of({"lp": unit("lp", [0.5, 0.5], scored=scored)}).warnings
    assert tuple(warning.partition("give")[0] for warning in found) == warnings


def test_stored_comparisons_are_sorted():
    units = [
        unit("gcn", [0.7], comparison="twenty", labels_per_class=20),
        unit("lp", [0.4], comparison="theirs", split="splits.json"),
        unit("gcn", [0.5], comparison="two"),
        unit("gcn", [0.9], comparison="other", dataset="other.csv"),
        unit("lp", [0.6], comparison="two"),
    ]
    found = stored_comparisons(units)
    cells = [[(cell.dataset, cell.labels_per_class, cell.split, cell.method) for cell in one.cells] for one in found]
    assert cells == [
        [("mine.csv", 2, "random", "gcn"), ("mine.csv", 2, "random", "lp")],
        [("mine.csv", 20, "random", "gcn")],
        [("mine.csv", 2, "splits.json", "lp")],
        [("other.csv", 2, "random", "gcn")],
    ]


def test_titles_show_differing_settings():
    units = [
        unit("gcn", [0.5], hidden=16, dropout=0.5),
        unit("gcn", [0.6], hidden=32, dropout=0.5),
        unit("gcn", [0.7], comparison="elsewhere", hidden=16, dropout=0.5),
        unit("mine:Own", [0.1]),
        unit("mine:Own", [0.2]),  # after its file was edited
    ]
    here, elsewhere = stored_comparisons(units)
    assert [cell.method for cell in here.cells] == ["gcn, hidden=16", "gcn, hidden=32", "mine:Own"]
    assert here.cells[-1].accuracy.mean == 0.2
    assert [cell.method for cell in elsewhere.cells] == ["gcn, hidden=16"]


def test_reference_of_stored_comparisons():
    units = [unit("lp", [0.5]), unit("mt-plus", [0.5]), unit("mt-plus", [0.5], comparison="two")]
    assert [one.reference for one in stored_comparisons(units, "lp")] == ["lp", "mt-plus"]
    assert comparison_of({name: unit(name, [0.5]) for name in ("lp", "mt-gcn")}).reference == "mt-gcn"
    assert stored_comparisons([(stored_row(),)]) == []  # of a sweep
    assert len(stored_comparisons([(stored_row(),), (compared_row(),)])) == 1
