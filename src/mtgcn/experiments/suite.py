"""Suites of graphs beside the paper's tables, as data: here graphs of many kinds, and what a person would use there."""

from __future__ import annotations

from dataclasses import dataclass

from mtgcn.experiments.protocol import TABLES, Cell, Entry, Table
from mtgcn.experiments.split_choice import OVER_ALL, RANDOM


@dataclass(frozen=True)
class Suite:
    """Tables that belong together, one for each graph, and what is asked of them all."""

    name: str  # as people type it
    title: str
    lead: str
    tables: tuple[Table, ...]
    reference: str  # the title of the line that all others are compared with
    plain: tuple[str, ...]  # the titles of the lines it should not lose to
    margin: float  # points: the mean of the reference may lie so far under the best plain one

    @property
    def datasets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(cell.dataset for table in self.tables for cell in table.cells))

    @property
    def titles(self) -> tuple[str, ...]:
        """Every line of its tables, in order."""
        entries = (entry for table in self.tables for cell in table.cells for entry in cell.entries)
        return tuple(dict.fromkeys(entry.title for entry in entries))


_RUNS = 10
_REFERENCE = "mt-plus"
_DATASETS = ("cora", "citeseer", "pubmed", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp", "chameleon")
# Of those that are not in the paper, to guess how long a sweep will take.
NODES = {"amazon-photo": 7650, "blogcatalog": 5196, "coauthor-cs": 18333, "dblp": 17716, "chameleon": 2277}
_LABELS = ((3, RANDOM), (20, RANDOM), (5, OVER_ALL))  # labels per class, and how they are drawn
_PLAIN = (
    *(Entry(method) for method in ("logistic", "sgc", "ppr", "correct-and-smooth", "appnp", "lp")),
    Entry("gcn"),  # the paper's scaling, by the sum of a row, hardly trains on most of these graphs
    Entry("gcn", variant="length", settings={"feature_scaling": "length"}),
    Entry("gcn", variant="none", settings={"feature_scaling": "none"}),
)
_ENTRIES = (
    *_PLAIN,
    Entry("mt-gcn"),
    Entry("mt-gcn", variant="length", settings={"feature_scaling": "length"}),
    Entry(_REFERENCE),
)


def _table(dataset: str) -> Table:
    """No nodes are set aside for validation: nothing here looks at them, so all others of known class are scored."""
    cells = tuple(Cell(dataset, labels, _RUNS, _ENTRIES, split, validation=0) for labels, split in _LABELS)
    return Table(f"world-{dataset}", f"Accuracy on {dataset}", cells, _REFERENCE)


WORLD = Suite(
    name="world",
    title="mt-plus on graphs of many kinds",
    lead="Eight graphs, three of them the paper’s, and what a person would use there instead: with 3 and with 20 "
    "labels per class, and with 5 per class on average that are drawn over all nodes, so that classes are as unequal "
    "there as they are. No node is set aside for validation.",
    tables=tuple(map(_table, _DATASETS)),
    reference=_REFERENCE,
    plain=tuple(entry.title for entry in _PLAIN),
    margin=1.0,
)
SUITES = {WORLD.name: WORLD}
ALL_TABLES = {**TABLES, **{table.name: table for suite in SUITES.values() for table in suite.tables}}


def suite_of(table: Table) -> Suite | None:
    """The suite that a table belongs to; None: to none, as those of the paper."""
    return next((suite for suite in SUITES.values() if table in suite.tables), None)
