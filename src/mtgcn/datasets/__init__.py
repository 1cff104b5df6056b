"""The datasets: found locally or fetched, always checked against checksums."""

from mtgcn.datasets.catalogue import (
    FINAL_TABLES,
    GRAPHS,
    NAMES,
    TABLES,
    Description,
    describe,
    load,
    public_split,
    where,
)
from mtgcn.datasets.files import SourceUnreachable

__all__ = [
    "FINAL_TABLES",
    "GRAPHS",
    "NAMES",
    "TABLES",
    "Description",
    "SourceUnreachable",
    "describe",
    "load",
    "public_split",
    "where",
]
