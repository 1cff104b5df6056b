"""The paper's tables as data: every cell, every method in it, how often it is run, and what the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mtgcn.errors import InputError
from mtgcn.experiments.split_choice import PUBLIC, RANDOM, VALIDATION_NODES
from mtgcn.splits import check_seed
from mtgcn.training.pseudo_labels import PAPER_PER_CLASS

Protocol = Literal["ours", "paper"]
PROTOCOL_TITLES: dict[Protocol, str] = {
    "ours": "last epoch, mean of the peers, every split counted once",
    "paper": "OPTIMISTIC, the authors' way of reporting: epoch by training accuracy, peer by test accuracy, "
    "the largest of ten averages",
}
REFERENCE = "mt-gcn"  # what every other method is compared with
AVERAGES = 10  # made by the authors, who print the largest

# Settings are searched on the first and reported on the second, so that nothing reported was ever looked at before.
DEVELOPMENT_SEEDS = range(1_000_000)
FINAL_SEEDS = range(1_000_000, 2_000_000)


def checked_seed(seed: int | None, *, final: bool) -> int:
    """The seed asked for, or the first of its kind; a seed of the other kind is refused."""
    allowed = FINAL_SEEDS if final else DEVELOPMENT_SEEDS
    if seed is None:
        return allowed[0]
    if seed in allowed:
        return seed
    limits = f"from {allowed[0]} to {allowed[-1]}"
    if final:
        raise InputError(f"seed {seed} is no final seed; leave --seed out, or give one {limits} with --final")
    remedy = "add --final for final figures, or give" if seed in FINAL_SEEDS else "give"
    raise InputError(f"seed {seed} is no development seed; {remedy} one {limits}")


def check_not_final(seed: int) -> None:
    """For experiments that are no final figures: splits of a final seed stay unseen until these are made."""
    check_seed(seed)
    if seed in FINAL_SEEDS:
        raise InputError(
            f"seed {seed} is kept for final figures, which mtgcn reproduce --final makes; give one that is not from "
            f"{FINAL_SEEDS[0]} to {FINAL_SEEDS[-1]}"
        )


@dataclass(frozen=True)
class PrintedCounts:
    """A line of the paper's table 1."""

    dataset: str
    nodes: int
    edges: int  # as listed in the files: duplicates and self-edges counted
    classes: int
    features: int


@dataclass(frozen=True)
class Entry:
    """A method in a cell, perhaps with settings of its own, and what the paper prints for it there, in per cent;
    None: nothing."""

    method: str
    printed: float | None = None
    note: str = ""
    variant: str = ""  # what tells it from the method's other entries
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)  # that differ from the method's own

    @property
    def title(self) -> str:
        return f"{self.method}, {self.variant}" if self.variant else self.method


@dataclass(frozen=True)
class Cell:
    """One dataset at one label rate. All its methods run on the same splits and are scored on the same nodes.

    Where GCN+V is in the tables, the 500 nodes that it chooses its epoch on are scored for no method, whether GCN+V
    runs or not: what a row says must not depend on which methods were asked for beside it. They are random, so no mean
    is shifted.
    """

    dataset: str
    labels_per_class: int
    runs: int
    entries: tuple[Entry, ...]
    split: str = RANDOM
    validation: int = VALIDATION_NODES  # random nodes that are set aside; the public split brings its own

    def entry(self, title: str) -> Entry:
        """What the paper prints for a method here; of a method it does not know, nothing."""
        return next((entry for entry in self.entries if entry.title == title), Entry(title))


@dataclass(frozen=True)
class Table:
    """A table of accuracies."""

    name: str  # as people type it
    title: str
    cells: tuple[Cell, ...]
    reference: str = REFERENCE  # the title of what every other line of it is compared with


PRINTED_NAMES = {
    "lp": "LP",
    "chebyshev": "Chebyshev",
    "gcn": "GCN-V",
    "gcn+v": "GCN+V",
    "co-training": "Co-training",
    "self-training": "Self-training",
    "union": "Union",
    "intersection": "Intersection",
    "multi-stage": "MultiStage",
    "m3s": "M3S",
    "mt-gcn": "MT-GCN",
    "mani-reg": "ManiReg",
    "semi-emb": "SemiEmb",
    "deepwalk": "DeepWalk",
    "ica": "ICA",
    "planetoid": "Planetoid",
}

