"""The paper's tables and the suites of other graphs as data: cells, methods, numbers of runs, printed accuracies.

Also the splits of the authors' released program, for `--protocol paper`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from mtgcn.errors import InputError
from mtgcn.graph import UNLABELED, Graph
from mtgcn.splits import Split, check_seed, per_class_counts
from mtgcn.training.pseudo_labels import PAPER_PER_CLASS

RANDOM, PUBLIC = "random", "public"  # labels drawn from each class, or Planetoid's split
OVER_ALL = "over-all"  # labels drawn over all nodes, so that class sizes stay unequal
VALIDATED = "validated"  # as random, with validation nodes of each class
GIVEN = "given"  # splits that were passed as arrays
VALIDATION_NODES = 500  # nodes on which GCN+V selects its epoch, as in the paper

Protocol = Literal["ours", "paper"]
PROTOCOL_TITLES: dict[Protocol, str] = {
    "ours": "last epoch, mean of the peers, every split counted once",
    "paper": "OPTIMISTIC, the authors' way of reporting: epoch by training accuracy, peer by test accuracy, "
    "the largest of ten averages",
}
ARENA_TABLE = "arena"  # table of the rows of `mtgcn arena`
REFERENCE = "mt-gcn"  # the method that all others are compared with
AVERAGES = 10  # averages computed by the authors, who print the largest

# Settings are tuned on development seeds and reported on final seeds, whose splits stay unseen until then.
DEVELOPMENT_SEEDS = range(1_000_000)
FINAL_SEEDS = range(1_000_000, 2_000_000)


def checked_seed(seed: int | None, *, final: bool) -> int:
    """The given seed, or the first final or development seed; a seed of the other kind is an error."""
    allowed = FINAL_SEEDS if final else DEVELOPMENT_SEEDS
    if seed is None:
        return allowed[0]
    if seed in allowed:
        return seed
    limits = f"from {allowed[0]} to {allowed[-1]}"
    if final:
        raise InputError(f"seed {seed} is not a final seed; omit --seed, or give one {limits} with --final")
    remedy = "add --final for final results, or give" if seed in FINAL_SEEDS else "give"
    raise InputError(f"seed {seed} is not a development seed; {remedy} one {limits}")


def check_not_final(seed: int) -> None:
    """Refuse final seeds outside `mtgcn reproduce --final`."""
    check_seed(seed)
    if seed in FINAL_SEEDS:
        limits = f"{FINAL_SEEDS[0]} to {FINAL_SEEDS[-1]}"
        raise InputError(f"seed {seed} is reserved for mtgcn reproduce --final; give one outside {limits}")


def labels_title(labels_per_class: int | tuple[int, ...] | None, split: str = RANDOM) -> str:
    """Number of labels and how they are drawn.

    >>> labels_title(1), labels_title(5, OVER_ALL)
    ('1 label per class', '5 labels per class on average, drawn over all nodes')
    """
    if isinstance(labels_per_class, tuple):
        labels = f"{', '.join(map(str, labels_per_class))} labels of the classes, in order"
    elif labels_per_class is None:
        labels = "labels that differ from run to run"
    else:
        labels = f"{labels_per_class} label{'' if labels_per_class == 1 else 's'} per class"
    sources = {OVER_ALL: " on average, drawn over all nodes", PUBLIC: ", public split", GIVEN: ", given splits"}
    sources |= dict.fromkeys((RANDOM, VALIDATED), "")
    return labels + sources.get(split, f", splits of {Path(split).name}")


@dataclass(frozen=True)
class Entry:
    """A method of a cell, its settings and the accuracy the paper prints, in per cent (None: not printed)."""

    method: str
    printed: float | None = None
    note: str = ""
    variant: str = ""  # distinguishes several entries of one method
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # settings that differ from the defaults

    @property
    def title(self) -> str:
        return f"{self.method}, {self.variant}" if self.variant else self.method


@dataclass(frozen=True)
class Cell:
    """One dataset at one label rate. All its methods share splits and test nodes.

    If GCN+V is in the table, its 500 validation nodes are excluded from the test nodes of every method, whether GCN+V
    runs or not, so that a row does not depend on the other methods of the command.
    """

    dataset: str
    labels_per_class: int
    runs: int
    entries: tuple[Entry, ...]
    split: str = RANDOM
    validation: int = VALIDATION_NODES  # random nodes set aside; the public split has its own validation nodes

    def entry(self, title: str) -> Entry:
        """The entry with this title; if the cell has none, one without a printed accuracy."""
        return next((entry for entry in self.entries if entry.title == title), Entry(title))


@dataclass(frozen=True)
class Table:
    """A table of accuracies."""

    name: str  # value of --table
    title: str
    cells: tuple[Cell, ...]
    reference: str = REFERENCE  # title of the line that the others are compared with
    suite: str | None = None  # name of its suite; None for the paper's tables and digits


TABLE_1 = {
    "cora": {"nodes": 2708, "edges listed": 5429, "classes": 7, "features": 1433},
    "citeseer": {"nodes": 3327, "edges listed": 4732, "classes": 6, "features": 3703},
    "pubmed": {"nodes": 19717, "edges listed": 44338, "classes": 3, "features": 500},
}
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}


# Accuracies with 2, 4, 8 and 12 labels per class of Cora; 3, 6, 12 and 18 of Citeseer; 2, 3 and 7 of PubMed.
_LABEL_RATES = {"cora": (2, 4, 8, 12), "citeseer": (3, 6, 12, 18), "pubmed": (2, 3, 7)}
_PRINTED = {
    "lp": ((56.4, 62.3, 65.4, 67.5), (34.8, 40.2, 43.6, 45.3), (61.4, 66.4, 65.4)),
    "chebyshev": ((38.0, 52.0, 62.4, 70.8), (31.7, 42.8, 59.9, 66.2), (40.4, 47.3, 51.2)),
    "gcn": ((42.6, 56.9, 67.8, 74.9), (33.4, 46.5, 62.6, 66.9), (46.4, 49.7, 56.3)),
    "gcn+v": ((50.9, 62.3, 72.2, 76.5), (43.6, 55.3, 64.9, 67.5), (60.5, 57.5, 65.9)),
    "co-training": ((56.6, 66.4, 73.5, 75.9), (47.3, 55.7, 62.1, 62.5), (62.2, 68.3, 72.7)),
    "self-training": ((53.7, 66.1, 73.8, 77.2), (43.3, 58.1, 68.2, 69.8), (51.9, 58.7, 66.8)),
    "union": ((58.5, 69.9, 75.9, 78.5), (46.3, 59.1, 66.7, 66.7), (58.4, 64.0, 70.7)),
    "intersection": ((49.7, 65.0, 72.9, 77.1), (42.9, 59.1, 68.6, 70.1), (52.0, 59.3, 69.4)),
    "multi-stage": ((61.1, 63.7, 74.4, 76.1), (53.0, 57.8, 63.8, 68.0), (57.4, 64.3, 70.2)),
    "m3s": ((61.5, 67.2, 75.6, 77.8), (56.1, 62.1, 66.4, 70.3), (59.2, 64.4, 70.6)),
    "mt-gcn": ((66.9, 73.1, 76.8, 78.5), (67.7, 68.9, 69.1, 69.8), (65.5, 69.5, 73.1)),
}
TABLE_2, TABLE_3, TABLE_4 = (
    Table(
        str(2 + place),
        f"Accuracy on {dataset}",
        tuple(
            Cell(dataset, rate, RUNS[dataset], tuple(Entry(name, row[place][at]) for name, row in _PRINTED.items()))
            for at, rate in enumerate(rates)
        ),
    )
    for place, (dataset, rates) in enumerate(_LABEL_RATES.items())
)

# Copied by the paper from Kipf and Welling (2017), who used the public split.
_PUBLIC_IN_TABLE_5 = {
    "mani-reg": (59.5, 60.1, 70.7),
    "semi-emb": (59.0, 59.6, 71.7),
    "lp": (68.0, 45.3, 63.0),
    "deepwalk": (67.2, 43.2, 65.3),
    "ica": (75.1, 69.1, 73.9),
    "planetoid": (75.7, 64.7, 77.2),
}
_RANDOM_IN_TABLE_5 = {
    "gcn": (80.0, 68.1, 78.2),
    "gcn+v": (80.3, 68.9, 79.1),
    "co-training": (79.6, 64.0, 77.1),
    "self-training": (80.2, 67.8, 76.9),
    "union": (80.5, 65.7, 78.3),
    "intersection": (79.8, 69.9, 77.0),
    "mt-gcn": (80.9, 69.8, 79.5),
}
_NOTES = {"lp": "printed for the label propagation of Zhu et al. (2003), which is not ParWalks"}


def _cells_of_table_5() -> Iterator[Cell]:
    """Methods without a printed accuracy complete the comparison over all cells and the one on the public split."""
    for column, (dataset, runs) in enumerate(RUNS.items()):
        entries = [Entry(method) for method in ("lp", "chebyshev", "multi-stage", "m3s")]
        entries += [Entry(method, row[column]) for method, row in _RANDOM_IN_TABLE_5.items()]
        yield Cell(dataset, 20, runs, tuple(entries))
    for column, (dataset, runs) in enumerate(RUNS.items()):
        entries = [Entry(method, row[column], _NOTES.get(method, "")) for method, row in _PUBLIC_IN_TABLE_5.items()]
        entries += [Entry(method) for method in ("gcn", "gcn+v", "mt-gcn")]
        yield Cell(dataset, 20, runs, tuple(entries), split=PUBLIC, validation=0)


TABLE_5 = Table("5", "Accuracy with 20 labels per class", tuple(_cells_of_table_5()))
PAPER_TABLES = (TABLE_2, TABLE_3, TABLE_4, TABLE_5)

# A graph that is not in the paper and needs no download. It runs only on request.
DIGITS = Table(
    "digits",
    "Accuracy on digits (not in the paper)",
    tuple(
        Cell("digits", count, 30, tuple(Entry(entry.method) for entry in TABLE_2.cells[0].entries))
        for count in (2, 4, 8, 20)
    ),
)
TABLES = {table.name: table for table in (*PAPER_TABLES, DIGITS)}
COUNTS_TABLE = "1"  # table of graph sizes instead of accuracies


@dataclass(frozen=True)
class Variant:
    """MT-GCN with some settings changed."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    per_class_factor: float | None = None  # multiple of the paper's t
    rival: str | None = REFERENCE  # title of the line that it is compared with

    def settings(self, dataset: str) -> dict[str, Any]:
        if self.per_class_factor is None:
            return dict(self.changes)
        return {**self.changes, "per_class": round(self.per_class_factor * PAPER_PER_CLASS[dataset])}


