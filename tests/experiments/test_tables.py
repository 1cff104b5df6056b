"""Tables from stored rows."""

from dataclasses import replace

import pytest

from mtgcn.errors import InputError
from mtgcn.experiments import statistics
from mtgcn.experiments.plan import Selection, place_of, plan
from mtgcn.experiments.protocol import ABLATION, BACKBONES, WORLD, titles_of
from mtgcn.experiments.tables import stored_evidence, suites_in
from stored_rows import rows_of


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


def units_of(**selection):
    return plan(Selection(**{"runs": 2, **selection})).units


def stored(**selection):
    chosen = selection if "suite" in selection else {"tables": ["2"], **selection}
    return {unit.id: rows_of(unit) for unit in units_of(**chosen)}


def titles(lines):
    return list(dict.fromkeys(line.title for line in lines))


def changed(units, **versions):
    return {
        f"{name} {versions}": tuple(replace(row, versions={**row.versions, **versions}) for row in rows)
        for name, rows in units.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "selection",
    [
        {},
        {"protocol": "paper"},
        {"ablation": True},
        {"tables": ["5", "digits"]},
        {"backbones": True},
        {"backbones": True, "tables": ["2", "digits"]},
        {"suite": "world"},
    ],
    ids=str,
)
def test_stored_rows_give_the_tables_of_the_plan(selection):
    wanted = plan(Selection(**{"runs": 2, **selection}))
    units = {unit.id: rows_of(unit) for unit in wanted.units}
    evidence = stored_evidence(units, suite=WORLD if selection.get("suite") else None)
    assert {line.rows[0].unit for line in getattr(evidence, wanted.selection.kind)} == set(units)
    assert evidence.units_left_out == 0


def test_variants_have_their_own_tables():
    evidence = stored_evidence(stored(methods=["gcn"]) | stored(backbones=True) | stored(ablation=True))
    assert set(titles(evidence.ours)) == {"gcn", "mt-gcn"}
    assert titles(evidence.ablation)[: len(ABLATION)] == [item.title for item in ABLATION]
    assert titles(evidence.backbones)[: len(BACKBONES)] == [item.title for item in BACKBONES]
    assert not set(titles(evidence.ablation)) & set(titles(evidence.backbones))
    for line in evidence.backbones:
        assert line.rival == "the network alone"
        assert bool(line.against_rival) == line.title.endswith("taught")


def with_gains(gains, **selection):
    """Units whose lines lie above 0.5 by these gains."""
    return {
        unit.id: rows_of(unit, lambda run, line=unit.line: 0.5 + 0.01 * run + gains.get(line, 0.0))
        for unit in units_of(**selection)
    }


def differences(lines):
    return {line.title: line.against_rival.difference.mean for line in lines if line.against_rival}


def test_backbones_are_compared_with_the_network_alone():
    lines = stored_evidence(with_gains({"appnp taught": 0.125}, tables=["2"], runs=3, backbones=True)).backbones
    others = dict.fromkeys(("gcn taught", "chebyshev taught", "gat taught"), 0)
    assert differences(lines) == pytest.approx({"appnp taught": 0.125, **others})


def test_suite_is_compared_with_mt_plus():
    units = with_gains({"gcn, none": 0.125, "mt-plus": 0.25}, suite="world", datasets=["chameleon"])
    lines = stored_evidence(units, suite=WORLD).ours
    assert lines[0].rival == "mt-plus"
    others = [title for title in titles_of(WORLD.tables) if title not in ("mt-plus", "gcn, none")]
    assert differences(lines) == pytest.approx({"gcn, none": -0.125, **dict.fromkeys(others, -0.25)})
    without = {name: rows for name, rows in units.items() if rows[0].method != "mt-plus"}
    assert differences(stored_evidence(without, suite=WORLD).ours) == {}


def test_suite_and_paper_do_not_mix():
    # Both have Citeseer with 3 labels per class.
    paper = units_of(tables=["3"], methods=["gcn", "mt-plus"])
    world = units_of(suite="world", datasets=["citeseer"], methods=["gcn", "mt-plus"])
    units = {unit.id: rows_of(unit) for unit in (*paper, *world)}
    assert len(units) == len(paper) + len(world)
    assert suites_in(units) == [None, WORLD]
    for suite, own in ((None, paper), (WORLD, world)):
        evidence = stored_evidence(units, suite=suite)
        assert [line.place for line in evidence.ours] == sorted(map(place_of, own), key=lambda place: place.order)
        assert (evidence.suite, evidence.units_shown, evidence.units_left_out) == (suite, len(own), 0)
    assert suites_in({unit.id: units[unit.id] for unit in world}) == [WORLD]
    assert suites_in({}) == [None]


def test_empty_places_are_filled_from_another_device():
    here = stored(methods=["gcn", "m3s", "mt-gcn"], device="cuda (some GPU)")
    there = stored(methods=["lp"]) | stored(methods=["gcn"])
    evidence = stored_evidence(here | there)
    assert evidence.made.device == "cuda (some GPU)"
    assert [row.device for row in evidence.made_elsewhere] == ["cpu"]
    devices = {line.title: evidence.elsewhere(line) for line in evidence.ours}
    assert devices == {"lp": "cpu", "gcn": "", "m3s": "", "mt-gcn": ""}
    assert all(line.against_rival for line in evidence.ours if line.title == "lp")
    assert (evidence.units_shown, evidence.units_left_out) == (16, 4)


@pytest.mark.parametrize(("other", "versions"), [({"seed": 5}, {}), ({"runs": 3}, {}), ({}, {"mtgcn": "0"})])
def test_other_seeds_runs_and_releases_fill_nothing(other, versions):
    here = stored(methods=["gcn", "mt-gcn"], device="cuda (some GPU)")
    there = changed(stored(methods=["lp"], **other), **versions)
    evidence = stored_evidence(here | there)
    assert set(titles(evidence.ours)) == {"gcn", "mt-gcn"}
    assert evidence.made_elsewhere == ()


def test_most_frequent_environment_is_preferred():
    many, few = stored(methods=["gcn", "mt-gcn"]), stored(methods=["gcn"], seed=5)
    evidence = stored_evidence(many | few)
    assert (evidence.made.seed, evidence.units_shown, evidence.units_left_out) == (0, 8, 4)
    asked = stored_evidence(many | few, like=next(iter(few.values()))[0])
    assert (asked.made.seed, asked.units_shown, asked.units_left_out) == (5, 4, 8)
    assert stored_evidence(many | changed(many, torch="9")).made.versions["torch"] == "9"  # the later of equals


def test_a_cell_has_one_number_of_runs():
    evidence = stored_evidence(stored(methods=["gcn", "mt-gcn"], runs=3) | stored(methods=["gcn"], runs=5))
    assert {len(line.rows) for line in evidence.ours} == {3}
    assert evidence.units_left_out == 4
    assert all(line.against_rival for line in evidence.ours if line.title == "gcn")


def test_rows_without_a_place():
    unknown = {"other": rows_of(units_of(tables=["2"], methods=["lp"])[0], table="17")}
    assert stored_evidence(stored(methods=["gcn"]) | unknown).units_left_out == 1
    with pytest.raises(InputError, match="no unit is finished yet"):
        stored_evidence({})