TABLE_1 = (
    PrintedCounts("cora", nodes=2708, edges=5429, classes=7, features=1433),
    PrintedCounts("citeseer", nodes=3327, edges=4732, classes=6, features=3703),
    PrintedCounts("pubmed", nodes=19717, edges=44338, classes=3, features=500),
)
RUNS = {"cora": 30, "citeseer": 30, "pubmed": 10}


def _table(
    name: str, dataset: str, labels_per_class: tuple[int, ...], printed: Mapping[str, tuple[float, ...]]
) -> Table:
    """A table of one dataset: methods down, label rates across."""
    cells = tuple(
        Cell(dataset, count, RUNS[dataset], tuple(Entry(method, row[column]) for method, row in printed.items()))
        for column, count in enumerate(labels_per_class)
    )
    return Table(name, f"Accuracy on {dataset}", cells)


TABLE_2 = _table(
    "2",
    "cora",
    (2, 4, 8, 12),
    {
        "lp": (56.4, 62.3, 65.4, 67.5),
        "chebyshev": (38.0, 52.0, 62.4, 70.8),
        "gcn": (42.6, 56.9, 67.8, 74.9),
        "gcn+v": (50.9, 62.3, 72.2, 76.5),
        "co-training": (56.6, 66.4, 73.5, 75.9),
        "self-training": (53.7, 66.1, 73.8, 77.2),
        "union": (58.5, 69.9, 75.9, 78.5),
        "intersection": (49.7, 65.0, 72.9, 77.1),
        "multi-stage": (61.1, 63.7, 74.4, 76.1),
        "m3s": (61.5, 67.2, 75.6, 77.8),
        "mt-gcn": (66.9, 73.1, 76.8, 78.5),
    },
)

TABLE_3 = _table(
    "3",
    "citeseer",
    (3, 6, 12, 18),
    {
        "lp": (34.8, 40.2, 43.6, 45.3),
        "chebyshev": (31.7, 42.8, 59.9, 66.2),
        "gcn": (33.4, 46.5, 62.6, 66.9),
        "gcn+v": (43.6, 55.3, 64.9, 67.5),
        "co-training": (47.3, 55.7, 62.1, 62.5),
        "self-training": (43.3, 58.1, 68.2, 69.8),
        "union": (46.3, 59.1, 66.7, 66.7),
        "intersection": (42.9, 59.1, 68.6, 70.1),
        "multi-stage": (53.0, 57.8, 63.8, 68.0),
        "m3s": (56.1, 62.1, 66.4, 70.3),
        "mt-gcn": (67.7, 68.9, 69.1, 69.8),
    },
)

TABLE_4 = _table(
    "4",
    "pubmed",
    (2, 3, 7),
    {
        "lp": (61.4, 66.4, 65.4),
        "chebyshev": (40.4, 47.3, 51.2),
        "gcn": (46.4, 49.7, 56.3),
        "gcn+v": (60.5, 57.5, 65.9),
        "co-training": (62.2, 68.3, 72.7),
        "self-training": (51.9, 58.7, 66.8),
        "union": (58.4, 64.0, 70.7),
        "intersection": (52.0, 59.3, 69.4),
        "multi-stage": (57.4, 64.3, 70.2),
        "m3s": (59.2, 64.4, 70.6),
        "mt-gcn": (65.5, 69.5, 73.1),
    },
)

