"""The paper's tables, the suites, seeds and the authors' splits."""

from pathlib import Path

import numpy as np
import pytest

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.experiments.protocol import (
    ABLATION,
    ALL_TABLES,
    DEVELOPMENT_SEEDS,
    FINAL_SEEDS,
    PAPER_TABLES,
    PRINTED_NAMES,
    TABLE_1,
    TABLES,
    WORLD,
    authors_splits,
    check_not_final,
    checked_seed,
    with_unknown_as_first_class,
)
from mtgcn.graph import Graph
from mtgcn.methods import create
from mtgcn.task import run_seed

SEEDS = (DEVELOPMENT_SEEDS, FINAL_SEEDS)


def cell(table, dataset, labels_per_class, split="random"):
    [found] = [
        cell
        for cell in TABLES[table].cells
        if (cell.dataset, cell.labels_per_class, cell.split) == (dataset, labels_per_class, split)
    ]
    return found


@pytest.mark.parametrize(
    ("table", "dataset", "labels_per_class", "method", "printed"),
    [
        ("2", "cora", 2, "lp", 56.4),
        ("2", "cora", 12, "union", 78.5),
        ("2", "cora", 8, "gcn+v", 72.2),
        ("2", "cora", 4, "mt-gcn", 73.1),
        ("3", "citeseer", 3, "mt-gcn", 67.7),
        ("3", "citeseer", 18, "m3s", 70.3),
        ("3", "citeseer", 6, "co-training", 55.7),
        ("4", "pubmed", 3, "mt-gcn", 69.5),
        ("4", "pubmed", 7, "chebyshev", 51.2),
        ("4", "pubmed", 2, "multi-stage", 57.4),
        ("5", "citeseer", 20, "intersection", 69.9),
        ("5", "cora", 20, "gcn", 80.0),
        ("5", "pubmed", 20, "mt-gcn", 79.5),
    ],
)
def test_printed_values(table, dataset, labels_per_class, method, printed):
    assert cell(table, dataset, labels_per_class).entry(method).printed == printed


def test_printed_values_agree_with_the_stored_summary():
    """An earlier release wrote the summary, so that a typing error would show."""
    kept, place = {}, None
    lines = (Path(__file__).parents[2] / "docs" / "reproduction" / "summary.md").read_text(encoding="utf-8")
    for line in lines.splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if columns[0] == "cell":
            place = columns.index("printed")
        elif (
            place and len(columns) > place and columns[0].startswith(("cora", "citeseer", "pubmed")) and columns[place]
        ):
            kept[columns[0], columns[1]] = float(columns[place])
    suffix = {"random": "", "public": ", public split"}
    ours = {
        (f"{cell.dataset} {cell.labels_per_class}{suffix[cell.split]}", entry.method): entry.printed
        for table in PAPER_TABLES
        for cell in table.cells
        for entry in cell.entries
        if entry.printed is not None
    }
    assert len(kept) > 150
    assert kept == {name: ours[name] for name in kept}


def test_values_of_kipf_and_welling_are_for_the_public_split():
    public = cell("5", "pubmed", 20, "public")
    printed = {entry.method: entry.printed for entry in public.entries if entry.printed is not None}
    assert printed == {
        "mani-reg": 70.7,
        "semi-emb": 71.7,
        "lp": 63.0,
        "deepwalk": 65.3,
        "ica": 73.9,
        "planetoid": 77.2,
    }
    assert "not ParWalks" in public.entry("lp").note
    assert cell("5", "cora", 20).entry("lp").printed is None


def test_number_of_printed_values():
    printed = [entry.printed for table in PAPER_TABLES for cell in table.cells for entry in cell.entries]
    assert sum(value is not None for value in printed) == 11 * (4 + 4 + 3) + 13 * 3
    cells = [cell for table in PAPER_TABLES for cell in table.cells if cell.split == "random"]
    assert len(cells) == 14
    # A comparison over all cells needs the same methods in each.
    assert {frozenset(entry.method for entry in cell.entries) for cell in cells} == {
        frozenset(entry.method for entry in cells[0].entries)
    }
    assert {entry.method for table in PAPER_TABLES for cell in table.cells for entry in cell.entries} == set(
        PRINTED_NAMES
    )


def test_runs():
    assert {(cell.dataset, cell.runs) for table in PAPER_TABLES for cell in table.cells} == {
        *(("cora", 30), ("citeseer", 30), ("pubmed", 10))
    }


def test_table_1():
    assert [(line.dataset, line.nodes, line.edges, line.classes, line.features) for line in TABLE_1] == [
        ("cora", 2708, 5429, 7, 1433),
        ("citeseer", 3327, 4732, 6, 3703),
        ("pubmed", 19717, 44338, 3, 500),
    ]


def test_development_and_final_seeds_are_disjoint():
    assert not set(DEVELOPMENT_SEEDS) & set(FINAL_SEEDS)
    assert checked_seed(None, final=False) == checked_seed(0, final=False) == 0
    assert checked_seed(None, final=True) == FINAL_SEEDS[0]
    assert checked_seed(FINAL_SEEDS[5], final=True) == FINAL_SEEDS[5]