ABLATION = (
    Variant(REFERENCE),
    Variant("without L_pl", {"pseudo_labels": False}),
    Variant("without L_cl", {"consistency": False}),
    Variant("each peer teaches itself", {"mutual": False}),
    *(Variant(f"t x {factor:g}", per_class_factor=factor) for factor in (0.25, 0.5, 2, 4)),
    *(Variant(f"warm-up of {epochs} epochs", {"warmup_epochs": epochs}) for epochs in (0, 50, 100, 300)),
    *(Variant(f"{peers} peers", {"peers": peers}) for peers in (3, 4, 5)),
)

# "It can enhance most semi-supervised algorithms": the same peers and number of epochs, without and with teaching.
EPOCHS = 400  # the paper's N
BACKBONE_NAMES = ("gcn", "chebyshev", "appnp", "gat")
ALONE, TAUGHT = "alone", "taught"
TAUGHT_GCN = f"gcn {TAUGHT}"  # the paper's method, by its backbone
BACKBONES = tuple(
    variant
    for name in BACKBONE_NAMES
    for variant in (
        Variant(f"{name} {ALONE}", {"backbone": name, "warmup_epochs": EPOCHS, "teaching_epochs": 0}, rival=None),
        Variant(f"{name} {TAUGHT}", {} if name == "gcn" else {"backbone": name}, rival=f"{name} {ALONE}"),
    )
)
ABLATION_TITLES = tuple(variant.title for variant in ABLATION if variant.title != REFERENCE)
BACKBONE_TITLES = tuple(variant.title for variant in BACKBONES)
VARIANTS = {variant.title: variant for variant in (*ABLATION, *BACKBONES) if variant.title != REFERENCE}


