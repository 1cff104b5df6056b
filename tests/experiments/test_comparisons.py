"""From rows to comparisons: who is the reference, what is warned of, and how a folder of rows is read."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from mtgcn.experiments.comparisons import comparison_of, scoring_warnings, stored_comparisons
from mtgcn.experiments.rows import ComparedRow

MADE = {"mtgcn": "1", "torch": "2", "numpy": "3", "scipy": "4"}


def unit(
    method,
    accuracies,
    *,
    comparison="one",
    labels_per_class=2,
    dataset="mine.csv",
    split="random",
    scored=50,
    **settings,
):
    return tuple(
        ComparedRow(
            dataset=dataset,
            labels_per_class=labels_per_class,
            split=split,
            method=method,
            settings=settings,
            run=run,
            seed=0,
            accuracy=accuracy,
            macro_f1=accuracy,
            calibration_error=0.1,
            seconds=1.0,
            device="cpu",
            threads=1,
            versions=MADE,
            unit=f"{method} {settings} {comparison}",
            protocol="ours",
            validation=0,
            runs=len(accuracies),
            averages=1,
            comparison=comparison,
            scored_nodes=scored + run,
            graph={"nodes": 90, "edges": 200, "features": 4, "classes": 3},
        )
        for run, accuracy in enumerate(accuracies)
    )


@pytest.mark.parametrize(
    ("methods", "reference"),
    [
        (["lp", "mt-gcn", "mt-plus"], "mt-plus"),
        (["lp", "mt-gcn"], "mt-gcn"),
        (["lp", "gcn"], "lp"),
    ],
)
def test_the_reference_is_the_best_known_that_takes_part(methods, reference):
    assert comparison_of({name: unit(name, [0.5]) for name in methods}).reference == reference


def test_intervals_account_for_what_runs_of_either_method_share():
    accuracy = [0.5, 0.52, 0.6, 0.62, 0.7, 0.72]
    base = unit("mt-plus", [0.5, 0.51, 0.49, 0.5, 0.52, 0.5])
    other = unit("gcn", accuracy)
    sharing = tuple(replace(row, group=row.run // 2) for row in other)  # two runs of a group err alike
    apart, shared = (comparison_of({"mt-plus": base, "gcn": rows}) for rows in (other, sharing))
    means = [0.51, 0.61, 0.71]
    low, high = t.interval(0.95, df=2, loc=np.mean(means), scale=np.std(means, ddof=1) / np.sqrt(3))
    assert shared.cells[1].accuracy.ci95 == pytest.approx((low, high))
    wide, narrow = (np.diff(one.differences["gcn"].ci95)[0] for one in (shared, apart))
    assert wide > 1.2 * narrow
    turned = comparison_of({"mt-plus": base, "gcn": sharing}, reference="gcn")
    # Whichever of the two it is that shares.
    assert np.diff(turned.differences["mt-plus"].ci95)[0] == pytest.approx(wide)


def test_differences_and_p_values_are_of_the_same_splits():
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


@pytest.mark.parametrize(("p_value", "significant"), [(0.0499, True), (0.05, False), (0.0501, False)])
def test_chance_is_five_per_cent_and_more(p_value, significant):
    comparison = comparison_of({name: unit(name, [0.5, 0.6]) for name in ("base", "other")})
    assert replace(comparison, p_values={"other": p_value}).is_significant("other") == significant


def test_a_method_alone_is_not_called_the_best():
    assert not comparison_of({"lp": unit("lp", [0.5])}).is_best("lp")


@pytest.mark.parametrize(("scored", "warned"), [(30, False), (29, True), (1, True)])
def test_few_scored_nodes_are_warned_of(scored, warned):
    warnings = comparison_of({"lp": unit("lp", [0.5, 0.5], scored=scored)}).warnings
    assert bool(warnings) == warned
    assert list(warnings) == scoring_warnings(scored)
    assert all(f"scored on {scored} node" in warning and "fewer than 30" in warning for warning in warnings)


def test_a_folder_may_hold_several_comparisons_few_labels_first():
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


def test_settings_tell_apart_what_has_the_same_name_and_the_later_of_equals_counts():
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
    assert [cell.method for cell in elsewhere.cells] == ["gcn, hidden=16"]  # called the same in the whole folder


def test_the_reference_that_was_asked_for_counts_where_it_takes_part():
    units = [
        unit("lp", [0.5]),
        unit("mt-plus", [0.5]),
        unit("mt-plus", [0.5], comparison="two"),
    ]
    assert [one.reference for one in stored_comparisons(units, "lp")] == ["lp", "mt-plus"]


def test_rows_of_sweeps_are_left_alone():
    from mtgcn.experiments.rows import StoredRow

    [row] = unit("lp", [0.5])
    kept = {key: value for key, value in vars(row).items() if key not in ("comparison", "scored_nodes", "graph")}
    assert stored_comparisons([(StoredRow(**kept),)]) == []
    assert len(stored_comparisons([(StoredRow(**kept),), (replace(row, method="gcn"),)])) == 1
