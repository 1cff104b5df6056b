"""The paper's tables, the suites, seeds and the authors' splits."""

from pathlib import Path

import numpy as np
import pytest

from mtgcn import datasets
from mtgcn.errors import InputError
from mtgcn.experiments import protocol
from mtgcn.graph import Graph
from mtgcn.methods import METHODS, create
from mtgcn.task import run_seed

CELLS = [cell for table in protocol.PAPER_TABLES for cell in table.cells]


def test_printed_values_agree_with_the_stored_summary():
    """An earlier release wrote the summary, so that a typing error would show."""
    stored, place = {}, None
    summary = Path(__file__).parents[2] / "docs" / "reproduction" / "summary.md"
    for line in summary.read_text(encoding="utf-8").splitlines():
        columns = [column.strip() for column in line.strip("|").split("|")]
        if columns[0] == "cell":
            place = columns.index("printed")
        elif place and columns[0].startswith(("cora", "citeseer", "pubmed")) and "".join(columns[place : place + 1]):
            stored[columns[0], columns[1]] = float(columns[place])
    suffix = {"random": "", "public": ", public split"}
    ours = {
        (f"{cell.dataset} {cell.labels_per_class}{suffix[cell.split]}", entry.method): entry.printed
        for cell in CELLS
        for entry in cell.entries
    }
    assert len(stored) > 150
    assert stored == {name: ours[name] for name in stored}


def test_cells_of_the_paper():
    printed = [entry.printed for cell in CELLS for entry in cell.entries]
    assert sum(value is not None for value in printed) == 11 * (4 + 4 + 3) + 13 * 3
    random = [cell for cell in CELLS if cell.split == "random"]
    assert len(random) == 14
    # A comparison over all cells needs the same methods in each.
    assert len({frozenset(entry.method for entry in cell.entries) for cell in random}) == 1
    assert {entry.method for cell in CELLS for entry in cell.entries} <= set(METHODS)
    assert {(cell.dataset, cell.runs) for cell in CELLS} == {("cora", 30), ("citeseer", 30), ("pubmed", 10)}


@pytest.mark.slow
def test_development_and_final_seeds_are_disjoint():
    assert not set(protocol.DEVELOPMENT_SEEDS) & set(protocol.FINAL_SEEDS)
    assert protocol.checked_seed(None, final=False) == protocol.checked_seed(0, final=False) == 0
    assert protocol.checked_seed(None, final=True) == protocol.FINAL_SEEDS[0]
    assert protocol.checked_seed(protocol.FINAL_SEEDS[5], final=True) == protocol.FINAL_SEEDS[5]
    development, final = (
        {run_seed(seed, run) for seed in seeds[:2000] for run in range(10)}
        for seeds in (protocol.DEVELOPMENT_SEEDS, protocol.FINAL_SEEDS)
    )
    assert len(development) == len(final) == 20_000
    assert not development & final


def test_check_not_final():
    for seed in (0, protocol.DEVELOPMENT_SEEDS[-1], protocol.FINAL_SEEDS[-1] + 1):
        protocol.check_not_final(seed)
    for seed in (protocol.FINAL_SEEDS[0], protocol.FINAL_SEEDS[-1]):
        with pytest.raises(InputError, match=f"seed {seed} is reserved for mtgcn reproduce --final"):
            protocol.check_not_final(seed)


@pytest.mark.parametrize(
    ("seed", "final", "message"),
    [
        (0, True, "seed 0 is not a final seed; omit --seed, or give one from 1000000 to 1999999 with --final"),
        (1_000_000, False, "seed 1000000 is not a development seed; add --final"),
        (-1, False, "seed -1 is not a development seed; give one from 0 to 999999"),
        (2_000_000, False, "seed 2000000 is not a development seed; give one from 0"),
    ],
)
def test_checked_seed_refuses_the_other_kind(seed, final, message):
    with pytest.raises(InputError, match=message):
        protocol.checked_seed(seed, final=final)


def test_ablation_settings():
    variants = {variant.title: create("mt-gcn", **variant.settings("citeseer")) for variant in protocol.ABLATION}
    assert len({str(settings) for settings in variants.values()}) == len(protocol.ABLATION)
    assert variants["mt-gcn"] == create("mt-gcn")
    assert not variants["without L_pl"].pseudo_labels
    assert not variants["without L_cl"].consistency
    assert not variants["each peer teaches itself"].mutual
    assert {settings.peers for settings in variants.values()} == {2, 3, 4, 5}
    assert [variants[f"t x {factor}"].per_class for factor in (0.25, 0.5, 2, 4)] == [54, 108, 432, 864]  # t = 216
    warmups = (0, 50, 100, 300)
    assert [variants[f"warm-up of {epochs} epochs"].warmup_epochs for epochs in warmups] == list(warmups)


def test_world_suite():
    assert len(protocol.WORLD.datasets) == 8
    assert set(protocol.WORLD.datasets) <= set(datasets.NAMES)
    for table in protocol.WORLD.tables:
        cells = [(cell.labels_per_class, cell.split, cell.runs, cell.validation) for cell in table.cells]
        assert cells == [(3, "random", 10, 0), (20, "random", 10, 0), (5, "over-all", 10, 0)]
    assert len(protocol.titles_of(protocol.WORLD.tables)) == 12
    assert len(protocol.ALL_TABLES) == len(protocol.TABLES) + len(protocol.WORLD.tables)  # names are unique


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


def test_authors_splits_equal_the_loop(make_graph):
    graph = make_graph(nodes=40, classes=3)
    splits = protocol.authors_splits(graph, 2, runs=20, seed=7)
    for run, split in enumerate(splits):
        order = np.random.default_rng([7, run]).permutation(graph.num_nodes)
        train, test = visited(graph.labels.tolist(), order.tolist(), [2, 2, 2])
        assert (split.train.tolist(), split.validation.tolist(), split.test.tolist()) == (train, [], test)
    assert any(len(split.train) + len(split.test) < graph.num_nodes for split in splits)  # visited nodes are dropped


def test_unknown_class_is_read_as_the_first():
    graph = Graph(np.ones((4, 4)) - np.eye(4), labels=[1, -1, 0, -1], name="small")
    read = protocol.with_unknown_as_first_class(graph)
    assert read.labels.tolist() == [1, 0, 0, 0]
    assert (read.name, read.class_names) == (graph.name, graph.class_names)
    assert graph.labels.tolist() == [1, -1, 0, -1]
