"""Stored rows put back into their tables, and never mixed with rows made otherwise."""

from dataclasses import replace

import pytest

from mtgcn import environment
from mtgcn.datasets import describe
from mtgcn.errors import InputError
from mtgcn.experiments import statistics
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.protocol import ABLATION, BACKBONES
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.tables import measured_tables, stored_evidence, table_1


def rows_of(unit, **changes):
    return tuple(
        StoredRow(
            dataset=unit.dataset,
            labels_per_class=unit.labels_per_class,
            method=unit.method,
            settings=unit.identity["settings"],
            run=run,
            seed=unit.seed,
            accuracy=0.5 + 0.01 * run,
            macro_f1=0.5,
            calibration_error=0.1,
            seconds=1.0,
            device=unit.device,
            threads=unit.threads,
            unit=unit.id,
            protocol=unit.protocol,
            split=unit.split,
            validation=unit.validation,
            runs=unit.runs,
            averages=unit.averages,
            **{"versions": environment.versions(), **changes},
        )
        for run in range(unit.runs)
    )


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Intervals need not be exact here, and hundreds of them are made."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


def stored(**selection):
    places = plan(Selection(**{"tables": ["2"], "runs": 2, **selection})).units
    return {one.unit.id: rows_of(one.unit) for one in places}


@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"protocol": "paper"},
        {"ablation": True},
        {"tables": ["5", "digits"]},
        {"backbones": True},
        {"backbones": True, "tables": ["2", "digits"]},
    ],
    ids=str,
)
def test_rows_alone_say_what_the_plan_knew(selection):
    # Ablations have no digits, and the authors' protocol no public split.
    wanted = plan(Selection(**{"runs": 2, **selection}))
    units = {one.unit.id: rows_of(one.unit) for one in wanted.units}
    evidence = stored_evidence(units)
    found = (*evidence.ours, *evidence.optimistic, *evidence.ablation, *evidence.backbones)
    assert found[-len(measured_tables(wanted, units)) :] == measured_tables(wanted, units)
    assert evidence.units_left_out == 0


def test_an_ablation_is_sorted_out_of_the_tables():
    evidence = stored_evidence(stored(methods=["gcn"]) | stored(ablation=True))
    assert {line.title for line in evidence.ours[0].lines} == {"gcn", "mt-gcn"}
    assert [line.title for line in evidence.ablation[0].lines][: len(ABLATION)] == [item.title for item in ABLATION]


def test_backbones_are_sorted_out_of_the_tables_and_each_is_compared_with_itself_alone():
    evidence = stored_evidence(stored(methods=["gcn"]) | stored(backbones=True) | stored(ablation=True))
    assert {line.title for line in evidence.ours[0].lines} == {"gcn", "mt-gcn"}
    assert not {line.title for line in evidence.ablation[0].lines} & {item.title for item in BACKBONES}
    [table] = evidence.backbones
    assert [line.title for line in table.lines][: len(BACKBONES)] == [item.title for item in BACKBONES]
    assert table.rival == "the network alone"
    for line in table.lines:
        assert bool(line.against_rival) == line.title.endswith("taught")


def test_what_teaching_adds_is_the_difference_from_the_same_network_alone():
    units = {}
    for one in plan(Selection(tables=["2"], runs=3, backbones=True)).units:
        gain = 0.125 if one.place.title == "appnp taught" else 0.0
        rows = rows_of(one.unit)
        units[one.unit.id] = tuple(replace(row, accuracy=row.accuracy + gain) for row in rows)
    [table] = stored_evidence(units).backbones
    gains = {line.title: line.against_rival.difference.mean for line in table.lines if line.against_rival}
    assert gains == pytest.approx({"gcn taught": 0, "chebyshev taught": 0, "appnp taught": 0.125, "gat taught": 0})


def test_rows_of_before_there_was_a_choice_of_backbones_are_the_methods_own():
    units = {
        name: tuple(replace(row, settings={k: v for k, v in row.settings.items() if k != "backbone"}) for row in rows)
        for name, rows in stored(methods=["mt-gcn"]).items()
    }
    evidence = stored_evidence(units)
    assert {line.title for line in evidence.ours[0].lines} == {"mt-gcn"}
    assert evidence.backbones == ()


def test_places_left_empty_are_filled_from_another_device_which_is_named():
    here = stored(methods=["gcn", "m3s", "mt-gcn"], device="cuda (some GPU)")
    there = stored(methods=["lp"]) | stored(methods=["gcn"])
    evidence = stored_evidence(here | there)
    assert evidence.made.device == "cuda (some GPU)"
    assert [row.device for row in evidence.made_elsewhere] == ["cpu"]
    assert {line.title: evidence.elsewhere(line) for line in evidence.ours[0].lines} == {
        "lp": "cpu",
        "gcn": "",
        "m3s": "",
        "mt-gcn": "",
    }
    assert all(line.against_rival for line in evidence.ours[0].lines if line.title == "lp")
    assert (evidence.units_shown, evidence.units_left_out) == (16, 4)


@pytest.mark.parametrize("change", [{"seed": 5}, {"runs": 3}])
def test_other_seeds_and_numbers_of_runs_fill_nothing(change):
    here, there = stored(methods=["gcn", "mt-gcn"], device="cuda (some GPU)"), stored(methods=["lp"], **change)
    evidence = stored_evidence(here | there)
    assert {line.title for line in evidence.ours[0].lines} == {"gcn", "mt-gcn"}
    assert evidence.made_elsewhere == ()


def test_another_release_of_the_program_fills_nothing():
    here = stored(methods=["gcn", "mt-gcn"])
    there = {
        name: tuple(replace(row, versions={**row.versions, "mtgcn": "0"}) for row in rows)
        for name, rows in stored(methods=["lp"]).items()
    }
    assert "lp" not in {line.title for line in stored_evidence(here | there).ours[0].lines}


def test_rows_made_otherwise_are_left_out():
    many, few = stored(methods=["gcn", "mt-gcn"]), stored(methods=["gcn"], seed=5)
    evidence = stored_evidence(many | few)
    assert (evidence.made.seed, evidence.units_shown, evidence.units_left_out) == (0, 8, 4)
    asked = stored_evidence(many | few, like=next(iter(few.values()))[0])
    assert (asked.made.seed, asked.units_shown, asked.units_left_out) == (5, 4, 8)
    newer = {
        name: tuple(replace(row, versions={**row.versions, "torch": "9"}) for row in rows)
        for name, rows in many.items()
    }
    assert (
        stored_evidence({**many, **{f"new {name}": rows for name, rows in newer.items()}}).made.versions["torch"] == "9"
    )


def test_a_cell_is_compared_with_one_number_of_runs():
    evidence = stored_evidence(stored(methods=["gcn", "mt-gcn"], runs=3) | stored(methods=["gcn"], runs=5))
    assert {len(line.rows) for line in evidence.ours[0].lines} == {3}
    assert evidence.units_left_out == 4
    assert all(line.against_rival for line in evidence.ours[0].lines if line.title == "gcn")


def test_nothing_stored_is_said():
    with pytest.raises(InputError, match="no unit is finished yet"):
        stored_evidence({})


def test_counts_stand_beside_what_the_paper_prints():
    described = [describe("digits"), replace(describe("digits"), name="cora", nodes=3, edges_listed=4)]
    [line] = table_1(described)  # of digits the paper prints nothing
    assert (line.dataset, line.pairs) == ("cora", ((2708, 3), (5429, 4), (7, 10), (1433, 64)))