def test_development_and_final_seeds_share_no_random_number():
    development, final = ({run_seed(seed, number) for seed in seeds[:2000] for number in range(10)} for seeds in SEEDS)
    assert len(development) == len(final) == 20_000
    assert not development & final


@pytest.mark.parametrize("seed", [FINAL_SEEDS[0], FINAL_SEEDS[-1]])
def test_check_not_final_refuses_final_seeds(seed):
    with pytest.raises(InputError, match=f"seed {seed} is kept for final figures, which mtgcn reproduce --final makes"):
        check_not_final(seed)


@pytest.mark.parametrize("seed", [0, DEVELOPMENT_SEEDS[-1], FINAL_SEEDS[-1] + 1])
def test_check_not_final_accepts_other_seeds(seed):
    check_not_final(seed)


@pytest.mark.parametrize(
    ("seed", "final", "message"),
    [
        (0, True, "seed 0 is no final seed; leave --seed out, or give one from 1000000 to 1999999 with --final"),
        (1_000_000, False, "seed 1000000 is no development seed; add --final"),
        (-1, False, "seed -1 is no development seed; give one from 0 to 999999"),
        (2_000_000, False, "seed 2000000 is no development seed; give one from 0"),
    ],
)
def test_checked_seed_refuses_the_other_kind(seed, final, message):
    with pytest.raises(InputError, match=message):
        checked_seed(seed, final=final)


def test_ablation_settings():
    variants = {variant.title: create("mt-gcn", **variant.settings("citeseer")) for variant in ABLATION}
    assert len({str(settings) for settings in variants.values()}) == len(ABLATION)
    assert variants["mt-gcn"] == create("mt-gcn")
    assert not variants["without L_pl"].pseudo_labels
    assert not variants["without L_cl"].consistency
    assert not variants["each peer teaches itself"].mutual
    assert variants["t x 0.25"].per_class == 54  # a quarter of 216
    assert variants["warm-up of 0 epochs"].warmup_epochs == 0
    assert {settings.peers for settings in variants.values()} == {2, 3, 4, 5}
    assert [variants[f"t x {factor}"].per_class for factor in ("0.25", "0.5", "2", "4")] == [54, 108, 432, 864]
    assert [variants[f"warm-up of {epochs} epochs"].warmup_epochs for epochs in (50, 100, 300)] == [50, 100, 300]


def test_world_suite():
    assert WORLD.datasets == (
        *("cora", "citeseer", "pubmed", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon"),
    )
    assert set(WORLD.datasets) <= set(datasets.NAMES)
    for table in WORLD.tables:
        cells = [(cell.labels_per_class, cell.split, cell.runs, cell.validation) for cell in table.cells]
        assert cells == [(3, "random", 10, 0), (20, "random", 10, 0), (5, "over-all", 10, 0)]
    assert WORLD.titles == (*WORLD.plain, "mt-gcn", "mt-gcn, length", "mt-plus")
    assert WORLD.plain[-4:] == ("lp", "gcn", "gcn, length", "gcn, none")
    assert len(ALL_TABLES) == len(TABLES) + len(WORLD.tables)  # names are unique


@pytest.fixture
def graph(make_graph):
    return make_graph(nodes=40, classes=3)


def visited(labels, order, wanted):
    """The authors' loop over the nodes."""
    train, missing = [], dict(enumerate(wanted))
    for position, node in enumerate(order):
        if missing[labels[node]] > 0:
            missing[labels[node]] -= 1
            train.append(node)
        if not any(missing.values()):
            return train, list(order[position + 1 :])
    raise AssertionError("too few nodes of a class")


def test_authors_splits_equal_the_loop(graph):
    for run, split in enumerate(authors_splits(graph, 2, runs=5, seed=7)):
        order = np.random.default_rng([7, run]).permutation(graph.num_nodes)
        train, test = visited(graph.labels.tolist(), order.tolist(), [2, 2, 2])
        assert split.train.tolist() == train
        assert split.test.tolist() == test
        assert not len(split.validation)


def test_authors_splits_drop_visited_nodes(graph):
    splits = authors_splits(graph, 2, runs=20, seed=0)
    assert any(len(split.train) + len(split.test) < graph.num_nodes for split in splits)
    assert all(np.bincount(graph.labels[split.train]).tolist() == [2, 2, 2] for split in splits)


def test_authors_splits_do_not_depend_on_the_number_of_runs(graph):
    few, many = authors_splits(graph, 2, runs=2, seed=0), authors_splits(graph, 2, runs=4, seed=0)
    assert all(np.array_equal(one.test, other.test) for one, other in zip(few, many, strict=False))


def test_unknown_class_is_read_as_the_first():
    graph = Graph(np.ones((4, 4)) - np.eye(4), labels=[1, -1, 0, -1], name="small")
    read = with_unknown_as_first_class(graph)
    assert read.labels.tolist() == [1, 0, 0, 0]
    assert (read.name, read.class_names) == (graph.name, graph.class_names)
    assert graph.labels.tolist() == [1, -1, 0, -1]