_LABELS_IN_TABLE_5 = 20
_DATASETS_IN_TABLE_5 = ("cora", "citeseer", "pubmed")
# Copied by the paper from Kipf and Welling (2017), who ran them on the one public split.
_PRINTED_FOR_THE_PUBLIC_SPLIT = {
    "mani-reg": (59.5, 60.1, 70.7),
    "semi-emb": (59.0, 59.6, 71.7),
    "lp": (68.0, 45.3, 63.0),
    "deepwalk": (67.2, 43.2, 65.3),
    "ica": (75.1, 69.1, 73.9),
    "planetoid": (75.7, 64.7, 77.2),
}
_PRINTED_FOR_RANDOM_SPLITS = {
    "gcn": (80.0, 68.1, 78.2),
    "gcn+v": (80.3, 68.9, 79.1),
    "co-training": (79.6, 64.0, 77.1),
    "self-training": (80.2, 67.8, 76.9),
    "union": (80.5, 65.7, 78.3),
    "intersection": (79.8, 69.9, 77.0),
    "mt-gcn": (80.9, 69.8, 79.5),
}
_NOTES = {"lp": "printed for the label propagation of Zhu et al. (2003), which is not ParWalks"}
# Nothing is printed for these, but a comparison over all cells needs every method of tables 2 to 4 in each of them,
# and one on the public split needs GCN and MT-GCN.
_ALSO_ON_RANDOM_SPLITS = ("lp", "chebyshev", "multi-stage", "m3s")
_ALSO_ON_THE_PUBLIC_SPLIT = ("gcn", "gcn+v", "mt-gcn")


def _cells_of_table_5() -> Iterator[Cell]:
    for column, dataset in enumerate(_DATASETS_IN_TABLE_5):
        random = [Entry(method) for method in _ALSO_ON_RANDOM_SPLITS]
        random += [Entry(method, row[column]) for method, row in _PRINTED_FOR_RANDOM_SPLITS.items()]
        yield Cell(dataset, _LABELS_IN_TABLE_5, RUNS[dataset], tuple(random))
    for column, dataset in enumerate(_DATASETS_IN_TABLE_5):
        public = [
            Entry(method, row[column], _NOTES.get(method, "")) for method, row in _PRINTED_FOR_THE_PUBLIC_SPLIT.items()
        ]
        public += [Entry(method) for method in _ALSO_ON_THE_PUBLIC_SPLIT]
        yield Cell(dataset, _LABELS_IN_TABLE_5, RUNS[dataset], tuple(public), split=PUBLIC, validation=0)


TABLE_5 = Table("5", f"Accuracy with {_LABELS_IN_TABLE_5} labels per class", tuple(_cells_of_table_5()))

PAPER_TABLES = (TABLE_2, TABLE_3, TABLE_4, TABLE_5)

# Not in the paper: a graph of another kind, which needs no network to be had. Run only if asked for.
DIGITS = Table(
    "digits",
    "Accuracy on digits (not in the paper)",
    tuple(
        Cell("digits", count, 30, tuple(Entry(entry.method) for entry in TABLE_2.cells[0].entries))
        for count in (2, 4, 8, 20)
    ),
)
TABLES = {table.name: table for table in (*PAPER_TABLES, DIGITS)}
COUNTS_TABLE = "1"  # counts, not accuracies


@dataclass(frozen=True)
class Variant:
    """A method, most often MT-GCN, with something taken out or turned."""

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    per_class_factor: float | None = None  # times the paper's t
    rival: str | None = REFERENCE  # the title of what it is compared with
    method: str = REFERENCE

    def settings(self, dataset: str) -> dict[str, Any]:
        """What differs from the paper's settings on this dataset."""
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

# "It can enhance most semi-supervised algorithms": the same peers, for as many epochs, without and with teaching.
EPOCHS = 400  # N in the paper
BACKBONE_NAMES = {"gcn": "GCN", "chebyshev": "Chebyshev", "appnp": "APPNP", "gat": "GAT"}
ALONE, TAUGHT = "alone", "taught"


def _with_backbone(name: str) -> tuple[Variant, Variant]:
    alone = {"backbone": name, "warmup_epochs": EPOCHS, "teaching_epochs": 0}
    taught = {} if name == "gcn" else {"backbone": name}  # with a GCN it is the paper's method itself
    return (
        Variant(f"{name} {ALONE}", alone, rival=None),
        Variant(f"{name} {TAUGHT}", taught, rival=f"{name} {ALONE}"),
    )


BACKBONES = tuple(variant for name in BACKBONE_NAMES for variant in _with_backbone(name))
_RIVALS = {variant.title: variant.rival for variant in (*ABLATION, *BACKBONES) if variant.title != variant.method}


def rival_of(title: str, reference: str = REFERENCE) -> str | None:
    """What a method or variant is compared with in a table of that reference; None: with nothing."""
    return None if title == reference else _RIVALS.get(title, reference)
