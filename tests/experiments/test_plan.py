"""Units of a selection, their places and identities, and their execution."""

from collections import Counter
from dataclasses import replace

import pytest
import torch

from mtgcn import environment
from mtgcn.errors import InputError
from mtgcn.experiments import plan as module
from mtgcn.experiments.plan import Selection, execute, graph_and_splits, place_of, plan
from mtgcn.experiments.protocol import WORLD, titles_of
from mtgcn.methods import METHODS, create
from mtgcn.nn.backbones import BACKBONES
from mtgcn.splits import draw_over_all


def planned(**selection):
    return plan(Selection(**selection)).units


def printed(unit):
    return place_of(unit).entry.printed


def test_default_selection_is_the_paper():
    whole = plan(Selection())
    assert {unit.method for unit in whole.units} <= set(METHODS)
    assert whole.counted == ("cora", "citeseer", "pubmed")
    assert {unit.dataset for unit in whole.units} == {"cora", "citeseer", "pubmed"}
    assert sum(unit.method == "mt-gcn" for unit in whole.units) == 14 + 3  # the public split of each dataset
    assert len({unit.id for unit in whole.units}) == len(whole.units)
    assert {unit.runs for unit in whole.units if unit.dataset == "pubmed"} == {10}


def test_selection_narrows_tables_datasets_methods_and_runs():
    units = planned(tables=["2", "5"], datasets=["cora"], methods=["gcn", "mt-gcn"], runs=7)
    assert [(unit.table, unit.labels_per_class, unit.line) for unit in units] == [
        *(("2", count, name) for count in (2, 4, 8, 12) for name in ("gcn", "mt-gcn")),
        *(("5", 20, name) for _ in ("random", "public") for name in ("gcn", "mt-gcn")),
    ]
    assert {unit.runs for unit in units} == {7}
    assert printed(units[0]) == 42.6


def test_method_outside_the_tables_runs_on_random_splits():
    units = planned(tables=["2"], methods=["mani-reg"])
    assert [(unit.labels_per_class, printed(unit)) for unit in units] == [(count, None) for count in (2, 4, 8, 12)]
    everywhere = planned(methods=["mani-reg", "mt-gcn"])
    assert Counter((unit.method, unit.split) for unit in everywhere) == {
        ("mani-reg", "public"): 3,
        ("mt-gcn", "random"): 14,
        ("mt-gcn", "public"): 3,
    }


@pytest.mark.parametrize(
    ("selection", "datasets"),
    [
        ({"datasets": ["digits"]}, {"digits"}),
        ({"tables": ["digits"]}, {"digits"}),
        ({"datasets": ["digits", "cora"]}, {"digits", "cora"}),
        ({"tables": ["1"], "datasets": ["cora"]}, set()),  # table 1 has no units
        ({"backbones": True, "datasets": ["digits"]}, {"digits"}),
    ],
)
def test_selected_datasets(selection, datasets):
    found = plan(Selection(**selection))
    assert {unit.dataset for unit in found.units} == datasets
    assert found.counted == (("cora",) if "cora" in selection.get("datasets", ()) else ())


def test_paper_protocol():
    units = planned(protocol="paper", datasets=["cora"])
    assert [unit.labels_per_class for unit in units] == [2, 4, 8, 12, 20]
    for unit in units:
        assert (unit.method, unit.split, unit.validation) == ("mt-gcn", "random", 0)
        assert (unit.runs, unit.averages) == (300, 10)
        assert unit.settings == create("mt-gcn", checkpoint="best-training")


def test_ablation():
    units = planned(ablation=True, tables=["3"])
    assert {unit.method for unit in units} == {"mt-gcn"}
    assert [unit.line for unit in units[:3]] == ["mt-gcn", "without L_pl", "without L_cl"]
    assert [printed(unit) for unit in units[:2]] == [67.7, None]
    assert planned(tables=["3"], methods=["mt-gcn"])[0] == units[0]  # shared with the tables


def test_backbones():
    units = planned(backbones=True)
    assert {unit.method for unit in units} == {"mt-gcn"}
    assert len(units) == 14 * 8
    assert [unit.line for unit in units[:4]] == ["gcn alone", "mt-gcn", "chebyshev alone", "chebyshev taught"]
    assert planned(tables=["2"], methods=["mt-gcn"])[0] == units[1]  # shared with the tables
    settings = {unit.line: unit.settings for unit in units}
    for name in BACKBONES:
        alone, taught = settings[f"{name} alone"], settings["mt-gcn" if name == "gcn" else f"{name} taught"]
        assert (alone.backbone, alone.warmup_epochs, alone.teaching_epochs) == (name, 400, 0)
        assert taught == create("mt-gcn", backbone=name)


def test_suite_plans_every_line_of_every_cell():
    whole = plan(Selection(suite="world"))
    assert whole.counted == ()
    assert Counter(unit.line for unit in whole.units) == dict.fromkeys(titles_of(WORLD.tables), 24)
    assert len({unit.id for unit in whole.units}) == len(whole.units)
    settings = {unit.line: unit.settings for unit in whole.units}
    assert settings["gcn"] == create("gcn", feature_scaling="sum")  # the paper's
    assert settings["gcn, none"] == create("gcn", feature_scaling="none")
    assert settings["mt-gcn, length"] == create("mt-gcn", feature_scaling="length")


