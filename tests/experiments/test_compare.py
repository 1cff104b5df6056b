"""Several methods on the same splits, as a program asks for it."""

import json
import sys
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from mtgcn.errors import InputError
from mtgcn.experiments.compare import compare_methods, compared_rows
from mtgcn.experiments.placing import place_of
from mtgcn.experiments.store import Store, read_units
from mtgcn.methods import create
from mtgcn.methods.plugins import as_method


def test_methods_are_compared_split_by_split(ring, constant):
    methods = {"zero": constant(favourite=0), "one": constant(favourite=1)}
    comparison = compare_methods(ring, methods, labels_per_class=1, runs=3)
    assert (comparison.reference, [cell.method for cell in comparison.cells]) == ("zero", ["zero", "one"])
    zero, one = (np.array(cell.accuracy.per_run) for cell in comparison.cells)
    np.testing.assert_allclose(comparison.differences["one"].per_run, one - zero)
    assert compare_methods(ring, methods, labels_per_class=1, runs=3, reference="one").reference == "one"
    assert (comparison.scored_nodes, comparison.graph["nodes"], comparison.graph["edges"]) == (9, 12, 12)
    assert len(comparison.warnings) == 1  # 9 is few


def test_a_reference_that_takes_no_part_is_refused_before_anything_runs(ring, constant):
    with pytest.raises(InputError, match="unknown reference 'mt-plus'; choose from zero"):
        compare_methods(ring, {"zero": constant()}, labels_per_class=1, reference="mt-plus")


def test_progress_is_entered_around_every_fit(ring, constant):
    seen = []

    @contextmanager
    def progress(title):
        seen.append(f"begin {title}")
        yield
        seen.append(f"end {title}")

    compare_methods(
        ring, {"zero": constant(), "one": constant(favourite=1)}, labels_per_class=1, runs=1, progress=progress
    )
    assert seen == ["begin zero on ring", "end zero on ring", "begin one on ring", "end one on ring"]


def test_nothing_to_compare_is_said(ring):
    with pytest.raises(InputError, match="0 methods to compare"):
        compare_methods(ring, {}, labels_per_class=1)


def test_features_are_made_from_the_edges_of_a_graph_that_has_none(make_graph):
    graph = replace(make_graph(easy=True), features=None)
    comparison = compare_methods(graph, {"gcn": create("gcn"), "lp": create("lp")}, labels_per_class=3, runs=2)
    assert comparison.graph["features"] == 0
    assert [cell.method for cell in comparison.cells] == ["gcn", "lp"]


# ---- a folder of rows


class Counting:
    """Counts the fits of a method without being part of what it is."""

    def __init__(self, monkeypatch, constant):
        self.fits = 0
        fit = constant.fit

        def counted(method, task):
            self.fits += 1
            return fit(method, task)

        monkeypatch.setattr(constant, "fit", counted)


def test_what_is_stored_is_not_run_again(ring, constant, tmp_path, monkeypatch):
    counting = Counting(monkeypatch, constant)
    methods = {"zero": constant(favourite=0), "one": constant(favourite=1)}
    options = {"labels_per_class": 1, "runs": 3}
    with Store(tmp_path) as store:
        first = compare_methods(ring, {"zero": methods["zero"]}, **options, store=store)
    with Store(tmp_path) as store:
        both = compare_methods(ring, methods, **options, store=store)
    assert counting.fits == 2
    assert both.cells[0] == first.cells[0]
    alone = compare_methods(ring, methods, **options)
    assert [cell.accuracy for cell in alone.cells] == [cell.accuracy for cell in both.cells]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"runs": 2},
        {"labels_per_class": 2},
        {"split": "over-all"},
    ],
)
def test_whatever_changes_the_numbers_makes_new_rows(ring, constant, tmp_path, monkeypatch, change):
    counting = Counting(monkeypatch, constant)
    for options in ({}, change):
        with Store(tmp_path) as store:
            asked = {"labels_per_class": 1, "runs": 3, **options}
            compare_methods(ring, {"zero": constant(favourite=0)}, **asked, store=store)
    assert counting.fits == 2
    comparisons = {rows[0].comparison for rows in read_units(tmp_path).values()}
    assert len(comparisons) == 2


@pytest.mark.parametrize("what", ["labels", "features", "edges", "settings"])
def test_another_graph_or_setting_makes_new_rows(ring, constant, tmp_path, what):
    graph, method = ring, constant(favourite=0)
    if what == "labels":
        graph = replace(ring, labels=np.roll(ring.labels, 1))
    elif what == "features":
        graph = replace(ring, features=2 * ring.features)
    elif what == "edges":
        graph = replace(ring, adjacency=np.ones((12, 12)))
    else:
        method = constant(favourite=0, confidence=0.9)
    for seen, asked in ((ring, constant(favourite=0)), (graph, method)):
        with Store(tmp_path) as store:
            compare_methods(seen, {"zero": asked}, labels_per_class=1, runs=2, store=store)
    units = read_units(tmp_path)
    assert len(units) == 2
    # Settings are the method's own; the rest is shared by all methods of a comparison.
    assert len({rows[0].comparison for rows in units.values()}) == (1 if what == "settings" else 2)


def test_an_own_method_runs_again_once_its_file_was_edited(ring, tmp_path, monkeypatch):
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
            comparison = compare_methods(graph, method, split=str(split), runs=1, store=store)
        accuracies.append(comparison.cells[0].accuracy.mean)
    sys.modules.pop("edited_method")
    assert accuracies == [3 / 8, 4 / 8]


def test_rows_of_a_comparison_fill_no_place_of_the_paper(ring, constant, tmp_path):
    graph = replace(ring, name="cora")  # called like the paper's
    with Store(tmp_path) as store:
        compare_methods(graph, {"gcn": constant()}, labels_per_class=2, runs=2, store=store)
    [rows] = read_units(tmp_path).values()
    assert (rows[0].dataset, rows[0].labels_per_class, rows[0].split) == ("cora", 2, "random")
    assert place_of(rows[0]) is None


def test_settings_that_json_has_no_form_for_are_stored_as_they_are_shown(ring, constant, tmp_path):
    method = constant(favourite=0)
    object.__setattr__(method, "confidence", np.float64(0.6))
    object.__setattr__(method, "favourite", np.int64(0))
    with Store(tmp_path) as store:
        [rows] = compared_rows(ring, {"zero": method}, labels_per_class=1, runs=1, store=store).values()
    assert read_units(tmp_path)[rows[0].unit][0].settings == {"favourite": "np.int64(0)", "confidence": 0.6}
