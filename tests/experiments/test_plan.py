"""What a selection asks for, and what makes two units the same."""

from collections import Counter
from dataclasses import replace

import pytest

from mtgcn import environment
from mtgcn.errors import InputError
from mtgcn.experiments import units
from mtgcn.experiments.plan import Selection, plan
from mtgcn.experiments.units import execute
from mtgcn.methods import METHODS, create
from mtgcn.nn.backbones import BACKBONES
from mtgcn.splits import draw_over_all


def planned(**selection):
    return plan(Selection(**selection)).units


def test_everything_is_every_registered_method_of_every_cell():
    whole = plan(Selection())
    assert set(whole.missing_methods).isdisjoint(METHODS)
    assert whole.counted == ("cora", "citeseer", "pubmed")
    assert {one.unit.dataset for one in whole.units} == {"cora", "citeseer", "pubmed"}
    assert sum(one.unit.method == "mt-gcn" for one in whole.units) == 14 + 3  # the public split of each dataset
    assert len({one.unit.id for one in whole.units}) == len(whole.units)
    assert {one.unit.runs for one in whole.units if one.unit.dataset == "pubmed"} == {10}


def test_tables_datasets_methods_and_runs_narrow_it():
    places = planned(tables=["2", "5"], datasets=["cora"], methods=["gcn", "mt-gcn"], runs=7)
    assert [(one.place.table.name, one.unit.labels_per_class, one.unit.method) for one in places] == [
        *(("2", count, name) for count in (2, 4, 8, 12) for name in ("gcn", "mt-gcn")),
        *(("5", 20, name) for _ in ("random", "public") for name in ("gcn", "mt-gcn")),
    ]
    assert {one.unit.runs for one in places} == {7}
    assert places[0].place.entry.printed == 42.6


def test_a_method_that_no_chosen_cell_lists_runs_on_all_random_splits():
    places = planned(tables=["2"], methods=["mani-reg"])
    assert [one.unit.labels_per_class for one in places] == [2, 4, 8, 12]
    assert {one.place.entry.printed for one in places} == {None}
    everywhere = planned(methods=["mani-reg", "mt-gcn"])
    assert Counter((one.unit.method, one.unit.split) for one in everywhere) == {
        ("mani-reg", "public"): 3,
        ("mt-gcn", "random"): 14,
        ("mt-gcn", "public"): 3,
    }


def test_methods_of_the_tables_that_do_not_exist_yet_are_named(monkeypatch):
    monkeypatch.delitem(METHODS, "lp")
    whole = plan(Selection(tables=["2"]))
    assert whole.missing_methods == ("lp",)
    assert "lp" not in {one.unit.method for one in whole.units}


def test_digits_only_if_asked_for():
    assert {one.unit.dataset for one in planned(datasets=["digits"])} == {"digits"}
    assert {one.unit.dataset for one in planned(tables=["digits"])} == {"digits"}
    assert {one.unit.dataset for one in planned(datasets=["digits", "cora"])} == {"digits", "cora"}


def test_the_counts_of_table_1_need_no_unit():
    counts = plan(Selection(tables=["1"], datasets=["cora"]))
    assert (counts.counted, counts.units) == (("cora",), ())


def test_the_authors_way_of_reporting():
    places = planned(protocol="paper", datasets=["cora"])
    assert [one.unit.labels_per_class for one in places] == [2, 4, 8, 12, 20]
    for one in places:
        unit = one.unit
        assert (unit.method, unit.split, unit.validation) == ("mt-gcn", "random", 0)
        assert (unit.runs, unit.averages) == (300, 10)
        assert unit.settings == create("mt-gcn", checkpoint="best-training")


def test_the_ablation():
    places = planned(ablation=True, tables=["3"])
    assert {one.unit.method for one in places} == {"mt-gcn"}
    assert [one.place.title for one in places[:3]] == ["mt-gcn", "without L_pl", "without L_cl"]
    assert [one.place.entry.printed for one in places[:2]] == [67.7, None]
    [plain] = planned(tables=["3"], methods=["mt-gcn"])[:1]
    assert plain.unit.id == places[0].unit.id  # shared with the tables, not run twice


