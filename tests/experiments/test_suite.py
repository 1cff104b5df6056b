"""The suite of graphs of many kinds: what it asks for, and its rows put back into their lines."""

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest

from mtgcn import datasets, environment
from mtgcn.errors import InputError
from mtgcn.experiments import placing, statistics
from mtgcn.experiments.placing import place_of
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.protocol import TABLES, Variant
from mtgcn.experiments.rows import StoredRow
from mtgcn.experiments.suite import ALL_TABLES, WORLD, suite_of
from mtgcn.experiments.tables import measured_tables, stored_evidence, suites_in
from mtgcn.experiments.units import execute
from mtgcn.methods import METHODS, create


def planned(**selection):
    return plan(Selection(suite="world", **selection)).units


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    """Intervals need not be exact here, and hundreds of them are made."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


@pytest.fixture
def plain_methods(monkeypatch):
    """A version that has every method of the suite, whichever this one has."""
    for title in WORLD.plain:
        if "," not in title and title not in METHODS:
            monkeypatch.setitem(METHODS, title, METHODS["lp"])


def rows_of(unit, accuracy=0.5):
    return tuple(
        StoredRow(
            dataset=unit.dataset,
            labels_per_class=unit.labels_per_class,
            split=unit.split,
            method=unit.method,
            settings=unit.identity["settings"],
            run=run,
            seed=unit.seed,
            accuracy=accuracy + 0.01 * run,
            macro_f1=0.5,
            calibration_error=0.1,
            seconds=1.0,
            device=unit.device,
            threads=unit.threads,
            versions=environment.versions(),
            unit=unit.id,
            protocol=unit.protocol,
            validation=unit.validation,
            runs=unit.runs,
            averages=unit.averages,
        )
        for run in range(unit.runs)
    )


def test_three_columns_of_eight_graphs():
    assert WORLD.datasets == (
        *("cora", "citeseer", "pubmed", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon"),
    )
    assert set(WORLD.datasets) <= set(datasets.NAMES)
    for table in WORLD.tables:
        assert [(cell.labels_per_class, cell.split) for cell in table.cells] == [
            (3, "random"),
            (20, "random"),
            (5, "over-all"),
        ]
        assert {(cell.runs, cell.validation) for cell in table.cells} == {(10, 0)}
    assert WORLD.titles == (*WORLD.plain, "mt-gcn", "mt-gcn, length", "mt-plus")
    assert WORLD.plain[-4:] == ("lp", "gcn", "gcn, length", "gcn, none")


def test_everything_is_every_line_of_every_cell(plain_methods):
    whole = plan(Selection(suite="world"))
    assert (whole.counted, whole.missing_methods) == ((), ())
    assert Counter(one.place.title for one in whole.units) == dict.fromkeys(WORLD.titles, 24)
    assert len({one.unit.id for one in whole.units}) == len(whole.units)
    settings = {one.place.title: one.unit.settings for one in whole.units}
    assert settings["gcn"] == create("gcn", feature_scaling="sum")  # the paper's
    assert settings["gcn, none"] == create("gcn", feature_scaling="none")
    assert settings["mt-gcn, length"] == create("mt-gcn", feature_scaling="length")


def test_methods_that_do_not_exist_yet_are_named_once(monkeypatch):
    for name in ("gcn", "lp"):
        monkeypatch.delitem(METHODS, name)
    whole = plan(Selection(suite="world"))
    assert [name for name in whole.missing_methods if name in ("gcn", "lp")] == ["lp", "gcn"]
    assert {one.unit.method for one in whole.units} & {"gcn", "lp"} == set()


def test_a_method_stands_for_all_its_lines():
    units = planned(datasets=["dblp"], methods=["mt-plus", "gcn"], runs=50, seed=7)
    assert [one.place.title for one in units[:4]] == ["mt-plus", "gcn", "gcn, length", "gcn, none"]
    assert len(units) == 3 * 4
    assert {(one.unit.dataset, one.unit.runs, one.unit.seed, one.unit.validation) for one in units} == {
        ("dblp", 50, 7, 0)
    }
    assert [one.unit.title for one in units[::4]] == [
        "mt-plus on dblp, 3 labels per class",
        "mt-plus on dblp, 20 labels per class",
        "mt-plus on dblp, 5 labels per class on average, drawn over all nodes",
    ]


def test_a_method_that_the_suite_does_not_list_may_be_asked_for():
    units = planned(datasets=["cora"], methods=["m3s", "mt-plus"])
    assert [(one.place.title, one.unit.split) for one in units if one.unit.method == "m3s"] == [
        *(("m3s", split) for split in ("random", "random", "over-all")),
    ]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"suite": "wolrd"}, "unknown suite 'wolrd'; did you mean 'world'"),
        ({"suite": ""}, "unknown suite ''"),
        ({"tables": ["2"]}, "--suite world is not for --table, which is for the paper's tables; leave it out"),
        ({"protocol": "paper"}, "--suite world is not for --protocol paper"),
        ({"ablation": True}, "--suite world is not for --ablation"),
        ({"backbones": True}, "--suite world is not for --backbones"),
        ({"curves": True}, "--suite world is not for --curves"),
        ({"datasets": ["digits"]}, "unknown dataset 'digits'"),
        ({"methods": ["gcn+v"]}, r"gcn\+v chooses its epoch on validation nodes and the suite world sets none aside"),
    ],
)
def test_what_does_not_go_with_a_suite_is_refused(selection, message):
    with pytest.raises(InputError, match=message):
        Selection(**{"suite": "world", **selection})


def test_rows_alone_say_what_the_plan_knew():
    wanted = plan(Selection(suite="world", runs=2))
    units = {one.unit.id: rows_of(one.unit) for one in wanted.units}
    evidence = stored_evidence(units, suite=WORLD)
    assert evidence.ours == measured_tables(wanted, units)
    assert (evidence.suite, evidence.units_left_out) == (WORLD, 0)
    assert (evidence.optimistic, evidence.ablation, evidence.backbones) == ((), (), ())
    assert [table.name for table in evidence.ours] == [f"world-{name}" for name in WORLD.datasets]


def test_everything_is_compared_with_mt_plus():
    units = {}
    for one in planned(datasets=["chameleon"], runs=2):
        ahead = {"gcn, none": 0.125, "mt-plus": 0.25}.get(one.place.title, 0.0)
        units[one.unit.id] = rows_of(one.unit, 0.5 + ahead)
    [table] = stored_evidence(units, suite=WORLD).ours
    assert table.rival == "mt-plus"
    differences = {line.title: line.against_rival and line.against_rival.difference.mean for line in table.lines}
    assert differences["mt-plus"] is None
    assert differences["gcn, none"] == pytest.approx(-0.125)
    others = ("gcn", "gcn, length", "mt-gcn", "mt-gcn, length")
    assert [differences[title] for title in others] == pytest.approx([-0.25] * 4)
    without = {name: rows for name, rows in units.items() if rows[0].method != "mt-plus"}
    assert not any(line.against_rival for line in stored_evidence(without, suite=WORLD).ours[0].lines)


def test_rows_of_the_papers_cells_and_of_the_suite_do_not_mix():
    # Both have Citeseer with 3 labels per class, but the paper's cell sets nodes aside.
    paper = plan(Selection(tables=["3"], methods=["gcn", "mt-plus"], runs=2)).units
    world = planned(datasets=["citeseer"], methods=["gcn", "mt-plus"], runs=2)
    units = {one.unit.id: rows_of(one.unit) for one in (*paper, *world)}
    assert len(units) == len(paper) + len(world)
    assert suites_in(units) == [None, WORLD]
    for suite, own in ((None, paper), (WORLD, world)):
        evidence = stored_evidence(units, suite=suite)
        assert [line.place for table in evidence.ours for line in table.lines] == sorted(
            (one.place for one in own), key=lambda place: place.order
        )
        assert (evidence.units_shown, evidence.units_left_out) == (len(own), 0)
    assert suites_in({one.unit.id: units[one.unit.id] for one in world}) == [WORLD]
    assert suites_in({}) == [None]


def test_the_authors_way_of_reporting_stays_with_the_papers_cells():
    [unit] = [one.unit for one in plan(Selection(tables=["3"], protocol="paper", runs=1)).units[:1]]
    assert (unit.labels_per_class, unit.validation) == (3, 0)
    place = place_of(rows_of(unit)[0])
    assert (place.table, suite_of(place.table)) == (TABLES["3"], None)


def test_of_several_variants_the_one_with_most_settings_counts(monkeypatch):
    mutual = Variant("peers alike", {"hidden_channels": 4}, method="gcn", rival="gcn")
    both = Variant("peers alike and wide", {"hidden_channels": 4, "epochs": 7}, method="gcn", rival="gcn")
    monkeypatch.setattr(placing, "_variants", lambda table: (mutual, both))
    [unit] = [one.unit for one in planned(datasets=["cora"], methods=["gcn"])[:1]]
    for changes, title in (
        ({}, "gcn"),
        ({"hidden_channels": 4}, "peers alike"),
        ({"hidden_channels": 4, "epochs": 7}, "peers alike and wide"),
        ({"epochs": 7}, "gcn"),
    ):
        row = rows_of(replace(unit, settings=create("gcn", **changes)))[0]
        assert place_of(row).title == title


def test_settings_that_are_lists_are_found_again_before_and_after_being_stored(monkeypatch):
    several = Variant("two layers", {"layers": (4, 2)}, method="gcn")
    monkeypatch.setattr(placing, "_variants", lambda table: (several,))
    [unit] = [one.unit for one in planned(datasets=["cora"], methods=["gcn"])[:1]]
    row = rows_of(unit)[0]
    made = replace(row, settings={**row.settings, "layers": (4, 2)})
    assert place_of(made).title == "two layers"
    assert place_of(StoredRow.from_json(json.loads(json.dumps(asdict(made))))).title == "two layers"


def test_names_of_tables_are_unlike():
    assert len(ALL_TABLES) == len(TABLES) + len(WORLD.tables)


@pytest.mark.data
def test_all_nodes_of_known_class_are_scored(monkeypatch):
    unit = planned(datasets=["citeseer"], methods=["lp"], runs=1)[0].unit
    scored = []
    original = execute.__globals__["score"]
    monkeypatch.setitem(
        execute.__globals__,
        "score",
        lambda prediction, graph, splits: (
            scored.extend(len(one.test) for one in splits) or original(prediction, graph, splits)
        ),
    )
    [row] = execute(unit)
    assert scored == [3312 - 18]  # of 3327 nodes 15 have no label
    assert place_of(row).table.name == "world-citeseer"
