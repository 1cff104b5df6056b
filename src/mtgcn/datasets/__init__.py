"""The graphs of the paper and one that needs no network: found on this machine or fetched, always checked."""

from mtgcn.datasets.catalogue import NAMES, Description, describe, load, public_split, where
from mtgcn.datasets.fetch import SourceUnreachable

__all__ = ["NAMES", "Description", "SourceUnreachable", "describe", "load", "public_split", "where"]