def test_suite_method_selects_all_its_lines():
    units = planned(suite="world", datasets=["dblp"], methods=["mt-plus", "gcn"], runs=50, seed=7)
    assert [unit.line for unit in units[:4]] == ["mt-plus", "gcn", "gcn, length", "gcn, none"]
    assert len(units) == 3 * 4
    assert {(unit.dataset, unit.runs, unit.seed, unit.validation) for unit in units} == {("dblp", 50, 7, 0)}
    assert [unit.title for unit in units[::4]] == [
        "mt-plus on dblp, 3 labels per class",
        "mt-plus on dblp, 20 labels per class",
        "mt-plus on dblp, 5 labels per class on average, drawn over all nodes",
    ]
    unlisted = planned(suite="world", datasets=["cora"], methods=["m3s", "mt-plus"])
    assert [(unit.line, unit.split) for unit in unlisted if unit.method == "m3s"] == [
        *(("m3s", split) for split in ("random", "random", "over-all"))
    ]


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
        ({"ablation": True, "methods": ["gcn"]}, "an ablation applies to mt-gcn in our protocol only; omit --methods"),
        ({"backbones": True, "methods": ["gcn"]}, "a comparison of backbones applies to mt-gcn in our protocol"),
        ({"backbones": True, "ablation": True}, "exclude each other; run one after the other"),
        ({"ablation": True, "datasets": ["digits"]}, "gives no t for digits"),
        ({"protocol": "paper", "methods": ["gcn"]}, "requires a method with peers, which gcn is not; omit it"),
        ({"tables": ["2"], "datasets": ["pubmed"]}, "no cell of table 2 is on dataset pubmed; omit --table"),
        ({"suite": "wolrd"}, "unknown suite 'wolrd'; did you mean 'world'"),
        ({"suite": ""}, "unknown suite ''"),
        *(
            ({"suite": "world", **given}, f"--suite world excludes {option}, an option of the paper's tables; omit it")
            for option, given in {
                "--table": {"tables": ["2"]},
                "--protocol paper": {"protocol": "paper"},
                "--ablation": {"ablation": True},
                "--backbones": {"backbones": True},
                "--curves": {"curves": True},
            }.items()
        ),
        ({"suite": "world", "datasets": ["digits"]}, "unknown dataset 'digits'"),
        ({"suite": "world", "methods": ["gcn+v"]}, r"gcn\+v needs validation nodes, which suite"),
    ],
    ids=str,
)
def test_invalid_selection(selection, message):
    with pytest.raises(InputError, match=message):
        planned(**selection)


@pytest.fixture
def unit():
    return planned(tables=["2"], methods=["mt-gcn"])[0]


@pytest.mark.parametrize(
    "change",
    [
        *({"settings": create("mt-gcn", per_class=73)}, {"runs": 31}, {"seed": 1}, {"threads": 2}, {"averages": 10}),
        *({"labels_per_class": 3}, {"split": "public"}, {"validation": 0}, {"protocol": "paper"}, {"method": "gcn"}),
        *({"dataset": "citeseer"}, {"device": "cuda (some GPU)"}),
    ],
    ids=str,
)
def test_id_changes_with_the_numbers(unit, change):
    assert replace(unit, **change).id != unit.id
    assert replace(unit, settings=create("mt-gcn"), table="3", line="other").id == unit.id


@pytest.mark.parametrize(("package", "changes"), [("torch", True), ("python", False)])
def test_id_changes_with_decisive_versions(unit, monkeypatch, package, changes):
    known = environment.versions()
    before = unit.id
    monkeypatch.setattr(environment, "versions", lambda: {**known, package: "99"})
    assert (replace(unit).id != before) == changes


def test_place_of(unit):
    assert unit in planned(tables=["2"], methods=["gcn+v", "mt-gcn"])  # does not depend on other methods
    assert unit.validation == 500
    place = place_of(unit)
    assert (place.table.name, place.cell.labels_per_class, place.title, place.protocol) == ("2", 2, "mt-gcn", "ours")
    assert place_of(replace(unit, table="")) is None
    assert place_of(replace(unit, labels_per_class=3)) is None


def test_methods_of_a_cell_share_splits():
    units = planned(tables=["digits"], runs=2, methods=["gcn", "gcn+v", "mt-gcn"])[:3]
    of_methods = [graph_and_splits(unit, module.data_of(unit))[1] for unit in units]
    for splits in zip(*of_methods, strict=True):
        assert len({(tuple(split.train), tuple(split.test)) for split in splits}) == 1
        assert len(splits[0].test) == 1797 - 20 - 500


def test_execute_over_all_split(unit):
    over_all = replace(unit, dataset="digits", split="over-all", labels_per_class=5, validation=0, runs=2)
    assert over_all.id != replace(over_all, split="random").id
    graph, splits = graph_and_splits(over_all, module.data_of(over_all))
    drawn = [split.train.tolist() for split in draw_over_all(graph, 5, runs=2, seed=unit.seed)]
    assert [split.train.tolist() for split in splits] == drawn
    threads = torch.get_num_threads()
    lp = replace(over_all, method="lp", settings=create("lp"), threads=threads + 1)
    rows = execute(lp)
    assert [(row.split, row.labels_per_class, row.unit) for row in rows] == [("over-all", 5, lp.id)] * 2
    assert {(row.table, row.line, row.threads) for row in rows} == {("2", "mt-gcn", threads + 1)}
    assert torch.get_num_threads() == threads


@pytest.mark.data
def test_suite_scores_all_nodes_of_known_class():
    unit = planned(suite="world", datasets=["citeseer"], methods=["lp"], runs=1)[0]
    _, [split] = graph_and_splits(unit, module.data_of(unit))
    assert len(split.test) == 3312 - 18  # of 3327 nodes 15 have no label
    assert place_of(execute(unit)[0]).table.name == "world-citeseer"
