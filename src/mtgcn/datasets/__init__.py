"""The graphs of the paper, some of other kinds and one that needs no network: found here or fetched, always checked."""

from mtgcn.datasets.catalogue import NAMES, describe, load, public_split, where
from mtgcn.datasets.description import Description
from mtgcn.datasets.fetch import SourceUnreachable

__all__ = ["NAMES", "Description", "SourceUnreachable", "describe", "load", "public_split", "where"]