def rival_of(title: str, reference: str = REFERENCE) -> str | None:
    """Title of the line that a line is compared with in a table with this reference; None without a comparison."""
    if title == reference:
        return None
    return VARIANTS[title].rival if title in VARIANTS else reference


@dataclass(frozen=True)
class Suite:
    """Tables of several graphs, one per graph, with a common reference."""

    name: str  # value of --suite
    title: str
    lead: str
    tables: tuple[Table, ...]
    reference: str  # title of the line that the others are compared with

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.dataset for table in self.tables for cell in table.cells))


def titles_of(tables: Sequence[Table]) -> tuple[str, ...]:
    """The titles of all entries, in order."""
    return tuple(dict.fromkeys(entry.title for table in tables for cell in table.cells for entry in cell.entries))


_WORLD_ENTRIES = (
    *(Entry(method) for method in ("logistic", "sgc", "ppr", "correct-and-smooth", "appnp", "lp")),
    Entry("gcn"),  # scales features by row sums as in the paper and hardly trains on most of these graphs
    Entry("gcn", variant="length", settings={"feature_scaling": "length"}),
    Entry("gcn", variant="none", settings={"feature_scaling": "none"}),
    Entry("mt-gcn"),
    Entry("mt-gcn", variant="length", settings={"feature_scaling": "length"}),
    Entry("mt-plus"),
)