def test_the_comparison_of_backbones():
    places = planned(backbones=True)
    assert {one.unit.method for one in places} == {"mt-gcn"}
    assert len(places) == 14 * 8
    assert [one.place.title for one in places[:4]] == ["gcn alone", "gcn taught", "chebyshev alone", "chebyshev taught"]
    settings = {one.place.title: one.unit.settings for one in places}
    for name in BACKBONES:
        alone, taught = settings[f"{name} alone"], settings[f"{name} taught"]
        assert (alone.backbone, alone.warmup_epochs, alone.teaching_epochs) == (name, 400, 0)
        assert taught == create("mt-gcn", backbone=name)
    [plain] = planned(tables=["2"], methods=["mt-gcn"])[:1]
    assert plain.unit.id == places[1].unit.id  # shared with the tables, not run twice
    assert {one.unit.dataset for one in planned(backbones=True, datasets=["digits"])} == {"digits"}


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"tables": ["6"]}, "unknown table '6'"),
        ({"datasets": ["core"]}, "unknown dataset 'core'; did you mean 'cora'"),
        ({"methods": ["gcnn"]}, "unknown method 'gcnn'; did you mean 'gcn'"),
        ({"protocol": "theirs"}, "unknown protocol 'theirs'"),
        ({"runs": 0}, "runs is 0; give at least 1"),
        ({"runs": 10**9}, "runs is 1000000000; give at most 10000"),
        ({"threads": 0}, "threads is 0; give at least 1"),
        ({"threads": 10**6}, "threads is 1000000; give at most 256"),
        ({"ablation": True, "methods": ["gcn"]}, "an ablation is of mt-gcn, in our protocol; leave --methods"),
        ({"backbones": True, "methods": ["gcn"]}, "a comparison of backbones is of mt-gcn, in our protocol"),
        ({"backbones": True, "ablation": True}, "are two sweeps; ask for one after the other"),
        ({"ablation": True, "datasets": ["digits"]}, "does not give for digits"),
        ({"protocol": "paper", "methods": ["gcn"]}, "takes the better of two peers and gcn has none; leave it out"),
        ({"tables": ["2"], "datasets": ["pubmed"]}, "no cell of table 2 is on dataset pubmed; leave --table"),
    ],
)
def test_selections_that_make_no_sense_are_refused(selection, message):
    with pytest.raises(InputError, match=message):
        planned(**selection)


@pytest.fixture
def unit():
    return planned(tables=["2"], methods=["mt-gcn"])[0].unit


def test_the_test_nodes_of_a_unit_do_not_depend_on_what_else_was_asked_for(unit):
    together = planned(tables=["2"], methods=["gcn+v", "mt-gcn"])
    assert unit.id in {one.unit.id for one in together}
    assert unit.validation == 500


@pytest.mark.parametrize(
    "change",
    [
        {"settings": create("mt-gcn", per_class=73)},
        {"runs": 31},
        {"seed": 1},
        {"threads": 2},
        {"device": "cuda (some GPU)"},
        {"labels_per_class": 3},
        {"split": "public"},
        {"validation": 0},
        {"protocol": "paper"},
        {"averages": 10},
        {"method": "gcn"},
        {"dataset": "citeseer"},
    ],
    ids=str,
)
def test_whatever_decides_the_numbers_makes_another_unit(unit, change):
    assert replace(unit, **change).id != unit.id


def test_an_equal_unit_made_anew_is_the_same(unit):
    assert replace(unit, settings=create("mt-gcn")).id == unit.id


def test_versions_that_matter_make_another_unit(unit, monkeypatch):
    known = environment.versions()
    before = unit.id
    monkeypatch.setattr(environment, "versions", lambda: {**known, "torch": "99"})
    assert replace(unit).id != before
    monkeypatch.setattr(environment, "versions", lambda: {**known, "python": "99"})
    assert replace(unit).id == before


def test_the_methods_of_a_cell_share_splits_and_test_nodes(monkeypatch):
    seen = []

    def watched(graph, splits, method, **_):
        seen.append([(tuple(split.train), tuple(split.test)) for split in splits])
        return []

    monkeypatch.setattr(units, "run_cell", watched)
    places = planned(tables=["digits"], runs=2, methods=["gcn", "gcn+v", "mt-gcn"])[:3]
    for one in places:
        execute(one.unit)
    assert seen[0] == seen[1] == seen[2]
    assert {len(test) for _, test in seen[0]} == {1797 - 20 - 500}


def test_a_unit_may_draw_its_labels_over_all_nodes(unit):
    over_all = replace(unit, dataset="digits", split="over-all", labels_per_class=5, validation=0, runs=2)
    assert over_all.id != replace(over_all, split="random").id
    graph, splits = units._graph_and_splits(over_all, units.data_of(over_all))
    drawn = [split.train.tolist() for split in draw_over_all(graph, 5, runs=2, seed=unit.seed)]
    assert [split.train.tolist() for split in splits] == drawn


def test_rows_of_a_unit_say_how_labels_were_drawn(unit):
    lp = replace(unit, dataset="digits", split="over-all", labels_per_class=5, validation=0, runs=2, method="lp")
    rows = execute(replace(lp, settings=create("lp")))
    assert [(row.split, row.labels_per_class, row.unit) for row in rows] == [("over-all", 5, rows[0].unit)] * 2


def test_a_unit_runs_with_its_own_number_of_threads(unit, monkeypatch):
    import torch

    counted = []
    monkeypatch.setattr(units, "run_cell", lambda *_, **__: counted.append(torch.get_num_threads()) or [])
    monkeypatch.setattr(units, "data_of", lambda _: None)
    monkeypatch.setattr(units, "_graph_and_splits", lambda *_: (None, ()))
    before = torch.get_num_threads()
    execute(replace(unit, threads=before + 1))
    assert counted == [before + 1]
    assert torch.get_num_threads() == before
