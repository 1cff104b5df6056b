"""Units of the arena, resuming across machines, ranks, margins, empty cells, and recomputed rows."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mtgcn.datasets.catalogue import FINAL_TABLES, TABLES
from mtgcn.errors import InputError
from mtgcn.experiments.arena import arena_units, missing_units, recomputed, record_failure, stored_arena
from mtgcn.experiments.plan import data_of, execute, graph_and_splits
from mtgcn.experiments.protocol import FINAL_SEEDS
from mtgcn.experiments.store import read_units
from mtgcn.methods import METHODS
from stored_rows import rows_of

ROOT = Path(__file__).parent.parent.parent


def stored(units, accuracy=lambda unit, run: 0.5, **changes):
    return {unit.id: rows_of(unit, partial(accuracy, unit), **changes) for unit in units}


def test_default_units():
    units = arena_units(["cora", "dblp"])
    methods = [kind for kind in METHODS.values() if "graphs" in kind.arena_groups]
    assert len(units) == 2 * 6 * sum(not kind.uses_validation for kind in methods)
    assert [unit.dataset for unit in units] == sorted(unit.dataset for unit in units)  # each graph is read once
    assert {(unit.split, unit.validation, unit.runs, unit.threads) for unit in units} == {("random", 0, 30, 1)}


def test_groups():
    """Tables have label rates, runs and methods of their own, and other tables for final figures."""
    units = arena_units(["cora", "tables", "digits"], ["lp"])
    rates = {name: [unit.labels_per_class for unit in units if unit.dataset == name] for name in ("cora", "crabs")}
    assert rates == {"cora": [1, 2, 3, 5, 10, 20], "crabs": [3, 5, 20]}
    assert {unit.runs for unit in units if unit.dataset in TABLES} == {10}
    assert tuple(dict.fromkeys(unit.dataset for unit in units)) == ("cora", *TABLES, "digits")
    final = arena_units(["tables"], seed=FINAL_SEEDS[0])
    assert {unit.dataset for unit in final} == {*FINAL_TABLES}
    ours = ["gradient-boosting", "label-spreading", "mt-plus", "random-forest"]
    assert sorted({unit.method for unit in final}) == [*ours, "sklearn-logistic", "sklearn-logistic-self"]
    with pytest.raises(InputError, match=f"{FINAL_TABLES[0]} is reserved for final results; add --final"):
        arena_units([FINAL_TABLES[0]])


def test_groups_are_ranked_apart(tmp_path):
    units = arena_units(["cora", "crabs", "citeseer", "wine"], list(MEANS), [1, 5], runs=3)
    units += arena_units(["crabs", "wine"], ["random-forest"], [5], runs=3)
    record_failure(tmp_path, arena_units(["crabs"], ["random-forest"], [1])[0], InputError("too slow"))
    arena = stored_arena(tmp_path, stored(units, lambda unit, run: MEANS.get(unit.method, 0.9) + run / 100))
    graphs, tables = arena.groups.values()
    assert [group.name for group in arena.groups] == ["graphs", "tables"]
    assert (graphs.graphs, tables.graphs) == (["cora", "citeseer"], ["wine", "crabs"])
    assert "random-forest" not in graphs.methods
    assert tables.ranking(5).methods[0] == "random-forest"
    assert (graphs.failures, len(tables.failures)) == ({}, 1)


def test_validation_labels_are_drawn_on_request():
    with pytest.raises(InputError, match=r"gcn\+v uses validation labels.*add --validation-per-class"):
        arena_units(["digits"], ["gcn+v"])
    units = arena_units(["digits"], labels=[2], runs=2, validation_per_class=3)
    assert {unit.method for unit in units} == {"gcn+v", "gcnii+v", "grand+v", "iceberg+v"}
    [unit] = arena_units(["digits"], ["gcn+v"], [2], runs=2, validation_per_class=3)
    graph, splits = graph_and_splits(unit, data_of(unit))
    plain = graph_and_splits(replace(unit, split="random", validation=0), data_of(unit))[1]
    for split, same in zip(splits, plain, strict=True):
        assert np.bincount(graph.labels[split.validation]).tolist() == [3] * graph.num_classes
        assert split.train.tolist() == same.train.tolist()
        assert set(split.validation) | set(split.test) == set(same.test)
    [row, _] = execute(replace(unit, settings=replace(unit.settings, epochs=1)))
    assert (row.split, row.validation, row.labels_per_class) == ("validated", 3, 2)
    with pytest.raises(InputError, match="validation-per-class 175 exceeds"):
        graph_and_splits(replace(unit, validation=175), data_of(unit))


@pytest.mark.parametrize("wrong", [{"graphs": ["moon"]}, {"methods": ["magic"]}, {"labels": [0]}, {"runs": 0}], ids=str)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(InputError):
        arena_units(**{"graphs": ["cora"], **wrong})


def test_rows_of_another_machine_count():
    units = arena_units(["cora"], ["lp", "gcn"], [1], runs=2)
    elsewhere = stored([replace(units[0], device="cuda (H200)")])
    assert missing_units(units, elsewhere) == units[1:]
    assert missing_units(units, stored([replace(units[0], seed=1)])) == units
    older = {name: tuple(replace(row, versions={"mtgcn": "0.0"}) for row in rows) for name, rows in elsewhere.items()}
    assert missing_units(units, older) == units


def test_edited_own_method_is_run_again(tmp_path, monkeypatch):
    source = (
        "from dataclasses import dataclass\nfrom mtgcn.methods.lp import ParWalks\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Mine(ParWalks):\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "arena_own.py").write_text(source)
    try:
        units = arena_units(["cora"], ["arena_own:Mine"], [1], runs=2)
        done = stored(units)
        assert missing_units(units, done) == []
        import linecache

        (tmp_path / "arena_own.py").write_text(f"{source}# edited\n")
        linecache.clearcache()
        edited = arena_units(["cora"], ["arena_own:Mine"], [1], runs=2)
        assert missing_units(edited, done) == edited
    finally:
        METHODS.pop("arena_own:Mine", None)
        sys.modules.pop("arena_own", None)


MEANS = {"mt-plus": 0.8, "lp": 0.6, "gcn": 0.7, "sgc": 0.5}


def means(unit, run):
    """gcn is best on dblp; runs differ in the same way for all methods."""
    better = 0.15 if unit.method == "gcn" and unit.dataset == "dblp" else 0.0
    return MEANS[unit.method] + better + 0.01 * run


def test_ranks_and_margins(tmp_path):
    units = arena_units(["cora", "citeseer", "dblp"], list(MEANS), [1, 5], runs=3)
    arena = stored_arena(tmp_path, stored(units, means))
    assert (arena.graphs, arena.labels) == (["cora", "citeseer", "dblp"], [1, 5])
    ranking = arena.ranking()
    assert ranking.methods == ("mt-plus", "gcn", "lp", "sgc") == tuple(arena.methods)
    assert ranking.average_ranks == pytest.approx((4 / 3, 5 / 3, 3, 4))
    assert ranking.cells == 6
    assert ranking.intervals["lp"] == (3, 3)
    low, high = ranking.intervals["mt-plus"]
    assert (low, high) == (1, 2)  # all three graphs may be dblp, or none
    assert ranking.behind["mt-plus"] == (0, 0)
    assert ranking.behind["gcn"] == (-1, 1)
    assert arena.ranking(5).cells == 3
    margin = arena.margins()["dblp", 5]
    assert (margin.opponent, margin.opponents) == ("gcn", 3)
    assert margin.difference.mean == pytest.approx(-0.05)


def test_incomplete_methods_are_not_ranked(tmp_path):
    units = arena_units(["cora", "citeseer", "dblp"], [*MEANS], [1], runs=2)
    rare = [unit for unit in units if unit.method != "sgc" or unit.dataset == "cora"]
    record_failure(tmp_path, units[-1], InputError("too large; take less"))
    record_failure(tmp_path, units[0], InputError("since mended"))
    record_failure(tmp_path, replace(units[-5], seed=3), InputError("of another seed"))
    arena = stored_arena(tmp_path, stored(rare, means))
    assert len(arena.ranking().methods) == 3
    assert arena.methods[3:] == ["sgc"]
    assert arena.failures == {(("dblp", 1), "sgc"): "too large; take less"}


def test_rare_cells_do_not_exclude_methods(tmp_path):
    units = arena_units(["cora", "citeseer", "dblp"], [*MEANS], [1], runs=2)
    arena = stored_arena(tmp_path, stored([one for one in units if one.method == "lp" or one.dataset != "dblp"], means))
    assert arena.ranked_cells() == [("cora", 1), ("citeseer", 1)]
    assert len(arena.ranking().methods) == 4


def test_cells_without_some_methods_are_ranked_if_most_others_are_there(tmp_path):
    units = arena_units(["cora", "citeseer", "dblp"], [*MEANS], [1], runs=2)
    arena = stored_arena(tmp_path, stored([one for one in units if one.method != "lp" or one.dataset == "cora"], means))
    assert len(arena.ranked_cells()) == 3
    assert "lp" not in arena.ranking().methods


def test_seeds_and_releases_are_not_mixed(tmp_path):
    units = arena_units(["cora"], ["lp", "gcn"], [1], runs=2)
    other = arena_units(["cora"], ["lp"], [1], runs=2, seed=7)
    both = stored(units, means) | stored(other, means)
    assert (len(stored_arena(tmp_path, both).cells["cora", 1]), stored_arena(tmp_path, both).units_left_out) == (2, 1)
    assert stored_arena(tmp_path, both, 7).cells["cora", 1].keys() == {"lp"}
    assert stored_arena(tmp_path, stored(units, means), 7) is None
    assert stored_arena(tmp_path, {}) is None


def test_validation_labels_are_a_column_of_their_own(tmp_path):
    units = arena_units(["cora", "citeseer"], ["lp", "gcn", "mt-plus"], [1], runs=2)
    validated = arena_units(["cora", "citeseer"], ["lp"], [1], runs=2, validation_per_class=30)
    arena = stored_arena(tmp_path, stored(units + validated, means))
    assert arena.methods == ["mt-plus", "gcn", "lp", "lp, 30 validation labels"]
    assert len(arena.ranking().methods) == 3
    assert arena.margins()["cora", 1].opponents == 2


def test_recomputed_rows():
    units = arena_units(["digits"], ["lp", "gcn"], [2], runs=2)
    rows = tuple(execute(units[0]))
    title = "lp on digits, 2 labels per class"
    [(found, stored_mean, here)] = recomputed({"a": rows}, [], 0, "cpu")
    assert (found, stored_mean) == (title, here)
    altered = tuple(replace(row, accuracy=row.accuracy + 0.02) for row in rows)
    [(_, stored_mean, here)] = recomputed({"a": altered} | stored(units[1:]), ["lp"], 0, "cpu")
    assert stored_mean - here == pytest.approx(0.02)
    with pytest.raises(InputError, match="other settings or another release"):
        next(recomputed({"a": (replace(rows[0], settings={}), rows[1])}, [], 0, "cpu"))
    with pytest.raises(InputError, match="0 units of the arena"):
        next(recomputed({"a": rows}, ["gcn"], 0, "cpu"))


BARE = """
import runpy, sys
from dataclasses import replace
HIDDEN = "gensim pydantic sklearn typer rich pyarrow jinja2 matplotlib platformdirs threadpoolctl safetensors".split()
class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ImportError(f"{name} is hidden")
sys.meta_path.insert(0, Hiding())
sys.path.insert(0, "benchmarks")
from mtgcn import datasets
from synthetic import random_graph
datasets.load = lambda name: replace(random_graph(120, 500, 8, 2), name=name)
runpy.run_path("benchmarks/arena_rows.py", run_name="__main__")
"""


@pytest.mark.long
def test_program_needs_torch_numpy_and_scipy_alone(tmp_path):
    options = ["--graphs", "cora", "--labels", "1", "--methods", "lp,deepwalk", "--runs", "2", "--device", "cpu"]

    def program():
        command = [sys.executable, "-c", BARE, *options, "--out", str(tmp_path)]
        return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True, timeout=120).stdout

    assert "0 of 2 units are stored" in program()
    units = arena_units(["cora"], ["lp", "deepwalk"], [1], runs=2)
    found = read_units(tmp_path)
    assert [*found] == [units[0].id]  # as the command names it
    assert missing_units(units, found) == units[1:]
    assert all(0 <= row.roc_auc <= 1 for row in found[units[0].id])
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"unit": "cut off')
    assert "1 of 2 units are stored" in program()
    assert [*read_units(tmp_path)] == [units[0].id]
    assert stored_arena(tmp_path, found).failures.keys() == {(("cora", 1), "deepwalk")}