_WORLD_DATASETS = (*TABLE_1, "amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon")
_WORLD_RATES = ((3, RANDOM), (20, RANDOM), (5, OVER_ALL))
WORLD = Suite(
    name="world",
    title="mt-plus on graphs of many kinds",
    lead="Eight graphs, three of them the paper’s, and what a person would use there instead: with 3 and with 20 "
    "labels per class, and with 5 per class on average that are drawn over all nodes, so that classes are as unequal "
    "there as they are. No node is set aside for validation.",
    tables=tuple(
        Table(
            f"world-{dataset}",
            f"Accuracy on {dataset}",
            tuple(Cell(dataset, labels, 10, _WORLD_ENTRIES, split, validation=0) for labels, split in _WORLD_RATES),
            reference="mt-plus",
            suite="world",
        )
        for dataset in _WORLD_DATASETS
    ),
    reference="mt-plus",
)
SUITES = {WORLD.name: WORLD}
ALL_TABLES = {**TABLES, **{table.name: table for suite in SUITES.values() for table in suite.tables}}


def with_unknown_as_first_class(graph: Graph) -> Graph:
    """The graph with every node of unknown class assigned to the first class.

    Reproduces a bug of the authors' program: 15 nodes of Citeseer have an all-zero label row, whose argmax is 0.
    """
    return replace(graph, labels=np.where(graph.labels == UNLABELED, 0, graph.labels))


def authors_splits(graph: Graph, labels_per_class: int | Sequence[int], runs: int, seed: int) -> tuple[Split, ...]:
    """Splits drawn by visiting the nodes in random order until every class has its labels.

    Visited nodes that are not used for training are dropped; all nodes not visited are test nodes.
    """
    wanted = per_class_counts(graph, labels_per_class)
    splits = []
    for run in range(runs):
        order = np.random.default_rng([seed, run]).permutation(graph.num_nodes)
        classes = graph.labels[order]
        taken = np.concatenate([np.flatnonzero(classes == number)[:count] for number, count in enumerate(wanted)])
        splits.append(Split(order[np.sort(taken)], np.empty(0, dtype=np.int64), order[taken.max() + 1 :]))
    return tuple(splits)
