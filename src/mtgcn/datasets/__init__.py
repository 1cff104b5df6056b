"""The datasets: found locally or fetched, always checked against checksums."""

from mtgcn.datasets.catalogue import NAMES, Description, describe, load, public_split, where
from mtgcn.datasets.files import SourceUnreachable

__all__ = ["NAMES", "Description", "SourceUnreachable", "describe", "load", "public_split", "where"]
