"""What a shell offers after the Tab key. The names are written out, since importing what they stand for takes longer
than a person waits; a test holds them against the registries."""

from __future__ import annotations

DATASETS = (
    *("cora", "citeseer", "pubmed", "digits", "amazon-photo", "blogcatalog", "coauthor-cs", "dblp"),
    "chameleon",
)
METHODS = (
    *("appnp", "chebyshev", "co-training", "correct-and-smooth", "deepwalk", "gcn", "gcn+v", "ica", "intersection"),
    *("logistic", "lp", "m3s", "mani-reg", "mt-gcn", "mt-plus", "multi-stage", "planetoid", "ppr", "self-training"),
    *("semi-emb", "sgc", "union"),
)


def dataset_names(incomplete: str) -> list[str]:
    return [name for name in DATASETS if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    return [name for name in METHODS if name.startswith(incomplete)]


def methods_so_far(incomplete: str) -> list[str]:
    """The names that may follow the last comma, each with those that stand before it.

    >>> methods_so_far("gcn,mt-")
    ['gcn,mt-gcn', 'gcn,mt-plus']
    """
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [f"{before}{comma}{name}" for name in method_names(last) if name not in taken]
